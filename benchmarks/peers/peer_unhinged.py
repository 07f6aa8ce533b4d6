"""unhinged: durable tasks on SQLite in pure Python; fsync on every commit, its default.

It has no way to start a task later, so a task with a due time sleeps durably first, as its documentation
shows.
"""

import os
import signal
from importlib.metadata import version
from typing import Any

from unhinged import Unhinged

from benchmarks.peers.common import Ground, Mode, record

ground = Ground.of_this_run()


def application() -> Any:
    app = Unhinged(str(ground.sqlite_path), queue_name="q")

    @app.register_task("noop")
    def noop(params: dict[str, float], ctx: Any) -> None:
        record(params["due"])

    @app.register_task("later")
    def later(params: dict[str, float], ctx: Any) -> None:
        ctx.sleep_until("due", params["due"])
        record(params["due"])

    @app.register_task("flow")
    def flow(params: dict[str, int], ctx: Any) -> None:
        for number in range(params["steps"]):
            ctx.step(f"step {number}", lambda: record(0.0))

    return app


class UnhingedPeer:
    name = "unhinged"
    module = "unhinged"
    version = version("unhinged")
    settings = "SQLite synchronous=full, 1 thread, batch 50, poll 0.05 s (default 0.25)"
    promise = "runs again; its result is recorded"

    def __init__(self) -> None:
        self.app: Any = None

    def reset(self) -> None:
        self.close()
        ground.fresh()
        self.app = application()
        self.app.create_queue("q")

    def enqueue_one(self, n: int) -> None:
        for _ in range(n):
            self.app.spawn("noop", {"due": 0.0})

    def enqueue_ts(self, due: float) -> None:
        self.app.spawn("noop", {"due": due})

    def enqueue_at(self, n: int, due: float) -> None:
        for _ in range(n):
            self.app.spawn("later", {"due": due})

    def enqueue_steps(self, runs: int, steps: int) -> None:
        for _ in range(runs):
            self.app.spawn("flow", {"steps": steps})

    def pending(self) -> int:
        return ground.count("select count(*) from t_q where state not in ('completed', 'failed', 'cancelled')")

    def close(self) -> None:
        if self.app is not None:
            self.app.close()
            self.app = None

    def worker(self, mode: Mode) -> None:
        app = application()
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        app.start_worker(concurrency=1, batch_size=50, poll_interval=0.05)


PEER = UnhingedPeer

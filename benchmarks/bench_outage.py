"""An outage of 20 minutes with schedules of every second: how it is caught up, and how long one transaction takes.


    python -m benchmarks.bench_outage [--schedules 1000] [--minutes 20] [--store disk|ram]

The schedules are made by a clock that is so many minutes behind, and no worker runs until now. Then one does, in this
process. Prints how long until every schedule has judged all its times, how many of them there were, and the longest
and the mean time of the worker's write transactions in milliseconds.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.peers.run import ground
from evertick import App, MutationCtx, every
from evertick.base.clock import SystemClock
from evertick.base.instants import MINUTE_MS, Instant

OVERLAPS: Final = ("skip", "allow_all")
PATIENCE_S: Final = 900.0


class Behind(SystemClock):
    """The machine's clock, so many minutes behind."""

    def __init__(self, minutes: float) -> None:
        super().__init__()
        self._behind_ms = round(minutes * MINUTE_MS)

    def now(self) -> Instant:
        return Instant(super().now() - self._behind_ms)


def app_on(url: str, **options: Any) -> App:
    """The app of the schedules."""
    app = App("bench", database_url=url, **options)

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None: ...

    return app


def measure(name: str, url: str, schedules: int, minutes: float, overlap: str) -> None:
    """The figures of one database and one policy."""
    before = app_on(url, clock=Behind(minutes))
    before.migrate()
    for number in range(schedules):
        before.schedules.create(f"{overlap}-{number}", when=every(seconds=1), do="tick", overlap=overlap)
    before.close()
    app = app_on(url)
    app.open()
    store = app.environment.store
    took: list[float] = []
    write = store.write

    def timed(work: Callable[..., Any], **options: Any) -> Any:
        began: list[float] = []

        def begun(transaction: Any) -> Any:
            began[:] = [time.perf_counter()]  # after the wait for the lock
            return work(transaction)

        try:
            return write(begun, **options)
        finally:
            if began:
                took.append(time.perf_counter() - began[0])

    store.write = timed  # type: ignore[method-assign]
    until = app.environment.clock.now()
    began = time.perf_counter()
    with app.running():
        while True:
            time.sleep(0.5)
            page = app.schedules.list(sort="next", limit=1).schedules
            if page and page[0].next is not None and page[0].next.timestamp() * 1000 >= until:
                break
            if time.perf_counter() - began > PATIENCE_S:
                raise TimeoutError("it was not caught up in time")
        caught_up = time.perf_counter() - began
    took.sort()
    print(
        f"{name:9} {overlap:10} {schedules * minutes * 60:,.0f} times judged in {caught_up:.1f} s, "
        f"{len(took):,} write transactions: mean {sum(took) / len(took) * 1000:.1f} ms, "
        f"p99 {took[int(len(took) * 0.99)] * 1000:.1f} ms, longest {took[-1] * 1000:.1f} ms",
        flush=True,
    )
    app.schedules.delete_all()
    app.jobs.cancel_all()
    app.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--schedules", type=int, default=1_000)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--store", choices=("disk", "ram"), default="disk")
    parser.add_argument("--overlap", choices=OVERLAPS, default="skip")
    options = parser.parse_args()
    with ground(options.store) as (server, folder):
        for name, url in (("sqlite", f"sqlite:///{folder}/bench.db"), ("postgres", server.databases.create())):
            measure(name, url, options.schedules, options.minutes, options.overlap)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""One measurement of `benchmarks.guard`, in a process of its own: the processor time of one kind of work.

    python benchmarks/guard_probe.py CASE NUMBER URL

It prints a JSON object: microseconds of this process per piece of work, and the names of the things done. It imports
nothing but the `evertick` on its path, which may be that of another commit, so it uses what both have.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from evertick import ActionCtx, App, MutationCtx, Overlap, Step, every

DAY_MS = 86_400_000
POLL_S = 0.05
STEPS = 10
WARM = 200
SCHEDULES = 20
PATIENCE_S = 600.0


def call(function: Any, *args: Any) -> Any:
    """A call with arguments. In base commits up to 28 November 2026 the method is called `args`."""
    return (function.with_args if hasattr(function, "with_args") else function.args)(*args)


class Probe:
    """An app with one function of each kind, on one database."""

    def __init__(self, url: str) -> None:
        self.app = App("guard", database_url=url)

        @self.app.mutation(name="nothing")
        def nothing(ctx: MutationCtx, n: int = 0) -> None: ...

        @self.app.action(name="act")
        async def act(ctx: ActionCtx, n: int = 0) -> None: ...

        @self.app.workflow(name="flow")
        async def flow(step: Step) -> None:
            for _ in range(STEPS):
                await step.run(nothing)

        self.nothing, self.act, self.flow = nothing, act, flow
        self._done: dict[Any, int] = {}
        self._numbers = itertools.count()
        self.app.migrate()

    def fill(self, function: Any, number: int, delay_ms: int = 0) -> None:
        """Schedule calls, 1,000 in a transaction."""
        for start in range(0, number, 1000):
            calls = [call(function, start + n) for n in range(min(1000, number - start))]
            self.app.scheduler.run_after_many(delay_ms, calls)

    def work(self, function: Any, number: int) -> None:
        """Run a worker until so many more jobs of a function have succeeded."""
        self._done[function] = wanted = self._done.get(function, 0) + number
        asyncio.run(self._work(lambda: self.app.jobs.counts(function=function)["success"] >= wanted))

    async def _work(self, is_done: Callable[[], bool]) -> None:
        worker = self.app.worker()
        task = asyncio.create_task(worker.run())
        until = time.monotonic() + PATIENCE_S
        while not is_done():
            if task.done():
                task.result()
            if time.monotonic() > until:
                raise TimeoutError
            await asyncio.sleep(POLL_S)
        worker.stop()
        await task

    # -- the cases: each prepares, and returns what is measured

    def mutations(self, number: int) -> Callable[[], None]:
        self.fill(self.nothing, number)
        return lambda: self.work(self.nothing, number)

    def actions(self, number: int) -> Callable[[], None]:
        self.fill(self.act, number)
        return lambda: self.work(self.act, number)

    def enqueue(self, number: int) -> Callable[[], None]:
        def one_by_one() -> None:
            for n in range(number):
                self.app.scheduler.run_after(DAY_MS, self.nothing, n)

        return one_by_one

    def bulk(self, number: int) -> Callable[[], None]:
        return lambda: self.fill(self.nothing, number, DAY_MS)

    def steps(self, number: int) -> Callable[[], None]:
        runs = number // STEPS
        self.app.scheduler.run_after_many(0, [call(self.flow) for _ in range(runs)])
        return lambda: self.work(self.flow, runs)

    def schedules(self, number: int) -> Callable[[], None]:
        end = datetime.now(UTC).replace(microsecond=0)
        start = end - timedelta(seconds=number // SCHEDULES - 1)
        for index in itertools.islice(self._numbers, SCHEDULES):
            self.app.schedules.create(
                f"s{index}", when=every(seconds=1), do=self.nothing, paused=True, overlap=Overlap.ALLOW_ALL
            )
            self.app.schedules.backfill(f"s{index}", start, end)
        return lambda: self.work(self.nothing, number)


def main() -> None:
    """Measure one case."""
    case, number, url = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    probe = Probe(url)
    getattr(probe, case)(WARM)()  # loads what is loaded once
    measured = getattr(probe, case)(number)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.process_time()
    measured()
    cpu_s = time.process_time() - began
    print(json.dumps({"cpu_us": cpu_s * 1e6 / number}), flush=True)
    sys.stdin.readline()
    probe.app.close()


if __name__ == "__main__":
    main()

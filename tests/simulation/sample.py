"""A small scenario that uses what engines use, and prints the digest of its run.

    python -m tests.simulation.sample SEED [PLAN]

Test of the loop itself: the digest must not depend on PYTHONHASHSEED, on memory addresses or on the Python version.
"""

import asyncio
import sys

from tests.simulation.faults import parse_plan, plan_text
from tests.simulation.loop import SimulationLoop
from tests.simulation.processes import Process, current_process

RATES = {"kill": 0.01, "pause": 0.02, "crash": 0.05, "lost": 0.1}


class Ledger:
    """What survives: jobs to do, and who did them."""

    def __init__(self, jobs: int) -> None:
        self.todo = [f"job-{number}" for number in range(jobs)]
        self.done: list[tuple[str, str]] = []


async def work(loop: SimulationLoop, ledger: Ledger) -> None:
    """Take jobs in groups, under a timeout, until there are none."""
    slots = asyncio.Semaphore(2)
    ended: asyncio.Queue[str] = asyncio.Queue()

    async def attempt(job: str) -> None:
        async with slots:
            await asyncio.sleep(loop.random.choice((0.1, 0.5, 2.0)))
            if loop.faults.strikes("lost"):
                raise ConnectionError(job)
            await ended.put(job)

    while ledger.todo:
        batch = [ledger.todo.pop(0) for _ in range(min(4, len(ledger.todo)))]
        try:
            async with asyncio.timeout(2.5), asyncio.TaskGroup() as group:
                for job in batch:
                    group.create_task(attempt(job))
        except (TimeoutError, ExceptionGroup):
            pass
        while not ended.empty():
            job = ended.get_nowait()
            loop.point("finish.before_commit")
            ledger.done.append((current_process().name, job))
            batch.remove(job)
        ledger.todo += batch
        tasks = {asyncio.create_task(asyncio.sleep(0.001 * number)) for number in range(3)}
        _, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in late:
            task.cancel()


async def scenario(loop: SimulationLoop, jobs: int) -> Ledger:
    """Three workers, restarted when they die; calm after a minute."""
    ledger = Ledger(jobs)

    def restart(process: Process) -> None:
        if ledger.todo:
            role, _, boot = process.name.partition("#")
            loop.call_later(1.0, loop.spawn, f"{role}#{int(boot) + 1}", work, loop, ledger)

    loop.on_end.append(restart)
    for number in range(3):
        loop.spawn(f"worker-{number}#1", work, loop, ledger)
    await asyncio.sleep(60)
    loop.faults.calm()
    while loop.processes:
        await asyncio.sleep(10)
    return ledger


def main(seed: int, plan: str | None) -> str:
    """One run: its digest, its steps and its faults."""
    planned = None if plan is None else parse_plan(plan)
    with SimulationLoop(seed, rates=RATES, plan=planned, trace=True) as loop:
        ledger = loop.run(scenario(loop, jobs=20))
        return f"{loop.digest()} {loop.steps} {len(ledger.done)} {plan_text(loop.faults.plan)}"


if __name__ == "__main__":
    print(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))

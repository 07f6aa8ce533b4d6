"""Slots of actions: how many functions run at a time, and how far they run ahead of what is written of their ends."""

import asyncio
from datetime import timedelta
from typing import TypeVar

import pytest

from evertick import ActionCtx, App, Retry
from evertick.engine.jobs import actions
from evertick.engine.jobs.actions import ENDS_MAX
from evertick.engine.runtime.executors import InlineExecutors, Work
from evertick.engine.runtime.settings import Settings
from evertick.store.sqlite.store import SqliteStore
from evertick.store.store import Isolation
from evertick.testing.loop import JumpingLoop
from tests.app.engine import LoopClock, run_for, worker_of

T = TypeVar("T")
SLOTS = 8
A_MINUTE_S = 60.0


class LateEnds(InlineExecutors):
    """Executors on which the ends of actions take a minute to be written."""

    async def write(self, work: Work[T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Executors.write`."""
        if work.__qualname__.startswith(actions.ActionEnds.__name__):
            await asyncio.sleep(A_MINUTE_S)
        return await super().write(work, isolation=isolation)


@pytest.mark.parametrize(
    ("jobs", "seconds", "begun"), [(100, 0.0, 100), (3 * ENDS_MAX, 0.0, ENDS_MAX), (100, 10.0, 24)]
)
def test_a_function_that_has_ended_leaves_its_slot_until_too_many_ends_wait(
    jobs: int, seconds: float, begun: int
) -> None:
    store, loop = SqliteStore("sqlite://"), JumpingLoop()
    store.migrate()
    app = App("slots", settings=Settings(action_slots=SLOTS))
    now_running, most_running, ran = 0, 0, 0

    @app.action(name="act")
    async def act(ctx: ActionCtx) -> None:
        nonlocal now_running, most_running, ran
        ran += 1
        now_running += 1
        most_running = max(most_running, now_running)
        await asyncio.sleep(seconds)
        now_running -= 1

    app.open_on(store, inline=True)
    app.scheduler.run_after_many(0, [act.with_args() for _ in range(jobs)])
    worker = worker_of(app, executors=LateEnds(store))

    async def main() -> int:
        working = asyncio.create_task(worker.run())
        await asyncio.sleep(A_MINUTE_S / 2)
        begun_before_an_end_was_written = ran
        while app.counters.snapshot().get("jobs_success", 0) < jobs:
            await asyncio.sleep(A_MINUTE_S)
        worker.stop()
        await working
        return begun_before_an_end_was_written

    early = loop.run_task(main(), until_s=200 * A_MINUTE_S)
    loop.close()

    assert begun <= early <= begun + SLOTS
    assert (ran, most_running) == (jobs, SLOTS)
    assert app.counters.snapshot()["jobs_success"] == jobs
    loop.close()
    app.close()


def test_the_next_try_is_made_when_it_is_due_however_seldom_the_worker_looks_by_itself() -> None:
    store, loop = SqliteStore("sqlite://"), JumpingLoop()
    store.migrate()
    app = App("retries", settings=Settings(poll=timedelta(hours=1)))
    tried_at: list[float] = []

    @app.action(name="act")
    async def act(ctx: ActionCtx) -> None:
        tried_at.append(loop.time())
        await asyncio.sleep(5)  # long after the worker has seen that nothing more is due
        raise ConnectionError("connection refused")

    e = app.open_on(store, inline=True)
    app.scheduler.using(retry=Retry(3, first=1, jitter=0)).run_after(0, act)
    clock = LoopClock(loop, e.clock.now())
    worker = worker_of(app, clock=clock)

    run_for(loop, worker, A_MINUTE_S)
    loop.close()
    app.close()

    assert [round(at) for at in tried_at] == [0, 5 + 1, 5 + 1 + 5 + 2]

"""Slots of actions: how many functions run at a time, and how far they run ahead of what is written of their ends."""

import asyncio
from typing import TypeVar

import pytest

from evertick import ActionCtx, App
from evertick.app.execution import Execution
from evertick.engine import actions
from evertick.engine.actions import ENDS_MAX
from evertick.engine.lanes import InlineLanes, Work
from evertick.engine.settings import Settings
from evertick.engine.worker import Worker
from evertick.store.contract import Isolation
from evertick.store.sqlite import SqliteStore
from evertick.testing.loop import JumpingLoop

T = TypeVar("T")
SLOTS = 8
A_MINUTE_S = 60.0


class LateEnds(InlineLanes):
    """Lanes on which the ends of actions take a minute to be written."""

    async def write(self, work: Work[T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Lanes.write`."""
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

    e = app.open_on(store, inline=True)
    app.scheduler.run_after_many(0, [act.args() for _ in range(jobs)])
    worker = Worker(store, LateEnds(store), e.clock, Execution(e), e.ids, e.entropy, e.settings, app.counters)

    async def main() -> int:
        working = asyncio.create_task(worker.run())
        await asyncio.sleep(A_MINUTE_S / 2)
        begun_before_an_end_was_written = ran
        await asyncio.sleep(100 * A_MINUTE_S)
        worker.stop()
        await working
        return begun_before_an_end_was_written

    early = loop.run_task(main(), until_s=200 * A_MINUTE_S)

    assert begun <= early <= begun + SLOTS
    assert (ran, most_running) == (jobs, SLOTS)
    assert app.counters.snapshot()["jobs_success"] == jobs
    loop.close()
    app.close()

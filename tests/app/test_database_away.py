"""The database is away for longer than a lease: nobody takes the jobs of workers that live."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from evertick import App, MutationCtx, Settings
from evertick.base.errors import DatabaseUnavailable, OutcomeUnknown
from evertick.base.ids import WorkerId
from evertick.base.instants import Instant
from evertick.engine.maintenance.reaper import AGAIN_MS, ExpiredLeases, Reaper
from evertick.engine.runtime import registration
from evertick.engine.runtime.executors import InlineExecutors
from evertick.engine.runtime.registration import HeartbeatThread
from evertick.store.store import Isolation
from evertick.testing.loop import JumpingLoop
from tests.app.engine import SharedStore, run_for, worker_of
from tests.app.test_slots import LoopClock
from tests.store.rows import worker

LEASE_MS = 9_000
OTHER = WorkerId("worker_other")


class Away(InlineExecutors):
    """The way to a database that is away at times, or whose replies come late."""

    is_away = False
    late_s = 0.0

    async def write(self, work: Any, *, isolation: Isolation = Isolation.SERIALIZABLE) -> Any:
        self._check()
        await asyncio.sleep(self.late_s)
        return await super().write(work, isolation=isolation)

    async def ask(self, function: Any) -> Any:
        self._check()
        return await super().ask(function)

    def _check(self) -> None:
        if self.is_away:
            raise DatabaseUnavailable("as planned")


class Scene:
    """A reaper, and another worker with a lease."""

    def __init__(self) -> None:
        self.loop = JumpingLoop()
        self.store = SharedStore("sqlite://")
        self.store.migrate()
        self.app = App("away", settings=Settings(lease=timedelta(milliseconds=LEASE_MS)))
        self.app.open_on(self.store, inline=True)
        self.way = Away(self.store)
        deps = self.app.environment.engine_deps(self.app._execution, self.app.counters)
        self.clock = LoopClock(self.loop, Instant(1_000_000))
        self.reaper = Reaper(replace(deps, clock=self.clock, executors=self.way))
        until = Instant(self.clock.now() + LEASE_MS)
        self.store.write(lambda tx: tx.register_worker(worker(OTHER, leased_until=until)))

    def renew(self) -> bool:
        """The other worker's heartbeat; whether it still is a worker."""
        until = Instant(self.clock.now() + LEASE_MS)
        return self.store.write(lambda tx: tx.renew_lease(OTHER, leased_until=until))

    def close(self) -> None:
        self.store.close()
        self.loop.close()

    def is_there(self) -> bool:
        return [each.id for each in self.store.read(lambda tx: tx.list_workers())] == [OTHER]


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.close()


def play(scene: Scene, story: Any) -> None:
    async def main() -> None:
        reaping = asyncio.create_task(scene.reaper.run())
        await story()
        scene.reaper.stop()
        await reaping

    scene.loop.run_task(main(), until_s=600)


def test_leases_that_ran_out_while_the_database_was_away_can_be_renewed(scene: Scene) -> None:
    async def story() -> None:
        scene.way.is_away = True
        await asyncio.sleep(60)
        scene.way.is_away = False
        await asyncio.sleep(LEASE_MS / 3 / 1000 - 0.05)  # almost all the time of a renewal
        assert scene.renew()
        await asyncio.sleep(LEASE_MS / 1000 - 0.1)
        assert scene.renew()

    play(scene, story)


def test_leases_that_ran_out_while_the_database_hung_can_be_renewed(scene: Scene) -> None:
    async def story() -> None:
        await asyncio.sleep(LEASE_MS / 2000 - 0.1)
        scene.way.late_s = 60
        await asyncio.sleep(LEASE_MS / 4000)  # the reaper looks meanwhile
        scene.way.late_s = 0
        assert scene.renew()  # the last that came through
        await asyncio.sleep(60)
        assert scene.renew()

    play(scene, story)


def test_a_worker_that_died_meanwhile_is_given_up_soon_after(scene: Scene) -> None:
    async def story() -> None:
        scene.way.is_away = True
        await asyncio.sleep(60)
        scene.way.is_away = False
        await asyncio.sleep(1 + LEASE_MS / 3 / 1000 + LEASE_MS / 4000 + 0.1)
        assert not scene.is_there()

    play(scene, story)


def test_a_lease_that_was_renewed_too_late_can_be_renewed_at_once(scene: Scene) -> None:
    """Real once: commits had waited for a standby, and when it was back, reapers took the jobs of living workers."""

    async def story() -> None:
        await asyncio.sleep(20)
        await asyncio.sleep(0.5)
        assert scene.renew()

    def hung() -> None:
        """What the other's heartbeat had written before it hung is committed now, and the reaper looks."""
        late = Instant(scene.clock.now() - 1)
        scene.store.write(lambda tx: tx.renew_lease(OTHER, leased_until=late))

    scene.loop.call_later(19.9, hung)
    scene.store.write(lambda tx: tx.renew_lease(OTHER, leased_until=Instant(scene.clock.now() + 19_950)))
    play(scene, story)


def test_workers_that_were_suspended_together_judge_none_of_them(scene: Scene) -> None:
    async def story() -> None:
        await asyncio.sleep(LEASE_MS / 1000 - 0.1)
        assert scene.renew()
        scene.clock.ahead_ms += 60_000  # the machine stood still: no timer of a loop has run
        await asyncio.sleep(LEASE_MS / 4000 + 1.5)
        assert scene.renew()

    play(scene, story)


def test_a_lease_is_judged_by_the_second_look() -> None:
    over, now = ExpiredLeases(), Instant(100_000)
    dead = worker(OTHER, leased_until=Instant(90_000))
    assert (over.judge([dead], now), over.again_at) == ([], now + AGAIN_MS)
    assert (over.judge([dead], Instant(now + AGAIN_MS - 1)), over.again_at) == ([], now + AGAIN_MS)
    for _ in range(2):  # its jobs may take several looks
        assert (over.judge([dead], Instant(now + AGAIN_MS)), over.again_at) == ([OTHER], None)
    renewed = replace(dead, leased_until=Instant(95_000))
    assert over.judge([renewed], Instant(now + AGAIN_MS)) == []


def test_a_renewal_that_failed_or_was_late_is_tried_again_before_others_judge(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    lost: list[bool] = []
    away, late = DatabaseUnavailable("as planned"), LEASE_MS
    outcomes = iter([True, away, away, True, late, True, False])

    def renew(deps: object, worker_id: WorkerId) -> bool:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is late:
            scene.clock.ahead_ms += late
        return bool(outcome)

    class Noted:
        def wait(self, seconds: float) -> bool:
            waits.append(round(seconds, 3))
            return False

    monkeypatch.setattr(registration, "renew", renew)
    deps = replace(scene.app.environment.engine_deps(scene.app._execution, scene.app.counters), clock=scene.clock)
    beat: Any = HeartbeatThread(deps, OTHER, lambda: lost.append(True))
    beat._stopped = Noted()
    beat._run()

    assert waits == [0.0, 3.0, 0.375, 0.375, 3.0, 0.0, 3.0]
    assert lost == [True]


class BreaksAtFirst(Away):
    """A way to a database whose first transaction comes to its end, but its reply does not; then it is away a while."""

    writes = 0

    async def write(self, work: Any, *, isolation: Isolation = Isolation.SERIALIZABLE) -> Any:
        self.writes += 1
        if 1 < self.writes < 4:
            raise DatabaseUnavailable("as planned")
        result = await super().write(work, isolation=isolation)
        if self.writes == 1:
            raise OutcomeUnknown("as planned")
        return result


def test_a_worker_that_begins_while_its_database_goes_away_works_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Real once: a pooler was killed while a worker registered, and the worker ended with OutcomeUnknown."""
    store, loop, ran = SharedStore("sqlite://"), JumpingLoop(), []
    store.migrate()
    app = App("away")

    @app.mutation(name="note")
    def note(ctx: MutationCtx) -> None:
        ran.append("note")

    app.open_on(store, inline=True)
    app.scheduler.run_after(0, "note")
    run_for(loop, worker_of(app, executors=BreaksAtFirst(store)), 10)

    assert ran == ["note"]
    assert caplog.text.count("the worker cannot begin yet, and tries again: as planned") == 3
    assert (
        len(store.read(lambda tx: tx.list_workers())) == 1
    )  # what the first transaction has written; the lease removes it
    loop.close()
    app.close()


def test_a_worker_that_cannot_begin_ends_when_it_is_told_to() -> None:
    store, loop = SharedStore("sqlite://"), JumpingLoop()
    store.migrate()
    app = App("away")
    app.open_on(store, inline=True)
    way = Away(store)
    way.is_away = True

    run_for(loop, worker_of(app, executors=way), 10)

    assert loop.time() < 20
    loop.close()
    app.close()

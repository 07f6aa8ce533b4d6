"""The time of a fleet is its database's: a clock that is wrong, or that jumps, changes nothing for others."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest

from evertick import ActionCtx, App, MutationCtx, every
from evertick.base import clock as clock_module
from evertick.base.clock import SystemClock
from evertick.base.instants import Instant
from evertick.engine.maintenance import clock_sync
from evertick.engine.maintenance.clock_sync import COMPARISONS_UNTIL_FOLLOWED, ClockSync
from evertick.engine.maintenance.reaper import Reaper
from evertick.engine.runtime import registration
from evertick.engine.schedules.evaluator import Evaluator

HOUR_MS = 3_600_000


class Machine:
    """The machine's clocks, and the database's, as a test sets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ms = 1_000_000_000
        self.steady_ms = 5_000
        self.database_ms = 1_000_000_000
        monkeypatch.setattr(clock_module, "_wall_ms", lambda: self.wall_ms)
        monkeypatch.setattr(clock_module, "_steady_ms", lambda: self.steady_ms)

    def pass_ms(self, ms: int) -> None:
        """Time passes, for all clocks alike."""
        self.wall_ms += ms
        self.steady_ms += ms
        self.database_ms += ms


class Fleet:
    """A worker's clock sync and reaper beside a database whose clock the test sets."""

    def __init__(self, app: App, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        store: Any = app.environment.store
        monkeypatch.setattr(type(store), "database_now", lambda _: Instant(machine.database_ms))
        monkeypatch.setattr(type(store), "single_engine", False)
        self.machine = machine
        self.clock = SystemClock()
        deps = replace(app.environment.engine_deps(app._execution, app.counters), clock=self.clock)
        self.counters = app.counters
        self.sync = ClockSync(deps, self.clock)
        self.reaper = Reaper(deps, self.sync)

    def begin(self) -> None:
        """A worker begins."""
        asyncio.run(self.sync.begin())

    def look(self) -> int | None:
        """One comparison; milliseconds until the next one that it asks for."""
        again_at = asyncio.run(self.sync.round())
        return None if again_at is None else again_at - self.clock.now()

    @property
    def error_ms(self) -> int:
        """How far the worker's time is ahead of the database's."""
        return self.clock.now() - self.machine.database_ms


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Clocks that agree."""
    return Machine(monkeypatch)


@pytest.fixture
def fleet(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """A worker that has not begun."""
    app = App("fleet", database_url="sqlite://")
    app.migrate()
    _ = app.environment
    yield Fleet(app, machine, monkeypatch)
    app.close()


def test_a_worker_whose_machine_is_an_hour_ahead_begins_at_the_databases_time(fleet: Fleet, machine: Machine) -> None:
    machine.wall_ms += HOUR_MS

    fleet.begin()

    assert fleet.error_ms == 0


def test_setting_the_machines_clock_does_not_move_a_running_worker(fleet: Fleet, machine: Machine) -> None:
    fleet.begin()
    machine.wall_ms += HOUR_MS

    assert fleet.error_ms == 0
    assert fleet.look() is None
    assert fleet.error_ms == 0


def test_a_small_difference_is_followed(fleet: Fleet, machine: Machine) -> None:
    fleet.begin()
    machine.pass_ms(10_000)
    machine.database_ms += 400

    assert fleet.look() is None
    assert fleet.error_ms == 0
    assert fleet.sync.is_settled


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_a_jump_of_the_databases_clock_is_refused_and_looked_at_again_at_once(
    fleet: Fleet, machine: Machine, jump_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.begin()
    machine.pass_ms(10_000)
    machine.database_ms += jump_ms

    assert fleet.look() == clock_sync.COMPARE_AGAIN_MS
    assert fleet.error_ms == -jump_ms
    assert f"the database's clock jumped by {jump_ms} ms" in caplog.text
    assert not fleet.sync.is_settled

    machine.database_ms -= jump_ms
    assert fleet.look() is None
    assert fleet.sync.is_settled
    assert fleet.counters.snapshot()["clock_jumps_refused"] == 1


def test_no_worker_is_reaped_while_the_time_is_in_doubt(fleet: Fleet, machine: Machine) -> None:
    looked: list[bool] = []
    fleet.begin()

    async def write(*_: Any, **__: Any) -> tuple[bool, list[Any]]:
        looked.append(True)
        return False, []

    fleet.reaper._deps.executors.write = write  # type: ignore[method-assign, assignment]
    machine.database_ms += HOUR_MS
    fleet.look()
    asyncio.run(fleet.reaper.round())
    assert looked == []

    machine.database_ms -= HOUR_MS
    fleet.look()
    asyncio.run(fleet.reaper.round())
    assert looked == [True]


def test_a_jump_that_lasts_is_followed_and_others_have_time_to_follow_it(
    fleet: Fleet, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.begin()
    machine.database_ms += HOUR_MS

    looks = 0
    while fleet.look() is not None:
        machine.pass_ms(clock_sync.COMPARE_AGAIN_MS)
        looks += 1

    assert looks == COMPARISONS_UNTIL_FOLLOWED - 1
    assert fleet.error_ms == 0
    assert "the time was moved by 3600000 ms" in caplog.text
    assert not fleet.sync.is_settled
    machine.pass_ms(60_000)
    assert fleet.sync.is_settled


def test_a_machine_that_stood_still_takes_the_databases_time_at_once(fleet: Fleet, machine: Machine) -> None:
    """A virtual machine that was frozen: its steady clock stood still, and somebody has set its wall clock since."""
    fleet.begin()
    machine.wall_ms += HOUR_MS
    machine.database_ms += HOUR_MS

    assert fleet.look() is None
    assert fleet.error_ms == 0


@pytest.mark.postgres
def test_a_newcomer_whose_clock_is_an_hour_ahead_changes_nothing(postgres_url: str) -> None:
    """Real once: it reaped a live worker, ran jobs of the next hour, and used up the times of schedules."""
    began, ended = threading.Event(), threading.Event()
    ran: list[str] = []

    def make(clock: SystemClock) -> App:
        app = App("ahead", database_url=postgres_url, clock=clock)

        @app.action(name="long")
        async def long(ctx: ActionCtx) -> None:
            began.set()
            while not ended.is_set():
                await asyncio.sleep(0.01)
            ran.append("long")

        @app.mutation(name="later")
        def later(ctx: MutationCtx) -> None:
            ran.append("later")

        return app

    class Ahead(SystemClock):
        def now(self) -> Instant:
            return Instant(super().now() + HOUR_MS)

    app, newcomer = make(SystemClock()), make(Ahead())
    looks: list[str] = []
    app.migrate()
    with app.running():
        app.scheduler.run_after(0, "long")
        app.scheduler.run_after(600, "later")
        in_half_an_hour = every(minutes=30, anchor=datetime.now(UTC).replace(microsecond=0))
        app.schedules.create("s", when=in_half_an_hour, do=app.functions.resolve("later"))
        assert began.wait(30)
        evaluate, reap = Evaluator.round, Reaper.round

        async def evaluate_noting(self: Evaluator) -> Instant | None:
            found = await evaluate(self)
            looks.append("evaluator" if isinstance(self._deps.clock, Ahead) else "")
            return found

        async def reap_noting(self: Reaper) -> Instant | None:
            found = await reap(self)
            looks.append("reaper" if isinstance(self._deps.clock, Ahead) else "")
            return found

        with (
            patch.object(Evaluator, "round", evaluate_noting),
            patch.object(Reaper, "round", reap_noting),
            newcomer.running(),
        ):
            until(lambda: {"evaluator", "reaper"} <= set(looks))
            ahead_ms = newcomer.environment.clock.now() - SystemClock().now()
        ended.set()
        until(lambda: "long" in ran)

    assert abs(ahead_ms) < 5_000
    assert ran == ["long"]
    assert app.counters.snapshot().get("leases_lost", 0) == 0
    rows = app.environment.store.read(
        lambda tx: tx.connection.execute("select count(*) from evertick.occurrences").fetchone()
    )
    assert rows == (0,)


@pytest.mark.postgres
def test_workers_with_different_zone_data_are_warned_about(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They would compute different times of the same schedule."""
    first, second, third = (App("zones", database_url=postgres_url) for _ in range(3))
    first.migrate()
    monkeypatch.setattr(registration, "zone_data_source", lambda: "2026a")
    store = first.environment.store
    with first.running(), second.running():
        until(lambda: len(store.read(lambda tx: tx.workers_alive(SystemClock().now()))) == 2)
        assert "time zone data" not in caplog.text
        monkeypatch.setattr(registration, "zone_data_source", lambda: "2026b")
        with third.running():
            until(lambda: "this worker has the time zone data 2026b, worker " in caplog.text)
    assert " has 2026a: they may compute different times" in caplog.text


def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)

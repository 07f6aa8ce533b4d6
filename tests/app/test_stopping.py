"""Stopping actions: a canceled one is told, runs on until its function has ended, and counts as running until then."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx, Retry, SyncActionCtx, every
from evertick.functions import JobState
from evertick.schedules import RunOutcome
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine, job_of


class Gate:
    """Where a function waits: it says that it has begun, and goes on when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()

    def wait(self) -> None:
        self.begun.set()
        assert self.open.wait(PATIENCE_S)

    def until_begun(self) -> None:
        assert self.begun.wait(PATIENCE_S)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def eventually(question: Any) -> None:
    """Wait until `question` is true; it is asked again and again, because no attempt ends meanwhile."""
    end = time.monotonic() + PATIENCE_S
    while not question():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


def test_a_canceled_plain_action_is_told_and_ends_as_canceled_when_it_has_ended(open_app: OpenApp, gate: Gate) -> None:
    app = open_app()

    @app.mutation(name="tell")
    def tell(ctx: MutationCtx, job_id: str, context: Any, result: Any) -> None:
        ctx.db.insert("told", result)

    @app.query(name="told")
    def told(ctx: QueryCtx) -> list[Any]:
        return [each["kind"] for each in ctx.db.query("told").collect()]

    @app.mutation(name="child")
    def child(ctx: MutationCtx) -> None:
        """Nothing."""

    @app.action(name="plain")
    def plain(ctx: SyncActionCtx) -> str:
        ctx.log.info("begins")
        gate.begun.set()
        while not ctx.cancel_requested:
            time.sleep(0.001)
        ctx.log.info("cleans up %s", ctx.scheduler.run_after(0, "child"))
        gate.open.wait(PATIENCE_S)
        return "done"

    with Engine(app) as engine:
        job_id = app.scheduler.using(on_complete=tell, key="k").run_after(0, "plain")
        gate.until_begun()
        app.scheduler.cancel(job_id)
        app.scheduler.cancel(job_id)
        assert job_of(app, job_id).state is JobState.IN_PROGRESS
        assert not app.call(told)
        gate.open.set()
        job = engine.wait(job_id)
        engine.until(lambda: app.call(told) or None)

    assert (job.state, job.result) == (JobState.CANCELED, None)
    assert job.logs[0] == "info: begins"
    born = job.logs[1].rpartition(" ")[2]
    assert job_of(app, born).state is JobState.CANCELED
    assert app.call(told) == ["canceled"]


def test_a_canceled_async_action_cleans_up_and_ends_as_canceled(open_app: OpenApp, gate: Gate) -> None:
    app = open_app()
    seen: list[bool] = []

    @app.action(name="awaits")
    async def awaits(ctx: ActionCtx) -> None:
        gate.begun.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            seen.append(ctx.cancel_requested)
            await asyncio.sleep(0.01)
            ctx.log.info("cleaned up")
            raise

    with Engine(app) as engine:
        job_id = app.scheduler.using(retry=Retry(5)).run_after(0, "awaits")
        gate.until_begun()
        app.scheduler.cancel(job_id)
        job = engine.wait(job_id)

    assert (job.state, seen, job.logs) == (JobState.CANCELED, [True], ["info: cleaned up"])


def test_an_action_that_ignores_a_cancel_is_interrupted_by_a_stop(open_app: OpenApp, gate: Gate) -> None:
    app = open_app()
    cancels: list[str] = []

    @app.action(name="stubborn")
    async def stubborn(ctx: ActionCtx) -> None:
        gate.begun.set()
        for _ in range(3):
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                cancels.append("cancel")

    with Engine(app) as engine:
        job_id = app.scheduler.run_after(0, "stubborn")
        gate.until_begun()
        app.scheduler.cancel(job_id)
        eventually(lambda: cancels)
        assert job_of(app, job_id).state is JobState.IN_PROGRESS
        app.scheduler.stop(job_id)
        job = engine.wait(job_id)

    assert (job.state, len(cancels)) == (JobState.CANCELED, 3)


def test_a_stop_interrupts_a_plain_action(open_app: OpenApp, gate: Gate) -> None:
    app = open_app()

    @app.action(name="spins")
    def spins(ctx: SyncActionCtx) -> None:
        gate.begun.set()
        while True:
            time.sleep(0.001)

    with Engine(app) as engine:
        job_id = app.scheduler.run_after(0, "spins")
        gate.until_begun()
        app.scheduler.stop(job_id)
        job = engine.wait(job_id)

    assert (job.state, job.error) == (JobState.CANCELED, None)


def test_a_canceled_run_keeps_the_next_one_of_its_schedule_waiting(open_app: OpenApp, gate: Gate) -> None:
    """Real once: its end was reported at the cancel, so with `skip` the next run began beside it."""
    app = open_app()
    running: list[int] = []
    most: list[int] = []

    @app.action(name="runs")
    def runs(ctx: SyncActionCtx) -> None:
        running.append(1)
        most.append(len(running))
        gate.wait()
        running.pop()

    app.schedules.create("s", when=every(hours=1), do=runs)
    with Engine(app) as engine:
        first = app.schedules.trigger("s")
        gate.until_begun()
        [job] = [occurrence.job_id for occurrence in app.schedules.occurrences("s").occurrences]
        app.scheduler.cancel(job)
        skipped = app.schedules.trigger("s")
        eventually(lambda: len(app.schedules.occurrences("s").occurrences) == 2)
        gate.open.set()
        assert engine.wait(job).state is JobState.CANCELED
        eventually(lambda: outcome_of(app, first.nominal))

    assert (most, outcome_of(app, first.nominal)) == ([1], RunOutcome.CANCELED)
    fates = {each.nominal: each.fate.value for each in app.schedules.occurrences("s").occurrences}
    assert fates == {first.nominal: "started", skipped.nominal: "skipped"}


def outcome_of(app: App, nominal: Any) -> Any:
    return next(each.outcome for each in app.schedules.occurrences("s").occurrences if each.nominal == nominal)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_an_action_that_ignores_its_limit_is_shown_as_stuck_and_keeps_its_slot(
    open_app: OpenApp, gate: Gate, kind: str
) -> None:
    app = open_app()

    @app.action(name="plain", timeout=0.05)
    def plain(ctx: SyncActionCtx) -> str:
        gate.wait()  # inside C code, where no exception reaches it
        return "done"

    @app.action(name="async", timeout=0.05)
    async def swallows(ctx: ActionCtx) -> str:
        gate.begun.set()
        while not gate.open.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                ctx.log.info("not now")
        return "done"

    with Engine(app) as engine:
        job_id = app.scheduler.run_after(0, kind)
        gate.until_begun()
        eventually(lambda: job_of(app, job_id).error is not None)
        job = job_of(app, job_id)
        assert job.state is JobState.IN_PROGRESS
        assert str(job.error).startswith("Stuck: ")
        assert engine._worker is not None
        assert engine._worker.actions.running == 1
        gate.open.set()
        job = engine.wait(job_id)

    assert job.state is JobState.FAILED
    assert str(job.error).startswith("TimedOut: ")
    assert app.counters.snapshot()["actions_stuck"] == 1


def test_the_end_of_a_canceled_action_that_nobody_told_is_canceled(open_app: OpenApp, gate: Gate) -> None:
    """Its end and the cancel may meet in the database, before the worker has heard of it."""
    app = open_app()

    @app.action(name="cancels_itself")
    async def cancels_itself(ctx: ActionCtx) -> str:
        await ctx.scheduler.cancel(ctx.job_id or "")
        return "done"

    with Engine(app) as engine:
        job = engine.wait(app.scheduler.using(retry=Retry(3)).run_after(0, "cancels_itself"))

    assert (job.state, job.result) == (JobState.CANCELED, None)


def test_a_plain_action_that_an_async_one_calls_is_waited_for(open_app: OpenApp, gate: Gate) -> None:
    app = open_app()
    told, ended = threading.Event(), threading.Event()

    @app.action(name="inner")
    def inner(ctx: SyncActionCtx) -> None:
        gate.begun.set()
        while not ctx.cancel_requested:
            time.sleep(0.001)
        told.set()
        gate.open.wait(PATIENCE_S)
        ended.set()

    @app.action(name="quick")
    async def quick(ctx: ActionCtx) -> None:
        """Nothing."""

    @app.action(name="outer")
    async def outer(ctx: ActionCtx) -> None:
        await ctx.run_action(inner)

    with Engine(app) as engine:
        job_id = app.scheduler.run_after(0, "outer")
        gate.until_begun()
        app.scheduler.cancel(job_id)
        assert told.wait(PATIENCE_S)
        for _ in range(3):  # ends are written in their order
            engine.wait(app.scheduler.run_after(0, "quick"))
        assert job_of(app, job_id).state is JobState.IN_PROGRESS
        gate.open.set()
        job = engine.wait(job_id)

    assert (job.state, ended.is_set()) == (JobState.CANCELED, True)


def test_an_error_that_takes_long_to_say_what_it_is_does_not_stop_the_loop(open_app: OpenApp, gate: Gate) -> None:
    app = open_app()

    class Slow(Exception):
        def __str__(self) -> str:
            gate.wait()
            return "slow"

    @app.action(name="raises")
    async def raises(ctx: ActionCtx) -> None:
        raise Slow

    @app.action(name="quick")
    async def quick(ctx: ActionCtx) -> str:
        return "quick"

    with Engine(app) as engine:
        slow = app.scheduler.run_after(0, "raises")
        gate.until_begun()
        assert engine.wait(app.scheduler.run_after(0, "quick")).result == "quick"
        gate.open.set()
        assert engine.wait(slow).state is JobState.FAILED


def test_a_stop_iteration_ends_its_action_alone(open_app: OpenApp) -> None:
    """A future cannot hold a StopIteration: the job never ended."""
    app = open_app()

    @app.action(name="plain")
    def plain(ctx: SyncActionCtx) -> None:
        raise StopIteration

    with Engine(app) as engine:
        job = engine.wait(app.scheduler.run_after(0, "plain"))
    assert str(job.error).startswith("StopIteration")

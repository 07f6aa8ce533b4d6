"""Isolation: what a function does, or leaves in the database, harms neither the engine nor another function.

What user code does to its own transaction is in `test_isolated_transactions`.
"""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx, Retry, SyncActionCtx, every
from evertick.base.instants import LONG_AGO
from evertick.engine.jobs.claims import Claims
from evertick.engine.jobs.recovery import BatchRunner
from evertick.engine.runtime.settings import Settings
from evertick.engine.schedules.evaluator import Evaluator
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine, job_of, whole_jobs

pytestmark = pytest.mark.sql

NEWER = '{"v": 99}'
"""A stored value that only a newer release can read."""


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What functions wait for that block their threads; open at the end, so that none stays behind."""
    event = threading.Event()
    yield event
    event.set()


def blocked(app: App, gate: threading.Event) -> Callable[[int], None]:
    """Give the app a plain action, `block`, that waits for the gate. Returns what waits until so many have begun."""
    begun = threading.Semaphore(0)

    @app.action(name="block")
    def block(ctx: SyncActionCtx) -> None:
        begun.release()
        gate.wait(PATIENCE_S)

    def wait(count: int) -> None:
        for _ in range(count):
            assert begun.acquire(timeout=PATIENCE_S)

    return wait


def note(app: App) -> None:
    """Give the app a mutation that only runs."""

    @app.mutation(name="note")
    def note(ctx: MutationCtx) -> str:
        return "noted"


def overwrite(app: App, table: str, column: str, value: str, row_id: str) -> None:
    """Put a text where only Evertick writes."""
    mark = "?" if app.database_url.startswith("sqlite") else "%s"
    statement = f"update {table} set {column} = {mark} where id = {mark}"
    app.environment.store.write(lambda transaction: transaction.connection.execute(statement, (value, row_id)))


# -- threads


@pytest.mark.parametrize("sleeping", [16, 64])
def test_sleeping_actions_delay_neither_mutations_nor_calls(
    open_app: OpenApp, gate: threading.Event, sleeping: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks_always = property(lambda _: LONG_AGO, lambda *_: None)
    monkeypatch.setattr(Claims, "_polled_at", looks_always, raising=False)  # each round has a read of the engine's own
    app = open_app()
    wait_for = blocked(app, gate)
    note(app)

    @app.query(name="read")
    def read(ctx: QueryCtx) -> str:
        return "read"

    @app.action(name="calls")
    async def calls(ctx: ActionCtx) -> str:
        return await ctx.run_query(read)

    app.scheduler.run_after_many(0, [app.functions.resolve("block").with_args() for _ in range(sleeping - 1)])
    with Engine(app) as engine:
        wait_for(sleeping - 1)
        assert engine.wait(app.scheduler.run_after(0, "note")).result == "noted"
        assert engine.wait(app.scheduler.run_after(0, "calls")).result == "read"
        assert engine.wait(app.scheduler.run_after(0, "note")).result == "noted"
        gate.set()


def test_calls_that_block_delay_no_mutation_of_a_job(open_app: OpenApp, gate: threading.Event) -> None:
    app = open_app(settings=Settings(action_threads=2))
    note(app)
    begun = threading.Semaphore(0)

    @app.query(name="waits", timeout=PATIENCE_S)
    def waits(ctx: QueryCtx) -> None:
        begun.release()
        gate.wait(PATIENCE_S)

    @app.action(name="calls")
    async def calls(ctx: ActionCtx) -> None:
        await asyncio.gather(*(ctx.run_query(waits) for _ in range(4)))

    with Engine(app) as engine:
        calling = app.scheduler.run_after(0, "calls")
        assert begun.acquire(timeout=PATIENCE_S)
        assert begun.acquire(timeout=PATIENCE_S)
        assert engine.wait(app.scheduler.run_after(0, "note")).result == "noted"
        gate.set()
        assert engine.wait(calling).state is JobState.SUCCESS


def test_an_action_that_has_not_begun_when_its_worker_stops_is_pending_still(
    open_app: OpenApp, gate: threading.Event
) -> None:
    app = open_app(settings=Settings(drain=timedelta(0), action_slots=20))
    wait_for = blocked(app, gate)
    app.scheduler.run_after_many(0, [app.functions.resolve("block").with_args() for _ in range(30)])

    with Engine(app):
        wait_for(20)

    jobs = app.environment.store.read(whole_jobs)
    states = [job.state for job in jobs]
    assert (states.count(JobState.FAILED), states.count(JobState.PENDING)) == (20, 10)
    assert not any(job.crashes for job in jobs)


# -- rows that cannot be understood


@pytest.mark.parametrize("shape", ['[3, 250, 2.0, 1000, 0.5, "full"]', NEWER, "[0]", "nonsense"])
@pytest.mark.parametrize("kind", ["mutation", "action"])
def test_a_job_whose_retry_policy_cannot_be_read_fails_alone_and_says_so(
    open_app: OpenApp, kind: str, shape: str
) -> None:
    app = open_app()
    note(app)

    @app.mutation(name="mutation")
    def mutation(ctx: MutationCtx) -> None:
        raise ValueError("its own")

    @app.action(name="action")
    async def action(ctx: ActionCtx) -> None:
        raise ValueError("its own")

    ids = [app.scheduler.using(retry=Retry(3)).run_after(0, kind) for _ in range(2)]
    overwrite(app, "jobs", "retry", shape, ids[0])
    others = [app.scheduler.run_after(0, "note") for _ in range(3)]

    with Engine(app) as engine:
        job = engine.wait(ids[0])
        assert [engine.wait(other).state for other in others] == [JobState.SUCCESS] * 3

    assert (job.state, job.attempt, job.crashes) == (JobState.FAILED, 1, 0)
    assert "ValueError: its own (not tried again, because its retry policy cannot be read" in str(job.error)


@pytest.mark.parametrize("kind", ["mutation", "action"])
@pytest.mark.parametrize("column", ["on_complete", "schedule"])
def test_a_job_whose_followers_cannot_be_read_ends_alone(
    open_app: OpenApp, kind: str, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = open_app()
    note(app)

    @app.mutation(name="mutation")
    def mutation(ctx: MutationCtx) -> None:
        """Nothing."""

    @app.action(name="action")
    async def action(ctx: ActionCtx) -> None:
        """Nothing."""

    job_id = app.scheduler.run_after(0, kind)
    overwrite(app, "jobs", column, NEWER, job_id)
    others = [app.scheduler.run_after(0, "note") for _ in range(3)]

    with Engine(app) as engine:
        job = engine.wait(job_id)
        assert [engine.wait(other).state for other in others] == [JobState.SUCCESS] * 3

    assert job.crashes == 0
    assert any(job_id in record.getMessage() or getattr(record, "job_id", "") == job_id for record in caplog.records)


@pytest.mark.parametrize("kind", ["mutation", "action"])
def test_a_result_that_cannot_be_read_back_fails_its_job_alone(open_app: OpenApp, kind: str) -> None:
    app = open_app()
    told: list[Any] = []

    @app.mutation(name="mutation")
    def mutation(ctx: MutationCtx) -> Any:
        return 10**5_000

    @app.action(name="action")
    async def action(ctx: ActionCtx) -> Any:
        return 10**5_000

    @app.mutation(name="tell")
    def tell(ctx: MutationCtx, job_id: str, context: Any, result: Any) -> None:
        told.append(result)

    with Engine(app) as engine:
        job = engine.wait(app.scheduler.using(on_complete=tell, context=1).run_after(0, kind))
        engine.until(lambda: told or None)

    assert job.state is JobState.FAILED
    assert "cannot be read back from JSON" in str(job.error)
    assert told[0]["kind"] == "failed"


@pytest.mark.parametrize("text", ["a byte \x00 in it", "half a pair \ud800"])
@pytest.mark.parametrize("kind", ["mutation", "action"])
def test_an_error_whose_text_the_database_cannot_hold_fails_its_job_alone(
    open_app: OpenApp, kind: str, text: str
) -> None:
    app = open_app()

    @app.mutation(name="mutation")
    def mutation(ctx: MutationCtx) -> None:
        raise ValueError(text)

    @app.action(name="action")
    def action(ctx: SyncActionCtx) -> None:
        raise ValueError(text)

    app.schedules.create("s", when=every(hours=1), do=app.functions.resolve(kind), trigger=True)
    with Engine(app) as engine:
        [ended] = engine.until(lambda: [job for job in all_jobs(app) if job.state is JobState.FAILED] or None)

    assert json.loads(ended.error.text)["message"] == text


def all_jobs(app: App) -> list[Any]:
    return app.environment.store.read(whole_jobs)


def test_a_schedule_that_cannot_be_read_is_set_aside_and_the_others_go_on(
    open_app: OpenApp, caplog: pytest.LogCaptureFixture
) -> None:
    """Real once: the report of its run brought it back at once, 7,000 times in four seconds."""
    app = open_app()
    note(app)
    for name in ("broken", "fine"):
        app.schedules.create(name, when=every(hours=1), do=app.functions.resolve("note"), trigger=True)
    state = app.environment.store.read(
        lambda transaction: transaction.connection.execute("select state from schedules where id = 'broken'").fetchone()
    )[0]
    overwrite(app, "schedules", "state", NEWER, "broken")
    with Engine(app) as engine:  # both report a run
        for job in all_jobs(app):
            engine.wait(job.id)
    before = app.counters.snapshot().get("schedules_broken", 0)

    async def rounds(count: int) -> list[Any]:
        evaluator = Evaluator(app.environment.engine_deps(app._execution, app.counters))
        return [await evaluator.round() for _ in range(count)]

    looks = asyncio.run(rounds(5))

    assert app.counters.snapshot().get("schedules_broken", 0) - before <= 1
    assert looks[-1] > app.environment.clock.now()
    assert "schedule broken cannot be read" in caplog.text
    assert app.schedules.get("fine").status == "active"

    overwrite(app, "schedules", "state", state, "broken")
    app.schedules.pause("broken")
    assert app.schedules.get("broken").status == "paused"


@pytest.mark.parametrize("column", ["state", "spec", "target", "memo"])
def test_a_schedule_that_cannot_be_read_is_listed_and_deleted(open_app: OpenApp, column: str) -> None:
    """What waits of it gets its fate all the same."""
    app = open_app()
    note(app)
    app.schedules.create("fine", when=every(hours=1), do=app.functions.resolve("note"))
    app.schedules.create(
        "broken", when=every(hours=1), do=app.functions.resolve("note"), overlap="buffer_all", trigger=True
    )
    assert app.schedules.trigger("broken").fate == "buffered"
    overwrite(app, "schedules", column, NEWER, "broken")
    evaluator = Evaluator(app.environment.engine_deps(app._execution, app.counters))
    overwrite(app, "schedules", "wake_at", "0", "broken")
    asyncio.run(evaluator.round())

    assert [each.id for each in app.schedules.list().schedules] == ["broken", "fine"]
    if column in ("state", "spec"):  # without these it cannot be evaluated
        assert [each.id for each in app.schedules.list(status="unreadable").schedules] == ["broken"]

    app.schedules.delete("broken")

    assert [each.id for each in app.schedules.list().schedules] == ["fine"]
    fates = {(each.fate, each.reason) for each in app.schedules.occurrences("broken").occurrences}
    assert fates == {("started", "triggered"), ("skipped", "deleted")}
    assert app.schedules.history("broken")[0].action == "deleted"


# -- a fault of the engine's own


def test_batches_that_fail_by_a_fault_end_no_worker_and_are_given_back_without_a_crash(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app()
    note(app)

    async def fail(*_: Any) -> None:
        raise RuntimeError("a fault of the engine's own")

    monkeypatch.setattr(BatchRunner, "_run_all", fail)
    monkeypatch.setattr(BatchRunner, "complete", fail)
    monkeypatch.setattr(BatchRunner, "work", lambda *_: lambda _: fail)
    ids = [app.scheduler.run_after(0, "note") for _ in range(30)]
    with Engine(app):
        limit = time.monotonic() + PATIENCE_S
        while not app.counters.snapshot().get("loop_failures") and time.monotonic() < limit:
            threading.Event().wait(0.01)

    assert app.counters.snapshot()["loop_failures"] > 0
    jobs = [job_of(app, job_id) for job_id in ids]
    assert [(job.state, job.crashes) for job in jobs] == [(JobState.PENDING, 0)] * 30
    assert not app.environment.store.read(lambda transaction: transaction.list_workers())


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "evertick.engine")

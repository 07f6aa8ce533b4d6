"""How a worker ends: what it cuts off, what it gives back, and how long that takes. Real workers, real databases."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest

from evertick import ActionCtx, App, MutationCtx, Retry
from evertick.base.errors import DatabaseUnavailable
from evertick.base.ids import DEFAULT_TENANT
from evertick.engine.jobs.actions import CLEAN_UP_S
from evertick.engine.runtime.executors import InlineExecutors
from evertick.engine.runtime.settings import Settings
from evertick.engine.worker import LAST_WRITES_S
from evertick.functions import JobState
from evertick.rules.jobs.lifecycle import CRASHES_MAX
from evertick.store.sqlite.store import SqliteStore
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction
from evertick.testing.loop import JumpingLoop
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine, job_of, worker_of

T = TypeVar("T")
AT_ONCE = Settings(drain=timedelta(0))


class Begun(threading.Event):
    """Set by an action that has begun."""

    def now(self) -> None:
        """Wait for the next time."""
        assert self.wait(PATIENCE_S)
        self.clear()


def opened(open_app: OpenApp) -> tuple[App, Begun]:
    """An app with an action that never ends by itself, and when it began."""
    app, begun = open_app(settings=AT_ONCE), Begun()

    @app.action(name="long")
    async def long(ctx: ActionCtx) -> None:
        begun.set()
        await asyncio.Event().wait()

    return app, begun


def test_an_action_that_is_cut_off_says_that_its_worker_was_stopped(open_app: OpenApp) -> None:
    app, begun = opened(open_app)
    job_id = app.scheduler.run_after(0, "long")

    with Engine(app):
        begun.now()

    job = job_of(app, job_id)
    assert (job.state, job.crashes) == (JobState.FAILED, 0)
    assert str(job.error).startswith("WorkerStopped: its worker was stopped before the function had ended")


@pytest.mark.long
def test_an_action_that_every_deploy_cuts_off_is_tried_again_and_never_quarantined(open_app: OpenApp) -> None:
    app, begun = opened(open_app)
    job_id = app.scheduler.using(retry=Retry(100, first=0.001)).run_after(0, "long")

    for deploy in range(1, CRASHES_MAX + 3):
        with Engine(app):
            begun.now()
        job = job_of(app, job_id)
        assert (job.state, job.crashes) == (JobState.PENDING, 0)
        assert job.attempt >= deploy  # a claim that was under way when the worker stopped is given back, and counts
        app.close()


def test_an_action_that_does_not_end_although_it_is_cancelled_is_left_behind_as_cut_off(open_app: OpenApp) -> None:
    app, begun = open_app(settings=AT_ONCE), Begun()

    @app.action(name="stubborn")
    async def stubborn(ctx: ActionCtx) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    job_id = app.scheduler.run_after(0, "stubborn")
    with Engine(app):
        begun.now()

    job = job_of(app, job_id)
    assert (job.state, job.crashes) == (JobState.FAILED, 0)
    assert str(job.error).startswith("WorkerStopped")


def test_a_function_that_cancels_itself_has_failed_by_itself(open_app: OpenApp) -> None:
    app = open_app()

    @app.action(name="raises")
    async def raises(ctx: ActionCtx) -> None:
        raise asyncio.CancelledError

    @app.action(name="cancels")
    async def cancels(ctx: ActionCtx) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    job_ids = [app.scheduler.run_after(0, name) for name in ("raises", "cancels")]
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in job_ids]

    assert [(job.state, job.crashes) for job in jobs] == [(JobState.FAILED, 0)] * 2
    assert [str(job.error) for job in jobs] == [
        "CancelledError: something that the function waited for was cancelled by code in its worker",
        "CancelledError: its task was cancelled by code in its worker",
    ]


class AwayStore(SqliteStore):
    """A database that can be away."""

    away = False

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Store.write`."""
        if self.away:
            raise DatabaseUnavailable("the test took it away")
        return super().write(work, isolation=isolation)


def seconds_to_end(*, away: bool, takes: float, drain_ms: int) -> float:
    """How long a worker takes to end while an action runs."""
    store, loop = AwayStore("sqlite://"), JumpingLoop()
    store.migrate()
    app = App("ending", settings=Settings(drain=timedelta(milliseconds=drain_ms)))

    @app.action(name="long")
    async def long(ctx: ActionCtx) -> None:
        await asyncio.sleep(takes)

    app.open_on(store, inline=True)
    app.scheduler.run_after(0, "long")
    worker = worker_of(app)

    async def main() -> float:
        working = asyncio.create_task(worker.run())
        await asyncio.sleep(1)
        store.away = away
        begun_at = loop.time()
        worker.stop()
        await working
        return loop.time() - begun_at

    try:
        return loop.run_task(main(), until_s=10_000)
    finally:
        loop.close()
        app.close()


@pytest.mark.long
def test_a_worker_ends_by_one_deadline_while_the_database_is_away() -> None:
    most = 30 + CLEAN_UP_S + LAST_WRITES_S + 0.1

    assert 30 <= seconds_to_end(away=True, takes=1_000, drain_ms=30_000) <= most
    assert seconds_to_end(away=True, takes=5, drain_ms=30_000) <= most
    assert seconds_to_end(away=True, takes=5, drain_ms=0) <= most - 30


def test_a_worker_ends_as_soon_as_all_is_written() -> None:
    assert seconds_to_end(away=False, takes=5, drain_ms=30_000) < 4.1
    assert 30 <= seconds_to_end(away=False, takes=1_000, drain_ms=30_000) < 30.1


class CuriousStore(SqliteStore):
    """A database that tells when an action is in progress."""

    tell: Callable[[], object] | None = None

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Store.write`."""
        result = super().write(work, isolation=isolation)
        counts = self.read(lambda transaction: transaction.count_jobs(DEFAULT_TENANT))
        if self.tell is not None and any(each.in_progress for each in counts.values()):
            self.tell()
        return result


def test_an_action_claimed_while_the_worker_is_told_to_stop_is_given_back_and_not_begun() -> None:
    store, loop, ran = CuriousStore("sqlite://"), JumpingLoop(), []
    store.migrate()
    app = App("ending")

    @app.action(name="act")
    async def act(ctx: ActionCtx) -> None:
        ran.append("act")

    app.open_on(store, inline=True)
    job_id = app.scheduler.run_after(0, "act")
    worker = worker_of(app)
    store.tell = worker.stop

    loop.run_task(worker.run(), until_s=100)

    job = job_of(app, job_id)
    assert (job.state, job.crashes, ran) == (JobState.PENDING, 0, [])
    loop.close()
    app.close()


class SlowExecutors(InlineExecutors):
    """A database that takes eight seconds for everything."""

    async def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Executors.write`."""
        await asyncio.sleep(8)
        return await super().write(work, isolation=isolation)


def test_mutations_that_run_have_the_time_to_drain_as_well() -> None:
    store, loop = SqliteStore("sqlite://"), JumpingLoop()
    store.migrate()
    app = App("ending", settings=Settings(drain=timedelta(seconds=30)))

    @app.mutation(name="note")
    def note(ctx: MutationCtx) -> None:
        """Nothing."""

    app.open_on(store, inline=True)
    worker = worker_of(app, executors=SlowExecutors(store))

    async def main() -> str:
        working = asyncio.create_task(worker.run())
        await asyncio.sleep(100)
        job_id = app.scheduler.run_after(0, "note")
        await asyncio.sleep(10)  # it was claimed, and runs
        worker.stop()
        await working
        return job_id

    job = job_of(app, loop.run_task(main(), until_s=1_000))
    assert (job.state, job.crashes) == (JobState.SUCCESS, 0)
    loop.close()
    app.close()


def test_a_mutation_that_cancels_itself_has_failed_and_does_not_end_the_worker(open_app: OpenApp) -> None:
    """Real once: it cancelled the loop that ran it, so the worker ended without a word."""
    app = open_app()

    @app.mutation(name="cancels_itself")
    def cancels_itself(ctx: MutationCtx) -> None:
        raise asyncio.CancelledError

    job_id = app.scheduler.run_after(0, "cancels_itself")
    with Engine(app) as engine:
        job = engine.wait(job_id)

    assert (job.state, job.crashes) == (JobState.FAILED, 0)

"""A worker survives what functions do to its thread, its event loop and its own work."""

import asyncio
import gc
import logging
import threading
from typing import Any

import psycopg
import pytest

from evertick import ActionCtx, App, MutationCtx, SyncActionCtx
from evertick.app.embedded_worker import Stopper, serve
from evertick.base.errors import EvertickError, TransactionRefused
from evertick.engine.jobs import actions
from evertick.engine.runtime.loop import Loop
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Watched


@pytest.fixture
def app(open_app: OpenApp) -> App:
    app = open_app()
    if not app.database_url.startswith("sqlite"):
        app.migrate()

    @app.action(name="quick")
    async def quick(ctx: ActionCtx) -> str:
        return "quick"

    return app


@pytest.mark.parametrize("how", ["SystemExit", "KeyboardInterrupt", "stop"])
def test_what_a_background_task_raises_ends_no_worker(app: App, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Real once: the worker ended, and the program that ran it went on without one."""

    @app.action(name="careless")
    async def careless(ctx: ActionCtx) -> None:
        async def later() -> None:
            if how == "stop":
                asyncio.get_running_loop().stop()
            else:
                raise {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}[how](3)

        held.append(asyncio.create_task(later()))

    held: list[Any] = []
    with Watched(app) as watched:
        for _ in range(2):
            assert watched.wait(app.scheduler.run_after(0, careless)).state is JobState.SUCCESS
            assert watched.wait(app.scheduler.run_after(0, "quick")).result == "quick"
    # Else a garbage collection logs it, which CPython 3.11 does not survive while it compiles (gh-106905).
    assert all(how == "stop" or task.exception() is not None for task in held)
    assert "the worker goes on" in caplog.text


def test_an_action_that_cancels_all_tasks_of_its_loop_ends_no_worker(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.action(name="ruthless")
    async def ruthless(ctx: ActionCtx) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    @app.mutation
    def mutation(ctx: MutationCtx) -> None:
        pass

    with Watched(app) as watched:
        for _ in range(2):
            app.scheduler.run_after(0, ruthless)
            # A mutation: if it was claimed when the worker ended, it is given back.
            assert watched.wait(app.scheduler.run_after(0, mutation)).state is JobState.SUCCESS
    assert "a new worker begins in its place" in caplog.text


def test_a_worker_on_the_programs_loop_outlives_a_cancel_that_spares_the_program(open_app: OpenApp) -> None:
    app = open_app()
    app.migrate()
    done = asyncio.Event()

    @app.action(name="ruthless")
    async def ruthless(ctx: ActionCtx) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task(), program}:
            task.cancel()
        app.scheduler.run_after(0, tell)

    @app.mutation
    def tell(ctx: MutationCtx) -> None:
        loop.call_soon_threadsafe(done.set)

    async def main() -> None:
        nonlocal program, loop
        loop = asyncio.get_running_loop()
        program = asyncio.current_task()
        async with app.running():
            app.scheduler.run_after(0, ruthless)
            async with asyncio.timeout(PATIENCE_S):
                await done.wait()

    program: asyncio.Task[Any] | None = None
    loop: asyncio.AbstractEventLoop
    asyncio.run(main())


def test_a_worker_that_a_program_leaves_behind_ends_with_it(open_app: OpenApp) -> None:
    app = open_app()
    app.migrate()

    async def main() -> None:
        await app.running().__aenter__()
        await asyncio.sleep(0)

    asyncio.run(main())
    app.worker().release_engine()  # raises DatabaseLocked if it still runs


@pytest.mark.parametrize("kind", ["mutation", "plain", "async"])
def test_a_keyboard_interrupt_that_a_function_raises_fails_its_job(app: App, kind: str) -> None:
    @app.mutation(name="mutation")
    def mutation(ctx: MutationCtx) -> None:
        raise KeyboardInterrupt

    @app.action(name="plain")
    def plain(ctx: SyncActionCtx) -> None:
        raise KeyboardInterrupt

    @app.action(name="async")
    async def in_loop(ctx: ActionCtx) -> None:
        raise KeyboardInterrupt

    with Watched(app) as watched:
        job = watched.wait(app.scheduler.run_after(0, kind))
        assert watched.wait(app.scheduler.run_after(0, "quick")).result == "quick"
    assert str(job.error).startswith("KeyboardInterrupt")


def test_an_end_that_cannot_be_written_fails_its_job_alone(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = actions.finish

    def failing(transaction: Any, claims: Any, ends: Any, **named: Any) -> Any:
        if any(end.result == '"bad"' for end in ends):
            raise RuntimeError("a fault of the engine's own")
        return finish(transaction, claims, ends, **named)

    monkeypatch.setattr(actions, "finish", failing)

    @app.action(name="says")
    async def says(ctx: ActionCtx, word: str) -> str:
        return word

    ids = app.scheduler.run_after_many(0, [says.with_args(word) for word in ("good", "bad", "good", "good")])
    with Watched(app) as watched:
        jobs = [watched.wait(job_id) for job_id in ids]
    assert [job.result for job in jobs] == ["good", None, "good", "good"]
    assert "RuntimeError: how it ended cannot be written" in str(jobs[1].error)


@pytest.mark.postgres
def test_a_loop_whose_own_statement_the_database_refuses_waits_until_it_is_taken(
    open_postgres_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a trigger of an administrator's on one of Evertick's tables does."""
    app = open_postgres_app()
    refuse = """create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
        create trigger refuse before insert or update on jobs for each row execute function refuse()"""

    @app.action(name="quick")
    async def quick(ctx: ActionCtx) -> str:
        return "quick"

    first, refused = app.scheduler.run_after(0, "quick"), threading.Event()
    monkeypatch.setattr(Loop, "_back_off", told_of(Loop._back_off, refused))
    with psycopg.connect(app.database_url, autocommit=True) as connection:
        own = connection.execute(
            "select relnamespace::regnamespace::text from pg_class where relname = 'jobs'"
        ).fetchone()
        connection.execute(f"set search_path = {own[0]}; {refuse}")
        try:
            with Watched(app) as watched:
                assert refused.wait(PATIENCE_S)
                connection.execute("drop function refuse cascade")
                assert watched.wait(first).result == "quick"
        finally:
            connection.execute("drop function if exists refuse cascade")


def told_of(back_off: Any, refused: threading.Event) -> Any:
    """As `Loop._back_off`, with an event for refusals."""

    async def told(loop: Loop, error: EvertickError) -> None:
        if isinstance(error, TransactionRefused):
            refused.set()
        await back_off(loop, error)

    return told


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "evertick.engine")


@pytest.mark.parametrize("is_its_own", [False, True])
def test_a_worker_sets_the_program_aside_from_the_collector_while_it_runs(app: App, is_its_own: bool) -> None:
    """A full collection took tens of milliseconds. What a program has frozen itself stays as it was."""
    stopper = Stopper()
    frozen: list[int] = []

    @app.action(name="count")
    async def count(ctx: ActionCtx) -> None:
        frozen.append(gc.get_freeze_count())
        stopper.requests.ask("test")

    app.scheduler.run_after(0, count)
    gc.unfreeze()  # what the tests have set aside
    if is_its_own:
        gc.freeze()
    try:
        serve(app, stopper, drain_ms=1_000)
        assert frozen[0] > 10_000
        assert (gc.get_freeze_count() > 10_000) is is_its_own
    finally:
        stopper.requests.over()
        gc.unfreeze()

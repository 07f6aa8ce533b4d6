"""A worker inside the user's own program."""

import asyncio
import logging
import threading

import pytest

from evertick import App, MutationCtx
from evertick.base.errors import DatabaseLocked, Misuse
from evertick.engine.mutations import MutationLoop
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S


class Broken(Exception):
    """What no loop expects."""


async def break_down(loop: MutationLoop) -> None:
    raise Broken


def with_note(open_app: OpenApp) -> tuple[App, threading.Event]:
    """An app with a mutation `note`, and what it sets."""
    app, noted = open_app(), threading.Event()

    @app.mutation(name="note")
    def note(ctx: MutationCtx) -> None:
        noted.set()

    return app, noted


def workers_of(app: App) -> int:
    return len(app.environment.store.read(lambda tx: tx.list_workers()))


def test_jobs_run_for_as_long_as_the_block_lasts(open_app: OpenApp) -> None:
    app, noted = with_note(open_app)

    with app.running():
        app.scheduler.run_after(0, "note")
        assert noted.wait(PATIENCE_S)

    assert workers_of(app) == 0
    noted.clear()
    app.scheduler.run_after(0, "note")
    with app.running():
        assert noted.wait(PATIENCE_S)


def test_jobs_run_on_the_loop_that_runs_already(open_app: OpenApp) -> None:
    app, noted = with_note(open_app)

    async def main() -> None:
        async with app.running():
            app.scheduler.run_after(0, "note")
            assert await asyncio.to_thread(noted.wait, PATIENCE_S)
            assert "evertick-worker" not in [thread.name for thread in threading.enumerate()]

    asyncio.run(main())

    assert workers_of(app) == 0


def test_a_program_may_start_and_stop_it_by_hand(open_app: OpenApp) -> None:
    app, noted = with_note(open_app)
    running = app.running()

    for _ in range(2):
        noted.clear()
        running.start()
        app.scheduler.run_after(0, "note")
        assert noted.wait(PATIENCE_S)
        running.stop()
    running.stop()

    assert workers_of(app) == 0


def test_what_runs_already_is_not_started_again(open_app: OpenApp) -> None:
    app, _ = with_note(open_app)
    running = app.running()

    with running, pytest.raises(Misuse, match="runs already"):
        running.start()


def test_a_second_worker_on_a_sqlite_file_is_refused_before_the_block(database_url: str, open_app: OpenApp) -> None:
    app, _ = with_note(open_app)
    other, noted = with_note(open_app)

    with app.running():
        if database_url.startswith("sqlite"):
            with pytest.raises(DatabaseLocked):
                other.running().start()
            with pytest.raises(DatabaseLocked, match="let that one end first"):
                app.running().start()
        else:
            with other.running():
                pass

    with other.running():
        other.scheduler.run_after(0, "note")
        assert noted.wait(PATIENCE_S)


def test_an_error_that_ends_the_worker_is_logged_at_once_and_raised_at_the_end(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app, _ = with_note(open_app)
    monkeypatch.setattr(MutationLoop, "round", break_down)
    logged = threading.Event()
    monkeypatch.setattr(caplog.handler, "emit", lambda record: logged.set() if "has ended" in record.msg else None)

    with caplog.at_level(logging.ERROR), pytest.raises(Broken), app.running():
        assert logged.wait(PATIENCE_S)

    async def main() -> None:
        async with app.running():
            assert await asyncio.to_thread(logged.wait, PATIENCE_S)

    logged.clear()
    with caplog.at_level(logging.ERROR), pytest.raises(Broken):
        asyncio.run(main())

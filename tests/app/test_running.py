"""A worker inside the user's own program."""

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from evertick import ActionCtx, App, MutationCtx, Settings
from evertick.base.errors import DatabaseLocked, Misuse
from evertick.engine.runtime.registration import Registration
from evertick.store.notifications import EVERYTHING, Listener
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S

pytestmark = pytest.mark.sql


class Broken(Exception):
    """What no loop expects."""


def fail() -> asyncio.AbstractEventLoop:
    raise Broken


async def break_down(_: object) -> None:
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

    with running, pytest.raises(Misuse, match="already running"):
        running.start()


def test_a_second_worker_on_a_sqlite_file_is_refused_before_the_block(database_url: str, open_app: OpenApp) -> None:
    app, _ = with_note(open_app)
    other, noted = with_note(open_app)

    with app.running():
        if database_url.startswith("sqlite"):
            with pytest.raises(DatabaseLocked):
                other.running().start()
            with pytest.raises(DatabaseLocked, match="stop that one first"):
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
    monkeypatch.setattr(Registration, "begin", break_down)
    logged = threading.Event()
    monkeypatch.setattr(caplog.handler, "emit", lambda record: logged.set() if "was ended" in record.msg else None)

    with caplog.at_level(logging.ERROR), pytest.raises(Broken), app.running():
        assert logged.wait(PATIENCE_S)

    async def main() -> None:
        async with app.running():
            assert await asyncio.to_thread(logged.wait, PATIENCE_S)

    logged.clear()
    with caplog.at_level(logging.ERROR), pytest.raises(Broken):
        asyncio.run(main())


def test_an_error_before_the_worker_could_begin_is_raised_at_the_end_and_it_can_start_again(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real once: such a worker was neither ended nor could it be started."""
    app, noted = with_note(open_app)
    running = app.running()

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "new_event_loop", fail)
        patched.setattr(asyncio.events, "new_event_loop", fail)
        running.start()
        with pytest.raises(Broken):
            running.stop()

    app.scheduler.run_after(0, "note")
    with running:
        assert noted.wait(PATIENCE_S)


def test_who_stops_it_second_also_waits_for_its_end(open_app: OpenApp) -> None:
    app = open_app()
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @app.mutation(name="slow")
    def slow(ctx: MutationCtx) -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    def stop() -> None:
        running.stop()
        workers.append(workers_of(app))
        ended.set()

    workers: list[int] = []
    running = app.running()
    running.start()
    app.scheduler.run_after(0, "slow")
    assert begun.wait(PATIENCE_S)
    stoppers = [threading.Thread(target=stop) for _ in range(2)]
    for stopper in stoppers:
        stopper.start()
    assert not ended.is_set()
    go_on.set()
    for stopper in stoppers:
        stopper.join(PATIENCE_S)

    assert workers == [0, 0]


def test_a_hint_that_comes_after_the_end_of_the_loop_is_dropped(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever tells it may have seen the worker just before: its thread must not die of that."""
    app, _ = with_note(open_app)
    store = app.environment.store
    listeners: list[Listener] = []

    def listen(listener: Listener) -> Callable[[], None]:
        listeners.append(listener)
        return lambda: None

    monkeypatch.setattr(store, "listen", listen)
    with app.running():
        pass

    for listener in listeners:
        listener(EVERYTHING)


def test_a_worker_that_is_refused_keeps_no_other_process_from_the_file(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _ = with_note(open_app)
    other, noted = with_note(open_app)
    monkeypatch.setattr(app, "sync_crons", fail)

    with pytest.raises(Broken):
        app.running().start()

    other.scheduler.run_after(0, "note")
    with other.running():
        assert noted.wait(PATIENCE_S)


PROGRAM = """
import asyncio, sys, threading
from evertick import ActionCtx, App, MutationCtx
from evertick.engine.worker import Worker

app = App("test", database_url=sys.argv[1])
begun, ending, stop = threading.Event(), threading.Event(), Worker.stop

def stop_and_say(worker: Worker, *, now: bool = False) -> None:
    ending.set()
    stop(worker, now=now)

Worker.stop = stop_and_say

@app.mutation(name="note")
def note(ctx: MutationCtx) -> None:
    ctx.db.insert("notes", {})

@app.action(name="act")
async def act(ctx: ActionCtx) -> None:
    begun.set()
    while not ending.is_set():
        await asyncio.sleep(0.001)
    await ctx.run_mutation(note)

app.running().start()
app.scheduler.run_after(0, act)
assert begun.wait(60)
"""


@pytest.mark.processes
def test_what_was_started_drains_when_the_program_ends(database_url: str, open_app: OpenApp) -> None:
    """Real once: `atexit` comes after the thread pools have ended, so nothing could be written any more."""
    app, _ = with_note(open_app)
    assert workers_of(app) == 0

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, database_url], check=False, timeout=120, stderr=subprocess.PIPE, text=True
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    states = app.environment.store.read(lambda tx: tx.connection.execute("select name, state from history").fetchall())
    assert [tuple(row) for row in states] == [("act", "success")]
    assert workers_of(app) == 0


def test_an_action_that_ignores_its_cancel_is_named_and_left_behind_at_the_end(
    open_app: OpenApp, caplog: pytest.LogCaptureFixture
) -> None:
    """The close of the event loop waited for it, for ever."""
    app, begun = open_app(settings=Settings(drain=timedelta(0))), threading.Event()
    is_over = threading.Event()

    @app.action(name="stubborn")
    async def stubborn(ctx: ActionCtx) -> None:
        begun.set()
        while not is_over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    def run() -> None:
        with app.running():
            app.scheduler.run_after(0, "stubborn")
            assert begun.wait(PATIENCE_S)

    program = threading.Thread(target=run)
    program.start()
    program.join(PATIENCE_S)
    ended_in_time = not program.is_alive()
    is_over.set()
    program.join(PATIENCE_S)

    assert ended_in_time
    assert "the action stubborn job_" in caplog.text
    assert "does not end although it was cancelled; the event loop ends without it" in caplog.text


def test_a_thread_of_an_action_that_goes_on_does_not_keep_the_worker(open_app: OpenApp) -> None:
    app, begun, is_over = open_app(settings=Settings(drain=timedelta(0))), threading.Event(), threading.Event()
    ended: list[bool] = []

    def wait() -> None:
        ended.append(is_over.wait(PATIENCE_S))

    @app.action(name="waits")
    async def waits(ctx: ActionCtx) -> None:
        begun.set()
        await asyncio.to_thread(wait)

    try:
        with app.running():
            app.scheduler.run_after(0, "waits")
            assert begun.wait(PATIENCE_S)
        assert not ended
    finally:
        is_over.set()

"""An `async def` action that does not await: it is interrupted, and what cannot be interrupted is told of."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Settings
from evertick.base import step_limit
from evertick.base.ids import WorkerId
from evertick.engine.runtime import registration
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.registration import renew
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Watched, job_of

SOON_S = 0.1


def spin() -> None:
    """Compute until something ends it."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        pass


async def spinning() -> None:
    """A coroutine that does not await."""
    spin()


async def alone() -> None:
    spin()


async def after_an_await() -> None:
    await asyncio.sleep(0)
    spin()


async def gathered() -> None:
    await asyncio.gather(asyncio.sleep(PATIENCE_S), spinning())


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(PATIENCE_S))
        group.create_task(spinning())


async def in_the_background() -> None:
    task = asyncio.create_task(spinning())
    await asyncio.wait([task, asyncio.create_task(asyncio.sleep(PATIENCE_S))])


async def caught() -> None:
    try:
        spin()
    except BaseException:
        await asyncio.sleep(PATIENCE_S)


async def returned() -> None:
    try:
        spin()
    except BaseException:
        return


async def while_it_cleans_up() -> None:
    try:
        await asyncio.sleep(PATIENCE_S)
    finally:
        spin()


HOLDING: list[Callable[[], Any]] = [
    alone, after_an_await, gathered, in_a_group, in_the_background, caught, returned, while_it_cleans_up,
]  # fmt: skip


def app_with(open_app: OpenApp, body: Callable[[], Any], **options: Any) -> App:
    """An app with an action that holds the loop, and one that does not."""
    app = open_app(**options)
    if not app.database_url.startswith("sqlite"):
        app.migrate()

    @app.action(name="holds", timeout=options.get("timeout"))
    async def holds(ctx: ActionCtx) -> None:
        await body()

    @app.action(name="quick")
    async def quick(ctx: ActionCtx) -> str:
        return "quick"

    return app


@pytest.mark.parametrize("body", HOLDING, ids=lambda body: body.__name__)
def test_what_does_not_await_is_interrupted_and_the_others_go_on(
    open_app: OpenApp, body: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real once: the loop was held for ever, also beyond the time limit of the action."""
    monkeypatch.setattr(step_limit, "LEAST_S", SOON_S)  # it would compute for a second
    app = app_with(open_app, body)
    holds = app.action(name="limited", timeout=SOON_S)(app.functions.resolve("holds").handler)
    with Watched(app) as watched:
        ids = [app.scheduler.run_after(0, name) for name in (holds, "quick", holds, "quick")]
        jobs = [watched.wait(job_id) for job_id in ids]

    assert [job.state for job in jobs] == [JobState.FAILED, JobState.SUCCESS] * 2
    for job in (jobs[0], jobs[2]):
        assert str(job.error).startswith("TimedOut: limited took longer than 0.1 s, and blocked the event loop")
    if body not in (caught, returned):
        assert "in spin" in app.jobs.get(ids[0]).error["traceback"]


def test_it_must_await_within_a_time_of_its_own_and_is_told_where_it_did_not(open_app: OpenApp) -> None:
    app = app_with(open_app, alone, settings=Settings(await_within=timedelta(milliseconds=100)))
    with Watched(app) as watched:
        job_id = app.scheduler.run_after(0, "holds")
        job = watched.wait(job_id)

    assert str(job.error).startswith("TimedOut: holds ran for 0.1 s without an await, and blocked the event loop")
    traceback = app.jobs.get(job_id).error["traceback"]
    assert "in spin" in traceback
    assert "time_limit.py" not in traceback


def test_steps_that_are_short_take_as_long_together_as_the_function_may(open_app: OpenApp) -> None:
    async def many_steps() -> None:
        end = time.monotonic() + 3 * SOON_S
        while time.monotonic() < end:
            await asyncio.sleep(0)

    app = app_with(open_app, many_steps, settings=Settings(await_within=timedelta(milliseconds=round(SOON_S * 1000))))
    with Watched(app) as watched:
        job = watched.wait(app.scheduler.run_after(0, "holds"))

    assert job.state is JobState.SUCCESS, job.error


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long is told of soon."""
    monkeypatch.setattr(step_limit, "REPORT_AFTER_S", 0.05)
    monkeypatch.setattr(step_limit, "STUCK_AFTER_S", 0.05)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end of a test at the latest."""
    event = threading.Event()
    yield event
    event.set()


def test_what_waits_inside_c_code_is_told_of_while_it_does(
    open_app: OpenApp, soon: None, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "evertick.engine")

    async def waits() -> None:
        gate.wait(PATIENCE_S)

    app = app_with(open_app, waits, settings=Settings(await_within=timedelta(milliseconds=100)))
    with Watched(app) as watched:
        job_id = app.scheduler.run_after(0, "holds")
        eventually(lambda: job_of(app, job_id).error is not None)
        job = job_of(app, job_id)
        assert job.state is JobState.IN_PROGRESS
        assert str(job.error).startswith("Stuck: it was interrupted, because it did not await, and goes on at ")
        assert "test_held_loops.py" in str(job.error)
        gate.set()
        job = watched.wait(job_id)
        assert watched.wait(app.scheduler.run_after(0, "quick")).state is JobState.SUCCESS

    assert str(job.error).startswith("TimedOut: holds ran for 0.1 s without an await")
    said = [
        each.message
        for each in caplog.records
        if "the event loop of its worker" in each.message and not each.message.startswith("holds failed")
    ]
    assert [line.partition(", at ")[0] for line in said] == [
        "holds has not awaited for 0 s and holds the event loop of its worker",
        "holds holds the event loop of its worker although it was interrupted",
    ]


def test_the_lease_of_a_worker_whose_loop_is_held_is_renewed_and_nobody_else_runs_its_action(
    open_postgres_app: OpenApp, soon: None, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []
    renewed: list[WorkerId] = []

    def counted(deps: EngineDeps, worker_id: WorkerId) -> bool:
        renewed.append(worker_id)
        return renew(deps, worker_id)

    monkeypatch.setattr(registration, "renew", counted)

    def with_action(name: str) -> App:
        app = open_postgres_app(
            settings=Settings(
                await_within=timedelta(milliseconds=100), lease=timedelta(seconds=2), poll=timedelta(milliseconds=50)
            )
        )

        @app.action(name="holds")
        async def holds(ctx: ActionCtx) -> None:
            began.append(name)
            gate.wait(PATIENCE_S)

        @app.mutation(name="beat")
        def beat(ctx: MutationCtx) -> None:
            """Runs on the other worker."""

        return app

    first, second = with_action("first"), with_action("second")
    with Watched(first) as watched:
        job_id = first.scheduler.run_after(0, "holds")
        eventually(lambda: job_of(first, job_id).error is not None)
        eventually(lambda: bool(renewed))
        holder = renewed[0]
        with Watched(second) as other:
            while renewed.count(holder) < 5:  # for longer than a lease
                other.wait(second.scheduler.run_after(0, "beat"))
            assert job_of(second, job_id).state is JobState.IN_PROGRESS
        gate.set()
        job = watched.wait(job_id)

    assert began == ["first"]
    assert str(job.error).startswith("TimedOut: ")


def test_a_task_that_an_action_has_left_running_is_interrupted_alone(open_app: OpenApp) -> None:
    held: list[asyncio.Task[None]] = []

    async def leaves_a_task() -> None:
        held.append(asyncio.create_task(spinning()))

    app = app_with(open_app, leaves_a_task, settings=Settings(await_within=timedelta(milliseconds=100)))
    with Watched(app) as watched:
        jobs = [watched.wait(app.scheduler.run_after(0, name)) for name in ("holds", "quick")]

    assert [job.state for job in jobs] == [JobState.SUCCESS, JobState.SUCCESS]
    assert type(held[0].exception()).__name__ == "FunctionTimeout"


@pytest.mark.long
def test_a_log_that_is_written_without_end_is_interrupted(open_app: OpenApp) -> None:
    """It is nearly always inside of code that all share."""
    app = open_app(settings=Settings(await_within=timedelta(milliseconds=100)))
    if not app.database_url.startswith("sqlite"):
        app.migrate()
    stopped = threading.Event()

    @app.action(name="logs")
    async def logs(ctx: ActionCtx) -> None:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and not stopped.is_set():
            ctx.log.debug("again")

    with Watched(app) as watched:
        job = watched.wait(app.scheduler.run_after(0, "logs"))

    assert str(job.error).startswith("TimedOut: logs ran for 0.1 s without an await")


def eventually(is_true: Callable[[], bool]) -> None:
    """Ask until it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)

"""Keys of runs, on both databases: who holds one when another run is to have it."""

import time
from collections.abc import Callable

import pytest

from evertick import App, MutationCtx, Step
from evertick.errors import AlreadyExists, InvalidArguments, JobNotRetryable
from evertick.functions import Mutation
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine

Add = Mutation[[str], None]


@pytest.fixture
def app(open_app: OpenApp) -> App:
    return open_app()


@pytest.fixture
def add(app: App) -> Add:
    @app.mutation(name="add")
    def add(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("lines", {"text": text})

    return add


def until(question: Callable[[], bool]) -> None:
    """Wait until something holds that no job's end tells of."""
    deadline = time.monotonic() + PATIENCE_S
    while not question():
        assert time.monotonic() < deadline, "nothing came of it"
        time.sleep(0.005)


def ends(app: App, run_id: str) -> Callable[[], bool]:
    return lambda: app.workflows.get(run_id).state in ("success", "failed", "canceled")


def lines(app: App) -> list[str]:
    return [line["text"] for line in app.db.query("lines").collect()]


def test_a_run_that_is_replaced_cleans_up_while_the_next_one_has_its_key(app: App, add: Add) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step, name: str) -> str:
        try:
            return await step.wait_for("go")
        finally:
            await step.run(add, f"{name} waits")
            await step.wait_for("clean")
            await step.run(add, f"{name} is clean")

    first = app.workflows.using(key="k").start(flow, "first")
    with Engine(app):
        until(lambda: app.workflows.get(first).state == "running")
        second = app.workflows.using(key="k", on_conflict="replace").start(flow, "second")
        assert app.workflows.get("k").id == second
        until(lambda: lines(app) == ["first waits"])
        assert app.workflows.get(first).state == "running"
        app.workflows.signal(first, "clean")
        until(ends(app, first))
        for event in ("go", "clean"):
            app.workflows.signal("k", event, "went")
        until(ends(app, second))

    assert [app.workflows.get(run).state for run in (first, second)] == ["canceled", "success"]
    assert lines(app) == ["first waits", "first is clean", "second waits", "second is clean"]


def test_a_restart_leaves_the_run_alone_that_has_the_key_meanwhile(app: App, add: Add) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step, name: str) -> str:
        await step.run(add, f"{name} began")
        await step.run(add, f"{name} ended")
        return name

    def flows() -> list[str]:
        return [run.id for run in app.workflows.list(flow).runs]

    first = app.workflows.using(key="k").start(flow, "first")
    with Engine(app):
        until(ends(app, first))
    second = app.workflows.using(key="k").start(flow, "second")
    for step in (None, 2):
        with pytest.raises(AlreadyExists):
            app.workflows.restart(first, step=step)
    assert flows() == [second, first]
    assert app.workflows.history(second).events == ()

    third = app.workflows.using(on_conflict="replace").restart(first, step=2)
    with Engine(app):
        until(ends(app, third))

    assert [app.workflows.get(run).state for run in (second, third)] == ["canceled", "success"]
    assert app.workflows.get("k").id == third
    assert lines(app) == ["first began", "first ended", "first ended"]


def test_a_run_that_cannot_be_tried_again_says_what_can_be_done(app: App) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        await step.wait_for("go")

    run = app.workflows.start(flow)
    with Engine(app):
        until(lambda: bool(app.workflows.timeline(run).waits_for))
    with pytest.raises(JobNotRetryable, match=f"has begun, and goes on .* workflow signal {run} EVENT"):
        app.jobs.retry(run)
    app.workflows.signal(run, "go")
    with Engine(app):
        until(ends(app, run))
    with pytest.raises(JobNotRetryable, match=f"`evertick workflow restart {run}` runs it again"):
        app.jobs.retry(run)


def test_what_is_no_text_names_no_run(app: App) -> None:
    app.migrate()
    for call in (app.workflows.get, app.workflows.cancel, app.workflows.history):
        for wrong in (5, None, 2.0):
            with pytest.raises(InvalidArguments, match=f"by its id or key, which must be text, not {wrong}"):
                call(wrong)  # type: ignore[operator]

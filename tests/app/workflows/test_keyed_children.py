"""Child workflows with keys, attributes and priorities, on both databases."""

import asyncio

import pytest

from evertick import App, MutationCtx, Step
from evertick.errors import StepFailed
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until


@pytest.fixture
def app(open_app: OpenApp) -> App:
    app = open_app()

    @app.workflow(name="page")
    async def page(step: Step, n: int) -> str:
        return f"{n} {await step.wait_for('go')}"

    @app.workflow(name="document")
    async def document(step: Step, keys: list[str]) -> list[str]:
        async def one(n: int, key: str) -> str:
            using = step.using(key=key, attributes={"page": n, "of": step.id}, priority=n)
            try:
                return await using.workflow(page, n)
            except StepFailed as error:
                return f"{error.type}: {error.message}"

        return list(await asyncio.gather(*(one(n, key) for n, key in enumerate(keys))))

    @app.workflow(name="twice")
    async def twice(step: Step, child: str) -> list[str]:
        first = await step.using(key=child).workflow(page, 1)
        return [first, await step.using(key=child).workflow(page, 2)]

    return app


def start(app: App, name: str, key: str, **args: object) -> str:
    """Start a run of a workflow."""
    return app.workflows.using(key=key).start(app.functions.resolve(name), **args)  # type: ignore[arg-type]


def test_children_are_found_by_their_keys_and_attributes_and_signaled(app: App) -> None:
    run_id = start(app, "document", "doc", keys=["doc-0", "doc-1"])
    with Engine(app):
        until(lambda: all(each.state == "running" for each in app.workflows.children(run_id)) and bool(children(app)))
        second = app.workflows.get("doc-1")
        assert (second.args, second.attributes, second.parent_id) == ({"n": 1}, {"page": 1, "of": run_id}, run_id)
        assert [each.key for each in app.workflows.list(attributes={"of": run_id, "page": 0}).runs] == ["doc-0"]
        assert app.jobs.get(second.id).priority == 1
        app.workflows.signal("doc-1", "go", "b")
        app.workflows.signal("doc-0", "go", "a")
        until(lambda: app.workflows.get(run_id).has_ended)

    assert app.workflows.get(run_id).result == ["0 a", "1 b"]
    assert [each.key for each in app.workflows.children(run_id)] == ["doc-0", "doc-1"]


def children(app: App) -> list[str | None]:
    """The keys of pages that wait."""
    return [run.key for run in app.workflows.list_detailed("page").runs if run.waits_for]


def test_a_child_whose_key_is_held_fails_and_its_step_alone(app: App) -> None:
    holder = app.workflows.using(key="taken").start(app.functions.resolve("page"), n=7)  # type: ignore[arg-type]
    run_id = start(app, "document", "own", keys=["taken", "free", "own", "free"])
    with Engine(app):
        until(lambda: children(app) == ["free", "taken"])
        until(lambda: len(app.workflows.get(run_id).waits_for) == 1)
        app.workflows.signal("free", "go", "x")
        until(lambda: app.workflows.get(run_id).has_ended)

    free = app.workflows.list(attributes={"of": run_id}).runs
    assert [each.key for each in free] == ["free"]
    assert app.workflows.get(run_id).result == [
        f"AlreadyExists: the unfinished job {holder} holds the key 'taken'",
        "1 x",
        f"AlreadyExists: the unfinished job {run_id} holds the key 'own'",
        f"AlreadyExists: the unfinished job {free[0].id} holds the key 'free'",
    ]
    assert [each.outcome for each in app.workflows.history(run_id).steps()] == ["failed", "success", "failed", "failed"]
    assert app.workflows.get(holder).state == "running"


def test_a_key_is_free_when_its_run_has_ended(app: App) -> None:
    run_id = start(app, "twice", "t", child="page")
    with Engine(app):
        for word in ("a", "b"):
            until(lambda: children(app) == ["page"])
            page = app.workflows.get("page").id
            app.workflows.signal("page", "go", word)
            until(lambda page=page: app.workflows.get(page).has_ended)  # type: ignore[misc]  # the next one may be there
        until(lambda: app.workflows.get(run_id).has_ended)
    assert app.workflows.get(run_id).result == ["1 a", "2 b"]


def test_a_mutation_step_starts_a_run_that_outlives_its_parent(app: App) -> None:
    @app.mutation(name="leave")
    def leave(ctx: MutationCtx, key: str) -> str:
        return ctx.workflows.using(key=key).start(app.functions.resolve("page"), n=3)  # type: ignore[arg-type]

    @app.workflow(name="parent")
    async def parent(step: Step) -> str:
        return await step.run(leave, "left")

    run_id = start(app, "parent", "p")
    with Engine(app):
        until(lambda: app.workflows.get(run_id).has_ended and children(app) == ["left"])
        app.workflows.cancel(run_id)
        app.workflows.signal("left", "go", "on")
        until(lambda: app.workflows.get("left").has_ended)
    left = app.workflows.get("left")
    assert (left.id, left.result, left.parent_id) == (app.workflows.get(run_id).result, "3 on", run_id)
    assert app.workflows.children(run_id) == ()

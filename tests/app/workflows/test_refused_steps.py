"""On PostgreSQL: steps whose writes are refused at the commit. The step fails, and the run goes on."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from evertick import App, MutationCtx, Step
from evertick.errors import StepFailed
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

TABLES = """
create table parents (id integer primary key);
create table children (parent integer references parents deferrable initially deferred);
"""


@pytest.fixture
def app(open_postgres_app: OpenApp) -> Iterator[App]:
    """An app with tables of its own: a child without a parent is refused at the commit."""
    app = open_postgres_app()

    @app.mutation(name="add")
    def add(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("lines", {"text": text})

    @app.mutation(name="orphan")
    def orphan(ctx: MutationCtx) -> None:
        ctx.db.insert("lines", {"text": "orphan"})
        ctx.connection.execute("insert into children values (7)")

    @app.workflow(name="compensates")
    async def compensates(step: Step) -> str:
        await step.run(add, "reserved")
        try:
            await step.run(orphan)
        except StepFailed as error:
            await step.run(add, "released")
            return error.type
        return "done"

    @app.workflow(name="together")
    async def together(step: Step) -> list[str]:
        ended = await asyncio.gather(
            step.run(add, "one"), step.run(orphan), step.run(add, "two"), return_exceptions=True
        )
        return [type(each).__name__ for each in ended]

    @app.workflow(name="fails")
    async def fails(step: Step) -> None:
        await step.run(add, "before")
        await step.run(orphan)

    with psycopg.connect(app.database_url, autocommit=True) as connection:
        connection.execute(TABLES)
        yield app
        connection.execute("drop table children, parents")


def lines(app: App) -> list[str]:
    return [line["text"] for line in app.db.query("lines").collect()]


def test_code_may_catch_it_and_compensate(app: App) -> None:
    with Engine(app) as engine:
        run = engine.wait(app.workflows.start("compensates"))

    assert (run.state, run.result) == (JobState.SUCCESS, "TransactionRefused")
    assert lines(app) == ["reserved", "released"]


def test_the_steps_beside_it_are_kept(app: App) -> None:
    with Engine(app) as engine:
        run = engine.wait(app.workflows.start("together"))

    assert run.result == ["NoneType", "StepFailed", "NoneType"]
    assert lines(app) == ["one", "two"]


def test_a_run_that_does_not_catch_it_fails_with_the_step_in_its_history(app: App) -> None:
    with Engine(app) as engine:
        run = engine.wait(app.workflows.start("fails"))

    assert run.state is JobState.FAILED
    assert "StepFailed" in str(run.error)
    assert "foreign key" in str(run.error)
    names = [(event.name, event.kind.value) for event in app.workflows.history(run.id).events]
    assert ("orphan", "step") in names, names
    assert lines(app) == ["before"]

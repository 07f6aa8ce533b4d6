"""`enqueue` runs a function now, from each place that schedules."""

from contextlib import closing

import pytest

from evertick import ActionCtx, App, JobId, MutationCtx, SyncActionCtx
from evertick.errors import InvalidArguments
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.store.databases.test_usual_place import connected


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app whose functions of each kind put a note in the queue."""
    app = open_app()

    @app.mutation(name="note")
    def note(ctx: MutationCtx, text: str) -> str:
        return text

    @app.mutation(name="mutation")
    def mutation(ctx: MutationCtx) -> JobId:
        return ctx.scheduler.enqueue(note, "mutation")

    @app.action(name="action")
    async def action(ctx: ActionCtx) -> JobId:
        return await ctx.scheduler.enqueue(note, text="action")

    @app.action(name="plain action")
    def plain(ctx: SyncActionCtx) -> JobId:
        return ctx.scheduler.enqueue("note", "plain action")

    app.migrate()
    return app


@pytest.mark.parametrize("caller", ["mutation", "action", "plain action"])
def test_a_function_enqueues_another(app: App, caller: str) -> None:
    job_id = app.call(caller)

    job = app.jobs.get(job_id)
    assert (job.function, job.due_at, job.args) == ("note", job.created_at, {"text": caller})


def test_a_program_enqueues_and_the_options_hold(app: App) -> None:
    first = app.scheduler.using(key="k").enqueue("note", "a")

    assert app.scheduler.using(key="k").enqueue("note", "b") == first
    with pytest.raises(InvalidArguments, match="txt"):
        app.scheduler.enqueue("note", txt="a")
    with Engine(app) as engine:
        engine.wait(first)
    assert app.jobs.get(first).result == "a"


def test_a_connection_of_the_programs_own_enqueues(app: App) -> None:
    with closing(connected(app.database_url)) as connection:
        job_id = app.bind(connection).enqueue("note", "own")
        connection.commit()

    assert app.jobs.get(job_id).state == "pending"

"""A program outlives its worker: calls go on, and another worker can be started."""

import asyncio

import pytest

from evertick import App, MutationCtx, QueryCtx
from tests.app.conftest import OpenApp
from tests.app.engine import Engine, job_of


def ready(open_app: OpenApp) -> App:
    app = open_app()

    @app.mutation(name="insert")
    def insert(ctx: MutationCtx, n: int) -> None:
        ctx.db.insert("ran", {"n": n})

    @app.query(name="ran")
    def ran(ctx: QueryCtx) -> list[int]:
        return [document["n"] for document in ctx.db.query("ran").collect()]

    if not app.database_url.startswith("sqlite"):
        app.migrate()
    return app


@pytest.mark.long
def test_calls_go_on_when_the_worker_has_ended(open_app: OpenApp) -> None:
    app = ready(open_app)
    with Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, "insert", 1))

    async def afterwards() -> list[int]:
        await app.call_async(app.functions.resolve("insert"), 2)
        found: list[int] = await app.call_async(app.functions.resolve("ran"))
        return found

    assert asyncio.run(afterwards()) == [1, 2]


def test_an_app_can_have_one_worker_after_another(open_app: OpenApp) -> None:
    app = ready(open_app)
    for n in range(3):
        with Engine(app) as engine:
            job_id = app.scheduler.run_after(0, "insert", n)
            engine.wait(job_id)
        assert job_of(app, job_id).state.value == "success"

    assert app.call("ran") == [0, 1, 2]

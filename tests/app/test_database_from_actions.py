"""What an `async def` action asks of its app by blocking calls, on both databases."""

from evertick import ActionCtx, App, MutationCtx
from tests.app.conftest import OpenApp
from tests.app.engine import Engine


def test_an_async_action_asks_the_app_without_awaiting(open_app: OpenApp) -> None:
    app: App = open_app()

    @app.mutation(name="note")
    def note(ctx: MutationCtx, text: str) -> str:
        return ctx.db.insert("notes", {"text": text})

    @app.action(name="look")
    async def look(ctx: ActionCtx) -> list[str]:
        app.call(note, "written")
        app.scheduler.run_after(3600, note, "later")
        return [job.function for job in app.jobs.list(state="pending").jobs]

    with Engine(app) as engine:
        job = engine.wait(app.scheduler.run_after(0, look))
        assert (job.error, job.result) == (None, ["note"])
    assert [each["text"] for each in app.db.query("notes").collect()] == ["written"]

"""Jobs that a newer release has written in a form that this code does not know."""

from evertick import App, MutationCtx
from tests.app.conftest import OpenApp
from tests.app.engine import Engine, job_of


def one(app: App) -> None:
    """A function that leaves a trace."""

    @app.mutation(name="one")
    def run(ctx: MutationCtx, text: str) -> str:
        return ctx.db.insert("ran", {"text": text})


def test_a_job_of_a_newer_format_is_left_to_newer_code(open_app: OpenApp) -> None:
    """Such a job stands in a queue that only newer code computes. A suspect is left alone as well."""
    app = open_app()
    one(app)
    newer = [app.scheduler.run_after(0, "one", text) for text in ("newer", "suspect")]
    app.environment.store.write(lambda tx: tx.connection.execute("update jobs set queue = queue + 1"))
    app.environment.store.write(
        lambda tx: tx.connection.execute(f"update jobs set stage = 'suspect', crashes = 3 where id = '{newer[1]}'")
    )

    with Engine(app) as engine:
        for _ in range(3):
            engine.wait(app.scheduler.run_after(0, "one", "known"))

    assert [job_of(app, each).state for each in newer] == ["pending", "pending"]
    assert {each["text"] for each in app.db.query("ran").collect()} == {"known"}

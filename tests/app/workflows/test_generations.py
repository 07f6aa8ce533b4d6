"""What is kept of a run that goes on as a new one again and again, on both databases."""

from evertick import App, MutationCtx, Step
from tests.app.conftest import OpenApp
from tests.app.engine import Engine


def test_the_journals_of_earlier_generations_are_removed(open_app: OpenApp) -> None:
    app: App = open_app()

    @app.mutation(name="note")
    def note(ctx: MutationCtx) -> None:
        ctx.db.insert("notes", {})

    @app.workflow(name="loop")
    async def loop(step: Step, n: int = 0) -> int:
        await step.run(note)
        await step.sleep(0.001)
        if n < 5:
            step.continue_as_new(n + 1)
        return n

    run_id = app.workflows.start(loop)
    with Engine(app) as engine:
        engine.wait(run_id)

    run = app.workflows.get(run_id)
    assert (run.result, run.generation) == (5, 5)
    journals = app.environment.store.read(
        lambda tx: [tx.load_journals([(run_id, generation)])[run_id] for generation in range(6)]
    )
    assert [bool(rows) for rows in journals] == [False] * 5 + [True]
    assert len(app.db.query("notes").collect()) == 6

"""What is kept of a run that goes on as a new one again and again, on both databases."""

from evertick import ActionCtx, App, MutationCtx, Step
from evertick.store.location import placed
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


def test_messages_that_were_taken_are_removed_and_the_others_handed_on(open_app: OpenApp) -> None:
    app: App = open_app()

    @app.action(name="ask")
    async def ask(ctx: ActionCtx, n: int) -> int:
        return n

    @app.workflow(name="loop")
    async def loop(step: Step, n: int = 0) -> list[str]:
        await step.run(ask, n)
        word = await step.wait_for("word")
        if word != "last":
            step.continue_as_new(n + 1)
        return [word, await step.wait_for("later")]

    run_id = app.workflows.start(loop)
    app.workflows.signal(run_id, "later", "kept for generation 4")
    with Engine(app) as engine:
        for n in range(4):
            app.workflows.signal(run_id, "word", f"word {n}")
        app.workflows.signal(run_id, "word", "once", key="k")
        engine.until(lambda: app.workflows.get(run_id).generation == 5 or None)
        app.workflows.signal(run_id, "word", "once", key="k")
        app.workflows.signal(run_id, "word", "last")
        run = engine.wait(run_id)

    assert (run.result, app.workflows.get(run_id).generation) == (["last", "kept for generation 4"], 5)
    store = app.environment.store
    text = placed("select name, key, result from workflow_inbox", store.dialect, store.place)
    kept = store.read(lambda tx: [tuple(row) for row in tx.connection.execute(text).fetchall()])
    assert kept == [("word", "k", None)]

"""Many runs that share a commit, on both databases."""

import pytest

from evertick import App, MutationCtx, Step
from tests.app.conftest import OpenApp
from tests.app.engine import Engine

RUNS = 60
"""More than one transaction of PostgreSQL reads the records of (READ_WITHIN_MAX)."""


@pytest.mark.long
def test_many_runs_with_attributes_messages_and_steps_end_and_each_step_counts_once(open_app: OpenApp) -> None:
    app: App = open_app()

    @app.mutation(name="add")
    def add(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("lines", {"text": text})

    @app.workflow(name="flow")
    async def flow(step: Step, number: int) -> str:
        await step.run(add, f"{number} a")
        word = await step.wait_for("go")
        await step.run(add, f"{number} b")
        return f"{number} {word}"

    ids = [
        app.workflows.using(attributes={"number": number}).start(flow, number)
        if number % 2
        else app.workflows.start(flow, number)
        for number in range(RUNS)
    ]
    for run_id in ids:
        app.workflows.signal(run_id, "go", "on")
    with Engine(app):
        results = [app.workflows.result(run_id, timeout=60) for run_id in ids]

    assert results == [f"{number} on" for number in range(RUNS)]
    lines = [line["text"] for line in app.db.query("lines").collect()]
    assert sorted(lines) == sorted(f"{number} {part}" for number in range(RUNS) for part in "ab")
    odd = app.workflows.list(flow, attributes={"number": 7}).runs
    assert [run.id for run in odd] == [ids[7]]

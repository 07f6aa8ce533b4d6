"""Runs that schedules have started are found, sent events and ended by the name that the schedule gives them."""

import pytest

from evertick import App, Overlap, Step, every
from evertick.errors import Misuse
from evertick.testing import World, hours
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine

app = App("scheduled")


@app.workflow
async def asked(step: Step) -> str:
    assert step.schedule is not None
    return f"{step.schedule.run_id}: {await step.wait_for('answer')}"


@app.workflow
async def other(step: Step) -> None:
    await step.wait_for("answer")


def test_a_run_has_the_name_of_its_occurrence_as_its_key() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        app.schedules.create("s", when=every(hours=1), do=asked, overlap=Overlap.ALLOW_ALL)
        app.schedules.create("t", when=every(hours=1), do=other, overlap=Overlap.CANCEL_OTHER)
        world.advance(hours(2.5))

        app.workflows.signal("s-2026-01-01T01:00:00Z", "answer", 42)
        world.advance(1)
        done = app.workflows.get("s-2026-01-01T01:00:00Z")
        assert (done.state, done.result) == ("success", "s-2026-01-01T01:00:00Z: 42")
        assert [run.key for run in app.workflows.list(prefix="s-2026-01-01T0").runs] == [
            "s-2026-01-01T02:00:00Z", "s-2026-01-01T01:00:00Z",
        ]  # fmt: skip
        assert {run.function for run in app.workflows.list(schedule="t").runs} == {other.name}
        assert [run.state for run in app.workflows.list(schedule="t").runs] == ["running", "canceled"]
        assert [run.id for run in app.workflows.list(asked, schedule="s", state="success").runs] == [done.id]
        assert not app.workflows.list(schedule="nothing").runs
        with pytest.raises(Misuse, match="is not the id of a schedule"):
            app.workflows.list(schedule=7)  # type: ignore[arg-type]


def test_a_run_whose_name_is_taken_starts_without_a_key(open_app: OpenApp) -> None:
    app = open_app()

    @app.workflow(name="flow")
    async def flow(step: Step) -> str:
        assert step.schedule is not None
        await step.wait_for("end")
        return step.schedule.run_id

    for name in ("one", "two"):
        app.schedules.create(
            name, when="0 0 1 1 *", do=flow, overlap=Overlap.ALLOW_ALL, run_id_template="nightly", workflow_id="nightly"
        )
        for _ in range(2):
            app.schedules.trigger(name)
    with Engine(app):
        runs = app.workflows.list(flow).runs
        assert sorted(run.key or "" for run in runs) == ["", "", "", "nightly"]
        for run in runs:
            app.workflows.signal(run.id, "end")
        assert [app.workflows.result(run.id, timeout=PATIENCE_S) for run in runs] == ["nightly"] * 4
        app.schedules.trigger("one")  # the name is free again
        assert app.workflows.list(flow).runs[0].key == "nightly"

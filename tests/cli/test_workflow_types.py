"""`evertick workflow type`, and what other commands say of a workflow that is not active."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evertick import App, Step, every
from tests.cli.desk import Command

APP = """
from evertick import App, Step

app = App("shop")


@app.workflow(name="shop.flow")
async def flow(step: Step) -> None: ...
"""


@pytest.fixture
def shop(command: Command) -> Iterator[App]:
    """An app with a workflow, and a schedule that starts it."""
    app = App("shop")

    @app.workflow(name="shop.flow")
    async def flow(step: Step) -> None: ...

    app.schedules.create("s", when=every(hours=1), do=flow)
    app.workflows.start(flow)
    yield app
    app.close()


def test_a_workflow_is_paused_listed_and_resumed(shop: App, command: Command) -> None:
    assert command("workflow", "type", "pause", "shop.flow", "-o", "json").json["status"] == "paused"
    assert command("workflow", "type", "list", "--fields", "name,status").out == "shop.flow\tpaused\n"
    assert command("workflow", "type", "delete", "shop.flow").code == 0
    assert command("workflow", "type", "list").err == "no workflows\n"
    assert command("workflow", "type", "list", "--deleted", "--fields", "status").out == "deleted\n"
    assert command("workflow", "type", "resume", "shop.flow").code == 0
    assert shop.workflows.types.get("shop.flow").status == "active"


def test_other_commands_say_that_a_workflow_starts_no_runs(shop: App, command: Command, tmp_path: Path) -> None:
    (tmp_path / "shop_code.py").write_text(APP)
    command("workflow", "type", "pause", "shop.flow")

    status = command("status", "-o", "json").json
    assert [(each["name"], each["status"]) for each in status["inactive"]] == [("shop.flow", "paused")]
    preview = command("schedule", "preview", "s")
    assert "these times are skipped: workflow shop.flow is paused" in preview.err
    told = command("schedule", "explain", "s", "--at", shop.schedules.get("s").next.isoformat())
    assert "it is to be skipped: workflow shop.flow is paused" in told.out
    triggered = command("schedule", "trigger", "s")
    assert "target_ineligible" in triggered.out + triggered.err
    doctor = command("doctor", "shop_code.py")
    assert (doctor.code, "note: workflow shop.flow is paused" in doctor.err) == (0, True)

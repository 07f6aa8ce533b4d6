"""How the commands that go on end: in time, whatever the functions do that they run, and however they are asked."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import APP
from tests.cli.programs import COMMAND, Program, Start, evertick

pytestmark = pytest.mark.processes

STUBBORN = """

@app.action
async def stubborn(ctx) -> None:
    ctx.log.info("begun")
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass


@app.action
async def holding(ctx) -> None:
    import time
    print("begun", flush=True)
    time.sleep(600)


@app.mutation
def writing(ctx) -> None:
    import time
    print("begun", flush=True)
    time.sleep(600)
"""
READY = {
    "worker": "runs the jobs of chat",
    "serve": "serves chat at",
    "dev": "  try  ",
}
PORT = {"worker": [], "serve": ["--port", "0", "--worker"], "dev": ["--no-dashboard"]}


@pytest.fixture
def stubborn(folder: Path) -> Path:
    """The folder, with functions that do not end."""
    code = APP.replace('App("chat")', 'App("chat", settings=Settings(drain=timedelta(milliseconds=300)))')
    (folder / "app.py").write_text(
        code.replace("import App", "import App, Settings\nfrom datetime import timedelta") + STUBBORN
    )
    return folder


def running(start: Start, folder: Path, command: str, function: str, *words: str) -> Program:
    """A command that runs a function by now."""
    program = start(command, "app.py", *PORT[command], *words)
    program.wait_for(READY[command])
    assert evertick(folder, "run", f"app.{function}", "--after", "0s").code == 0
    program.wait_for("begun")
    return program


@pytest.mark.long
@pytest.mark.parametrize("command", ["worker", "serve", "dev"])
def test_an_action_that_ignores_its_cancel_is_named_and_keeps_no_process(
    stubborn: Path, start: Start, command: str
) -> None:
    words = ["--drain", "0.3"] if command == "dev" else []
    program = running(start, stubborn, command, "stubborn", *words)

    program.send(signal.SIGTERM)

    assert program.end() == 0
    assert "the action app.stubborn job_" in program.text
    assert "does not end although it was cancelled; the event loop ends without it" in program.text
    assert "Task was destroyed" not in program.text


@pytest.mark.long
@pytest.mark.parametrize("command", ["worker", "serve"])
def test_a_second_signal_is_heard_while_an_action_holds_the_event_loop(
    folder: Path, start: Start, command: str
) -> None:
    code = APP.replace('App("chat")', 'App("chat", settings=Settings(drain=timedelta(minutes=10)))')
    (folder / "app.py").write_text(
        code.replace("import App", "import App, Settings\nfrom datetime import timedelta") + STUBBORN
    )
    program = running(start, folder, command, "holding")

    program.send(signal.SIGTERM)
    program.send_again(signal.SIGTERM)

    assert program.end() == 130
    assert "the event loop is held by the action app.holding job_" in program.text


@pytest.mark.long
def test_a_second_signal_ends_a_server_with_a_worker_at_once(folder: Path, start: Start) -> None:
    program = start("serve", "app.py", "--port", "0", "--worker")
    program.wait_for(READY["serve"])
    evertick(folder, "run", "app.wait", "seconds=600", "--after", "0s")
    program.wait_for("waiting")

    program.send(signal.SIGTERM)
    program.wait_for("running actions have 30 s to end")
    program.send_again(signal.SIGTERM)

    assert program.end() == 130
    assert "stopping at once: running actions are canceled" in program.text
    assert evertick(folder, "job", "list", "--fields", "state").out == "failed\n"


@pytest.mark.long
@pytest.mark.parametrize("signals", [1, 2])
def test_a_mutation_that_does_not_end_keeps_no_worker(stubborn: Path, start: Start, signals: int) -> None:
    """The close of a SQLite file waits for whoever writes."""
    program = running(start, stubborn, "worker", "writing")

    program.send(signal.SIGTERM)
    if signals == 2:
        program.send_again(signal.SIGTERM)

    assert program.end() == 130
    assert "something does not end; leaving it" in program.text
    assert evertick(stubborn, "job", "list", "--fields", "state").out == "pending\n"


@pytest.mark.long
@pytest.mark.parametrize("command", ["worker", "serve"])
def test_a_hangup_drains(folder: Path, start: Start, command: str) -> None:
    program = start(command, "app.py", *PORT[command])
    program.wait_for(READY[command])
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "0s")
    program.wait_for("waiting")

    program.send(signal.SIGHUP)

    assert program.end() == 0
    assert evertick(folder, "job", "list", "--fields", "state,result").out == 'success\t"waited"\n'


@pytest.mark.long
def test_a_worker_under_nohup_goes_on_after_a_hangup(folder: Path) -> None:
    worker = Program(folder, *COMMAND, "worker", command=["nohup"])
    try:
        worker.wait_for(READY["worker"])
        worker.send(signal.SIGHUP)
        evertick(folder, "run", "app.wait", "seconds=0", "--after", "0s")
        worker.wait_for("waiting")

        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    finally:
        worker.close()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_its_process_group_drains_dev(folder: Path, start: Start, number: signal.Signals) -> None:
    """It reaches the process that runs the app, too, which is besides told by the other: that is one request."""
    dev = start("dev", "app.py", "--no-dashboard")
    dev.wait_for(READY["dev"])
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "0s")
    dev.wait_for("waiting")

    os.killpg(dev.process.pid, number)

    assert dev.end() == 0
    assert evertick(folder, "job", "list", "--fields", "state,result").out == 'success\t"waited"\n'


@pytest.mark.long
def test_a_second_signal_to_its_process_group_ends_dev_at_once(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", "--no-dashboard", "--drain", "600")
    dev.wait_for(READY["dev"])
    evertick(folder, "run", "app.wait", "seconds=600", "--after", "0s")
    dev.wait_for("waiting")

    os.killpg(dev.process.pid, signal.SIGTERM)
    dev.wait_for("stopping: running actions have 600 s to end")
    dev.send_again(signal.SIGTERM)

    assert dev.end() == 130
    assert evertick(folder, "job", "list", "--fields", "state").out == "failed\n"


@pytest.mark.long
@pytest.mark.parametrize("command", ["worker", "serve", "dev"])
def test_a_signal_before_it_has_begun_ends_it_without_a_failure(folder: Path, start: Start, command: str) -> None:
    (folder / "app.py").write_text("import time\nprint('imports', flush=True)\ntime.sleep(600)\n" + APP)
    program = start(command, "app.py", *PORT[command])
    program.wait_for("imports")

    program.send(signal.SIGTERM)

    assert program.end() == 0
    assert "Traceback" not in program.text

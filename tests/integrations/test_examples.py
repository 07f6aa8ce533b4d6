"""Examples that show one integration each: their own tests, run as they stand, outside of this project."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.programs import PYTEST, Program, children_of, environment

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTS = {"with-fastapi": 5, "with-litestar": 3, "with-pytest": 6}


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("name", TESTS)
def test_the_tests_of_an_example(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))

    ran = subprocess.run(
        PYTEST, cwd=folder,
        env=environment(), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{TESTS[name]} passed" in ran.stdout


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_what_make_run_has_started_ends_with_it(number: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "chat"
    shutil.copytree(EXAMPLES / "chat", folder, ignore=shutil.ignore_patterns("__pycache__", "*.db*", ".evertick"))
    demo = Program(folder, "demo.py", command=[sys.executable])
    try:
        demo.wait_for("  try ")
        [server, *_] = children_of(demo.process.pid)
        demo.send(number)
        demo.end()

        assert not Path(f"/proc/{server}").exists()
    finally:
        demo.close()


@pytest.mark.long
@pytest.mark.processes
def test_ctrl_c_in_make_run_shows_no_traceback_of_a_command_that_begins(tmp_path: Path) -> None:
    folder = tmp_path / "chat"
    shutil.copytree(EXAMPLES / "chat", folder, ignore=shutil.ignore_patterns("__pycache__", "*.db*", ".evertick"))
    demo = Program(folder, "demo.py", command=[sys.executable])
    try:
        demo.wait_for(r"\$ evertick run")
        while not (commands := children_of(demo.process.pid)[1:]):
            assert demo.process.poll() is None, demo.text
        group = os.getpgid(commands[0])
        os.killpg(demo.process.pid, signal.SIGINT)  # as a terminal does: to all of its foreground group
        demo.end()

        assert group != demo.process.pid, "Ctrl-C would reach the command while it imports"
        assert not any("Traceback" in line for line in demo.lines), demo.lines
    finally:
        demo.close()


@pytest.mark.long
@pytest.mark.processes
def test_what_make_run_says_holds_where_each_command_takes_longer_than_the_message_lives(tmp_path: Path) -> None:
    folder = tmp_path / "chat"
    shutil.copytree(EXAMPLES / "chat", folder, ignore=shutil.ignore_patterns("__pycache__", "*.db*", ".evertick"))
    app, demo = folder / "app.py", folder / "demo.py"
    app.write_text(app.read_text().replace("run_after(5,", "run_after(0,"))
    demo.write_text(demo.read_text().replace("MESSAGE_SECONDS = 5.0", "MESSAGE_SECONDS = 0.0"))

    told = subprocess.run(
        [sys.executable, demo, "--once"], cwd=folder,
        env=environment(), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip

    lines = told.stdout.splitlines()
    gone = lines.index("# (This machine took more than five seconds for that: it is gone already.)")
    assert lines.index("# The message, and the job that will delete it:") < lines.index("[]") < gone
    assert (told.returncode, lines.count("[]")) == (0, 2)
    assert [line.split()[1] for line in lines if line.startswith("app.destruct ")] == ["success", "success"]


def test_every_example_is_tried() -> None:
    """By this file, by test_django.py or test_crm.py, or by tests of its own in another folder."""
    elsewhere = {"chat", "crm", "shop", "with-django"}

    assert {folder.name for folder in EXAMPLES.iterdir() if folder.is_dir()} == TESTS.keys() | elsewhere

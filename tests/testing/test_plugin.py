"""The pytest plugin in a project of its own: the app of the ini option, of a marker, and what is wrong."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.programs import PYTEST

APP = """
from evertick import App, MutationCtx, every

app = App("notes")
other = App("other")

@app.mutation
def add(ctx: MutationCtx, text: str) -> str:
    return ctx.db.insert("notes", {"text": text})

@other.mutation(name="other.add")
def add_other(ctx: MutationCtx) -> str:
    return ctx.db.insert("notes", {})

other.crons.add("minutes", every(minutes=1), add_other)
"""
TESTS = """
import pytest
import app as notes

def test_the_app_of_the_project(evertick_world):
    assert evertick_world.app is notes.app
    assert evertick_world.get(evertick_world.call(notes.add, "x"))["text"] == "x"

@pytest.mark.evertick(app=notes.other, at="2026-03-29T00:59:58Z")
class TestMarked:
    def test_another_app(self, evertick_world):
        assert evertick_world.app is notes.other
        assert evertick_world.now.isoformat() == "2026-03-29T00:59:58+00:00"

    @pytest.mark.evertick(at="2027-01-01T00:00:00Z")
    def test_the_nearest_marker_counts(self, evertick_world):
        assert evertick_world.app is notes.other
        assert evertick_world.now.year == 2027

@pytest.mark.evertick(app=notes.other, crons=False)
def test_without_crons(evertick_world):
    evertick_world.advance(600)
    assert evertick_world.query("notes") == []

@pytest.mark.evertick(app=notes.other)
def test_with_crons(evertick_world):
    evertick_world.advance(600)
    assert len(evertick_world.query("notes")) > 1

def test_each_test_has_a_world_of_its_own(evertick_world, evertick_app):
    assert evertick_world.query("notes") == []
    assert evertick_app is notes.app
"""


def run(folder: Path, tests: str, option: str | None) -> subprocess.CompletedProcess[str]:
    """Run the tests of a project."""
    (folder / "app.py").write_text(APP)
    (folder / "test_it.py").write_text(tests)
    ini = "" if option is None else f"evertick_app = {option}\n"
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = .\naddopts = --strict-markers\n{ini}")
    return subprocess.run(PYTEST, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.processes
def test_worlds_of_the_ini_option_and_of_markers(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS, "app:app")
    assert "6 passed" in done.stdout, done.stdout


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize(
    ("option", "says"),
    [
        (None, "there is no app for evertick_world; write evertick_app ="),
        ("app", "'app' is not module:variable"),
        ("app:add", "app:add is not an App of Evertick"),
        ("nowhere:app", "No module named 'nowhere'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, option: str | None, says: str) -> None:
    done = run(tmp_path, "def test_one(evertick_world): ...\n", option)
    assert done.returncode == 1
    assert says in done.stdout


@pytest.mark.long
@pytest.mark.processes
def test_what_the_marker_does_not_take_is_named(tmp_path: Path) -> None:
    tests = "import pytest\n@pytest.mark.evertick(1, att='2026-03-29')\ndef test_one(evertick_world): ...\n"
    done = run(tmp_path, tests, "app:app")
    assert done.returncode == 1
    assert "the marker evertick takes app=, at=, seed=, settings=, crons=; not 1, att" in done.stdout

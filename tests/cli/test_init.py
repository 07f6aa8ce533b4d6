"""`evertick init`: what it makes runs, and nothing is replaced."""

import subprocess
import sys
from pathlib import Path

import pytest

from evertick.cli.init.command import KINDS
from tests.cli.desk import Command
from tests.cli.programs import PYTEST, environment, evertick, programs_in

MADE = {"app.py", "test_app.py", "README.md", "pyproject.toml", ".gitignore"}


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("template", KINDS)
def test_the_tests_of_a_new_project_pass(tmp_path: Path, template: str) -> None:
    done = evertick(tmp_path, "init", "My Shop", "--template", template)
    assert done.code == 0, done.err
    project = tmp_path / "My Shop"
    assert {each.name for each in project.iterdir()} == MADE
    assert 'App("my-shop")' in (project / "app.py").read_text()

    tested = subprocess.run(PYTEST, cwd=project, env=environment(), capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout
    checked = evertick(project, "doctor", "app.py") if template == "minimal" else None
    assert checked is None or checked.code in (0, 7)


@pytest.mark.processes
def test_a_new_project_runs(tmp_path: Path) -> None:
    evertick(tmp_path, "init", ".", "--template", "minimal")
    evertick(tmp_path, "migrate")
    done = evertick(tmp_path, "run", "app.add", "text=buy bread")
    assert (done.code, done.out.startswith('"notes_')) == (0, True)
    assert evertick(tmp_path, "run", "app.notes").out.split() == ["[", '"buy', 'bread"', "]"]


ORDERS = """
from fastapi.testclient import TestClient
from app import api

with TestClient(api) as client:
    print(client.post("/orders/bread").json())
"""


@pytest.mark.long
@pytest.mark.processes
def test_the_api_of_a_new_project_runs_beside_evertick_dev(tmp_path: Path) -> None:
    """In the order of its README: two terminals, of which the first runs the jobs."""
    evertick(tmp_path, "init", ".", "--template", "fastapi")
    readme = (tmp_path / "README.md").read_text()
    assert readme.index("| `evertick dev` |") < readme.index("| `uvicorn app:api --reload` | in a second terminal:")

    with programs_in(tmp_path) as start:
        dev = start("dev")
        dev.wait_for("  try  ")
        served = subprocess.run(
            [sys.executable, "-c", ORDERS], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
        assert (served.returncode, served.stdout.startswith("orders_")) == (0, True), served.stderr
        dev.wait_for(r"\+ app\.ship +in 1 min")


def test_what_to_do_is_in_its_readme(command: Command, tmp_path: Path) -> None:
    done = command("init", str(tmp_path / "shop"), "--template", "fastapi", "--db", "postgres")
    readme = (tmp_path / "shop" / "README.md").read_text()
    assert done.err == f"next: cd {tmp_path / 'shop'} && evertick dev\n"
    assert "pip install 'evertick[postgres]' fastapi uvicorn pytest httpx2" in readme
    assert "postgresql://user:password@localhost/shop\nevertick migrate\n```" in readme
    assert "$" not in readme.replace("$name", "")
    plain = command("init", str(tmp_path / "plain"))
    assert plain.code == 0
    assert "pip install evertick pytest\n```" in (tmp_path / "plain" / "README.md").read_text()


def test_nothing_is_replaced(command: Command, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("mine")
    refused = command("init", str(tmp_path))
    assert (refused.code, "app.py is there already" in refused.err) == (5, True)
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["app.py"]
    assert (tmp_path / "app.py").read_text() == "mine"


def test_a_folder_that_cannot_be_a_project(command: Command, tmp_path: Path) -> None:
    assert command("init", str(tmp_path / "123")).code == 2
    (tmp_path / "file").write_text("")
    assert command("init", str(tmp_path / "file" / "shop")).code == 7
    assert command("init", "x", "--template", "large").code == 2

"""What the shell completes: commands, ids, functions, policies and zones."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.programs import COMMAND, DEADLINE_S, environment, evertick

pytestmark = pytest.mark.processes


def completed(folder: Path, line: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    words = line.split(" ")
    variables = {"_EVERTICK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        COMMAND, cwd=folder, env=environment(**variables), capture_output=True, text=True, timeout=DEADLINE_S,
        check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return [text.partition(",")[2] for text in done.stdout.splitlines() if text]


@pytest.fixture
def used(folder: Path) -> tuple[Path, str]:
    """A folder with a database, and the id of a job in it."""
    job_id = evertick(folder, "run", "app.wait", "seconds=1", "--after", "1h").out.strip()
    made = evertick(folder, "schedule", "create", "nightly", "--cron", "0 3 * * *", "--function", "app.fail")
    assert made.code == 0
    return folder, job_id


def test_ids_and_functions_come_from_the_database(used: tuple[Path, str]) -> None:
    folder, job_id = used

    assert completed(folder, "evertick job get ") == [job_id]
    assert completed(folder, f"evertick job cancel {job_id[:8]}") == [job_id]
    assert completed(folder, "evertick job retry x") == []
    assert completed(folder, "evertick schedule describe ni") == ["nightly"]
    assert completed(folder, "evertick schedule pause --sid ") == ["nightly"]
    assert completed(folder, "evertick job list --function ") == ["app.wait"]


def test_runs_are_completed_by_their_ids_and_keys_and_workflows_by_name(folder: Path) -> None:
    code = (
        "from evertick import App, Step\napp = App('shop')\n\n@app.workflow\nasync def flow(step: Step) -> None: ...\n"
    )
    (folder / "app.py").write_text(code)
    run_id = evertick(folder, "workflow", "start", "app.flow", "--id", "w1").out.strip()

    assert completed(folder, "evertick workflow get ") == ["w1", run_id]
    assert completed(folder, f"evertick workflow cancel {run_id[:8]}") == [run_id]
    assert completed(folder, "evertick workflow list --workflow ") == ["app.flow"]
    assert completed(folder, "evertick workflow start app.") == ["app.flow"]


def test_policies_zones_and_commands_need_no_database(tmp_path: Path) -> None:
    assert completed(tmp_path, "evertick schedule create x --overlap-policy Buffer") == ["BufferOne", "BufferAll"]
    assert completed(tmp_path, "evertick schedule create x --catch-up l") == ["latest"]
    assert "Europe/Berlin" in completed(tmp_path, "evertick schedule create x --tz Europe/Be")
    assert completed(tmp_path, "evertick worker ") == ["run", "list"]
    assert completed(tmp_path, "evertick sta") == ["status"]


def test_where_nothing_can_be_read_nothing_is_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "evertick job get ") == []
    assert completed(tmp_path, "evertick schedule describe --db sqlite:///nope.db ") == []

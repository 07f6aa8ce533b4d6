"""One SQLite database, however its path is spelled: one engine, the same jobs, and no database by a typing error."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import APP
from tests.cli.programs import Start, evertick

READY = "runs the jobs of chat"


@pytest.fixture
def spellings(folder: Path) -> dict[str, str]:
    """Addresses of the database of `folder`, from that folder."""
    real = folder / ".evertick" / "chat.db"
    elsewhere = folder.parent / f"{folder.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "linked.db").symlink_to(real)
    (elsewhere / "data").symlink_to(folder / ".evertick")
    return {
        "a link to the file": f"sqlite:///{elsewhere}/linked.db",
        "a link to the folder": f"sqlite:///{elsewhere}/data/chat.db",
        "a relative path": "sqlite:///.evertick/../.evertick//chat.db",
        "an absolute path": f"sqlite:///{real}",
    }


@pytest.mark.long
@pytest.mark.processes
def test_a_database_has_one_engine_however_its_path_is_spelled(
    folder: Path, start: Start, spellings: dict[str, str]
) -> None:
    worker = start("worker", "--db", spellings["a link to the file"])
    worker.wait_for(READY)
    job_id = evertick(folder, "run", "app.wait", "seconds=600", "--after", "0s").out.strip()
    worker.wait_for("waiting")
    (folder / ".evertick" / "chat.db.engine").unlink()

    for how, url in spellings.items():
        second = evertick(folder, "worker", "--db", url)
        assert (second.code, "already runs the engine" in second.err) == (7, True), how
        status = json.loads(evertick(folder, "status", "--db", url, "-o", "json").out)
        assert [each["alive"] for each in status["workers"]] == [True], how
        [job] = json.loads(evertick(folder, "job", "list", "--db", url, "-o", "json").out)
        assert (job["id"], job["state"]) == (job_id, "in_progress"), how
        copied = evertick(folder, "copy", "sqlite:///copy.db", "--db", url)
        assert (copied.code, "a worker runs on" in copied.err) == (7, True), how
        same = evertick(folder, "copy", spellings["a relative path"], "--db", url)
        assert "is the database itself" in same.err, how
    dev = evertick(folder, "dev", "--no-dashboard", "--db", spellings["a link to the folder"])
    assert "already runs the engine" in dev.err

    backup = folder / "copy-of-the-log.db"
    assert evertick(folder, "backup", str(backup), "--db", spellings["a link to the file"]).code == 0
    kept = evertick(folder, "job", "list", "--db", f"sqlite:///{backup}", "--fields", "id")
    assert kept.out.strip() == job_id, "the backup has what is in the write-ahead log"
    worker.send(signal.SIGTERM)
    worker.send_again(signal.SIGTERM)
    worker.end()


CHANGES_FOLDER = """
import os, pathlib

os.makedirs("elsewhere", exist_ok=True)


@app.action
def leave(ctx) -> str:
    os.chdir("elsewhere")
    return os.getcwd()
"""


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("when", ["in a function", "at import"])
def test_a_program_that_changes_its_folder_keeps_its_database(folder: Path, start: Start, when: str) -> None:
    (folder / "app.py").write_text(
        APP + CHANGES_FOLDER + ('\n\nos.chdir("elsewhere")\n' if when == "at import" else "")
    )
    dev = start("dev", "--no-dashboard")
    dev.wait_for("app chat   database")
    if when == "in a function":
        evertick(folder, "run", "app.leave", "--after", "0s")
        dev.wait_for("app.leave")
    evertick(folder, "run", "app.send", "body=hi", "delay=0")
    dev.wait_for("deleting")

    dev.send(signal.SIGTERM)
    assert dev.end() == 0
    states = evertick(folder, "job", "list", "--fields", "function,state").out
    assert "app.destruct\tsuccess" in states
    assert [each.name for each in folder.rglob("*.db")] == ["chat.db"]


TYPO = "sqlite:///no/such/dir/typo.db"


@pytest.mark.parametrize(
    "words",
    [
        ("worker",), ("serve", "--port", "0"), ("run", "app.send", "body=hi"), ("status",), ("job", "list"),
        ("schedule", "list"), ("doctor",), ("doctor", "--fleet"), ("backup", "file.db"), ("copy", "sqlite:///other.db"),
        ("token", "list"), ("workflow", "list"), ("cron", "list"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["--db", "EVERTICK_DATABASE_URL"])
@pytest.mark.processes
def test_a_typing_error_in_an_address_creates_nothing(tmp_path: Path, words: tuple[str, ...], how: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    if how == "--db":
        done = evertick(tmp_path, *words, "--db", TYPO)
    else:
        done = evertick(tmp_path, *words, EVERTICK_DATABASE_URL=TYPO)

    assert done.code == 7, done
    file = tmp_path / "no" / "such" / "dir" / "typo.db"
    assert "there is no database at no/such/dir/typo.db; " in done.err
    assert f"create it with `evertick dev` or `evertick migrate --db sqlite:///{file}`" in done.err
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "__pycache__") == ["app.py"]


@pytest.mark.processes
def test_migrate_creates_a_database_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)

    assert evertick(tmp_path, "migrate", "--db", TYPO).code == 0

    assert evertick(tmp_path, "run", "app.send", "body=hi", "--db", TYPO).code == 0


@pytest.mark.long
@pytest.mark.processes
def test_the_folder_of_a_worker_may_be_moved_away_from_the_path_it_was_started_in(folder: Path, start: Start) -> None:
    """Another file at the old path is another database: the worker writes nothing into it."""
    worker = start("worker", "--log-level", "debug")
    worker.wait_for(READY)
    moved = folder / "moved"
    (folder / ".evertick").rename(moved)
    (folder / ".evertick").mkdir()
    shutil.copy(moved / "chat.db", folder / ".evertick" / "chat.db")

    worker.wait_for("chat.db was replaced by another one while it was in use")
    os.kill(worker.process.pid, signal.SIGKILL)

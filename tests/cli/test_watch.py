"""`evertick job list --watch`: written again when something changes, until Ctrl-C."""

import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.programs import COMMAND, Start, environment, evertick

pytestmark = pytest.mark.processes


def test_the_list_is_written_again_when_a_job_is_written_and_canceled(folder: Path, start: Start) -> None:
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "2h")
    watch = start("job", "list", "--watch", "--fields", "function,state")
    watch.wait_for(r"^app\.wait\tpending$")

    evertick(folder, "run", "app.fail", "--after", "1h")
    watch.wait_for(r"^app\.fail\tpending$")
    evertick(folder, "job", "cancel-all", "--function", "app.fail", "--yes")
    watch.wait_for(r"^app\.fail\tcanceled$")

    watch.send(signal.SIGINT)
    assert watch.end() == 130
    assert "Traceback" not in watch.text


@pytest.mark.long
def test_a_pipe_gets_a_list_only_when_it_reads_otherwise(folder: Path, start: Start) -> None:
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "2h")
    watch = start("job", "list", "--watch", "--fields", "function,state")
    watch.wait_for(r"^app\.wait\tpending$")

    for _ in range(3):  # each of these is a commit that changes nothing that is shown
        job_id = evertick(folder, "job", "list", "--fields", "id").out.strip()
        evertick(folder, "job", "reschedule", job_id, "--at", "now+3h")
    evertick(folder, "run", "app.fail", "--after", "1h")
    watch.wait_for(r"^app\.fail\tpending$")
    watch.send(signal.SIGINT)
    watch.end()

    assert watch.text.splitlines().count("app.wait\tpending") == 2


@pytest.mark.long
def test_distances_are_those_of_the_real_clock(folder: Path, start: Start) -> None:
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "60s")

    watch = start("job", "list", "--watch", "-o", "table", "--fields", "due_at")

    first = watch.wait_for(r"^in \d+(\.\d+)? s$")
    watch.wait_for(rf"^(?!{first}$)in \d+(\.\d+)? s$")  # nothing was committed meanwhile
    watch.send(signal.SIGINT)
    assert watch.end() == 130


@pytest.mark.long
def test_the_status_is_watched_too(folder: Path, start: Start) -> None:
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "2h")
    watch = start("status", "--watch")
    watch.wait_for(r"0 running; 1 later")

    evertick(folder, "run", "app.wait", "seconds=1", "--after", "2h")

    watch.wait_for(r"0 running; 2 later")
    watch.send(signal.SIGINT)
    assert watch.end() == 130


@pytest.mark.long
def test_pools_are_watched_too(folder: Path, start: Start) -> None:
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "2h")
    evertick(folder, "pool", "set", "mail", "--running", "3")
    watch = start("pool", "list", "--watch", "--fields", "pool,state")
    watch.wait_for(r"mail\tactive")

    evertick(folder, "pool", "pause", "mail", "--reason", "down")

    watch.wait_for(r"mail\tpaused")
    watch.send(signal.SIGINT)
    assert watch.end() == 130


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "reader"),
    [
        ("logs -f", "true"),
        ("job logs {id} -f", "true"),
        ("job list --watch --fields function", "head -1"),
        ("status --watch -o table", "head -1"),
    ],
)
def test_what_follows_ends_when_its_reader_has_ended(words: str, reader: str, folder: Path) -> None:
    """Nothing is written afterwards that could fail: the database is quiet."""
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "2h")
    job_id = evertick(folder, "job", "list", "--fields", "id").out.strip()
    line = f"set -o pipefail; {shlex.join(COMMAND)} {words.format(id=job_id)} | {reader}"

    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_does_not_watch(folder: Path) -> None:
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "60s")

    done = evertick(folder, "job", "list", "--watch", "-o", "json")

    assert (done.code, done.out) == (2, "")
    assert "--watch writes for people; leave out -o json" in done.err

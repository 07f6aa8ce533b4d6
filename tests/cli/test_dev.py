"""`evertick dev` as its user sees it: real processes, real files, real signals."""

import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import APP
from tests.cli.programs import COMMAND, DEADLINE_S, Start, children_of, environment, evertick, programs_in
from tests.docs.pages import ROOT, blocks_of
from tests.postgres import free_port

pytestmark = pytest.mark.processes

READY = r"  try  "
QUIET = "--no-dashboard"
"""Where the pages are not in question: what they import takes three times as much work as the rest of the start."""


def test_it_shows_the_functions_and_runs_what_a_command_beside_it_schedules(folder: Path, start: Start) -> None:
    shutil.rmtree(folder / ".evertick")
    dev = start("dev", "app.py")
    dev.wait_for(READY)

    sent = evertick(folder, "run", "app.send", "body=hi", "author=ada")

    dev.wait_for(r"✓ app\.destruct +\d+ ms, late \d+ ms")
    assert sent.code == 0
    assert sent.out.startswith('"messages_')
    assert "evertick 0.1.0   app chat   database .evertick/chat.db (new)" in dev.text
    assert "  functions  app.send      mutation" in dev.text
    assert "             app.destruct  mutation  internal" in dev.text
    assert "  app.destruct: deleting messages_" in dev.text
    assert evertick(folder, "run", "app.messages").out == "[]\n"
    assert (folder / ".evertick" / ".gitignore").read_text() == "*\n"


def test_a_job_for_later_is_announced_when_it_is_scheduled(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)

    evertick(folder, "run", "app.send", "body=hi", "delay=3600")

    dev.wait_for(r"\+ app\.destruct +in 1 h, at ([\d-]+ )?\d\d:\d\d:\d\d")


def test_jobs_that_wait_when_it_starts_are_announced(folder: Path, start: Start) -> None:
    for number in range(11):
        assert evertick(folder, "run", "app.send", f"body={number}", "delay=3600").code == 0
    evertick(folder, "run", "app.send", "body=hi", "delay=7200")

    dev = start("dev", "app.py", QUIET)

    dev.wait_for("and more: evertick job list --state pending")
    announced = [line for line in dev.lines if " + app.destruct " in line]
    assert len(announced) == 10
    assert "in 2 h, at " in announced[-1]  # the newest


def test_the_commands_of_the_readme_work_one_after_the_other(tmp_path: Path) -> None:
    first, second = [block for block in blocks_of(ROOT / "README.md") if block.language in {"python", "console"}][:2]
    (tmp_path / "app.py").write_text(first.text)
    commands = [shlex.split(line[2:]) for line in second.text.splitlines() if line.startswith("$ ")]
    assert commands[0] == ["evertick", "dev", "app.py", "&"]
    with programs_in(tmp_path) as begin:
        dev = begin(*commands[0][1:-1])
        dev.wait_for(r"functions  app\.send_expiring_message  mutation")

        for words in commands[1:]:
            assert evertick(tmp_path, *words[1:]).out.startswith('"messages_')

        dev.wait_for(r"✓ app\.destruct +\d+ ms, late \d+ ms")


def test_a_failed_job_is_one_line_with_its_place(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)

    evertick(folder, "run", "app.fail", "text=no \x1b[31mluck\nat all", "--after", "0s")

    place = APP.splitlines().index("    raise ValueError(text)") + 1
    line = dev.wait_for(r"✕ app\.fail")
    assert line.endswith(rf"ValueError: no \x1b[31mluck at all (app.py:{place})")


def test_a_change_of_the_code_is_taken_over(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)

    (folder / "app.py").write_text(APP + "\n\n@app.mutation\ndef added(ctx) -> int:\n    return 7\n")

    line = dev.wait_for(r"↻ reloaded app\.py in ")
    assert line.endswith("6 functions (+app.added)")
    evertick(folder, "run", "app.added", "--after", "0s")
    dev.wait_for(r"✓ app\.added")

    evertick(folder, "run", "app.added", "--after", "1h")
    (folder / "app.py").write_text(APP)
    dev.wait_for(r"! this code does not fit 1 pending job; what to do: evertick doctor app\.py$")


@pytest.mark.long
def test_code_that_does_not_import_leaves_the_last_good_version_running(
    folder: Path, start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("good")
    (elsewhere / "app.py").write_text(APP)
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)

    (folder / "app.py").write_text(APP + "\nfrm\n")
    broken = dev.wait_for(r"! app\.py:\d+: NameError: name 'frm' is not defined; still running the version of \d\d:")
    assert f"app.py:{APP.count(chr(10)) + 2}:" in broken
    evertick(elsewhere, "run", "app.send", "body=hi", "--db", f"sqlite:///{folder}/.evertick/chat.db")
    dev.wait_for(r"✓ app\.destruct")

    (folder / "app.py").write_text(APP)
    dev.wait_for(r"↻ reloaded app\.py in .*: 5 functions$")


@pytest.mark.long
def test_an_app_that_is_called_otherwise_has_another_database_and_says_so(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)

    (folder / "app.py").write_text(APP.replace('App("chat")', 'App("talk")'))

    dev.wait_for(r"! the database is \.evertick/talk\.db now; what is scheduled in \.evertick/chat\.db waits there")


@pytest.mark.long
def test_a_module_that_the_broken_code_misses_mends_it_by_appearing(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)

    (folder / "app.py").write_text("import later\n" + APP)
    dev.wait_for(r"! app\.py:1: ModuleNotFoundError: No module named 'later'; still running")
    (folder / "later.py").write_text("")

    dev.wait_for(r"↻ reloaded later\.py")


@pytest.mark.long
def test_an_action_that_runs_ends_before_the_new_code_takes_over(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)
    evertick(folder, "run", "app.wait", "seconds=1.5", "--after", "0s")
    dev.wait_for(r"app\.wait: waiting")

    (folder / "app.py").write_text(APP + "\n# changed\n")

    dev.wait_for(r"↻ reloaded")
    listed = evertick(folder, "job", "list", "--function", "app.wait", "--fields", "state,attempt")
    assert listed.out == "success\t1\n"


@pytest.mark.long
def test_it_ends_quietly_when_nobody_reads_what_it_writes(folder: Path) -> None:
    command = [*COMMAND, "dev", "app.py"]
    with (
        (folder / "err.txt").open("w+") as errors,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as dev,
    ):
        assert dev.stdout is not None
        try:
            assert any("try  " in line for line in dev.stdout)
            dev.stdout.close()
            evertick(folder, "run", "app.send", "body=hi", "delay=0")
            assert dev.wait(DEADLINE_S) == 0
        finally:
            dev.kill()
        errors.seek(0)
        assert errors.read() == ""


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(start: Start, number: signal.Signals) -> None:
    dev = start("dev", "app.py")
    dev.wait_for(READY)

    dev.send(number)

    assert dev.end() == 0
    assert "Traceback" not in dev.text


@pytest.mark.long
def test_ctrl_c_waits_for_a_running_action(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "0s")
    dev.wait_for(r"app\.wait: waiting")

    dev.press_ctrl_c()

    assert dev.end() == 0
    assert evertick(folder, "job", "list", "--fields", "state").out == "success\n"


@pytest.mark.long
def test_kill_waits_for_a_running_action_as_ctrl_c_does(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)
    evertick(folder, "run", "app.wait", "seconds=1", "--after", "0s")
    dev.wait_for(r"app\.wait: waiting")

    dev.send(signal.SIGTERM)  # to this process alone, as `kill` does

    assert dev.end() == 0
    assert evertick(folder, "job", "list", "--fields", "state").out == "success\n"


@pytest.mark.long
def test_a_second_signal_ends_it_at_once(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py")
    dev.wait_for(READY)
    evertick(folder, "run", "app.wait", "seconds=600", "--after", "0s")
    dev.wait_for(r"app\.wait: waiting")

    dev.send(signal.SIGTERM)
    dev.wait_for(r"waiting up to 10 s for 1 running action$")
    dev.send_again(signal.SIGTERM)

    assert dev.end() == 130
    assert evertick(folder, "job", "list", "--fields", "state").out == "failed\n"


@pytest.mark.long
def test_after_kill_9_of_everything_the_next_start_runs_what_was_due(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)
    evertick(folder, "run", "app.send", "body=hi", "delay=2")
    dev.wait_for(r"\+ app\.destruct")

    dev.kill_everything()
    again = start("dev", "app.py", QUIET)

    again.wait_for(r"✓ app\.destruct")
    assert evertick(folder, "run", "app.messages").out == "[]\n"


@pytest.mark.long
def test_after_kill_9_of_the_parent_alone_the_file_is_free_again(start: Start) -> None:
    dev = start("dev", "app.py")
    dev.wait_for(READY)

    dev.send(signal.SIGKILL)
    again = start("dev", "app.py")

    again.wait_for(READY)


@pytest.mark.parametrize("work", ["await asyncio.sleep(60)", "time.sleep(60)"])
def test_after_kill_9_of_the_parent_a_running_action_does_not_keep_the_child(
    folder: Path, start: Start, work: str
) -> None:
    """Also while the action blocks the loop: the child ends soon, and not after its drain of a minute."""
    (folder / "app.py").write_text(APP.replace("await asyncio.sleep(seconds)", f"import time; {work}"))
    dev = start("dev", "app.py", "--drain", "60")
    dev.wait_for(READY)
    evertick(folder, "run", "app.wait", "seconds=60", "--after", "0s")
    dev.wait_for("waiting")
    [child] = [pid for pid in children_of(dev.process.pid) if pid != dev.process.pid]

    dev.send(signal.SIGKILL)

    ended = psutil.Process(child).wait(timeout=30) if psutil.pid_exists(child) else None
    assert ended is None


@pytest.mark.long
def test_a_child_that_cannot_go_on_says_why_before_it_is_started_again(folder: Path, start: Start) -> None:
    assert evertick(folder, "run", "app.messages").code == 0
    file = folder / ".evertick" / "chat.db"
    with closing(sqlite3.connect(file)) as connection:
        page = connection.execute("select rootpage from sqlite_master where name = 'evertick_workers'").fetchone()[0]
    content = bytearray(file.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xee" * 4096
    file.write_bytes(content)

    dev = start("dev", "app.py", QUIET)

    dev.wait_for(r"! the process that runs the app ended with code 7: .*chat\.db is no SQLite .*; starting it again")


@pytest.mark.long
def test_a_killed_child_is_started_again_and_loses_nothing(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)
    evertick(folder, "run", "app.send", "body=hi", "delay=2")
    dev.wait_for(r"\+ app\.destruct")

    for child in children_of(dev.process.pid):
        os.kill(child, signal.SIGKILL)

    dev.wait_for(r"! the process that runs the app was killed by SIGKILL; starting it again")
    dev.wait_for(r"↻ started again in ")
    dev.wait_for(r"✓ app\.destruct")


@pytest.mark.long
def test_a_second_one_in_the_same_folder_is_refused_and_names_the_process(start: Start) -> None:
    dev = start("dev", "app.py", QUIET)
    dev.wait_for(READY)

    second = start("dev", "app.py", QUIET)

    assert second.end() == 7
    [child] = children_of(dev.process.pid)
    assert second.text.startswith(f"error: another evertick (process {child}) already runs the engine on ")


@pytest.mark.long
def test_it_runs_on_postgresql(folder: Path, start: Start, postgres_url: str) -> None:
    dev = start("dev", "app.py", QUIET, EVERTICK_DATABASE_URL=postgres_url)
    dev.wait_for(READY)

    evertick(folder, "run", "app.send", "body=hi", EVERTICK_DATABASE_URL=postgres_url)

    dev.wait_for(r"✓ app\.destruct")
    dev.send(signal.SIGTERM)
    assert dev.end() == 0


def test_code_that_does_not_import_at_the_start_is_an_error_with_its_place(folder: Path) -> None:
    (folder / "app.py").write_text("from evertick import App\n\nimport nowhere\n")

    done = evertick(folder, "dev", "app.py")

    assert done.code == 1
    assert done.err == "error: app.py:3: ModuleNotFoundError: No module named 'nowhere'\n"


@pytest.mark.long
def test_the_dashboard_is_there_and_stays_at_its_address_when_the_code_changes(folder: Path, start: Start) -> None:
    # Not the usual port, which another test's program may take while the code is replaced.
    dev = start("dev", "app.py", "--port", str(free_port()))
    address = re.search(r"dashboard  (http://localhost:\d+)", dev.wait_for(r"dashboard  http"))
    assert address is not None
    page = f"{address[1]}/t/default/schedules"
    with urllib.request.urlopen(page, timeout=DEADLINE_S) as reply:
        assert b"<h1>Schedules</h1>" in reply.read()

    with (folder / "app.py").open("a") as file:
        file.write("\n\n@app.mutation\ndef another(ctx) -> None: ...\n")
    dev.wait_for("reloaded app.py")
    with urllib.request.urlopen(page, timeout=DEADLINE_S) as reply:
        assert reply.status == 200

    forged = urllib.request.Request(page, headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="421"):
        urllib.request.urlopen(forged, timeout=DEADLINE_S)
    dev.send(signal.SIGTERM)
    assert dev.end() == 0


def test_no_dashboard_on_request(folder: Path, start: Start) -> None:
    dev = start("dev", "app.py", "--no-dashboard")
    dev.wait_for(READY)
    assert "dashboard" not in dev.text


def test_the_demonstration_has_a_week_behind_it(tmp_path: Path, start: Start) -> None:
    dev = start("dev", "--demo")
    dev.wait_for("simulating a week")
    address = re.search(r"dashboard  (http://localhost:\d+)", dev.wait_for(r"dashboard  http"))
    assert address is not None
    with urllib.request.urlopen(f"{address[1]}/t/default/schedules", timeout=DEADLINE_S) as reply:
        assert b"billing.reconcile" in reply.read()
    with urllib.request.urlopen(f"{address[1]}/t/default/audit?of=all", timeout=DEADLINE_S) as reply:
        audit = reply.read().decode()
    for action in ("token.create", "schedule.pause", "schedule.resume", "schedule.update", "pool.set", "job.retry"):
        assert f'<span class="mute">{action}</span>' in audit
    listed = evertick(
        tmp_path, "schedule", "occurrences", "billing.reconcile", "--db",
        "sqlite:///.evertick/evertick-demo.simulated.db", "-o", "json",
    )  # fmt: skip
    assert '"catch_up_window"' in listed.out

    refused = evertick(tmp_path, "dev", "--demo", "--at", "2026-03-29T00:55Z")
    assert refused.code == 2

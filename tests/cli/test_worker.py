"""`evertick worker`: real processes, real signals, a database that must fit."""

import json
import logging
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from evertick.cli.core.logs import TextFormatter
from tests.cli.programs import Start, evertick

pytestmark = pytest.mark.processes

READY = "runs the jobs of chat"


@pytest.fixture
def migrated(folder: Path) -> Path:
    """The folder, with its database made."""
    assert evertick(folder, "migrate", "app.py").code == 0
    return folder


def test_it_runs_jobs_and_logs_json(migrated: Path, start: Start) -> None:
    worker = start("worker", "--log-format", "json", "--log-level", "debug")
    worker.wait_for(READY)

    evertick(migrated, "run", "app.fail", "--after", "0s")

    entry = json.loads(worker.wait_for('"function": "app.fail"'))
    assert entry["level"] == "warning"
    assert entry["logger"] == "evertick.jobs"
    assert entry["state"] == "failed"
    assert entry["error"] == "ValueError: no luck"
    assert entry["job_id"].startswith("job_")
    assert {"time", "duration_ms", "late_ms", "attempt"} <= entry.keys()


@pytest.mark.long
def test_it_logs_how_many_functions_it_serves_as_lists_of_workers_show_them(folder: Path, start: Start) -> None:
    """A query is no job, so no worker serves it."""
    code = "from evertick import App\napp = App('chat')\n"
    for kind, name in (("action", "async def send"), ("workflow", "async def approve"), ("mutation", "def save"),
                       ("query", "def count")):  # fmt: skip
        code += f"\n@app.{kind}\n{name}(ctx): ...\n"
    (folder / "app.py").write_text(code)
    worker = start("worker", "--log-format", "json")

    logged = json.loads(worker.wait_for(READY))["functions"]
    [listed] = json.loads(evertick(folder, "worker", "list", "-o", "json").out)

    assert logged == len(listed["functions"]) == 3


def test_a_worker_without_functions_says_what_to_import(migrated: Path, start: Start) -> None:
    (migrated / "app.py").write_text("from evertick import App\napp = App('chat')\n")
    worker = start("worker")

    worker.wait_for("the app chat has no functions: import the modules that register them in its file")


@pytest.mark.long
def test_a_keyboard_interrupt_that_an_action_raises_is_its_failure_and_does_not_end_the_worker(
    migrated: Path, start: Start
) -> None:
    code = (migrated / "app.py").read_text()
    (migrated / "app.py").write_text(
        f"{code}\n\n@app.action\nasync def interrupt(ctx) -> None:\n    raise KeyboardInterrupt('not Ctrl-C')\n"
    )
    worker = start("worker", "--log-format", "json")
    worker.wait_for(READY)

    evertick(migrated, "run", "app.interrupt", "--after", "0s")
    entry = json.loads(worker.wait_for('"function": "app.interrupt"'))
    evertick(migrated, "run", "app.fail", "--after", "0s")
    worker.wait_for('"function": "app.fail"')

    assert entry["error"] == "KeyboardInterrupt: not Ctrl-C"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_it(migrated: Path, start: Start, number: signal.Signals) -> None:
    worker = start("worker")
    worker.wait_for(READY)
    evertick(migrated, "run", "app.wait", "seconds=1", "--after", "0s")
    worker.wait_for("waiting")

    worker.send(number)

    assert worker.end() == 0
    assert evertick(migrated, "job", "list", "--fields", "state,result").out == 'success\t"waited"\n'
    assert "stopped" in worker.lines[-1]


@pytest.mark.long
def test_the_deadline_of_the_drain_ends_what_runs_on(migrated: Path, start: Start) -> None:
    worker = start("worker", "--drain", "0.2")
    worker.wait_for(READY)
    evertick(migrated, "run", "app.wait", "seconds=600", "--after", "0s")
    worker.wait_for("waiting")

    worker.send(signal.SIGTERM)

    assert worker.end() == 0
    assert evertick(migrated, "job", "list", "--fields", "state").out == "failed\n"


@pytest.mark.long
def test_signals_that_come_together_are_one_request(migrated: Path, start: Start) -> None:
    worker = start("worker")
    worker.wait_for(READY)
    evertick(migrated, "run", "app.wait", "seconds=1", "--after", "0s")
    worker.wait_for("waiting")

    worker.send(signal.SIGTERM)  # from a supervisor
    worker.press_ctrl_c()  # and from the terminal of both

    assert worker.end() == 0
    assert evertick(migrated, "job", "list", "--fields", "state").out == "success\n"


@pytest.mark.long
def test_a_second_signal_ends_it_at_once(migrated: Path, start: Start) -> None:
    worker = start("worker", "--drain", "600")
    worker.wait_for(READY)
    evertick(migrated, "run", "app.wait", "seconds=600", "--after", "0s")
    worker.wait_for("waiting")

    worker.send(signal.SIGTERM)
    worker.wait_for("running actions have 600 s to end")
    worker.send_again(signal.SIGTERM)

    assert worker.end() == 130
    assert evertick(migrated, "job", "list", "--fields", "state").out == "failed\n"


@pytest.mark.long
def test_a_thread_that_never_ends_does_not_hold_the_process(folder: Path, start: Start) -> None:
    code = "import time\nfrom evertick import App\napp = App('chat')\n\n@app.action\ndef stuck(ctx) -> None:\n"
    (folder / "app.py").write_text(code + "    ctx.log.info('stuck')\n    time.sleep(600)\n")
    evertick(folder, "migrate", "app.py")
    worker = start("worker", "--drain", "0.1")
    worker.wait_for(READY)
    evertick(folder, "run", "app.stuck", "--after", "0s")
    worker.wait_for("evertick.functions: stuck")

    worker.send(signal.SIGTERM)

    assert worker.end() == 0


@pytest.mark.long
def test_a_job_lost_to_a_killed_worker_is_logged_with_what_follows(migrated: Path, start: Start) -> None:
    job_id = evertick(migrated, "run", "app.wait", "seconds=600", "--after", "0s").out.strip()
    first = start("worker", "app.py")
    first.wait_for("waiting")
    first.kill_everything()

    second = start("worker", "--log-format", "json")
    second.wait_for(r"worker w\w* died; 1 job that it ran is given back")
    line = json.loads(second.wait_for(rf"job {job_id} \(app\.wait\) failed: LostWorker: .*; it is not tried again"))

    assert (line["level"], line["job_id"], line["function"]) == ("warning", job_id, "app.wait")


def test_a_database_that_is_not_migrated_is_refused_with_the_cure(folder: Path, postgres_url: str) -> None:
    done = evertick(folder, "worker", "app.py", "--db", postgres_url)

    assert done.code == 7
    assert done.err.startswith("error: ")
    assert "run `evertick migrate`, with EVERTICK_DATABASE_URL or --db as postgresql://" in done.err


def test_a_refusal_is_json_where_logs_are(folder: Path, postgres_url: str) -> None:
    done = evertick(folder, "worker", "--log-format", "json", "--db", postgres_url)

    assert done.code == 7
    assert json.loads(done.err)["error"] == "schema_mismatch"


def test_a_database_of_a_newer_release_is_refused_with_the_cure(migrated: Path) -> None:
    with closing(sqlite3.connect(migrated / ".evertick" / "chat.db")) as connection:
        connection.execute("update evertick_meta set value = '999' where key = 'schema_version'")
        connection.commit()

    for words in (["worker", "app.py"], ["run", "app.messages"], ["job", "list"], ["migrate"], ["dev"]):
        done = evertick(migrated, *words)

        assert done.code == 7, words
        assert done.err.count("\n") == 1
        assert "it was migrated by a newer release: upgrade this installation" in done.err


def test_a_second_engine_on_one_sqlite_file_is_refused(migrated: Path, start: Start) -> None:
    worker = start("worker")
    worker.wait_for(READY)

    second = evertick(migrated, "worker")

    assert second.code == 7
    assert f"error: another evertick (process {worker.process.pid}) already runs the engine on" in second.err


def test_an_unreachable_postgresql_is_one_line_without_the_password(folder: Path) -> None:
    url = "postgresql://ada:secret@127.0.0.1:1/shop"

    for words in (["worker"], ["dev"], ["migrate"], ["run", "app.messages"], ["job", "list"]):
        done = evertick(folder, *words, EVERTICK_DATABASE_URL=url)

        assert done.code == 7, words
        assert done.err.count("\n") == 1
        assert done.err.startswith("error: cannot reach PostgreSQL at postgresql://ada:***@127.0.0.1:1/shop: ")
        assert "secret" not in done.err
        assert "check that it runs and that the address is right" in done.err


@pytest.mark.long
def test_several_workers_share_one_postgresql(folder: Path, start: Start, postgres_url: str) -> None:
    changes = {"EVERTICK_DATABASE_URL": postgres_url}
    assert "0001_" in evertick(folder, "migrate", **changes).out
    workers = [start("worker", "--log-level", "debug", **changes) for _ in range(2)]
    for worker in workers:
        worker.wait_for(READY)

    evertick(folder, "run", "app.send", "body=hi", "--after", "0s", **changes)
    evertick(folder, "run", "app.wait", "seconds=0", "--after", "0s", **changes)
    for worker in workers:
        worker.send(signal.SIGTERM)

    assert [worker.end() for worker in workers] == [0, 0]


def test_a_failed_jobs_error_is_once_in_a_line_of_text() -> None:
    """It stands in the message. Another field `error`, such as a code, stays."""
    record = logging.makeLogRecord({"msg": "app.fail failed: Boom: a b", "error": "Boom: a\nb", "job_id": "job_1"})
    coded = logging.makeLogRecord({"msg": "a conflict: try again", "error": "conflict"})
    empty = logging.makeLogRecord({"msg": "it returned: None"})

    lines = [TextFormatter().format(each).partition(": ")[2] for each in (record, coded, empty)]

    assert lines == [
        "app.fail failed: Boom: a b job_id=job_1",
        "a conflict: try again error=conflict",
        "it returned: None",
    ]

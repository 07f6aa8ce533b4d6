"""`evertick job ...` on a real database, in this process: what it shows, and what it refuses."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evertick import App, MutationCtx, Step, SyncActionCtx, every
from evertick.api.jobs import JobView
from evertick.app.jobs.api import Jobs
from evertick.engine.runtime.metrics import JobEnded
from evertick.engine.worker import Worker
from tests.cli.desk import Command, Ended


@pytest.fixture
def chat(command: Command) -> Iterator[App]:
    """An app with a database in the folder, and functions that succeed and fail."""
    app = App("chat")

    @app.mutation(name="chat.greet")
    def greet(ctx: MutationCtx, name: str) -> str:
        ctx.log.info("hello %s", name)
        ctx.log.warning("bad \x1b[2J line")
        return f"hello {name}"

    @app.mutation(name="chat.fail")
    def fail(ctx: MutationCtx) -> None:
        raise ValueError("no \x1b[31mluck")

    @app.action(name="chat.fail_in_a_thread")
    def fail_in_a_thread(ctx: SyncActionCtx) -> None:
        raise ValueError("no luck either")

    yield app
    app.close()


def work_off(app: App, count: int) -> None:
    """Run the app's worker until `count` jobs have ended."""

    async def main() -> None:
        worker = app.worker()
        app.counters.observers.append(StopAfter(count, worker))
        await worker.run()

    asyncio.run(main())
    app.close()


class StopAfter:
    """An observer that stops a worker when enough jobs have ended."""

    def __init__(self, count: int, worker: Worker) -> None:
        self._left = count
        self._worker = worker

    def job_ended(self, event: JobEnded, /) -> None:
        self._left -= 1
        if self._left == 0:
            self._worker.stop()


def test_a_misspelt_function_is_an_error_with_a_suggestion(chat: App, command: Command) -> None:
    assert chat.environment  # makes the database
    nothing = command("job", "list", "--function", "chat.geet")
    assert (nothing.code, nothing.err) == (0, "no jobs\n")  # no function was seen yet, so it may be right
    chat.scheduler.run_after(0, "chat.greet", "ada")
    chat.schedules.create("daily", when=every(days=1), do=chat.functions.resolve("chat.fail").with_args())

    for words in (
        ["list", "--function", "chat.geet"],
        ["list", "--function", "chat.geet", "-o", "json"],
        ["cancel-all", "--function", "chat.geet", "--yes"],
        ["retry", "--function", "chat.geet", "--yes"],
    ):
        done = command("job", *words)
        message = "no worker, job or schedule has a function 'chat.geet'; did you mean chat.greet?"
        assert (done.code, done.out) == (3, ""), words
        assert message in done.err, words
    assert "known are chat.greet" in command("job", "list", "--function", "xyz").err
    assert command("job", "list", "--function", "chat.fail").err == "no jobs\n"  # of the schedule
    assert command("job", "list", "--function", "chat.greet", "--state", "failed").err == "no jobs\n"


def test_list_shows_the_newest_first_and_filters(chat: App, command: Command) -> None:
    done, failed = (chat.scheduler.run_after(0, name, *args) for name, *args in (("chat.greet", "ada"), ("chat.fail",)))
    later = chat.scheduler.run_after(60, "chat.greet", "bob")
    work_off(chat, 2)

    def ids(*words: str) -> list[str]:
        return command("job", "list", "--fields", "id", *words).out.split()

    assert ids() == [later, failed, done]
    assert ids("--state", "pending") == [later]
    assert ids("--state", "failed", "--state", "success") == [failed, done]
    assert ids("--function", "chat.greet") == [later, done]
    assert ids("--limit", "1") == [later]
    assert ids("--state", "canceled") == []


def test_json_has_stable_fields_and_times_in_utc(chat: App, command: Command) -> None:
    job_id = chat.scheduler.run_after(0, "chat.greet", "ada")
    work_off(chat, 1)

    [row] = json.loads(command("job", "list", "-o", "json").out)
    line = json.loads(command("job", "list", "-o", "jsonl").out)
    one = json.loads(command("job", "get", job_id, "-o", "json").out)

    assert row == line == one
    assert list(row) == list(JobView.names())
    assert row["id"] == job_id
    assert (row["function"], row["kind"], row["state"]) == ("chat.greet", "mutation", "success")
    assert (row["args"], row["result"], row["error"]) == ({"name": "ada"}, "hello ada", None)
    assert all(row[name].endswith("Z") for name in row if name.endswith("_at"))
    assert command("job", "list", "-o", "none") == Ended(0, "", "")


def test_a_table_has_a_header_and_no_control_characters(chat: App, command: Command) -> None:
    chat.scheduler.run_after(0, "chat.fail")
    work_off(chat, 1)

    listed = command("job", "list", "-o", "table", "--fields", "function,state,error").out

    assert listed.splitlines()[0].split() == ["FUNCTION", "STATE", "ERROR"]
    assert "\x1b" not in listed
    assert r"ValueError: no \x1b[31mluck" in listed


@pytest.mark.parametrize("function", ["chat.fail", "chat.fail_in_a_thread"])
def test_get_shows_where_in_the_users_code_a_job_failed(chat: App, command: Command, function: str) -> None:
    job_id = chat.scheduler.run_after(0, function)
    work_off(chat, 1)

    shown = command("job", "get", job_id).out

    assert "\x1b" not in shown
    assert "state\tfailed" in shown
    assert "Traceback (most recent call last):" in shown
    assert 'raise ValueError("no' in shown
    assert shown.count('  File "') == 1


def test_logs_shows_the_lines_of_a_job(chat: App, command: Command) -> None:
    job_id = chat.scheduler.run_after(0, "chat.greet", "ada")
    work_off(chat, 1)

    text = command("job", "logs", job_id).out.splitlines()
    lines = json.loads(command("job", "logs", job_id, "-o", "json").out)

    assert text[0].endswith("info     hello ada")
    assert text[1].endswith(r"warning  bad \x1b[2J line")
    assert [(line["level"], line["message"]) for line in lines] == [
        ("info", "hello ada"),
        ("warning", "bad \x1b[2J line"),
    ]


def test_cancel_says_what_it_did_and_what_it_could_not(chat: App, command: Command) -> None:
    done = chat.scheduler.run_after(0, "chat.greet", "ada")
    work_off(chat, 1)
    pending = chat.scheduler.run_after(60, "chat.greet", "bob")
    unknown = f"job_{'0' * 28}"

    assert command("job", "cancel", pending) == Ended(0, "", f"canceled {pending}\n")
    assert command("job", "list", "--fields", "state", "--limit", "1").out == "canceled\n"
    again = command("job", "cancel", pending)
    assert (again.code, again.err) == (
        5,
        f"error: job {pending} has ended already (canceled), so it cannot be canceled\n",
    )
    assert command("job", "cancel", done).code == 5
    assert command("job", "cancel", unknown).code == 3
    assert command("job", "cancel", f"messages_{'0' * 28}").code == 2
    another = chat.scheduler.run_after(60, "chat.greet", "eve")
    assert command("job", "cancel", another, done).code == 6


def test_a_job_is_named_by_its_key_too(chat: App, command: Command) -> None:
    job_id = chat.scheduler.using(key="greet:ada").run_after(60, "chat.greet", "ada")

    assert command("job", "get", "greet:ada", "-o", "json").json["id"] == job_id
    both = command("job", "get", "greet:ada", "greet:eve", "-o", "json")
    assert (both.code, [each["id"] for each in both.json]) == (6, [job_id])
    assert "no job has the key 'greet:eve'" in both.err
    assert command("job", "run-now", "greet:ada", "-o", "json").json[0]["job_id"] == job_id
    assert command("job", "cancel", "greet:ada", "-o", "json").json == [{"job_id": job_id, "still_runs": False}]
    ended = command("job", "cancel", "greet:ada")
    assert (ended.code, f"job {job_id} has ended already (canceled)" in ended.err) == (5, True)
    assert command("job", "cancel", "greet:eve").code == 3
    again = command("job", "retry", "greet:ada", "-o", "json").json
    assert again[0]["job_id"] == job_id


@pytest.mark.long
def test_cancel_all_takes_pending_jobs_of_a_function_and_wants_to_be_sure(chat: App, command: Command) -> None:
    for _ in range(1_200):
        chat.scheduler.run_after(60, "chat.fail")
    chat.scheduler.run_after(60, "chat.greet", "ada")

    unsure = command("job", "cancel-all", "--function", "chat.fail")
    done = command("job", "cancel-all", "--function", "chat.fail", "--yes")

    assert unsure.code == 2
    assert "give --yes" in unsure.err
    assert done == Ended(0, "", "canceled 1,200 jobs of chat.fail\n")
    assert command("job", "list", "--state", "pending", "--fields", "function").out == "chat.greet\n"
    assert command("job", "cancel-all", "--yes").err == "canceled 1 job\n"


def test_cancel_all_asks_only_if_there_is_something_to_cancel(
    chat: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evertick.cli.job.commands.is_terminal", lambda stream: True)
    asked: list[str] = []
    monkeypatch.setattr("click.confirm", lambda text, **_: asked.append(text))
    job = chat.scheduler.run_after(60, "chat.fail")

    assert command("job", "cancel-all", "--function", "chat.fail").err == "canceled 1 job of chat.fail\n"
    assert asked == ["Cancel all pending jobs of chat.fail?"]
    assert command("job", "cancel-all", "--function", "chat.fail").err == "canceled 0 jobs of chat.fail\n"
    assert command("job", "cancel", job).code == 5
    assert len(asked) == 1


def test_cancel_all_says_how_many_are_runs_of_workflows(
    chat: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is a pending job, too, while it waits: who empties a queue of reminders may not mean the approvals."""

    @chat.workflow(name="chat.approve")
    async def approve(step: Step) -> None: ...

    monkeypatch.setattr("evertick.cli.job.commands.is_terminal", lambda stream: True)
    asked: list[str] = []
    monkeypatch.setattr("click.confirm", lambda text, **_: asked.append(text))
    for _ in range(2):
        chat.scheduler.run_after(60, "chat.fail")
        chat.workflows.start(approve)
    monkeypatch.setattr("evertick.cli.job.commands.RUNS_SEARCHED_MAX", 5)
    command("job", "cancel-all", "--function", "chat.fail")
    chat.scheduler.run_after(60, "chat.fail")
    assert command("job", "cancel-all").err == "canceled 3 jobs\n"
    for _ in range(5):
        chat.workflows.start(approve)
    command("job", "cancel-all")
    assert asked == [
        "Cancel all pending jobs of chat.fail?",
        "Cancel all pending jobs, 2 open runs of workflows among them?",
        "Cancel all pending jobs, at least 5 open runs of workflows among them?",
    ]


def test_more_jobs_than_shown_are_mentioned(chat: App, command: Command) -> None:
    for _ in range(51):
        chat.scheduler.run_after(60, "chat.fail")

    listed = command("job", "list")

    assert len(listed.out.splitlines()) == 50
    assert listed.err.startswith("these are the newest 50; there are more: --limit, or --cursor job_")


@pytest.mark.long
@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
def test_a_reader_of_a_long_list_may_end_after_its_first_line(chat: App, command: Command, output: str) -> None:
    chat.scheduler.run_after_many(60, [chat.functions.resolve("chat.greet").with_args("ada" * 500)] * 300)

    line = f"set -o pipefail; {sys.executable} -m evertick.cli.main job list --limit 300 -o {output} | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["job", "get", "job_nonsense"],
            2,
            "'job_nonsense' is not the id of a job: expected job_ and 28 characters",
        ),
        (["job", "get", f"job_{'0' * 28}"], 3, "no job job_0000000000000000000000000000"),
        (["job", "logs", f"job_{'0' * 28}"], 3, "no job job_0000000000000000000000000000"),
        (
            ["job", "list", "--fields", "id,nope"],
            2,
            "no field 'nope'; the fields are id, function, kind, state, due_at",
        ),
        (["job", "list", "--fields", ","], 2, "no field ','"),
        (["job", "list", "--state", "done"], 2, "'done' is not one of 'pending', 'in_progress', 'success'"),
        (["job", "list", "--limit", "0"], 2, "0 is not in the range"),
        (["job", "nope"], 2, "No such command 'nope'"),
        (["job", "list", "--db", "sqlite:///nope.db"], 7, "there is no database at nope.db"),
        (["job", "list", "--db", "sqlite:///."], 2, "is a folder; name the database file inside it"),
    ],
)
def test_wrong_input_is_one_line_and_an_exit_code(
    chat: App, command: Command, words: list[str], code: int, message: str
) -> None:
    chat.scheduler.run_after(60, "chat.fail")

    done = command(*words)

    assert done.code == code
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert message in done.err


def test_without_a_database_it_says_what_to_do(command: Command) -> None:
    done = command("job", "list")

    assert done.code == 2
    assert "there is no database in .evertick/ of this folder; go where `evertick dev` runs" in done.err


def test_with_several_databases_it_asks_which(command: Command) -> None:
    for name in ("one", "two"):
        app = App(name)
        app.scheduler.cancel(f"job_{'0' * 28}")
        app.close()

    done = command("job", "list")

    assert done.code == 2
    assert "there are several databases in .evertick/ (one.db, two.db); choose one: --db sqlite:///" in done.err


def test_a_simulation_beside_the_database_asks_nothing(chat: App, command: Command, tmp_path: Path) -> None:
    chat.scheduler.run_after(60, "chat.fail")
    (tmp_path / ".evertick" / "chat.simulated.db").touch()

    assert command("job", "list", "--fields", "function").out == "chat.fail\n"


def test_a_look_never_creates_a_database(command: Command, tmp_path: Path) -> None:
    command("job", "list")
    command("job", "list", "--db", "sqlite:///sub/nope.db")

    assert list(tmp_path.iterdir()) == []


def test_a_command_sees_one_tenant(chat: App, command: Command) -> None:
    ours = chat.scheduler.run_after(60, "chat.fail")
    theirs = chat.tenant("acme & co").scheduler.run_after(60, "chat.fail")
    chat.tenant("acme & co").scheduler.run_after(60, "chat.greet", "ada")
    acme = ("--tenant", "acme & co")

    assert command("job", "list", "--fields", "id").out == f"{ours}\n"
    assert command("job", "list", "--fields", "id", "--function", "chat.fail", *acme).out == f"{theirs}\n"
    assert command("job", "get", theirs).code == 3
    assert json.loads(command("job", "get", theirs, *acme, "--output", "json").out)["tenant"] == "acme & co"
    assert command("job", "cancel", theirs).code == 3
    assert command("job", "cancel", theirs, *acme).code == 0
    assert command("job", "cancel-all", "--yes", *acme).err == "canceled 1 job\n"
    assert command("job", "list", "--state", "pending", "--fields", "id").out == f"{ours}\n"
    refused = command("job", "list", "--tenant", " ")
    assert refused.code == 2
    assert "cannot be a tenant's name" in refused.err


def test_cancel_all_shows_a_terminal_how_many_are_canceled_so_far(
    chat: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        chat.scheduler.run_after(60, "chat.fail")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert command("job", "cancel-all", "--yes").err == "\r\x1b[K3 jobs are canceled\r\x1b[Kcanceled 3 jobs\n"


def test_cancel_all_that_is_interrupted_says_how_many_are_canceled(
    chat: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(jobs: Jobs, page: object) -> int:
        assert jobs._progress is not None
        jobs._progress(2_000)
        raise KeyboardInterrupt

    chat.scheduler.run_after(60, "chat.fail")
    monkeypatch.setattr(Jobs, "write_pages", interrupted)
    done = command("job", "cancel-all", "--yes")
    assert (done.code, done.err) == (
        130,
        "2,000 jobs are canceled; the others stay, but perhaps for those under way\n\nerror: interrupted\n",
    )

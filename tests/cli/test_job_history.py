"""`evertick job attempts`, `logs -f` and `counts`: what is known of jobs beside their rows."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from evertick import App, Retry, SyncActionCtx, every
from evertick.api.jobs import AttemptView
from evertick.base.errors import Misuse
from tests.cli.desk import Command, work_off
from tests.cli.programs import Start, evertick

TWICE: Final = Retry(2, first=0.001)


@pytest.fixture
def shop(migrated_shop: None) -> Iterator[App]:
    """An app with an action that succeeds at its second attempt, and one that never does."""
    app = App("shop")
    tried: list[str] = []

    @app.action(name="shop.charge")
    def charge(ctx: SyncActionCtx) -> None:
        ctx.log.info("attempt %d", len(tried))
        tried.append("")
        if len(tried) == 1:
            raise ConnectionError("refused \x1b[31m")

    @app.action(name="shop.fail")
    def fail(ctx: SyncActionCtx) -> None:
        raise ValueError("no luck")

    assert app.environment
    yield app
    app.close()


def test_every_attempt_is_shown_with_its_worker_its_times_and_its_error(shop: App, command: Command) -> None:
    job_id = shop.scheduler.using(retry=TWICE).run_after(0, "shop.charge")
    before = command("job", "attempts", job_id)
    work_off(shop, 2)

    rows = command("job", "attempts", job_id, "-o", "json").json
    table = command("job", "attempts", job_id, "-o", "table").out.splitlines()

    assert (before.code, before.out, before.err) == (0, "", "no attempts yet\n")
    assert [list(row) for row in rows] == [list(AttemptView.names())] * 2
    assert [(row["attempt"], row["outcome"]) for row in rows] == [(1, "failed"), (2, "success")]
    assert [row["error"] and row["error"]["message"] for row in rows] == ["refused \x1b[31m", None]
    assert all(row["worker_id"].startswith("worker_") for row in rows)
    assert all(row["started_at"] <= row["ended_at"] and row["duration_ms"] >= 0 for row in rows)
    assert table[0].split() == ["ATTEMPT", "OUTCOME", "STARTED_AT", "DURATION_MS", "WORKER_ID", "ERROR"]
    assert r"ConnectionError: refused \x1b[31m (" in table[1]
    assert "success" in table[2]
    assert command("job", "attempts", job_id, "--fields", "attempt,outcome").out == "1\tfailed\n2\tsuccess\n"


def test_a_job_that_ended_has_a_start_a_duration_and_its_lateness(shop: App, command: Command) -> None:
    pending = shop.scheduler.run_after(60, "shop.charge")
    failed = shop.scheduler.run_after(0, "shop.fail")
    work_off(shop, 1)
    command("job", "cancel", pending)

    [canceled, ended] = sorted(command("job", "list", "-o", "json").json, key=lambda row: str(row["state"]))

    assert (canceled["id"], canceled["state"]) == (pending, "canceled")
    assert (canceled["started_at"], canceled["late_ms"], canceled["duration_ms"]) == (None, None, None)
    assert (ended["id"], ended["state"]) == (failed, "failed")
    assert ended["due_at"] <= ended["started_at"] <= ended["completed_at"]
    assert ended["late_ms"] >= 0
    assert ended["duration_ms"] >= 0


def test_jobs_are_listed_and_retried_by_their_schedule_and_the_time_they_were_due(shop: App, command: Command) -> None:
    shop.schedules.create("nightly", when=every(days=1), do=shop.functions.resolve("shop.fail"), trigger=True)
    shop.schedules.create("idle", when=every(days=1), do=shop.functions.resolve("shop.fail"))
    other, later = shop.scheduler.run_after(0, "shop.fail"), shop.scheduler.run_after(7_200, "shop.charge")
    work_off(shop, 2)

    def ids(*words: str) -> list[str]:
        return command("job", "list", "--fields", "id", *words).out.split()

    [triggered] = ids("--schedule", "nightly")
    assert {triggered, other} == set(ids("--until", "now+1h"))
    assert ids("--since", "now+1h", "--until", "now+3h") == [later]
    assert ids("--since", "now+1h", "--schedule", "nightly") == []
    assert command("job", "list", "--schedule", "idle").err == "no jobs\n"
    assert [job.id for job in shop.jobs.list(schedule="nightly").jobs] == [triggered]
    retried = command("job", "retry", "--schedule", "nightly", "--yes", "-o", "json")
    assert [row["job_id"] for row in retried.json] == [triggered]
    with pytest.raises(Misuse, match="3 is not the id of a schedule"):
        shop.jobs.list(schedule=3)  # type: ignore[arg-type]


def test_counts_are_those_of_each_function_by_state(shop: App, command: Command) -> None:
    nothing = command("job", "counts")
    shop.scheduler.run_after(60, "shop.charge")
    shop.scheduler.run_after(0, "shop.fail")
    work_off(shop, 1)

    rows = command("job", "counts", "-o", "json").json

    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no jobs\n")
    assert rows == [
        {"function": "shop.charge", "pending": 1, "in_progress": 0, "success": 0, "failed": 0, "canceled": 0,
         "not_retried": 0},
        {"function": "shop.fail", "pending": 0, "in_progress": 0, "success": 0, "failed": 1, "canceled": 0,
         "not_retried": 1},
    ]  # fmt: skip
    assert command("job", "counts", "--fields", "function,failed").out == "shop.charge\t0\nshop.fail\t1\n"
    assert shop.jobs.counts_by_function()["shop.fail"]["failed"] == 1
    assert command("job", "counts", "--tenant", "acme", "-o", "json").json == []


def test_logs_of_a_job_that_has_ended_are_followed_to_their_end(shop: App, command: Command) -> None:
    charged = shop.scheduler.using(retry=TWICE).run_after(0, "shop.charge")
    failed = shop.scheduler.run_after(0, "shop.fail")
    work_off(shop, 3)

    followed, broken = command("job", "logs", "-f", charged), command("job", "logs", "-f", failed)
    lines = command("job", "logs", "--follow", charged, "-o", "jsonl")

    assert followed.code == 0
    assert [line.split()[1:] for line in followed.out.splitlines()] == [["info", "attempt", "1"]]
    assert followed.err == "ended: success\n"
    assert (broken.out, broken.err.startswith("ended: failed, ValueError: no luck")) == ("", True)
    assert (lines.json["message"], lines.err) == ("attempt 1", "")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["logs", "-f", "job_1", "-o", "json"], 2, "-f writes line by line; take -o jsonl"),
        (["logs", "-f", "message_1"], 3, "no job has the key 'message_1'"),
        (["logs", "-f", f"job_{'0' * 28}"], 3, "no job job_0"),
        (["list", "--schedule", "nightyl"], 3, "no schedule 'nightyl'"),
        (["list", "--since", "soonish"], 2, "--since"),
        (["retry", "--schedule", "nightyl", "--yes"], 3, "no schedule 'nightyl'"),
        (["attempts", f"job_{'0' * 28}"], 3, "no job job_0"),
        (["attempts", "job_1", "--fields", "colour"], 2, "no field 'colour'; the fields are attempt, worker_id"),
        (["counts", "--fields", "colour"], 2, "no field 'colour'; the fields are function, pending"),
    ],
)
def test_wrong_input_is_one_line_and_an_exit_code(
    shop: App, command: Command, words: list[str], code: int, message: str
) -> None:
    done = command("job", *words)

    assert (done.code, done.out) == (code, "")
    assert message in done.err


@pytest.mark.long
@pytest.mark.processes
def test_the_logs_of_a_running_action_are_followed_until_it_has_ended(folder: Path, start: Start) -> None:
    job_id = evertick(folder, "run", "app.wait", "seconds=600", "--after", "0s").out.split()[0]
    alone = start("job", "logs", "-f", job_id)
    alone.wait_for("note: no worker runs on this database")
    follow = start("job", "logs", "-f", job_id)
    start("worker", "app.py")

    follow.wait_for(r"  info     waiting$")
    alone.wait_for(r"  info     waiting$")
    alone.send(signal.SIGINT)
    assert alone.end() == 130
    evertick(folder, "job", "stop", job_id)

    assert follow.end() == 0
    assert follow.lines[-1] == "ended: canceled"
    assert "Traceback" not in alone.text + follow.text


@pytest.mark.long
@pytest.mark.processes
def test_the_lines_of_all_functions_are_followed(folder: Path, start: Start) -> None:
    job_id = evertick(folder, "run", "app.wait", "seconds=600", "--after", "0s").out.split()[0]
    follow = start("logs", "-f", "--level", "info", "-o", "jsonl")
    start("worker", "app.py")

    follow.wait_for(r'"message": ?"waiting"')
    shown = evertick(folder, "logs", "--request", job_id)
    narrowed = evertick(folder, "logs", "--search", "WAIT", "--function", "app.wait", "--since", "now-1h", "-o", "json")
    follow.send(signal.SIGINT)

    assert follow.end() == 130
    assert [line for line in follow.lines if '"message"' in line] == follow.lines[:1]
    assert shown.out.split()[1:] == ["info", "app.wait", "waiting"]
    assert '"function": "app.wait"' in narrowed.out
    assert evertick(folder, "logs", "--until", "now-1h").out == ""
    assert evertick(folder, "logs", "--function", "app.wiat").code == 3
    assert evertick(folder, "logs", "-f", "-o", "json").code == 2
    assert evertick(folder, "logs", "-f", "--until", "now").code == 2

"""`evertick schedule ...` on a real database, in this process: what it does, says, writes and refuses."""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from evertick import ActionCtx, App, MutationCtx
from evertick.app.database_clock import Simulation, write_simulation
from evertick.base.instants import DAY_MS, Instant
from evertick.cli.schedule import local_session
from evertick.recurrence.parse.moments import parse_instant
from tests.cli.desk import SEED_CREATE, SEED_LINES, Command, work_off, work_until


@pytest.fixture(autouse=True)
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user who gives the commands."""
    monkeypatch.setattr("getpass.getuser", lambda: "ada")


@pytest.fixture
def shop(migrated_shop: None) -> Iterator[App]:
    """An app with a database in the folder."""
    app = App("shop")

    @app.action(name="MyWorkflowType")
    async def my_workflow(ctx: ActionCtx) -> str:
        return "done"

    @app.mutation(name="shop.count")
    def count(ctx: MutationCtx, step: int = 1) -> int:
        return step

    @app.mutation(name="shop.fail")
    def fail(ctx: MutationCtx) -> None:
        raise ValueError("no luck")

    assert app.call("shop.count") == 1  # opens the database
    yield app
    app.close()


def made(command: Command, name: str, *words: str) -> None:
    """Make a schedule of every hour."""
    times = () if {"--cron", "--cal"} & set(words) else ("--interval", "1h")
    done = command("schedule", "create", "--sid", name, "--type", "shop.count", *times, *words)
    assert done.code == 0, done.err


# -- the lines that people know by heart


def test_every_line_that_people_bring_along_works_unchanged(shop: App, command: Command) -> None:
    assert [command(*line).code for line in SEED_LINES] == [0] * len(SEED_LINES)
    history = command("schedule", "history", "my-schedule-id", "--fields", "actor,action,detail").out.splitlines()
    assert [line.split("\t")[:2] for line in history] == [
        ["cli:ada", action]
        for action in ("deleted", "updated", "backfilled", "triggered", "triggered", "resumed", "paused", "created")
    ]
    assert history[6].endswith("\tpaused because the database is down")


def test_there_is_nothing_else_to_configure(command: Command) -> None:
    assert "config" not in command("--help").out
    refused = command("config", "set", "colour", "blue")
    assert (refused.code, "there is nothing to configure" in refused.err) == (2, True)


def test_what_was_made_is_what_the_line_says(shop: App, command: Command) -> None:
    created = command(*SEED_CREATE, "-o", "json")

    shown = command("schedule", "describe", "my-schedule-id", "-o", "json").json
    assert created.json == shown | {"dry_run": False}
    assert shown["spec"]["intervals"] == [{"every": "5h", "offset": "15m"}]
    assert shown["sentence"] == "at 11:03 on Fridays, and every 5 hours, offset by 15 minutes"
    assert shown["target"] == {
        "function": "MyWorkflowType", "kind": "mutation", "input": {}, "workflow_id": "my-workflow-id",
        "pool": None, "retry": None,
    }  # fmt: skip
    assert shown["policies"]["overlap"] == "buffer_all"
    assert len(shown["upcoming"]) == 10
    assert "nothing in this database has called MyWorkflowType yet" in created.err


def test_a_run_of_a_function_that_was_unknown_runs_as_what_it_is(shop: App, command: Command) -> None:
    command(*SEED_CREATE)  # taken for a mutation: nobody here knows that it is an action
    command("schedule", "trigger", "--sid", "my-schedule-id")

    work_off(shop, 1)

    [row] = command("schedule", "occurrences", "my-schedule-id", "-o", "json").json
    assert (row["fate"], row["reason"], row["outcome"]) == ("started", "triggered", "success")
    assert row["run"].startswith("my-workflow-id-20")


def test_it_works_on_postgresql(command: Command, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERTICK_DATABASE_URL", postgres_url)
    app = App("shop")
    app.migrate()

    @app.action(name="MyWorkflowType")
    async def my_workflow(ctx: ActionCtx) -> None: ...

    assert command(*SEED_CREATE).code == 0
    assert command("schedule", "trigger", "--sid", "my-schedule-id").code == 0
    work_off(app, 1)

    assert command("schedule", "occurrences", "my-schedule-id", "--fields", "outcome").out == "success\n"
    assert command("schedule", "update", "my-schedule-id", "--cron", "@daily").code == 0
    assert command("schedule", "audit").code == 0


@pytest.mark.parametrize("word", ["BufferAll", "buffer_all", "buffer-all", "BUFFER_ALL"])
def test_policies_are_understood_in_every_spelling(shop: App, command: Command, word: str) -> None:
    made(command, "s", "--overlap-policy", word)

    assert command("schedule", "get", "s", "-o", "json").json["policies"]["overlap"] == "buffer_all"


# -- create


def test_every_flag_of_create_arrives(shop: App, command: Command) -> None:
    made(
        command, "s", "--cron", "0 9 * * 1-5", "--tz", "Europe/Berlin", "--jitter", "30s", "--start-time", "2026-01-01",
        "--end-time", "2090-01-01T00:00:00Z", "--except", '{"dates": ["2027-01-01"]}', "--catchup-window", "1h",
        "--catch-up", "latest", "--concurrency", "3", "--pause-on-failure", "--paused", "--notes", "wait for it",
        "--remaining-actions", "7", "-i", '{"step": 2}', "--memo", '{"team": "blue"}', "--buffer-limit", "5",
        "--run-id-template", "run {nominal}", "--run-timeout", "10m",
    )  # fmt: skip

    row = command("schedule", "describe", "-s", "s", "-o", "json").json
    assert row["spec"] == {
        "crons": ["0 9 * * 1-5"], "time_zone": "Europe/Berlin", "jitter": "30s", "start": "2025-12-31T23:00:00Z",
        "end": "2090-01-01T00:00:00Z", "except": [{"dates": ["2027-01-01"]}],
    }  # fmt: skip
    assert row["policies"] == {
        "overlap": "skip", "concurrency": 3, "catch_up": "latest", "catchup_window": "1h", "pause_on_failure": True,
        "buffer_limit": 5, "run_timeout": "10m",
    }  # fmt: skip
    assert (row["state"], row["note"], row["pause"]["by"]) == ("paused", "wait for it", "cli:ada")
    assert (row["remaining_actions"], row["target"]["input"], row["memo"]) == (7, {"step": 2}, {"team": "blue"})
    assert row["run_id_template"] == "run {nominal}"


def test_a_dry_run_shows_everything_and_writes_nothing(shop: App, command: Command) -> None:
    done = command("schedule", "create", "-s", "s", "--cron", "0 9 * * *", "--type", "shop.count", "--dry-run")

    assert done.code == 0
    assert done.err.splitlines()[0] == "s would be created: at 09:00 every day"
    assert len(done.out.splitlines()) == 5
    assert command("schedule", "list").out == ""


def test_the_same_line_again_finds_the_schedule_and_another_one_is_a_conflict(shop: App, command: Command) -> None:
    made(command, "s")

    again = command("schedule", "create", "--sid", "s", "--type", "shop.count", "--interval", "1h")
    other = command("schedule", "create", "--sid", "s", "--type", "shop.count", "--interval", "2h")

    assert (again.code, again.err) == (0, "s exists already, as this: every hour\n")
    assert other.code == 5


def test_with_the_app_at_hand_the_function_and_its_arguments_are_checked(
    shop: App, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "mailing.py").write_text(
        "from evertick import App\napp = App('shop')\n\n@app.action\nasync def mail(ctx, to: str) -> None: ...\n"
    )
    line = ("schedule", "create", "-s", "s", "--interval", "1h", "--app", "mailing.py", "--type")

    assert command(*line, "mailing.mial").code == 3
    assert command(*line, "mailing.mail", "-i", '{"who": "bob"}').code == 2
    assert command(*line, "mailing.mail", "-i", '{"to": "bob"}', "-o", "json").json["target"]["kind"] == "action"


# -- update


def test_update_changes_what_is_given_and_keeps_the_rest(shop: App, command: Command) -> None:
    made(command, "s", "--cron", "0 9 * * *", "--tz", "Europe/Berlin", "--jitter", "30s", "-i", '{"step": 2}',
         "--memo", '{"a": 1}', "--overlap-policy", "BufferOne")  # fmt: skip
    before = command("schedule", "get", "s", "-o", "json").json

    done = command("schedule", "update", "-s", "s", "--cron", "0 10 * * *")

    after = command("schedule", "get", "s", "-o", "json").json
    assert done.code == 0
    assert after["spec"] == {**before["spec"], "crons": ["0 10 * * *"]}
    for name in ("target", "policies", "memo", "note", "state", "run_id_template"):
        assert after[name] == before[name]
    assert after["version"] == before["version"] + 1
    assert "0 9 * * *" in done.out
    assert "0 10 * * *" in done.out
    assert len([line for line in done.out.splitlines() if line.startswith("next\t") and " -> " in line]) == 5


def test_a_sentence_makes_and_changes_a_schedule(shop: App, command: Command) -> None:
    said = "every weekday at 9am except weekends, Berlin time"
    done = command("schedule", "create", "-s", "s", "--type", "shop.count", "--when", said, "--interval", "5h")
    assert (done.code, done.err.split("\n")[0]) == (
        0, "s created: at 09:00 on weekdays, and every 5 hours, except on weekends, Berlin time"
    )  # fmt: skip
    changed = command("schedule", "update", "s", "--when", "every day at noon")
    kept = 'except [{"cron": "0-59 0-23 * * 0,6"}], time-zone Europe/Berlin'
    note = f"note: what the schedule had besides its times stays: {kept}; --unset lifts it"
    assert (changed.code, changed.err.split("\n")[0]) == (0, note)
    spec = command("schedule", "get", "s", "-o", "json").json["spec"]
    assert spec == {"crons": ["0 12 * * *"], "except": [{"cron": "0-59 0-23 * * 0,6"}], "time_zone": "Europe/Berlin"}
    assert (
        command("schedule", "update", "s", "--when", "every day at noon except 2027-01-01, Tokyo time").err.count(
            "note"
        )
        == 0
    )
    spec = command("schedule", "get", "s", "-o", "json").json["spec"]
    assert spec == {"crons": ["0 12 * * *"], "except": [{"dates": ["2027-01-01"]}], "time_zone": "Asia/Tokyo"}
    refused = command("schedule", "update", "s", "--when", "every day at noonish")
    assert (refused.code, "after 'every day at'" in refused.err) == (2, True)


def test_a_change_of_policies_alone_leaves_the_times_as_they_are(shop: App, command: Command) -> None:
    made(command, "s", "--jitter", "10s")

    done = command("schedule", "update", "s", "--overlap-policy", "AllowAll", "--no-pause-on-failure")

    assert done.out == "overlap\tskip -> allow_all\n"
    assert done.err == "changed s, version 1 -> 2\n"


def test_a_pool_must_be_that_of_the_function(shop: App, command: Command, tmp_path: Path) -> None:
    line = ("schedule", "create", "--interval", "1h", "--type", "app.mail")
    unknown = command(*line, "--sid", "a", "--task-queue", "mail", "--force")
    assert (unknown.code, "nothing here knows the pool of app.mail" in unknown.err) == (0, True)
    (tmp_path / "app.py").write_text(
        "from evertick import App, MutationCtx\napp = App('shop')\nmail_pool = app.pool('mail', running=2)\n"
        "@app.mutation(pool=mail_pool)\ndef mail(ctx: MutationCtx) -> None: ...\n"
    )

    assert command(*line, "--sid", "b", "--pool", "mail", "--app", "app.py").code == 0
    refused = command(*line, "--sid", "c", "--tq", "other", "--app", "app.py")
    assert (refused.code, "app.mail is in the pool 'mail' and not in 'other'" in refused.err) == (2, True)
    assert command("schedule", "get", "c").code == 3
    assert command("schedule", "update", "b", "--pool", "mail").code == 2


def test_unset_lifts_what_was_set(shop: App, command: Command) -> None:
    made(
        command, "s", "--jitter", "30s", "--end-time", "2090-01-01", "--remaining-actions", "3", "--notes", "hi",
        "--wid", "stem", "--catchup-window", "1h", "-i", '{"step": 2}', "--memo", '{"a": 1}',
    )  # fmt: skip
    names = ("jitter", "end-time", "remaining-actions", "notes", "wid", "tq", "catchup-window", "input", "memo")

    assert command("schedule", "update", "s", *(word for name in names for word in ("--unset", name))).code == 0

    row = command("schedule", "get", "s", "-o", "json").json
    assert row["spec"] == {"intervals": [{"every": "1h"}]}
    assert (row["remaining_actions"], row["note"], row["memo"], row["target"]["input"]) == (None, "", {}, {})
    assert (row["target"]["workflow_id"], row["target"]["pool"]) == (None, None)
    assert row["policies"]["catchup_window"] == "365d"
    assert row["run_id_template"] == "s-{nominal}"


def test_replace_lifts_what_is_not_given(shop: App, command: Command) -> None:
    made(command, "s", "--jitter", "30s", "--overlap-policy", "BufferAll", "--notes", "hi", "-i", '{"step": 2}')

    done = command("schedule", "update", "s", "--replace", "--cron", "@daily", "--type", "shop.fail")

    row = command("schedule", "get", "s", "-o", "json").json
    assert done.code == 0
    assert row["spec"] == {"crons": ["@daily"]}
    assert (row["policies"]["overlap"], row["note"], row["target"]["input"]) == ("skip", "", {})
    assert row["function"] == "shop.fail"
    assert command("schedule", "update", "s", "--replace", "--cron", "@daily").code == 2


def test_an_update_of_another_version_changes_nothing(shop: App, command: Command) -> None:
    made(command, "s")

    assert command("schedule", "update", "s", "--notes", "a", "--if-version", "1").code == 0
    assert command("schedule", "update", "s", "--notes", "b", "--if-version", "1").code == 5
    assert command("schedule", "update", "s", "--notes", "c", "--dry-run").err == "would change s, version 2 -> 3\n"
    assert command("schedule", "get", "s", "-o", "json").json["note"] == "a"


# -- list


def test_queries_choose_by_state_function_time_and_name(shop: App, command: Command) -> None:
    made(command, "mail.hourly")
    made(command, "mail.daily", "--cron", "0 0 1 1 *")
    made(command, "report", "--paused")

    def ids(*words: str) -> list[str]:
        return command("schedule", "list", "--fields", "id", *words).out.split()

    assert ids() == ["mail.daily", "mail.hourly", "report"]
    assert ids("--sort", "next") == ["mail.hourly", "mail.daily", "report"]
    assert ids("-q", "state:paused") == ids("-q", "state:disabled") == ["report"]
    assert ids("-q", "next<2h") == ["mail.hourly"]
    assert ids("-q", "mail state:active") == ["mail.daily", "mail.hourly"]
    assert ids("-q", "function:shop.count id:daily") == ["mail.daily"]
    assert ids("-q", "kind:cron") == []
    assert ids("--sort", "-id", "-q", "tz:UTC") == ["report", "mail.hourly", "mail.daily"]
    assert ids("-q", "tz:Asia/Tokyo") == ids("-q", "health:failing") == ids("-q", "health:missed") == []
    assert command("schedule", "list", "-q", "health:bad").code == 2
    limited = command("schedule", "list", "--limit", "1")
    assert limited.out.startswith("mail.daily\t")
    assert "there are more" in limited.err


def test_json_has_every_field_and_times_in_utc(shop: App, command: Command) -> None:
    made(command, "s", "--tz", "Europe/Berlin")

    [row] = command("schedule", "list", "-o", "json").json

    assert row["next"].endswith(":00:00Z")
    assert row["created"].endswith("Z")
    assert (row["id"], row["kind"], row["state"], row["source"]) == ("s", "schedule", "active", "run_time")
    assert command("schedule", "list", "-o", "none").out == ""
    assert command("schedule", "list", "--fields", "nope").code == 2
    assert "in " in command("schedule", "list", "-o", "table").out
    assert row["next"] in command("schedule", "list", "-o", "table", "--time", "iso").out


# -- pause and resume


def test_a_reason_is_asked_for_at_a_terminal(shop: App, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    made(command, "s")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", lambda *_, **__: "the bank is closed")

    assert command("schedule", "toggle", "s", "--pause").err == "paused s: the bank is closed\n"
    assert command("schedule", "get", "s", "-o", "json").json["pause"]["note"] == "the bank is closed"


def test_a_pause_may_have_an_end(shop: App, command: Command) -> None:
    made(command, "s", "--tz", "Europe/Berlin", "--cron", "0 9 * * *")

    done = command("schedule", "pause", "s", "--reason", "holidays", "--until", "2090-01-07")

    assert done.err == "paused s until 2090-01-07T23:00:00Z: holidays\n", "the last day is one of them"
    assert command("schedule", "toggle", "s", "--pause", "--until", "2020-01-01").code == 2
    assert command("schedule", "pause", "s", "--reason", "").err == "s was paused already: holidays\n"
    resumed = command("schedule", "resume", "s")
    assert resumed.err.startswith("resumed s; next 20")
    assert command("schedule", "resume", "s").err.startswith("s was not paused; next 20")


def test_a_query_pauses_resumes_and_deletes_many_when_somebody_agrees(shop: App, command: Command) -> None:
    for name in ("mail.a", "mail.b", "report"):
        made(command, name)

    unsure = command("schedule", "pause", "--query", "mail")
    paused = command("schedule", "pause", "--query", "mail", "--reason", "maintenance", "--yes")

    assert unsure.code == 2
    assert "give --yes" in unsure.err
    assert paused.err == "paused 2 schedules\n"
    assert command("schedule", "list", "-q", "state:paused", "--fields", "id,note").out == (
        "mail.a\tmaintenance\nmail.b\tmaintenance\n"
    )
    assert command("schedule", "resume", "-q", "mail.b", "--yes").err == "resumed 1 schedule\n"
    assert command("schedule", "delete", "-q", "state:paused", "--yes").err == "deleted 1 schedule\n"
    assert command("schedule", "list", "--fields", "id").out == "mail.b\nreport\n"


def test_a_catch_up_window_below_ten_seconds_counts_as_ten(shop: App, command: Command) -> None:
    made(command, "s", "--catchup-window", "1s")

    assert command("schedule", "get", "s", "-o", "json").json["policies"]["catchup_window"] == "10s"
    assert "less counts as 10s" in " ".join(command("schedule", "create", "--help").out.split())


# -- trigger and backfill


def test_a_trigger_that_is_skipped_says_which_run_is_in_the_way(shop: App, command: Command) -> None:
    made(command, "s")
    first = command("schedule", "trigger", "s", "-o", "json")

    second = command("schedule", "trigger", "s", "-o", "json")
    third = command("schedule", "trigger", "s", "--overlap-policy", "AllowAll", "-o", "json")

    assert first.json["fate"] == third.json["fate"] == "started"
    assert (second.code, second.json["fate"], second.json["reason"]) == (0, "skipped", "overlap")
    assert first.json["run"] in second.err
    assert second.err.endswith("to run it all the same: --overlap-policy AllowAll\n")
    waited = command("schedule", "trigger", "s", "--wait")
    assert waited.code == 8


def test_a_trigger_takes_other_arguments_and_is_repeatable(shop: App, command: Command) -> None:
    made(command, "s", "-i", '{"step": 1}')

    first = command("schedule", "trigger", "s", "-i", '{"step": 5}', "--request-id", "r1", "-o", "json").json
    again = command("schedule", "trigger", "s", "-i", '{"step": 5}', "--request-id", "r1", "-o", "json").json

    assert first == again
    assert command("job", "get", first["job_id"], "-o", "json").json["args"] == {"step": 5}


def test_a_trigger_without_a_worker_says_what_the_run_needs(shop: App, command: Command) -> None:
    made(command, "s")

    done = command("schedule", "trigger", "s", "--wait", "--timeout", "1ms")

    needed = "it has not begun: it needs `evertick dev` or `evertick worker` on this database"
    assert done.err.count(f"{needed}; Ctrl-C leaves it alone\n") == 1
    assert "if this command ends" not in done.err
    assert f"{needed}\n" in command("schedule", "trigger", "s", "--overlap-policy", "AllowAll").err


def test_waiting_for_a_run_of_an_unknown_function_says_that_no_worker_knows_it(
    shop: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evertick.cli.schedule.trigger.HINT_AFTER_S", 0.0)
    command("schedule", "create", "-s", "s", "--type", "shop.not_written_yet", "--interval", "1h")
    job = command("schedule", "trigger", "s", "--request-id", "one", "-o", "json").json["job_id"]
    said: list[str] = []

    def is_said_while_a_worker_lives() -> bool:
        if not command("job", "get", job, "-o", "json").json["blocked"]:
            return False
        said.append(command("schedule", "trigger", "s", "--request-id", "one", "--wait", "--timeout", "1ms").err)
        return True

    work_until(shop, is_said_while_a_worker_lives)

    needed = "it needs code that defines shop.not_written_yet; no worker knows that function"
    assert said[0].count(needed) == 1
    assert "it goes on if this command ends\n" in said[0]
    assert "evertick worker" not in said[0]


def test_waiting_no_longer_than_told_is_another_exit_code(shop: App, command: Command) -> None:
    made(command, "s")

    done = command("schedule", "trigger", "s", "--wait", "--timeout", "1ms")

    assert done.code == 8
    assert done.err.endswith("the time is over; the run has not ended yet\n")


def test_a_backfill_can_leave_out_what_ran_and_run_so_many_at_a_time(shop: App, command: Command) -> None:
    made(command, "s", "--cron", "0 9 * * *")
    span = ("schedule", "backfill", "s", "--start-time", "2022-03-26", "--end-time", "2022-03-28T09:00", "--dry-run")
    command(*span[:4], "2022-03-26T09:00", *span[5:6], "2022-03-27T09:00", "--max-active", "2")
    work_off(shop, 2)

    with_all = command(*span, "--include-done", "--overlap-policy", "AllowAll")
    without = command(*span, "--skip-done")
    contradicting = command(*span, "--max-active", "2", "--overlap-policy", "BufferAll")

    assert len(with_all.out.splitlines()) == 3
    assert "2 already ran and will run again" in with_all.err
    assert "note:" not in with_all.err
    assert without.out.splitlines() == ["2022-03-28T09:00:00Z"]
    assert "2 already ran and are left out" in without.err
    assert "2 already ran and are left out" in command(*span, "--only-missed").err
    assert (
        "1 already ran and is left out"
        in command(*span[:4], "2022-03-26T09:00", *span[5:6], "2022-03-26T09:00", "--dry-run", "--skip-done").err
    )
    assert "note: with skip the first runs" in command(*span, "--include-done").err
    assert (contradicting.code, "leave out buffer_all, or the limit" in contradicting.err) == (2, True)


def test_backfills_of_many_are_of_the_span_that_was_planned(
    shop: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real once: a time such as now-1d was read twice, and a second later each plan was of another span."""
    made(command, "s", "--cron", "* * * * *")
    later, now = count(0, 2_000), local_session.ScheduleSession.now.fget
    assert now is not None
    monkeypatch.setattr(
        local_session.ScheduleSession, "now", property(lambda self: Instant(now(self) - DAY_MS + next(later)))
    )

    done = command("schedule", "backfill", "--query", "id:s", "--start-time", "now-2m", "--end-time", "now-1m", "--yes")

    assert (done.code, done.err.splitlines()[-2]) == (0, "started backfills of 1 schedule")
    assert done.err.splitlines()[-1].startswith("note: no worker runs on this database"), "it waits for one"
    span = ("--start-time", "now-2m", "--end-time", "now-1m", "--yes")
    for nothing in ("id:s health:failing", "id:none"):
        done = command("schedule", "backfill", "--query", nothing, *span)
        assert (done.code, done.err.startswith("no time to run: ")) == (0, True), done.err


def test_backfills_of_many_say_under_which_policies_times_get_lost(shop: App, command: Command) -> None:
    """Real once: after an outage of three times one ran, two were skipped, and the exit code was 0 without a word."""
    for name, policy in (("a", "Skip"), ("b", "Skip"), ("c", "BufferOne"), ("d", "BufferAll")):
        made(command, name, "--cron", "0 9 * * *", "--overlap-policy", policy)
    span = ("schedule", "backfill", "--query", "status:active", "--dry-run", "--start-time", "2022-03-26", "--end-time")

    notes = command(*span, "2022-03-28").err.splitlines()

    assert [note.partition(";")[0] for note in notes] == [
        "note: 2 schedules with skip: the first runs and the others are skipped while it runs",
        "note: 1 schedule with buffer_one: one runs, one waits and the others are skipped",
    ]
    assert notes[0].endswith("choose --overlap-policy BufferAll or AllowAll, or --max-active")
    assert command(*span, "2022-03-28", "--overlap-policy", "BufferAll").err == ""
    assert command(*span, "2022-03-26T12:00").err == ""  # one time each


def test_a_backfill_is_planned_before_it_starts(shop: App, command: Command) -> None:
    made(command, "s", "--cron", "0 9 * * *", "--tz", "Europe/Berlin", "--overlap-policy", "BufferAll")
    span = ("schedule", "backfill", "s", "--start-time", "2022-03-26", "--end-time", "2022-03-28T09:00")

    plan = command(*span, "--dry-run")
    started = command(*span, "-o", "json")

    assert plan.out.splitlines() == ["2022-03-26T08:00:00Z", "2022-03-27T07:00:00Z", "2022-03-28T07:00:00Z"]
    assert plan.err.startswith("3 times   from 2022-03-25T23:00:00Z to 2022-03-28T07:00:00Z (both included)   first ")
    assert (started.json["times"], started.json["done"]) == (3, False)
    canceled = command("schedule", "backfill", "s", "--cancel", started.json["id"], "-o", "json").json
    assert canceled["done"] is True
    work_off(shop, 1)
    fates = command("schedule", "occurrences", "s", "--oldest-first", "--fields", "nominal,fate,reason").out
    assert fates.splitlines() == [
        "2022-03-26T08:00:00Z\tstarted\tbackfilled",
        "2022-03-27T07:00:00Z\tskipped\tbackfill_canceled",
        "2022-03-28T07:00:00Z\tskipped\tbackfill_canceled",
    ]


def test_a_backfill_of_times_to_come_asks(shop: App, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    made(command, "s", "--overlap-policy", "BufferAll")
    span = ("schedule", "backfill", "s", "--start-time", "now", "--end-time", "now+3h")
    monkeypatch.setattr("evertick.cli.backfill.start.is_terminal", lambda stream: True)
    answers = ["n", "y"]
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: answers.pop(0))

    refused = command(*span, "-o", "json")
    agreed = command(*span, "-o", "json")
    asked_no_more = command(*span, "--yes", "-o", "json")

    assert (refused.code, refused.out) == (130, "")
    assert agreed.json["times"] == asked_no_more.json["times"] == 3
    assert answers == []
    assert len(command(*span, "--include-done", "--dry-run").out.splitlines()) == 3


@pytest.mark.long
def test_waiting_for_a_backfill_tells_by_its_exit_code_whether_times_were_skipped(
    shop: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(command, "s", "--cron", "0 9 * * *")
    span = ("schedule", "backfill", "s", "--start-time", "2022-03-26", "--end-time", "2022-03-28")
    skipping = command(*span, "-o", "json").json["id"]
    work_off(shop, 1)
    all_run = command(*span, "--overlap-policy", "BufferAll", "-o", "json").json["id"]
    work_off(shop, 2)

    partly = command("schedule", "backfill", "s", "--watch", skipping, "-o", "json")
    fully = command("schedule", "backfill", "s", "--watch", all_run, "-o", "json")

    assert (partly.code, partly.json["skipped"]) == (6, 2)
    assert (fully.code, fully.json["ended"]) == (0, 2), "without the one that ran"


def test_a_trigger_runs_behind_overdue_times_that_it_lets_start(shop: App, command: Command) -> None:
    made(command, "s", "--interval", "1s")
    deadline = time.monotonic() + 60
    while not command("schedule", "audit", "s", "--to", "now+1s", "-o", "json").json["unrecorded"]:
        assert time.monotonic() < deadline, "a second has not passed"
        time.sleep(0.1)

    found = command("schedule", "trigger", "s", "-o", "json").json

    assert (found["fate"], found["reason"]) == ("buffered", "behind_run")
    work_off(shop, 2)
    run = command("schedule", "occurrences", "s", "--fate", "started", "-o", "json").json
    assert {each["origin"] for each in run} == {"schedule", "trigger"}


def test_a_schedule_without_times_says_when_it_runs(shop: App, command: Command) -> None:
    done = command("schedule", "create", "by-hand", "--function", "shop.count")

    assert done.code == 0
    assert done.err.startswith(
        "by-hand created: only when triggered\nnote: it has no times; it runs only when triggered\n"
    )
    assert "ended" not in done.err
    assert command("schedule", "trigger", "by-hand", "-o", "json").json["fate"] == "started"


LOSES = "note: after an outage, the overlap policy skip runs only the first time that has passed"


def test_policies_that_lose_times_of_an_outage_are_warned_of(shop: App, command: Command, tmp_path: Path) -> None:
    """Where a schedule is created, changed, previewed or applied; not where its times are minutes apart."""
    daily = ("--cron", "0 3 * * *", "--function", "shop.count")
    file = tmp_path / "schedules.yaml"
    file.write_text(
        "schedules:\n" + "".join(f"- {{id: {name}, when: '0 3 * * *', function: shop.count}}\n" for name in ("x", "y"))
    )

    assert LOSES in command("schedule", "create", "a", *daily).err
    assert LOSES not in command("schedule", "create", "b", *daily, "--overlap-policy", "BufferAll").err
    assert LOSES not in command("schedule", "create", "c", "--interval", "5m", "--function", "shop.count").err
    assert LOSES in command("schedule", "update", "b", "--overlap-policy", "Skip").err
    assert LOSES not in command("schedule", "update", "b", "--notes", "known").err
    assert LOSES.removeprefix("note: ") in command("schedule", "preview", "a").err
    assert LOSES.removeprefix("note: ") in command("schedule", "preview", "--cron", "0 3 * * *").err
    applied = command("schedule", "apply", str(file), "--yes").err
    assert applied.count(LOSES.removeprefix("note: ")) == 1
    assert "note: x and 1 more: after an outage" in applied
    assert LOSES not in command("schedule", "apply", str(file), "--yes").err


def test_flags_have_readable_names_and_those_that_people_bring_along(shop: App, command: Command) -> None:
    readable = ("--schedule-id", "a", "--function", "shop.count", "--workflow-id", "stem", "--time-zone", "UTC")
    brought = ("--sid", "b", "--type", "shop.count", "--wid", "stem", "--tz", "UTC")

    for words in (readable, brought):
        assert command("schedule", "create", *words, "--interval", "1h").code == 0

    one, two = (command("schedule", "get", name, "-o", "json").json for name in "ab")
    assert one["target"] == two["target"]
    for number, flag in enumerate(("--pool", "--task-queue", "--tq")):
        done = command("schedule", "create", f"c{number}", "--function", "shop.count", "--interval", "1h", flag, "x")
        assert (done.code, "nothing here knows the pool of shop.count" in done.err) == (0, True)


# -- the ledger


def test_explain_tells_the_whole_chain(shop: App, command: Command) -> None:
    made(command, "s")
    command("schedule", "backfill", "s", "--start-time", "2022-05-01", "--end-time", "2022-05-01T00:30")
    work_off(shop, 1)

    ran = command("schedule", "explain", "s", "--at", "2022-05-01")
    missing = command("schedule", "explain", "s", "--at", "2022-05-01T01:00", "-o", "json").json

    assert ran.out.startswith("s at 2022-05-01T00:00:00Z\n  ✓ asked: ")
    assert "  → started" in ran.out
    assert "ended success" in ran.out
    assert (missing["ran"], missing["missing"]) == (False, "not_created")
    assert missing["fix"].startswith("evertick schedule backfill s --start-time 2022-05-01T01:00:00Z")
    assert command("schedule", "explain", "s").code == 0


def test_a_time_that_a_clock_change_skipped_is_explained_by_the_time_it_moved_to(shop: App, command: Command) -> None:
    made(command, "s", "--cron", "30 2 * * *", "--tz", "Europe/Berlin")

    told = command("schedule", "explain", "s", "--at", "2090-03-26T02:30")

    assert told.out.startswith("s at 2090-03-26T03:00:00+02:00 (Europe/Berlin)\n")
    assert "moved from 02:30" in told.out


def test_audit_fails_if_something_that_should_have_run_did_not(shop: App, command: Command) -> None:
    made(command, "s", "--overlap-policy", "BufferAll", "--buffer-limit", "0")
    fine = command("schedule", "audit")
    command("schedule", "trigger", "s")
    command("schedule", "trigger", "s")  # the buffer has no room

    bad = command("schedule", "audit", "--to", "now+1m", "-o", "json")

    assert (fine.code, bad.code) == (0, 8)
    assert bad.json["clean"] is False
    assert [row["reason"] for row in bad.json["missed"]] == ["buffer_full"]
    assert command("schedule", "audit", "--from", "2020-01-01", "--to", "2020-01-02").code == 0
    assert command("schedule", "audit", "nope").code == 3


def test_an_audit_is_a_table_on_a_terminal_and_columns_in_a_pipe(
    shop: App, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(command, "s")
    command("schedule", "trigger", "s")
    command("schedule", "trigger", "s")
    piped = command("schedule", "audit", "--to", "now+1m")
    monkeypatch.setattr("evertick.cli.core.output.on_terminal", lambda: True)
    shown = command("schedule", "audit", "--to", "now+1m")

    [line] = piped.out.splitlines()
    what, schedule, nominal, why = line.split("\t")
    assert (what, schedule, nominal[-1]) == ("skipped", "s", "Z")
    assert why.startswith("overlap: ")
    assert why.endswith(" has not ended")
    header, row = shown.out.splitlines()
    assert header.split() == ["WHAT", "SCHEDULE", "NOMINAL", "WHY"]
    assert row == f"skipped  s         {nominal}  {why}"


# -- preview


def test_preview_shows_the_times_of_a_schedule(shop: App, command: Command) -> None:
    made(command, "s", "--cron", "0 9 * * *", "--tz", "Europe/Berlin")

    spanned = command("schedule", "preview", "-s", "s", "--from", "2090-03-25", "--to", "2090-03-27")
    following = command("schedule", "preview", "-s", "s", "-n", "2", "-o", "json").json

    assert [line.split("\t")[0] for line in spanned.out.splitlines()] == [
        "2090-03-25T09:00:00+01:00",
        "2090-03-26T09:00:00+02:00",
        "2090-03-27T09:00:00+02:00",
    ]
    assert len(following["times"]) == 2
    assert command("schedule", "preview", "-s", "nope").code == 3


# -- bad input


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["create", "-s", "x", "--interval", "1h"], 2, "give --function NAME"),
        (["create", "--type", "f", "--interval", "1h"], 2, "which schedule? give its id"),
        (["create", "-s", "x", "--type", "f", "--cron", "0 0 30 2 *"], 2, "never fires"),
        (["create", "-s", "x", "--type", "f", "--cron", "61 * * * *"], 2, "61"),
        (["create", "-s", "x", "--type", "f", "--interval", "1h", "--tz", "Nope/Zone"], 2, "no such time zone"),
        (["create", "-s", "x", "--type", "f", "--interval", "1h", "--start-time", "2027-01-02", "--end-time",
          "2027-01-01"], 2, "end"),
        (["create", "-s", "x", "--type", "f", "--interval", "1h", "--end-time", "2020-01-01"], 2, "no further time"),
        (["create", "-s", "x", "--type", "f", "--interval", "1h", "--remaining-actions", "0"], 2, "at least 1"),
        (["create", "-s", "x", "--type", "f", "--interval", "1h", "--concurrency", "0"], 2,
         "a whole number from 1 to 10,000"),
        (["create", "-s", "x", "--type", "f", "--interval", "1h", "--overlap-policy", "Maybe"], 2, "is one of skip,"),
        (["create", "-s", "x", "--type", "f", "--interval", "1h", "--catch-up", "some"], 2, "is one of all,"),
        (["create", "-s", "x", "--type", "f", "--interval", "1h", "--catchup-window", "soon"], 2, "is not a duration"),
        (["create", "-s", "x", "--type", "f", "--interval", "1h", "-i", "[1]"], 2, "--input must hold a JSON object"),
        (["create", "-s", "x", "--type", "f", "--interval", "1h", "--memo", "{"], 2, "--memo: not JSON"),
        (["create", "-s", "x", "--type", "f", "--interval", "1ms"], 2, "not a whole number of seconds"),
        (["create", "-s", "\x1b[31m", "--type", "f", "--interval", "1h"], 2, "printable text"),
        (["create", "-s", "x", "--type", " ", "--interval", "1h"], 2, "a function's name must be printable text"),
        (["create", "-s", "x", "--type", "f", "--cal", "{"], 2, "--calendar"),
        (["update", "s"], 2, "nothing to change"),
        (["update", "nope", "--notes", "a"], 3, "no schedule 'nope'"),
        (["update", "s", "--unset", "type"], 2, "'type' is not one of"),
        (["describe", "nope"], 3, "no schedule 'nope'"),
        (["delete", "nope"], 3, "no schedule 'nope'"),
        (["delete"], 2, "which schedule? give its id"),
        (["delete", "s", "--if-version", "9"], 5, "at version 1, not 9"),
        (["toggle", "s"], 2, "give --pause or --unpause"),
        (["toggle", "s", "--pause", "--unpause"], 2, "both contradict each other"),
        (["delete", "--query", "", "--yes"], 2, "an empty --query would delete everything; name what to delete"),
        (["pause", "-q", "  ", "--yes"], 2, "an empty --query would pause everything"),
        (["resume", "-q", "", "--yes"], 2, "an empty --query would resume everything"),
        (["toggle", "s", "--unpause", "--until", "now+1h"], 2, "--until ends a pause"),
        (["pause", "s", "--until", "nonsense"], 2, "is not a date or time"),
        (["trigger", "nope"], 3, "no schedule 'nope'"),
        (["trigger", "s", "--overlap-policy", "x"], 2, "is one of skip,"),
        (["trigger", "s", "--timeout", "1s"], 2, "--timeout limits --wait"),
        (["backfill", "s", "--start-time", "2022-01-01"], 2, "give --start-time and --end-time"),
        (["backfill", "s", "--start-time", "2022-01-02", "--end-time", "2022-01-01"], 2, "before it starts"),
        (["backfill", "s", "--start-time", "1990-01-01", "--end-time", "2022-01-01"], 2, "more than 100000 times"),
        (["backfill", "s", "--start-time", "now", "--end-time", "now+3h"], 2, "3 of these times are still to come"),
        (["backfill", "s", "--watch", "nope"], 3, "no backfill 'nope'"),
        (["backfill", "s", "--watch", "a", "--cancel", "b"], 2, "give one of them alone"),
        (["list", "-q", "colour:red"], 2, "there is nothing like 'colour'"),
        (["list", "-q", "state:sleepy"], 2, "is none of active, enabled, paused, disabled, completed"),
        (["list", "-q", "state:"], 2, "says nothing"),
        (["list", "-q", "'"], 2, "No closing quotation"),
        (["list", "-q", "next<soon"], 2, "is not a date or time"),
        (["explain", "s", "--at", "whenever"], 2, "is not a date or time"),
        (["explain", "nope", "--at", "2026-01-01"], 3, "no schedule 'nope'"),
        (["audit", "--from", "now", "--to", "now-1h"], 2, "before it starts"),
        (["occurrences", "s", "--reason", "nope"], 2, "is not one of"),
        (["occurrences", "nope"], 3, "no schedule 'nope'"),
        (["history", "nope"], 3, "no schedule 'nope'"),
        (["preview", "-s", "s", "--from", "2026-01-01"], 2, "--from TIME --to TIME"),
        (["preview", "-s", "s", "--cron", "* * * * *"], 2, "a schedule has its own times"),
        (["describe", "s", "--sid", "t"], 2, "named twice"),
        (["create", "-s", "x", "--type", "f", "--spec", "@nope.json"], 2, "--spec @nope.json: No such file"),
        (["list", "--db", "sqlite:///nope.db"], 7, "there is no database at nope.db"),
        (["create", "-s", "x", "--type", "f", "--when", "every day at 9am, Gotham time"], 2,
         "no time zone is named 'Gotham'"),
        (["create", "-s", "x", "--type", "f", "--when", "every day at 9am, Berln time"], 2,
         "did you mean 'Berlin time'"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line_and_an_exit_code(
    shop: App, command: Command, words: list[str], code: int, message: str
) -> None:
    made(command, "s")

    done = command("schedule", *words)

    assert (done.code, done.out) == (code, "")
    error = done.err.splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
    assert "\x1b" not in done.err
    assert command("schedule", "list", "--fields", "id,version").out == "s\t1\n"


def test_a_command_sees_the_schedules_of_one_tenant(shop: App, command: Command) -> None:
    acme = ("--tenant", "acme")
    assert command(*SEED_CREATE, *acme).code == 0

    assert command("schedule", "list", "--output", "json").json == []
    assert [each["id"] for each in command("schedule", "list", *acme, "--output", "json").json] == ["my-schedule-id"]
    assert command("schedule", "pause", "my-schedule-id").code == 3
    assert command("schedule", "pause", "my-schedule-id", *acme).code == 0
    assert command("schedule", "trigger", "my-schedule-id", *acme).code == 0
    triggered = shop.tenant("acme").schedules.occurrences("my-schedule-id").occurrences[0]
    assert shop.tenant("acme").db.query("_scheduled_functions").unique()["_id"] == triggered.job_id  # type: ignore[index]
    assert command("schedule", "update", "my-schedule-id", "--note", "theirs", *acme).code == 0
    assert command("schedule", "delete", "my-schedule-id", *acme).code == 0
    assert shop.tenant("acme").schedules.list().schedules == ()


def test_a_pipe_gets_a_line_for_each_line_of_a_description(shop: App, command: Command) -> None:
    made(command, "s")

    lines = command("schedule", "describe", "s").out.splitlines()

    assert len([line for line in lines if line.startswith("upcoming\t")]) > 1
    assert not [line for line in lines if "\\n" in line]


def test_the_times_of_a_schedule_are_previewed_by_its_id(shop: App, command: Command) -> None:
    made(command, "s")

    by_id, by_flag = command("schedule", "preview", "s"), command("schedule", "preview", "--schedule-id", "s")

    assert (by_id.code, by_id.out) == (0, by_flag.out)
    assert command("schedule", "preview", "s", "--schedule-id", "s").code == 2
    assert command("schedule", "preview", "nope").code == 3


def test_a_preview_counts_from_the_clock_of_the_schedule(shop: App, command: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.simulated.db"
    command("migrate", "--db", url)
    start = Instant(parse_instant("2031-07-01T00:00:00Z") * 1000)
    write_simulation(url, Simulation(start, start, speed=0.0, stopped=start))
    made(command, "s", "--cron", "0 9 * * *", "--db", url)

    assert command("schedule", "preview", "s", "-n", "1", "--db", url).out.split("\t")[-1].strip() == "in 9 h"


@pytest.mark.parametrize(
    ("at", "says"), [("tomorrow", "T23:00:00Z"), ("now+2h", "\tin "), ("2090-01-01", "2089-12-31T23:00:00Z")]
)
def test_a_single_moment_is_written_as_every_time_is(shop: App, command: Command, at: str, says: str) -> None:
    zone = ("--tz", "Africa/Algiers")
    assert command("schedule", "create", "s", "--type", "shop.count", "--at", at, *zone).code == 0
    assert says in command("schedule", "preview", "--at", at, *zone).out
    assert command("schedule", "update", "s", "--at", at).code == 0
    assert "--cron: " in command("schedule", "preview", "--at", at, "--cron", "nonsense").err


@pytest.mark.parametrize(
    "line",
    [
        "schedule create s --type shop.count --interval 1h --input",
        "schedule create s --type shop.count --interval 1h --memo",
        "schedule preview --spec", "schedule preview --calendar", "schedule preview --except",
        "schedule trigger t --input", "api POST /x --url http://localhost:1 --json",
    ],
)  # fmt: skip
def test_a_member_that_is_there_twice_is_refused(shop: App, command: Command, line: str) -> None:
    made(command, "t")
    for text in ('{"x": 1, "x": 2}', '{"x": [{"y": 1, "y": 1}]}'):
        refused = command(*line.split(), text)
        assert (refused.code, "is there twice" in refused.err) == (2, True), refused.err


def test_a_trigger_says_how_the_run_that_it_waited_for_has_failed(shop: App, command: Command) -> None:
    command("schedule", "create", "--sid", "s", "--type", "shop.fail", "--interval", "1h")
    trigger = ("schedule", "trigger", "s", "--request-id", "one")
    command(*trigger)
    work_off(shop, 1)

    done = command(*trigger, "--wait")

    assert done.code == 1
    assert "ended: failed: ValueError: no luck" in done.err and "evertick job get job_" in done.err

"""`evertick workflow`: runs started, waited for, listed, signaled, ended, restarted, and their histories drawn."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evertick import App
from evertick.api.workflows import RunHistory
from evertick.app.functions.function import served_by
from evertick.base.ids import WorkerId
from evertick.base.instants import HOUR_MS, Instant
from evertick.base.records.jobs import SERVES, Serves, Worker
from evertick.cli.core.watching import ChangeWaiter
from evertick.testing import replay
from tests.cli.desk import Command, work_until

APP = """
from datetime import timedelta

from evertick import ActionCtx, App, MutationCtx, Step

app = App("shop")


@app.mutation
def reserve(ctx: MutationCtx, user: str) -> int:
    return len(user)


@app.action(pool="slow")
async def charge(ctx: ActionCtx, fails: bool) -> str:
    if fails:
        raise ConnectionError("card refused")
    return "charged"


@app.workflow
async def onboard(step: Step, user: str, fails: bool = False) -> str:
    step.log.info("hello, %s", user)
    await step.run(reserve, user)
    word = await step.wait_for("verified")
    step.progress({"verified": word})
    await step.run(charge, fails)
    return f"{user} {word}"


@app.workflow(events={"decision": bool})
async def decide(step: Step) -> bool:
    return await step.wait_for("decision")


@app.workflow
async def onboard_all(step: Step, users: list[str]) -> None:
    for user in users:
        await step.workflow(onboard, user)
"""


@pytest.fixture
def shop(tmp_path: Path, migrated_shop: None) -> Path:
    """The folder of the app and of its database."""
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def the_app() -> App:
    """The app that a command has imported."""
    app = sys.modules["app"].app
    assert isinstance(app, App)
    return app


def work(done: Callable[[App], bool]) -> None:
    """Run the app's worker until something holds."""
    app = the_app()
    work_until(app, lambda: done(app))


def state_of(run_id: str) -> Callable[[App], str]:
    return lambda app: app.workflows.get(run_id).state


def onboarded(command: Command, *words: str, key: str = "w1") -> str:
    """Start a run, let it wait for its event, send that, and let it end; returns its id."""
    run_id = command("workflow", "start", "app.onboard", "user=ada", "--id", key, *words).out.strip()
    work(lambda app: app.workflows.get(run_id).state == "running")
    assert command("workflow", "signal", key, "verified", '{"by": "mail"}').code == 0
    work(lambda app: app.workflows.get(run_id).completed_at is not None)
    return run_id


def test_a_run_is_started_signaled_and_waited_for(shop: Path, command: Command) -> None:
    started = command("workflow", "start", "app.onboard", "user=ada", "--id", "w1")
    assert (started.code, started.err.startswith("note: no worker runs")) == (0, True)
    run_id = started.out.strip()
    again = command("workflow", "start", "app.onboard", "user=bob", "--id", "w1", "-o", "json")
    assert (again.json["id"], again.json["args"], again.json["state"]) == (run_id, {"user": "ada"}, "pending")
    taken = command("workflow", "start", "app.onboard", "user=bob", "--id", "w1", "--on-conflict", "error")
    assert (taken.code, "holds the key 'w1'" in taken.err) == (5, True)

    work(lambda app: app.workflows.get(run_id).state == "running")
    early = command("workflow", "wait", "w1", "--timeout", "1ms")
    assert (early.code, early.err.splitlines()[-1]) == (8, "the time is over; the run has not ended yet")
    assert command("workflow", "signal", "w1", "verified", "by mail").err == "sent verified to w1\n"
    work(lambda app: app.workflows.get(run_id).completed_at is not None)

    ended = command("workflow", "wait", "w1", "-o", "json")
    assert (ended.code, ended.json["result"], ended.json["progress"]) == (0, "ada by mail", {"verified": "by mail"})
    late = command("workflow", "signal", "w1", "verified")
    assert (late.code, late.err) == (5, f"error: run {run_id} has ended (success); nothing was sent\n")


def test_a_value_that_is_meant_as_json_and_is_none_is_refused(shop: Path, command: Command) -> None:
    (shop / "value.json").write_text('{"by": "file"}')
    run_id = command("workflow", "start", "app.onboard", "user=ada", "--id", "w1").out.strip()
    for words, says in [
        (["{ok: true}"], "VALUE begins as JSON, but is not JSON: Expecting property name enclosed in double quotes"),
        (["[1, 2"], "VALUE begins as JSON, but is not JSON"),
        (['"ok'], "VALUE begins as JSON, but is not JSON"),
        (["--json", "yes"], "--json: not JSON"),
        (["--json", "1", "--file", "value.json"], "--json and --file both bring the value; give one"),
        (["1", "--json", "1"], "VALUE and --json both bring the value; give one"),
        (["--file", "other.json"], "--file other.json: "),
    ]:
        refused = command("workflow", "signal", "w1", "verified", *words)
        assert (refused.code, says in refused.err) == (2, True), refused.err
    assert not the_app().workflows.history(run_id).events

    assert command("workflow", "signal", "w1", "verified", "--file", "value.json").code == 0
    work(lambda app: app.workflows.get(run_id).completed_at is not None)
    assert the_app().workflows.get(run_id).progress == {"verified": {"by": "file"}}


def test_an_event_is_checked_against_the_code_of_an_app(shop: Path, command: Command) -> None:
    run_id = command("workflow", "start", "app.decide", "--id", "d1").out.strip()
    for words, says in [
        (["decision", "7"], "the value of the event 'decision' of app.decide does not fit"),
        (["decison", "true"], "app.decide takes no event 'decison'; the events that it declares are decision"),
    ]:
        refused = command("workflow", "signal", "d1", *words, "--app", "app.py")
        assert (refused.code, says in refused.err) == (2, True), refused.err
    assert the_app().workflows.get(run_id).waiting_event_count == 0
    assert command("workflow", "signal", "d1", "decision", "true", "--app", "app.py").code == 0
    work(lambda app: app.workflows.get(run_id).has_ended)
    assert the_app().workflows.get(run_id).result is True
    beside = command("workflow", "signal", "d1", "decision", "--app", "app.py", "--url", "http://localhost:1")
    assert "--app needs the database" in beside.err


@pytest.mark.parametrize(
    ("words", "sent"),
    [(["--json", '"{ok: true}"'], "{ok: true}"), (['"{ok: true}"'], "{ok: true}"), (["ok"], "ok"), (["7"], 7)],
)
def test_a_value_is_json_or_text(shop: Path, command: Command, words: list[str], sent: object) -> None:
    run_id = command("workflow", "start", "app.onboard", "user=ada").out.strip()
    assert command("workflow", "signal", run_id, "verified", *words).code == 0
    work(lambda app: app.workflows.get(run_id).completed_at is not None)
    assert the_app().workflows.get(run_id).progress == {"verified": sent}


def test_an_event_is_checked_against_what_live_workers_declare_where_no_code_is(shop: Path, command: Command) -> None:
    run_id = command("workflow", "start", "app.decide", "--id", "d1").out.strip()
    assert command("workflow", "signal", "d1", "decision", "7").code == 0, "nothing is known of it"
    work(lambda app: app.workflows.get(run_id).has_ended)
    error = the_app().workflows.get(run_id).error
    cure = f"evertick workflow restart {run_id} --step decision"
    assert error is not None and cure in error["message"]
    again = command(*shlex.split(cure)[1:]).out.strip()

    now = the_app().environment.clock.now()
    serves = SERVES.value(Serves(tuple(served_by(the_app().functions))))
    alive = Worker(WorkerId("worker_1"), now, Instant(now + HOUR_MS), "here", 1, app="shop", serves=serves)
    the_app().environment.store.write(lambda tx: tx.register_worker(alive))
    for event, value, says in [
        ("decision", "7", "no live worker's app.decide accepts the event 'decision': 'value' must be bool, not 7"),
        ("decison", "true", "accepts the event 'decison': it declares the events decision"),
    ]:
        refused = command("workflow", "signal", again, event, value)
        assert (refused.code, says in refused.err) == (2, True), refused.err
    assert command("workflow", "signal", again, "decision", "true").code == 0


@pytest.mark.long
def test_a_run_that_failed_is_told_so_and_restarted_from_a_step(shop: Path, command: Command) -> None:
    run_id = onboarded(command, "fails=true")

    waited = command("workflow", "wait", run_id)
    assert waited.code == 1
    assert "ConnectionError: card refused" in waited.out
    again = command("workflow", "restart", "w1", "--step", "app.charge")
    assert again.code == 0
    assert again.out.strip() != run_id
    work(lambda app: app.workflows.get(again.out.strip()).completed_at is not None)
    assert [run["id"] for run in command("workflow", "list", "-o", "json").json] == [again.out.strip(), run_id]
    wrong = command("workflow", "restart", run_id, "--step", "app.nothing")
    assert (wrong.code, "its steps: app.reserve, verified, app.charge" in wrong.err) == (2, True)


def test_runs_are_canceled_and_terminated_and_ended_ones_refused(shop: Path, command: Command) -> None:
    ids = [command("workflow", "start", "app.onboard", "user=u", "--id", f"u{n}").out.strip() for n in range(3)]
    work(lambda app: all(app.workflows.get(each).state == "running" for each in ids))

    assert command("workflow", "terminate", "u0").err == "terminated u0\n"
    mixed = command("workflow", "cancel", "u0", "u1")
    assert mixed.code == 6
    assert mixed.err == f"error: run {ids[0]} has ended already (canceled)\nasked u1 to end\n"
    work(lambda app: app.workflows.get(ids[1]).state == "canceled")
    states = command("workflow", "list", "--fields", "key,state")
    assert states.out == "u2\trunning\nu1\tcanceled\nu0\tcanceled\n"
    assert command("workflow", "cancel", "nobody").code == 3


def test_filters_choose_the_runs_that_are_ended_paused_and_resumed(shop: Path, command: Command) -> None:
    """Each takes the filters of `list`; what has ended is left out, and without a terminal --yes must be given."""
    for n in range(2):
        command("workflow", "start", "app.onboard", "user=u", "--id", f"u{n}")
    the_app().schedules.create("nightly", when="0 3 * * *", do="app.decide", trigger=True)
    of_schedule = ("--schedule", "nightly", "--yes")

    def states() -> dict[str, str]:
        return {run["schedule"] or run["key"]: run["state"] for run in command("workflow", "list", "-o", "json").json}

    assert command("workflow", "pause", *of_schedule).code == 0
    assert states() == {"nightly": "paused", "u0": "pending", "u1": "pending"}
    assert command("workflow", "resume", "--all", "--yes").err.startswith("resumed ")
    assert command("workflow", "terminate", "--schedule", "nightly").code == 2  # it would have to be confirmed
    assert command("workflow", "terminate", *of_schedule).code == 0
    assert states() == {"nightly": "canceled", "u0": "pending", "u1": "pending"}
    assert command("workflow", "terminate", *of_schedule).code == 0  # there is none any more
    assert command("workflow", "cancel", "--prefix", "u", "--yes").code == 0
    assert set(states().values()) == {"canceled"}
    for words in ((), ("u0", "--all"), ("--state", "failed"), ("--not-retried",)):
        assert command("workflow", "terminate", *words).code == 2
    assert command("workflow", "cancel", "--workflow", "app.onbord", "--yes").code == 3


def test_a_start_under_an_id_in_use_says_so(shop: Path, command: Command) -> None:
    first = command("workflow", "start", "app.onboard", "user=ada", "--id", "w1")
    again = command("workflow", "start", "app.onboard", "user=bob", "--id", "w1")
    assert again.out == first.out
    assert f"note: run {first.out.strip()} has this id and has not ended; no other one was started" in again.err
    assert "note: run" not in first.err
    other = command("workflow", "start", "app.onboard", "user=bob", "--id", "w1", "--on-conflict", "replace")
    assert other.out != first.out
    assert "note: run" not in other.err


def test_what_a_run_waits_for_and_has_not_taken_is_told(shop: Path, command: Command) -> None:
    run_id = command("workflow", "start", "app.onboard", "user=ada", "--id", "w1").out.strip()
    work(lambda app: bool(app.workflows.get(run_id).waits_for))
    assert command("workflow", "list", "--fields", "key,state,waits_for").out == "w1\trunning\tevent verified\n"
    assert "waiting_event_count\t\n" in command("workflow", "get", "w1").out
    assert "not taken" not in command("workflow", "history", "w1").err

    for name in ("verifeid", "verifeid", "a", "b"):
        command("workflow", "signal", "w1", name, '"by mail"')

    shown = command("workflow", "get", "w1")
    lines = dict(line.split("\t", 1) for line in reversed(shown.out.splitlines()))
    assert (lines["waits_for"], lines["waiting_event_count"]) == ("event verified", "4")
    assert lines["waiting_events"].startswith("verifeid (sent 20")
    assert "Z by cli:" in lines["waiting_events"] and lines["waiting_events"].endswith(", 9 characters)")
    assert "4 events wait, not taken by its code: verifeid, sent 20" in command("workflow", "history", "w1").err
    assert command("workflow", "history", "w1").err.endswith("; 1 more\n")
    found = command("workflow", "get", "w1", "-o", "json").json
    assert [each["name"] for each in found["waiting_events"]] == ["verifeid", "verifeid", "a", "b"]
    assert [each["name"] for each in found["waits_for"]] == ["verified"]
    history = command("workflow", "history", "w1", "-o", "json").json
    assert history["waiting_events"] == found["waiting_events"]
    assert found["waiting_events"][0]["sent_by"].startswith("cli:")

    taken_back = command("workflow", "withdraw", "w1", "a")
    assert taken_back.err == "withdrew a from w1\n"
    assert dict(line.split("\t", 1) for line in taken_back.out.splitlines())["value"] == '"by mail"'
    several = command("workflow", "withdraw", "w1", "verifeid")
    assert (several.code, "give the id of one: " in several.err) == (2, True)
    first = found["waiting_events"][0]
    assert command("workflow", "withdraw", "w1", "verifeid", "--id", first["id"], "-o", "json").json == {
        **first, "value": "by mail",
    }  # fmt: skip
    assert command("workflow", "withdraw", "w1", "verifeid", "--id", first["id"]).code == 3
    left = command("workflow", "get", "w1", "-o", "json").json["waiting_events"]
    assert [each["name"] for each in left] == ["verifeid", "b"]
    command("workflow", "signal", "w1", "verified", '"yes"')
    work(lambda app: app.workflows.get(run_id).has_ended)
    taken = command("workflow", "withdraw", "w1", "verified")
    assert (taken.code, "has already taken the event 'verified'" in taken.err) == (5, True)
    steps = [line.split("\t") for line in command("workflow", "history", "w1").out.splitlines()]
    assert steps[1][3] == f"success, by {first['sent_by']}"


def test_an_event_that_the_run_does_not_wait_for_now_is_kept(shop: Path, command: Command) -> None:
    run_id = command("workflow", "start", "app.onboard", "user=ada", "--id", "w1").out.strip()
    kept = "; its code does not wait for that now, the event is kept\n"
    assert command("workflow", "signal", "w1", "verified", "early").err == f"sent verified to w1{kept}"
    work(lambda app: app.workflows.get(run_id).state == "success")

    run_id = command("workflow", "start", "app.onboard", "user=bob", "--id", "w2").out.strip()
    work(lambda app: any(event.name == "verified" for event in app.workflows.history(run_id).events))
    waits = f"{kept.rstrip()}; it waits for verified"
    meant = command("workflow", "signal", "w2", "verifyed", "-o", "json")
    cure = "did you mean verified? `evertick workflow withdraw w2 verifyed` takes the other one back"
    assert meant.err == f"sent verifyed to w2{waits}; {cure}\n"
    assert meant.json["awaited"] is False
    assert command("workflow", "signal", "w2", "zzz").err == f"sent zzz to w2{waits}\n"
    assert command("workflow", "signal", "w2", "verified").err == "sent verified to w2\n"


def test_the_children_of_a_run_are_listed(shop: Path, command: Command) -> None:
    command("workflow", "start", "app.onboard_all", 'users=["ada","bob"]', "--id", "all")
    assert command("workflow", "children", "all").err.endswith("no runs\n")

    def has_called(app: App) -> bool:
        return any(event.job_id for event in app.workflows.history("all").events)

    work(has_called)
    first = command("workflow", "children", "all", "-o", "json").json
    assert [(run["function"], run["state"]) for run in first] in (
        [("app.onboard", "running")],
        [("app.onboard", "pending")],
    )
    command("workflow", "signal", first[0]["id"], "verified", "now")
    work(lambda app: len(app.workflows.children("all")) == 2)
    found = command("workflow", "children", "all", "-o", "json").json
    assert (found[0]["id"], found[0]["state"], found[0]["result"]) == (first[0]["id"], "success", "ada now")
    assert found[1]["parent_id"] == command("workflow", "get", "all", "-o", "json").json["id"]
    assert len(command("workflow", "list", "-o", "json").json) == 3
    assert command("workflow", "list", "--roots", "--fields", "key").out == "all\n"


def test_a_cursor_of_another_list_is_refused(shop: Path, command: Command) -> None:
    refused = command("workflow", "list", "--cursor", "abc")
    assert (refused.code, refused.out) == (2, "")
    assert "'abc' is not the id of a job" in refused.err


def test_a_list_goes_on_where_pages_hold_nothing(shop: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evertick.store.transaction.lists.SCAN_MAX", 3)
    command("workflow", "start", "app.onboard", "user=ada", "--id", "wanted")
    for number in range(12):
        command("workflow", "start", "app.onboard", "user=ada", "--id", f"other-{number}")
    found = command("workflow", "list", "--prefix", "wanted", "-o", "json")
    assert ([run["key"] for run in found.json], found.err) == (["wanted"], "")
    assert command("workflow", "list", "--prefix", "nothing", "-o", "json").json == []
    two = command("workflow", "list", "--prefix", "other-", "--limit", "11", "-o", "json").json
    assert [run["key"] for run in two] == [f"other-{number}" for number in range(11, 0, -1)]


def test_a_list_is_narrowed_by_workflow_state_prefix_and_time(shop: Path, command: Command) -> None:
    onboarded(command, key="order-1")
    for key in ("order-2", "task-3"):
        command(
            "workflow", "start", "app.onboard", "user=u", "--id", key, "--attribute", "n=7", "--attribute", f"of={key}"
        )

    def keys(*words: str) -> list[str]:
        return command("workflow", "list", "--fields", "key", *words).out.split()

    assert keys() == ["task-3", "order-2", "order-1"]
    assert keys("--prefix", "order-", "--workflow", "app.onboard") == ["order-2", "order-1"]
    assert keys("--attribute", "n=7") == ["task-3", "order-2"]
    assert keys("--attribute", "n=7", "--attribute", "of=task-3") == ["task-3"]
    assert keys("--attribute", 'n="7"') == []
    assert command("workflow", "get", "task-3", "-o", "json").json["attributes"] == {"n": 7, "of": "task-3"}
    assert command("workflow", "list", "--attribute", "n").code == 2
    assert keys("--state", "success", "--state", "running") == ["order-1"]
    assert keys("--since", "now-1h") == ["task-3", "order-2", "order-1"]
    assert keys("--until", "now-1h") == []
    assert keys("--limit", "1") == ["task-3"]
    cursor = command("workflow", "list", "--limit", "1", "-o", "json").json[0]["id"]
    assert keys("--cursor", cursor) == ["order-2", "order-1"]
    assert keys("--tenant", "acme") == []
    unknown = command("workflow", "list", "--workflow", "app.onbord")
    assert (unknown.code, "did you mean app.onboard" in unknown.err) == (3, True)


def test_a_history_is_drawn_and_written_as_data_that_replays(shop: Path, command: Command) -> None:
    run_id = onboarded(command, "fails=true")

    drawn = command("workflow", "history", "w1", "-o", "table").out.splitlines()
    assert drawn[0].startswith(f"app.onboard  {run_id}  w1  failed  started ")
    assert drawn[1].split() == ["STEP", "NAME", "KIND", "OUTCOME", "STARTED_AT", "DURATION", "TIMELINE"]
    assert [line.split()[:4] for line in drawn[2:4]] == [
        ["1", "app.reserve", "mutation", "success"],
        ["2", "verified", "event", "success,"],
    ]
    assert "success, by cli:" in drawn[3]
    assert "failed: ConnectionError: card refused" in drawn[4]
    assert "█" in drawn[4]
    piped = [line.split("\t") for line in command("workflow", "history", run_id).out.splitlines()]
    assert [line[:3] for line in piped] == [
        ["1", "app.reserve", "mutation"], ["2", "verified", "event"], ["3", "app.charge", "action"],
    ]  # fmt: skip
    last = command("workflow", "history", run_id, "--limit", "1")
    assert (len(last.out.splitlines()), last.err) == (1, "these are the last 1 of 3 steps; there are more: --limit\n")

    whole = RunHistory.model_validate(command("workflow", "history", run_id, "-o", "json").json)
    with pytest.raises(Exception, match="card refused"):
        replay(the_app().functions.resolve("app.onboard"), whole)  # type: ignore[arg-type]
    logged = command("workflow", "history", run_id, "--log").out.splitlines()
    assert (logged[3], len(logged), "  info     hello, " in logged[4]) == ("", 5, True)
    assert command("job", "logs", run_id).out.splitlines() == logged[4:]
    assert "  hello, " in command("logs").out.splitlines()[0]
    assert "--log is for people" in command("workflow", "history", run_id, "--log", "-o", "json").err
    lines = command("workflow", "history", run_id, "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["position"] for line in lines] == list(range(len(whole.events)))


def test_what_cannot_be_meant_is_refused_with_what_is_right(shop: Path, command: Command) -> None:
    no_workflow = command("workflow", "start", "app.reserve", "name=u")
    cure = "app.reserve is no workflow but a mutation; run it: evertick run app.reserve name=u\n"
    assert (no_workflow.code, no_workflow.err) == (2, f"error: {cure}")
    arguments = command("workflow", "start", "app.onboard", "name=u")
    assert (arguments.code, "user: field required" in arguments.err) == (2, True)
    assert "--timeout limits --wait" in command("workflow", "start", "app.onboard", "user=u", "--timeout", "1s").err
    assert command("workflow", "get", "w9").err == "error: no run 'w9'; list them with `evertick workflow list`\n"


def test_a_misspelt_key_is_answered_with_those_that_may_be_meant(shop: Path, command: Command) -> None:
    for key in ("surgery-rex-0", "surgery-rex-12", "remind-rex-0"):
        assert command("workflow", "start", "app.onboard", "user=u", "--id", key).code == 0
    assert command("run", "app.reserve", "user=u", "--after", "1h", "--key", "surgery-rx-1").code == 0

    meant = "did you mean 'surgery-rex-0'"
    for words in (("get",), ("history",), ("cancel",), ("terminate",), ("pause",), ("wait",), ("restart",)):
        done = command("workflow", *words, "surgery-rx-0")
        assert (done.code, done.err.startswith(f"error: no run 'surgery-rx-0'; {meant}")) == (3, True), done.err
    assert meant in command("workflow", "signal", "surgery-rx-0", "verified").err
    assert "mean 'remind-rex-0'? list" in command("workflow", "get", "remnid-rex-0").err
    of_job = command("job", "get", "surgery-rx-2").err
    assert "did you mean 'surg" in of_job and "'surgery-rx-1'" not in of_job, "another number is another thing"
    assert "did you mean" not in command("workflow", "get", "invoice-7").err
    assert "did you mean" not in command("workflow", "get", "surgery-rx-0", "--tenant", "acme").err


def test_a_duration_without_a_unit_starts_nothing(shop: Path, command: Command) -> None:
    refused = command("workflow", "start", "app.onboard", "user=u", "--wait", "--timeout", "2")
    assert (refused.code, refused.err) == (2, "error: '2' is not a duration; it has no unit: 2s is seconds\n")
    assert command("workflow", "list", "-o", "json").json == []


def test_a_history_says_what_a_step_waits_for(shop: Path, command: Command) -> None:
    run_id = command("workflow", "start", "app.onboard", "user=ada", "--id", "w1").out.strip()
    command("pool", "pause", "slow")
    command("workflow", "signal", "w1", "verified", "now")
    work(lambda app: any(event.job_id for event in app.workflows.history(run_id).events))
    command("workflow", "history", run_id)
    steps = [line.split("\t") for line in command("workflow", "history", run_id).out.splitlines()]
    assert steps[2][:4] == ["3", "app.charge", "action", "waits: pool 'slow' is paused"]
    command("pool", "resume", "slow")
    steps = [line.split("\t") for line in command("workflow", "history", run_id).out.splitlines()]
    assert steps[2][:4] == ["3", "app.charge", "action", "waits"], "no worker has taken it yet"
    work(lambda app: app.workflows.get(run_id).state == "success")


def test_a_start_that_waits_says_first_which_run_it_is(shop: Path, command: Command) -> None:
    waited = command("workflow", "start", "app.onboard", "user=u", "--wait", "--timeout", "1ms")
    [run] = json.loads(command("workflow", "list", "-o", "json").out)

    assert waited.code == 8
    assert waited.err.startswith(f"started {run['id']}; it goes on if this command ends\n")


def test_what_another_tenant_has_is_said_to_be_there(shop: Path, command: Command) -> None:
    """The forgotten --tenant; and hints name the one that was given."""
    run_id = command("workflow", "start", "app.onboard", "user=ada", "--id", "w1", "--tenant", "acme").out.strip()
    said = "in the tenant default; acme has it: add --tenant acme\n"
    for words in (("workflow", "get", "w1"), ("workflow", "signal", "w1", "verified"), ("workflow", "cancel", "w1")):
        done = command(*words)
        assert (done.code, done.err) == (3, f"error: no run 'w1' {said}")
    assert command("workflow", "get", run_id).err == f"error: no run '{run_id}' {said}"
    assert command("job", "get", run_id).err == f"error: no job {run_id} {said}"
    assert (
        command("schedule", "create", "-s", "s1", "--interval", "1h", "--type", "app.onboard", "--tenant", "acme").code
        == 0
    )
    assert command("schedule", "describe", "s1").err == f"error: no schedule 's1' {said}"

    other = command("workflow", "get", "w1", "--tenant", "acmee").err
    assert other == "error: no run 'w1' in the tenant acmee; acme has it: add --tenant acme\n"
    unknown = command("workflow", "get", "w9", "--tenant", "acme").err
    assert unknown == "error: no run 'w9' in the tenant acme; list them with `evertick workflow list --tenant acme`\n"
    for words in (("job", "cancel"), ("job", "retry"), ("job", "run-now"), ("workflow", "pause")):
        assert command(*words, run_id).err.endswith(said)
    restarted = command("job", "retry", run_id, "--tenant", "acme").err
    assert f"`evertick job run-now {run_id} --tenant acme`" in restarted


@pytest.mark.parametrize("what", ["job", "workflow", "schedule"])
def test_an_empty_list_says_whose_it_is(shop: Path, command: Command, what: str) -> None:
    command("workflow", "start", "app.onboard", "user=ada", "--tenant", "acme")
    things = "runs" if what == "workflow" else f"{what}s"

    assert command(what, "list", "-o", "table").err == ("no " + things + "\n")
    assert command(what, "list", "-o", "table", "--tenant", "acmee").err == (
        f"no {things} in the tenant acmee; did you mean acme?\n"
    )


def test_a_tenant_that_is_probably_misspelt_is_noted_before_it_is_made(shop: Path, command: Command) -> None:
    note = "note: nothing has the tenant acmee yet; did you mean acme?\n"
    assert "tenant" not in command("workflow", "start", "app.onboard", "user=ada", "--tenant", "acme").err
    assert command("logs", "-o", "table", "--tenant", "acmee").err == (
        "no lines in the tenant acmee; did you mean acme?\n"
    )
    assert command("job", "counts", "-o", "table", "--tenant", "acmee").err == (
        "no jobs in the tenant acmee; did you mean acme?\n"
    )
    assert "tenant" not in command("workflow", "start", "app.onboard", "user=ada", "--tenant", "globex").err
    started = command("workflow", "start", "app.onboard", "user=ada", "--tenant", "acmee")
    assert (started.code, note in started.err) == (0, True)
    again = command("workflow", "start", "app.onboard", "user=ada", "--tenant", "acmee")
    assert note not in again.err, "it is known now"


def test_a_time_that_is_none_names_the_words_that_are(shop: Path, command: Command) -> None:
    wrong = command("logs", "--since", "yesterdy")
    assert wrong.code == 2
    assert "write now, now-1h, yesterday, today, tomorrow, 2026-12-24 or" in wrong.err


def test_who_stops_waiting_for_a_run_is_told_how_to_look_again(
    shop: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = command("workflow", "start", "app.onboard", "user=ada", "--tenant", "acme").out.strip()

    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ChangeWaiter, "wait", ctrl_c)
    done = command("workflow", "wait", run_id, "--tenant", "acme")
    again = f"evertick workflow wait {run_id} --tenant acme"
    assert (done.code, done.err.splitlines()[-1]) == (130, f"run {run_id} goes on; see it with: {again}")


def test_a_run_timeout_is_given_shown_changed_written_to_a_file_and_lifted(shop: Path, command: Command) -> None:
    created = ("--cron", "0 3 * * *", "--function", "app.reserve", "--input", '{"user": "ada"}', "--run-timeout", "10m")
    assert command("schedule", "create", "nightly", *created).code == 0
    assert "runs time out after 10m" in command("schedule", "describe", "nightly").out
    assert command("schedule", "describe", "nightly", "-o", "json").json["policies"]["run_timeout"] == "10m"
    exported = command("schedule", "export", "nightly").out
    assert "run_timeout: 10m" in exported
    (shop / "schedules.yaml").write_text(exported.replace("10m", "1h"))
    assert command("schedule", "apply", "schedules.yaml", "--yes").code == 0
    assert command("schedule", "describe", "nightly", "-o", "json").json["policies"]["run_timeout"] == "1h"
    assert command("schedule", "update", "nightly", "--unset", "run-timeout").code == 0
    assert command("schedule", "describe", "nightly", "-o", "json").json["policies"]["run_timeout"] is None
    assert command("schedule", "update", "nightly", "--run-timeout", "0s").code == 2

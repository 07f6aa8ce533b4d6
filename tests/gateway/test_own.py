"""Our own gateway: crons that are schedules of an embedded app."""

from typing import Any

import pytest

from evertick.api.gateways import GatewayCronChange, digest_of
from evertick.app.functions.function import FunctionCall
from evertick.base.errors import (
    AccessDenied,
    CronNotFound,
    EvertickError,
    IdempotencyConflict,
    IntervalTooShort,
    InvalidCron,
    NotManaged,
    RevisionConflict,
    RunNotFound,
    UnknownCommand,
)
from tests.gateway.conftest import Gateway, new_cron

NOTE = {"type": "builtin", "name": "note"}
EVERY_15_S = {"type": "interval", "every_ms": 15_000}


def test_after_an_outage_each_cron_runs_once_and_returns_to_its_grid(gateway: Gateway) -> None:
    first, second = gateway.add("a"), gateway.add("b")
    gateway.world.advance(20)
    assert gateway.noted == ["09:00:15"] * 2

    gateway.world.outage(40)
    assert gateway.noted[2:] == ["09:01:00"] * 2
    gateway.world.advance(30)

    assert gateway.noted[4:] == ["09:01:15"] * 2 + ["09:01:30"] * 2
    for cron_id in (first, second):
        runs = [(f"{run.occurrence:%H:%M:%S}", run.status) for run in gateway.runs(cron_id) if run.occurrence]
        assert runs == [
            ("09:00:15", "succeeded"), ("09:00:30", "skipped"), ("09:00:45", "skipped"), ("09:01:00", "succeeded"),
            ("09:01:15", "succeeded"), ("09:01:30", "succeeded"),
        ]  # fmt: skip


def test_a_key_declares_its_cron_again(gateway: Gateway) -> None:
    """The id stays, and so does `enabled`; what is the same already keeps its revision."""
    cron, is_new = gateway.ask(gateway.backend.add(new_cron("a", EVERY_15_S, NOTE, enabled=False)))
    assert is_new and not cron.enabled and cron.next_run_at is None

    same, is_new = gateway.ask(gateway.backend.add(new_cron("a", EVERY_15_S, NOTE)))
    assert not is_new and same == cron

    other = {"type": "cron", "expression": "0 9 * * 1-5", "timezone": "Europe/Berlin"}
    changed, is_new = gateway.ask(gateway.backend.add(new_cron("a", other, NOTE, name="Every weekday")))
    assert not is_new and changed.id == cron.id and not changed.enabled and changed.revision != cron.revision
    assert changed.name == "Every weekday" and changed.schedule.timezone == "Europe/Berlin"
    assert len(gateway.ask(gateway.backend.crons())) == 2


def test_what_is_long_is_kept_as_it_was_written(gateway: Gateway) -> None:
    action = {"type": "http", "method": "POST", "url": "http://api.test/", "body": "\N{SNOWMAN}" * 16_000}
    rule = "DTSTART;TZID=Europe/Berlin:20260302T090000\nRRULE:FREQ=DAILY"
    schedule = {"type": "rrule", "rrule": f"{rule};COUNT=9" + "\nEXDATE;TZID=Europe/Berlin:20260303T090000" * 90}
    new = new_cron("\N{SNOWMAN}" * 200, schedule, action, name="\N{SNOWMAN}" * 200)
    cron, _ = gateway.ask(gateway.backend.add(new))
    assert (cron.key, cron.name, cron.schedule, cron.action) == (new.key, new.name, new.schedule, new.action)
    assert cron in gateway.ask(gateway.backend.crons())


def test_a_schedule_that_was_made_in_the_database_is_shown_and_read_only(gateway: Gateway) -> None:
    for schedule_id in ("mine", "cron:mine"):
        run = gateway.world.app.functions.resolve("gateway.run")
        gateway.world.app.schedules.create(schedule_id, when="0 9 * * *", do=FunctionCall(run, '{"action": {}}'))
        [cron] = [each for each in gateway.ask(gateway.backend.crons()) if each.id == schedule_id]
        assert (cron.managed, cron.system, cron.schedule.type, cron.key) == (False, False, "event", None)
        with pytest.raises(NotManaged):
            gateway.ask(gateway.backend.remove(cron.id, None))


def test_changes_are_fenced_by_the_revision(gateway: Gateway) -> None:
    cron_id = gateway.add()
    [cron] = [each for each in gateway.ask(gateway.backend.crons()) if each.managed]

    off = gateway.ask(gateway.backend.change(cron_id, GatewayCronChange(enabled=False), cron.revision))
    assert not off.enabled and off.revision != cron.revision
    with pytest.raises(RevisionConflict, match=f"the revision {off.revision}, not {cron.revision}"):
        gateway.ask(gateway.backend.change(cron_id, GatewayCronChange(name="late"), cron.revision))
    with pytest.raises(RevisionConflict):
        gateway.ask(gateway.backend.remove(cron_id, cron.revision))

    gateway.world.advance(60)
    on = gateway.ask(gateway.backend.change(cron_id, GatewayCronChange(enabled=True), off.revision))
    assert on.next_run_at is not None and on.next_run_at > gateway.world.now and gateway.noted == []
    gateway.ask(gateway.backend.remove(cron_id, on.revision))
    with pytest.raises(CronNotFound):
        gateway.ask(gateway.backend.remove(cron_id, None))
    with pytest.raises(CronNotFound):
        gateway.ask(gateway.backend.runs(cron_id, None, 10))


def test_runs_do_not_change_the_revision_and_change_the_digest(gateway: Gateway) -> None:
    gateway.add()
    before = gateway.ask(gateway.backend.crons())
    gateway.world.advance(15)
    after = gateway.ask(gateway.backend.crons())
    assert [each.revision for each in before] == [each.revision for each in after]
    assert digest_of(before) != digest_of(after) == digest_of(reversed(after))
    assert gateway.ask(gateway.backend.health()).digest == digest_of(after)


def test_what_the_configuration_declares_is_read_only(gateway: Gateway) -> None:
    [cron] = gateway.ask(gateway.backend.crons())
    assert (cron.id, cron.name, cron.system, cron.managed, cron.key) == ("system:nightly", "nightly", True, False, None)
    for refused in (
        gateway.backend.change(cron.id, GatewayCronChange(enabled=False), None),
        gateway.backend.remove(cron.id, None),
        gateway.backend.run(cron.id, "k"),
    ):
        with pytest.raises(NotManaged):
            gateway.ask(refused)


@pytest.mark.parametrize(
    ("schedule", "error", "words"),
    [
        ({"type": "cron", "expression": "99 9 * * *"}, InvalidCron, "99"),
        ({"type": "cron", "expression": "0 9 * * *", "timezone": "Mars/Base"}, InvalidCron, "Mars/Base"),
        ({"type": "once", "at": "2026-03-01T00:00:00Z"}, InvalidCron, "no further time"),
        ({"type": "cron", "expression": "0 0 30 2 *"}, InvalidCron, "never fires|no moment|never"),
        ({"type": "interval", "every_ms": 1}, IntervalTooShort, "whole number of seconds"),
        ({"type": "interval", "every_ms": 9_000}, IntervalTooShort, "10s"),
        ({"type": "rrule", "rrule": "DTSTART:20260302T090000Z\nRRULE:FREQ=SECONDLY"}, IntervalTooShort, "closer"),
        ({"type": "rrule", "rrule": "FREQ=FORTNIGHTLY"}, InvalidCron, "DTSTART|FREQ"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(
    gateway: Gateway, schedule: dict[str, Any], error: type[EvertickError], words: str
) -> None:
    cron_id = gateway.add()
    with pytest.raises(error, match=words) as caught:
        gateway.add("b", **schedule)
    assert caught.value.code == error.code
    change = GatewayCronChange.model_validate({"schedule": schedule})
    with pytest.raises(error, match=words):
        gateway.ask(gateway.backend.change(cron_id, change, None))
    assert [each.id for each in gateway.ask(gateway.backend.crons())] == [cron_id, "system:nightly"]


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ({"type": "command", "name": "rm -rf /"}, UnknownCommand),
        ({"type": "command", "name": "greet", "arguments": {"x": "1"}}, UnknownCommand),
        ({"type": "command", "name": "purge"}, UnknownCommand),
        ({"type": "command", "name": "purge", "arguments": {"zone": "eu; rm -rf /"}}, UnknownCommand),
        ({"type": "builtin", "name": "greet"}, UnknownCommand),
        ({"type": "http", "url": "http://other.test/"}, AccessDenied),
        ({"type": "http", "url": "http://api.test:22/"}, AccessDenied),
        ({"type": "http", "url": "http://api.test@other.test/"}, InvalidCron),
        ({"type": "http", "url": "http://api.test/", "body": "x"}, InvalidCron),
        ({"type": "agent", "message": "do it"}, InvalidCron),
        ({"type": "event", "text": "wake"}, InvalidCron),
    ],
)
def test_what_is_not_listed_cannot_be_asked_for(
    gateway: Gateway, action: dict[str, Any], error: type[EvertickError]
) -> None:
    with pytest.raises(error):
        gateway.ask(gateway.backend.add(new_cron("a", EVERY_15_S, action)))
    cron_id = gateway.add()
    with pytest.raises(error):
        gateway.ask(gateway.backend.change(cron_id, GatewayCronChange.model_validate({"action": action}), None))


def test_a_run_is_asked_for_once_by_its_key(gateway: Gateway) -> None:
    cron_id = gateway.add(type="cron", expression="0 9 * * *")
    run_id = gateway.ask(gateway.backend.run(cron_id, "k1"))
    assert gateway.ask(gateway.backend.run_of(run_id)).status == "running"
    gateway.world.advance(1)
    assert gateway.ask(gateway.backend.run(cron_id, "k1")) == run_id
    gateway.world.advance(1)

    assert gateway.noted == ["09:00:00"]
    [run] = gateway.runs(cron_id)
    assert (
        run == gateway.ask(gateway.backend.run_of(run_id)) == gateway.ask(gateway.backend.runs(cron_id, run_id, 1))[0]
    )
    assert (run.run_id, run.status, run.trigger, run.output, run.occurrence) == (
        run_id, "succeeded", "manual", "noted", None
    )  # fmt: skip
    other = gateway.add("b")
    with pytest.raises(IdempotencyConflict):
        gateway.ask(gateway.backend.run(other, "k1"))
    with pytest.raises(CronNotFound):
        gateway.ask(gateway.backend.run("cron:none", "k2"))
    assert gateway.ask(gateway.backend.runs(other, run_id, 1)) == []


def test_a_command_runs_without_a_cron_once_by_its_key(gateway: Gateway) -> None:
    run_id = gateway.ask(gateway.backend.run_command("note", {}, "k"))
    gateway.world.advance(1)
    assert gateway.ask(gateway.backend.run_command("note", {}, "k")) == run_id
    gateway.world.advance(1)
    run = gateway.ask(gateway.backend.run_of(run_id))
    assert (run.status, run.cron_id, run.output, len(gateway.noted)) == ("succeeded", None, "noted", 1)
    for name, arguments in (("sh", {}), ("note", {"x": "1"}), ("purge", {"zone": "mars"})):
        with pytest.raises(UnknownCommand):
            gateway.ask(gateway.backend.run_command(name, arguments, "k2"))


def test_a_failure_keeps_its_reason_and_output(gateway: Gateway) -> None:
    cron_id = gateway.add(builtin="fail")
    gateway.world.advance(30)
    [cron] = [each for each in gateway.ask(gateway.backend.crons()) if each.id == cron_id]
    assert (cron.last_status, cron.consecutive_errors, cron.running) == ("failed", 2, False)
    assert cron.last_error is not None and "out of order" in cron.last_error
    assert [(run.status, run.error, run.output) for run in gateway.runs(cron_id)] == [
        ("failed", "out of order", "half of it")
    ] * 2


def test_a_run_that_a_kill_interrupted_is_unknown_and_is_not_started_again(gateway: Gateway) -> None:
    cron_id = gateway.add(builtin="slow")
    gateway.world.advance(20)
    [cron] = [each for each in gateway.ask(gateway.backend.crons()) if each.id == cron_id]
    assert cron.running
    gateway.world.outage(1)
    gateway.world.advance(1)
    assert [run.status for run in gateway.runs(cron_id)] == ["unknown"]
    assert gateway.noted == []


def test_a_time_behind_a_run_is_skipped_with_a_receipt(gateway: Gateway) -> None:
    cron_id = gateway.add(builtin="slow")
    gateway.world.advance(50)
    runs = gateway.runs(cron_id)
    assert [run.status for run in runs] == ["running", "skipped", "skipped"]
    assert gateway.ask(gateway.backend.run_of(runs[1].run_id)) == runs[1]


@pytest.mark.parametrize("run_id", ["none", "cron:a@5", "cron:none@1772442015000", "cron:a@999999999999999", "@1"])
def test_an_unknown_run_is_not_found(gateway: Gateway, run_id: str) -> None:
    gateway.add()
    with pytest.raises(RunNotFound):
        gateway.ask(gateway.backend.run_of(run_id))

"""Explain: why a schedule ran at a time, or why it did not, as one chain of checks.

The ledger has the outcome of the time; the chain shows how it came about, check by check, and stops where it was
decided. A time that has no row is explained from the rule and the state: not named, not due yet, not evaluated yet,
from before the schedule, or older than the ledger's retention.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from evertick.api.reports import Answer, Check, Explanation, Missing
from evertick.app.limits.pools import pool_waits
from evertick.app.schedules.backfill_plans import caught_up
from evertick.app.schedules.views import blocked_runs, occurrence_view
from evertick.app.transacting import Work
from evertick.base.durations import full_length
from evertick.base.escaping import schedule_word
from evertick.base.ids import ScheduleId
from evertick.base.instants import DAY_MS, MILLISECOND, SECOND_MS, Instant, from_datetime, to_datetime, to_iso
from evertick.base.records.jobs import Job, JobState
from evertick.base.records.schedules import OccurrenceFilter, OccurrenceRow
from evertick.base.suggested_commands import SEPARATOR, WORKER
from evertick.engine.schedules.commands import refuse_unreadable
from evertick.engine.schedules.outcome import not_found
from evertick.engine.schedules.times import ScheduleTimes, times_of
from evertick.recurrence.explain import ReasonKind
from evertick.recurrence.explain import explain as explain_spec
from evertick.recurrence.parse.moments import format_instant
from evertick.rules.jobs.coverage import blocked
from evertick.rules.schedules.catch_up import SEEN_LATE, started_late, unseen
from evertick.rules.schedules.fates import Fate, Origin, Reason, RunOutcome
from evertick.rules.schedules.lifecycle import pause_detail
from evertick.rules.schedules.metadata import CODE
from evertick.rules.schedules.policies import CatchUp, Overlap
from evertick.rules.schedules.state import FireTime
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.schedules.commands import ScheduleOperations

ROWS_MAX: Final = 100


@dataclass(slots=True)
class _Chain:
    """The checks that were made so far, and what they read."""

    operations: "ScheduleOperations"
    transaction: Transaction
    schedule: ScheduleId
    at: Instant
    rows: Sequence[OccurrenceRow]
    checks: list[Check] = field(default_factory=list)

    def passed(self, name: str, text: str) -> None:
        self.checks.append(Check(name=name, answer=Answer.YES, text=text))

    def unknown(self, name: str, text: str) -> None:
        self.checks.append(Check(name=name, answer=Answer.UNKNOWN, text=text))

    def stopped(self, name: str, text: str) -> None:
        self.checks.append(Check(name=name, answer=Answer.NO, text=text))

    def without_row(self, missing: Missing, sentence: str, fix: str | None = None) -> Explanation:
        return Explanation(
            schedule=self.schedule, at=to_datetime(self.at), checks=tuple(self.checks), fate=None, reason=None,
            missing=missing, sentence=sentence, fix=fix,
        )  # fmt: skip

    def with_rows(self, row: OccurrenceRow, sentence: str, fix: str | None) -> Explanation:
        return Explanation(
            schedule=self.schedule, at=to_datetime(self.at), checks=tuple(self.checks), fate=Fate(row.fate),
            reason=Reason(row.reason), missing=None, sentence=sentence, fix=fix,
            occurrences=tuple(map(occurrence_view, sorted(self.rows, key=lambda each: each is not row))),
        )  # fmt: skip


def explain(operations: "ScheduleOperations", schedule_id: str, at: datetime) -> Work[Explanation]:
    """Why a schedule ran at the nominal time `at`, or why it did not; for a future time, whether it will run.

        print(app.schedules.explain("report", at=yesterday).sentence)

    Fractions of a second in `at` are ignored. A deleted schedule can be explained while its ledger and history are
    kept.

    Raises ScheduleNotFound for an id that never was, InvalidDelay for a moment without a time zone.
    """
    moment = from_datetime(at, "at")
    nominal_at = Instant(moment // SECOND_MS * SECOND_MS)

    def work(transaction: Transaction) -> Explanation:
        name = ScheduleId(schedule_id)
        row = transaction.get_schedule(name, tenant=operations.tenant)
        where = OccurrenceFilter(
            tenant=operations.tenant, schedule_id=name, start=nominal_at, end=Instant(nominal_at + SECOND_MS)
        )
        rows = transaction.list_occurrences(where, limit=ROWS_MAX)
        chain = _Chain(operations, transaction, name, nominal_at, rows)
        if row is None:
            return _of_deleted(chain)
        own = max(
            (each for each in rows if each.origin == Origin.SCHEDULE and each.nominal_at == nominal_at),
            key=lambda each: each.request,  # what was counted again after what was judged before
            default=None,
        )
        refuse_unreadable(row, "explained")
        state = row.state
        if own is not None and state.recount is not None and state.seen_until < nominal_at <= state.recount.until:
            return _of_nothing(chain, row)
        if own is not None and own.decided_at > operations.now():
            return _of_clock_ahead(chain, state.seen_until, own)
        found = own or (rows[0] if rows else None)
        if found is not None:
            return _of_row(chain, row, found)
        return _of_nothing(chain, row)

    return work


def obstacle_of(operations: "ScheduleOperations", transaction: Transaction, row: Schedule) -> str | None:
    """Why runs of a schedule's function may not start now; None if they may."""
    evaluation = operations.by(operations.now()).evaluation(transaction)
    found = operations.targets.ineligible(transaction, [row], evaluation).get((row.tenant, row.id))
    return None if found is None else found.reason or found.blocked_reason


def _of_deleted(chain: _Chain) -> Explanation:
    """The schedule was deleted."""
    history = chain.transaction.list_history(chain.schedule, tenant=chain.operations.tenant, limit=1_000)
    if not history and not chain.rows:
        raise not_found(chain.transaction, chain.schedule, chain.operations.tenant)
    end = next((line for line in history if line.action == "deleted"), None)
    gone = f"deleted by {end.actor} at {to_iso(end.at)}" if end is not None else "deleted"
    if chain.rows:
        return _of_row(chain, None, chain.rows[0])
    if end is not None and end.at <= chain.at:
        chain.stopped("existed", gone)
        return chain.without_row(Missing.DELETED, f"the schedule had been {gone}")
    chain.unknown("existed", f"it is gone now: {gone}")
    return chain.without_row(Missing.NO_RECORD, f"nothing is recorded for that time, and the schedule is {gone}")


def _of_clock_ahead(chain: _Chain, seen_until: Instant, own: OccurrenceRow) -> Explanation:
    """A time that was judged at a moment which is still to come: the clock was ahead, and was set back."""
    now = to_iso(chain.operations.now())
    chain.stopped("clock", f"it was judged at {to_iso(own.decided_at)}, and it is {now} only: the clock was set back")
    sentence = (
        f"{own.fate} while the clock was ahead ({own.reason}); the schedule is silent until {to_iso(seen_until)}, "
        "unless it is resumed from now"
    )
    return chain.with_rows(own, sentence, f"{_command('resume', chain.schedule)} --from-now")


def _of_nothing(chain: _Chain, row: Schedule) -> Explanation:
    """No row: the rule and the state explain it."""
    now, at = chain.operations.now(), chain.at
    state = row.state
    metadata = row.metadata
    if at < row.created_at:
        chain.stopped("existed", f"created at {to_iso(row.created_at)}")
        sentence, times = "the schedule did not exist yet", times_of(row)
        if times.recurrence.matches(at // SECOND_MS):
            return chain.without_row(Missing.NOT_CREATED, sentence, _backfill_command(row.id, at))
        sentence += f", and its rule does not name this time{_nearest(times, at)}"
        return chain.without_row(Missing.NOT_CREATED, sentence)
    chain.passed("existed", f"since {to_iso(row.created_at)}")
    if at < metadata.spec_at:
        chain.unknown("matched", f"the rule is of {to_iso(metadata.spec_at)}; what it was before is in the history")
        return chain.without_row(
            Missing.OTHER_SPEC,
            f"the schedule had another rule then (changed at {to_iso(metadata.spec_at)}), which did not name this time",
            _command("history", row.id),
        )
    times = times_of(row)
    if not _matched(chain, times):
        decisive = chain.checks[-1]
        why = "" if decisive.name == "matched" else f": {decisive.text}"
        return chain.without_row(Missing.NOT_NAMED, f"the rule does not name this time{why}{_nearest(times, at)}")
    time = times.fire_time(at // SECOND_MS)
    if state.pause is not None and (state.pause.until is None or state.pause.until > time.actual_at):
        chain.stopped("active", pause_detail(state.pause))
        return chain.without_row(
            Missing.PAUSED,
            f"the schedule is {pause_detail(state.pause)}",
            _command("resume", row.id),
        )
    if state.ending is not None and at > state.seen_until:
        chain.stopped("limit", f"ended: {state.ending}")
        return chain.without_row(Missing.ENDED, f"the schedule has ended ({state.ending})")
    if time.actual_at > now:
        chain.passed("active", "not paused")
        if (obstacle := obstacle_of(chain.operations, chain.transaction, row)) is not None:
            chain.stopped("eligible", obstacle)
            return chain.without_row(Missing.UPCOMING, f"it is to be skipped: {obstacle}")
        return chain.without_row(Missing.UPCOMING, f"it is to start at {to_iso(time.actual_at)}")
    if at > state.seen_until:
        return _not_evaluated(chain, time, now)
    if now - at > chain.operations.settings.ledger_retention // MILLISECOND:
        chain.unknown("recorded", "older than the ledger's retention")
        return chain.without_row(Missing.NO_RECORD, "the ledger does not reach back that far")
    chain.stopped("recorded", "no row in the ledger")
    return chain.without_row(
        Missing.NO_RECORD, "the ledger has no row for this time; please report this", _backfill_command(row.id, at)
    )


def _not_evaluated(chain: _Chain, time: FireTime, now: Instant) -> Explanation:
    """Due, and not evaluated yet: does a worker run?"""
    alive = chain.transaction.workers_alive(now)
    late = full_length(now - time.actual_at)
    if alive:
        chain.stopped("evaluated", f"due for {late}, and not evaluated yet; {len(alive)} worker(s) are alive")
        return chain.without_row(Missing.NOT_EVALUATED, "it is due, and about to be evaluated")
    chain.stopped("evaluated", f"due for {late}, and no worker is alive")
    return chain.without_row(Missing.NOT_EVALUATED, "it is due, but no worker runs that would evaluate it", WORKER)


def _of_row(chain: _Chain, row: Schedule | None, found: OccurrenceRow) -> Explanation:
    """The ledger has a row: how did it come about?"""
    if found.origin == Origin.SCHEDULE:
        _matched_then(chain, row)
    else:
        chain.passed("asked", f"asked for by hand: a {found.origin} ({found.request})")
    reason = Reason(found.reason)
    late = _late(found)
    for name, text, reasons in _GATES:
        if reason in reasons:
            chain.stopped(name, found.detail or text)
            sentence = f"{found.fate}: {found.detail or text}"
            if name == "overlap" and (blocker := _blocked_run(chain, row, found)) is not None:
                chain.stopped("ran", f"{found.run_id} has not begun: no live worker runs {blocker.name}")
                sentence += f"; that run is blocked, because no live worker runs {blocker.name}"
                return chain.with_rows(found, sentence, f"evertick job get {blocker.id}")
            if (caught := caught_up(found, chain.rows, row)) is not None:
                chain.passed("caught up", caught.text)
                return chain.with_rows(found, f"{found.fate}, and {caught.text}", caught.fix)
            if unseen(reason, found.detail, found.decided_at - found.actual_at):
                sentence += f"; no worker evaluated it from {to_iso(found.actual_at)} to {to_iso(found.decided_at)}"
            return chain.with_rows(found, sentence, _fix(chain, row, found))
        by_hand = name == "catch-up" and found.origin != Origin.SCHEDULE
        chain.passed(name, BY_HAND if by_hand else _PASSED[name].format(late=late))
    if found.fate == Fate.BUFFERED:
        chain.stopped("overlap", found.detail)
        return chain.with_rows(found, f"buffered: {found.detail}", _command("describe", chain.schedule))
    return _of_run(chain, found)


def _blocked_run(chain: _Chain, row: Schedule | None, found: OccurrenceRow) -> Job | None:
    """The job of the run that was in the way, if it still is and no live worker can run it."""
    if row is None or found.run_id is None:
        return None
    return blocked_runs(chain.transaction, row, chain.operations.now()).get(found.run_id)


def _of_run(chain: _Chain, found: OccurrenceRow) -> Explanation:
    """It was started: when, and how did it end?"""
    chain.passed("started", f"{found.run_id} was started {_late(found)} ({found.reason})")
    started = f"started {_late(found)} as {found.run_id}"
    if found.outcome is not None and found.ended_at is not None:
        outcome = RunOutcome(found.outcome)
        took = full_length(found.ended_at - (found.started_at or found.ended_at))
        text = f"ended {outcome} after {took}"
        (chain.passed if outcome is RunOutcome.SUCCESS else chain.stopped)("ended", text)
        fix = None if outcome is RunOutcome.SUCCESS else f"evertick job get {found.job_id}"
        return chain.with_rows(found, f"{started}, {text}", fix)
    job = None if found.job_id is None else chain.transaction.get_job(found.job_id, tenant=chain.operations.tenant)
    if job is None:
        chain.unknown("ended", "its job is not there any more")
        return chain.with_rows(found, started, None)
    if job.state is JobState.PENDING:
        now = chain.operations.now()
        waits = pool_waits(chain.transaction, [job], now)
        is_blocked = blocked([job], chain.transaction.workers_alive(now), now)
        why = f"blocked: no live worker runs {job.name}" if is_blocked else waits.get(job.id, "it waits for a worker")
        chain.stopped("ran", f"{why} (attempt {job.attempt + 1}, due {to_iso(job.due_at)})")
        return chain.with_rows(found, f"{started}; {why}", f"evertick job get {job.id}")
    chain.passed("ran", f"attempt {job.attempt} is running")
    return chain.with_rows(found, f"{started}, and is running", None)


_GATES: Final[Sequence[tuple[str, str, frozenset[Reason]]]] = (
    ("kept", "the schedule was deleted while it waited", frozenset({Reason.DELETED})),
    ("active", "the schedule was paused", frozenset({Reason.PAUSED})),
    ("limit", "no actions remained", frozenset({Reason.LIMIT})),
    ("catch-up", "no worker evaluated it within the catch-up window", SEEN_LATE),
    ("eligible", "its target could not run", frozenset({Reason.TARGET_INELIGIBLE})),
    ("overlap", "an earlier run was open", frozenset({Reason.OVERLAP, Reason.SUPERSEDED, Reason.BACKFILL_CANCELED})),
    ("room", "there was no room", frozenset({Reason.BUFFER_FULL, Reason.RUNS_FULL})),
    ("startable", "the start was refused", frozenset({Reason.START_REFUSED})),
)  # fmt: skip
"""The checks in the order in which the rules make them, and the reasons with which each turns a time away."""

_PASSED: Final = {
    "kept": "the schedule was not deleted meanwhile",
    "active": "not paused",
    "catch-up": "evaluated {late}",
    "eligible": "its target could run",
    "limit": "actions remained",
    "overlap": "no run was in the way, or its turn came",
    "room": "there was room",
    "startable": "the start was not refused",
}

BY_HAND: Final = "what is asked for by hand is never too late"

WAIT: Final = "let such times wait: "
NEXT_TIME: Final = "for the next outage: "
"""Before the commands that change the policies of a schedule."""


def _fix(chain: _Chain, row: Schedule | None, found: OccurrenceRow) -> str | None:
    match Reason(found.reason):
        case Reason.PAUSED:
            return f"{_command('resume', chain.schedule)}{SEPARATOR}{_backfill_command(chain.schedule, chain.at)}"
        case Reason.OVERLAP:
            return _fix_of_overlap(chain, row, found)
        case Reason.LIMIT:
            return f"{_command('update', chain.schedule)} --unset remaining-actions"
        case Reason.TARGET_INELIGIBLE | Reason.DELETED | Reason.SUPERSEDED:
            return None
        case reason if row is not None and found.origin == Origin.SCHEDULE:
            again = _backfill_command(chain.schedule, chain.at)
            policies = "" if reason not in SEEN_LATE else _policies_that_run(row, found)
            return f"{again}{SEPARATOR}{NEXT_TIME}{_command('update', chain.schedule)}{policies}" if policies else again
        case _:
            return None


def _fix_of_overlap(chain: _Chain, row: Schedule | None, found: OccurrenceRow) -> str | None:
    """What was asked for by hand is asked for again with another policy; the rule's own times need one that waits."""
    if row is None:
        return None
    if found.origin == Origin.TRIGGER:
        return f"{_command('trigger', row.id)} --overlap-policy AllowAll"
    if found.origin == Origin.BACKFILL or row.state.policies.overlap in KEEPS_ALL:
        return f"{_backfill_command(row.id, chain.at)} --overlap-policy BufferAll"
    return f"{WAIT}{_command('update', row.id)} --overlap-policy BufferAll"


KEEPS_ALL: Final = frozenset({Overlap.BUFFER_ALL, Overlap.ALLOW_ALL})


def _policies_that_run(row: Schedule, found: OccurrenceRow) -> str:
    """The flags of the policies with which a time that was evaluated late would have run; empty if it has them now.

    Of a cron in code, whose policies no command changes, nothing is said.
    """
    if row.metadata.source == CODE:
        return ""
    policies = row.state.policies
    flags = "" if policies.catch_up is CatchUp.ALL else " --catch-up all"
    flags += "" if policies.overlap in KEEPS_ALL else " --overlap-policy BufferAll"
    late_ms = found.decided_at - found.actual_at
    if late_ms > policies.catch_up_window_ms:
        flags += f" --catchup-window {-(-late_ms // DAY_MS)}d"
    return flags


def _command(verb: str, schedule_id: str) -> str:
    """A command for a terminal; ids may hold spaces, or begin with a dash."""
    return f"evertick schedule {verb} {schedule_word(schedule_id)}"


def _backfill_command(schedule_id: str, at: Instant) -> str:
    """One that can be run twice: what it has run is left out then."""
    return f"{_command('backfill', schedule_id)} --start-time {to_iso(at)} --end-time {to_iso(at)} --skip-done"


def _late(found: OccurrenceRow) -> str:
    """When it was first judged, against when it was due. Triggers and backfills run after it, and are not late."""
    late_ms = (found.started_at or found.decided_at) - found.actual_at
    if late_ms < SECOND_MS:
        return "on time"
    return f"{full_length(late_ms)} {'late' if started_late(found.origin, late_ms) else 'after its time'}"


def _matched_then(chain: _Chain, row: Schedule | None) -> None:
    """The rule named it, since it is in the ledger; today's rule explains more, if it still names it."""
    if row is not None and chain.at >= row.metadata.spec_at:
        times = times_of(row)
        if times.recurrence.matches(chain.at // SECOND_MS):
            _matched(chain, times)
            return
    chain.passed("matched", "the rule of that time named it")


def _matched(chain: _Chain, times: ScheduleTimes) -> bool:
    """Is it named, not excluded, within bounds? Says so, step by step."""
    found = explain_spec(times.recurrence, chain.at // SECOND_MS)
    for reason in found.reasons:
        match reason.kind:
            case ReasonKind.NAMED:
                chain.passed("matched", reason.text)
            case ReasonKind.MOVED | ReasonKind.FIRST_OF_TWO | ReasonKind.SECOND_OF_TWO:
                chain.passed("clock change", reason.text)
            case ReasonKind.NOT_NAMED | ReasonKind.OTHER_OF_TWO:
                chain.stopped("matched", reason.text)
            case ReasonKind.EXCLUDED | ReasonKind.REMOVED:
                chain.stopped("not excluded", reason.text)
            case ReasonKind.BEFORE_START | ReasonKind.AFTER_END:
                chain.stopped("within bounds", reason.text)
    if found.fires:
        chain.passed("not excluded", "no exclusion covers it")
        chain.passed("within bounds", "between the start and the end of the rule")
    return found.fires


def _nearest(times: ScheduleTimes, at: Instant) -> str:
    """The times of the rule around a moment, to be compared with what was meant."""
    before, after = times.recurrence.prev(at // SECOND_MS), times.recurrence.next(at // SECOND_MS)
    near = [_on_both_clocks(times, each) for each in (before, after) if each is not None]
    return f"; the nearest are {' and '.join(near)}" if near else ""


def _on_both_clocks(times: ScheduleTimes, second: int) -> str:
    """A time on the schedule's clock, and in UTC where that differs."""
    utc, zone = format_instant(second), times.recurrence.zone
    return utc if zone.name == "UTC" else f"{format_instant(second, zone.offset_at(second))} ({utc})"

"""Explain: why a schedule ran at a time, or why it did not, as one chain of checks.

The ledger tells what became of the time; the chain tells how it came to that, check by check, and stops where it was
decided. A time that has no row is explained from the rule and the state: not named, not due yet, not looked at yet,
from before the schedule, or older than the ledger's retention.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from evertick.app.schedule_memo import Memo
from evertick.app.schedule_operations import ScheduleOperations
from evertick.app.schedule_reading import Work
from evertick.app.schedule_views import OccurrenceView, occurrence_view
from evertick.base.errors import ScheduleNotFound
from evertick.base.ids import ScheduleId
from evertick.base.instants import SECOND_MS, Instant, from_datetime, to_datetime, to_iso
from evertick.base.records import JobState
from evertick.base.schedule_records import OccurrenceFilter, OccurrenceRow, ScheduleRow
from evertick.engine.schedule_times import ScheduleTimes
from evertick.rules.catch_up import LATE_AFTER_MS
from evertick.rules.lifecycle import pause_detail
from evertick.rules.recurrence import ReasonKind
from evertick.rules.recurrence.explain import explain as explain_spec
from evertick.rules.schedule import Fate, FireTime, Origin, Reason, RunOutcome
from evertick.rules.state_text import from_text
from evertick.store.contract import Transaction

ROWS_MAX: Final = 100


class Answer(StrEnum):
    """How a check came out."""

    YES = "yes"
    """It let the time pass."""
    NO = "no"
    """It was decided here."""
    UNKNOWN = "unknown"
    """What would tell is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One link of the chain: what was asked, how it came out, and a sentence."""

    name: str
    answer: Answer
    text: str


class Missing(StrEnum):
    """Why there is no row in the ledger."""

    NOT_NAMED = "not_named"
    UPCOMING = "upcoming"
    NOT_LOOKED_AT = "not_looked_at"
    NOT_CREATED = "not_created"
    DELETED = "deleted"
    OTHER_SPEC = "other_spec"
    NO_RECORD = "no_record"
    PAUSED = "paused"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a schedule ran at a time or did not.

    `fate` and `reason` are those of the ledger's row; without one `fate` is None and `missing` says why there is none.
    `occurrences` are the rows at that time (triggers and backfills among them). `fix` is what would help, if anything.
    """

    schedule: ScheduleId
    at: datetime
    checks: tuple[Check, ...]
    fate: Fate | None
    reason: Reason | None
    missing: Missing | None
    sentence: str
    fix: str | None
    occurrences: tuple[OccurrenceView, ...] = ()

    @property
    def ran(self) -> bool:
        """Was a run started for it?"""
        return self.fate is Fate.STARTED


@dataclass(slots=True)
class _Chain:
    """The chain as it grows."""

    schedule: ScheduleId
    at: Instant
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

    def with_rows(
        self, row: OccurrenceRow, rows: Sequence[OccurrenceRow], sentence: str, fix: str | None
    ) -> Explanation:
        return Explanation(
            schedule=self.schedule, at=to_datetime(self.at), checks=tuple(self.checks), fate=Fate(row.fate),
            reason=Reason(row.reason), missing=None, sentence=sentence, fix=fix,
            occurrences=tuple(occurrence_view(each) for each in rows),
        )  # fmt: skip


def explain(operations: ScheduleOperations, schedule_id: str, at: datetime) -> Work[Explanation]:
    """Why a schedule ran at the nominal time `at` (cut to the second), or why it did not; or, ahead, whether it will.

    Answers also for a schedule that was deleted, as far as its ledger and history reach.
    Raises ScheduleNotFound for an id that never was, InvalidDelay for a moment without a time zone.
    """
    moment = from_datetime(at)
    nominal_at = Instant(moment // SECOND_MS * SECOND_MS)

    def work(transaction: Transaction) -> Explanation:
        name = ScheduleId(schedule_id)
        row = transaction.get_schedule(name, tenant=operations.tenant)
        where = OccurrenceFilter(
            tenant=operations.tenant, schedule_id=name, start=nominal_at, end=Instant(nominal_at + SECOND_MS)
        )
        rows = transaction.list_occurrences(where, limit=ROWS_MAX)
        chain = _Chain(name, nominal_at)
        if row is None:
            return _of_deleted(operations, transaction, chain, rows)
        own = max(
            (each for each in rows if each.origin == Origin.SCHEDULE and each.nominal_at == nominal_at),
            key=lambda each: each.request,  # what was counted again after what was judged before
            default=None,
        )
        state = from_text(row.state)
        if own is not None and state.recount is not None and state.seen_until < nominal_at <= state.recount.until:
            return _of_nothing(operations, transaction, chain, row)
        if own is not None and own.decided_at > operations.now():
            return _of_clock_ahead(operations, chain, state.seen_until, own, rows)
        found = own or (rows[0] if rows else None)
        if found is not None:
            return _of_row(operations, transaction, chain, row, found, rows)
        return _of_nothing(operations, transaction, chain, row)

    return work


def _of_deleted(
    operations: ScheduleOperations, transaction: Transaction, chain: _Chain, rows: Sequence[OccurrenceRow]
) -> Explanation:
    """The schedule is not there any more."""
    history = transaction.list_history(chain.schedule, tenant=operations.tenant, limit=1_000)
    if not history and not rows:
        raise ScheduleNotFound(f"no schedule {chain.schedule!r}; list them with `evertick schedule list`")
    end = next((line for line in history if line.action == "deleted"), None)
    gone = f"deleted by {end.actor} at {to_iso(end.at)}" if end is not None else "deleted"
    if rows:
        return _of_row(operations, transaction, chain, None, rows[0], rows)
    if end is not None and end.at <= chain.at:
        chain.stopped("existed", gone)
        return chain.without_row(Missing.DELETED, f"the schedule had been {gone}")
    chain.unknown("existed", f"it is gone now: {gone}")
    return chain.without_row(Missing.NO_RECORD, f"nothing is recorded for that time, and the schedule is {gone}")


def _of_clock_ahead(
    operations: ScheduleOperations,
    chain: _Chain,
    seen_until: Instant,
    own: OccurrenceRow,
    rows: Sequence[OccurrenceRow],
) -> Explanation:
    """A time that was judged at a moment which is still to come: the clock was ahead, and was set back."""
    now = to_iso(operations.now())
    chain.stopped("clock", f"it was judged at {to_iso(own.decided_at)}, and it is {now} only: the clock was set back")
    sentence = (
        f"{own.fate} while the clock was ahead ({own.reason}); the schedule is silent until {to_iso(seen_until)}, "
        "unless it is told to count from now"
    )
    return chain.with_rows(own, rows, sentence, f"evertick schedule resume --sid {chain.schedule} --from-now")


def _of_nothing(
    operations: ScheduleOperations, transaction: Transaction, chain: _Chain, row: ScheduleRow
) -> Explanation:
    """No row: the rule and the state must tell."""
    now, at = operations.now(), chain.at
    state = from_text(row.state)
    memo = Memo.from_text(row.memo)
    if at < row.created_at:
        chain.stopped("existed", f"created at {to_iso(row.created_at)}")
        return chain.without_row(Missing.NOT_CREATED, "the schedule did not exist yet", _backfill_command(row.id, at))
    chain.passed("existed", f"since {to_iso(row.created_at)}")
    if at < memo.spec_at:
        chain.unknown("matched", f"the rule is of {to_iso(memo.spec_at)}; what it was before is in the history")
        return chain.without_row(
            Missing.OTHER_SPEC,
            f"the schedule had another rule then (changed at {to_iso(memo.spec_at)}), which did not name this time",
            f"evertick schedule history --sid {row.id}",
        )
    times = ScheduleTimes(row.spec, row.id, row.tenant)
    if not _matched(chain, times):
        decisive = chain.checks[-1]
        why = "" if decisive.name == "matched" else f": {decisive.text}"
        return chain.without_row(Missing.NOT_NAMED, f"the rule does not name this time{why}{_nearest(times, at)}")
    time = times.fire_time(at // SECOND_MS)
    if state.pause is not None and (state.pause.until is None or state.pause.until > time.actual_at):
        chain.stopped("active", pause_detail(state.pause))
        return chain.without_row(
            Missing.PAUSED, f"the schedule is {pause_detail(state.pause)}", f"evertick schedule resume --sid {row.id}"
        )
    if state.ending is not None and at > state.seen_until:
        chain.stopped("limit", f"ended: {state.ending}")
        return chain.without_row(Missing.ENDED, f"the schedule has ended ({state.ending})")
    if time.actual_at > now:
        chain.passed("active", "not paused")
        return chain.without_row(Missing.UPCOMING, f"it is to start at {to_iso(time.actual_at)}")
    if at > state.seen_until:
        return _not_looked_at(transaction, chain, time, now)
    if now - at > operations.settings.ledger_retention_ms:
        chain.unknown("recorded", "older than the ledger's retention")
        return chain.without_row(Missing.NO_RECORD, "the ledger does not reach back that far")
    chain.stopped("recorded", "no row in the ledger")
    return chain.without_row(
        Missing.NO_RECORD, "the ledger has no row for this time; please report this", _backfill_command(row.id, at)
    )


def _not_looked_at(transaction: Transaction, chain: _Chain, time: FireTime, now: Instant) -> Explanation:
    """Due, and nobody has looked yet: is anybody there?"""
    alive = transaction.workers_alive(now)
    late_s = (now - time.actual_at) // SECOND_MS
    if alive:
        chain.stopped("evaluated", f"due for {late_s} s, and not looked at yet; {len(alive)} worker(s) are alive")
        return chain.without_row(Missing.NOT_LOOKED_AT, "it is due, and about to be looked at")
    chain.stopped("evaluated", f"due for {late_s} s, and no worker is alive")
    return chain.without_row(Missing.NOT_LOOKED_AT, "it is due, but no worker runs that would look", "evertick worker")


def _of_row(
    operations: ScheduleOperations,
    transaction: Transaction,
    chain: _Chain,
    row: ScheduleRow | None,
    found: OccurrenceRow,
    rows: Sequence[OccurrenceRow],
) -> Explanation:
    """The ledger knows: how did it come to that?"""
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
            if reason in _SEEN_LATE:
                sentence += f" (first looked at {late})"
            return chain.with_rows(found, rows, sentence, _fix(chain, reason, found))
        chain.passed(name, _PASSED[name].format(late=late))
    if found.fate == Fate.BUFFERED:
        chain.stopped("overlap", found.detail)
        return chain.with_rows(
            found, rows, f"buffered: {found.detail}", f"evertick schedule describe --sid {chain.schedule}"
        )
    return _of_run(operations, transaction, chain, found, rows)


def _of_run(
    operations: ScheduleOperations,
    transaction: Transaction,
    chain: _Chain,
    found: OccurrenceRow,
    rows: Sequence[OccurrenceRow],
) -> Explanation:
    """It was started: when, and how did it end?"""
    chain.passed("started", f"{found.run_id} was started {_late(found)} ({found.reason})")
    started = f"started {_late(found)} as {found.run_id}"
    if found.outcome is not None and found.ended_at is not None:
        outcome = RunOutcome(found.outcome)
        took_s = (found.ended_at - (found.started_at or found.ended_at)) / SECOND_MS
        text = f"ended {outcome} after {took_s:g} s"
        (chain.passed if outcome is RunOutcome.SUCCESS else chain.stopped)("ended", text)
        fix = None if outcome is RunOutcome.SUCCESS else f"evertick job get {found.job_id}"
        return chain.with_rows(found, rows, f"{started}, {text}", fix)
    job = None if found.job_id is None else transaction.get_job(found.job_id, tenant=operations.tenant)
    if job is None:
        chain.unknown("ended", "its job is not there any more")
        return chain.with_rows(found, rows, started, None)
    if job.state is JobState.PENDING:
        why = "no worker knows its function" if job.blocked else "it waits for a worker"
        chain.stopped("ran", f"{why} (attempt {job.attempt + 1}, due {to_iso(job.due_at)})")
        return chain.with_rows(found, rows, f"{started}; {why}", f"evertick job get {job.id}")
    chain.passed("ran", f"attempt {job.attempt} is running")
    return chain.with_rows(found, rows, f"{started}, and is running", None)


_GATES: Final[Sequence[tuple[str, str, frozenset[Reason]]]] = (
    ("kept", "the schedule was deleted while it waited", frozenset({Reason.DELETED})),
    ("active", "the schedule was paused", frozenset({Reason.PAUSED})),
    ("limit", "no actions remained", frozenset({Reason.LIMIT})),
    ("awake", "nobody looked within the catch-up window", frozenset({Reason.CATCH_UP_WINDOW, Reason.CATCH_UP_LATEST,
                                                                    Reason.CATCH_UP_NONE})),
    ("eligible", "its target might not run", frozenset({Reason.TARGET_INELIGIBLE})),
    ("overlap", "an earlier run was open", frozenset({Reason.OVERLAP, Reason.SUPERSEDED, Reason.BACKFILL_CANCELED})),
    ("room", "there was no room", frozenset({Reason.BUFFER_FULL, Reason.RUNS_FULL})),
    ("startable", "the start was refused", frozenset({Reason.START_REFUSED})),
)  # fmt: skip
"""The checks in the order in which the rules make them, and the reasons with which each turns a time away."""

_PASSED: Final = {
    "kept": "the schedule was not deleted meanwhile",
    "active": "not paused",
    "awake": "looked at {late}",
    "eligible": "its target might run",
    "limit": "actions remained",
    "overlap": "no run was in the way, or its turn came",
    "room": "there was room",
    "startable": "the start was not refused",
}
_SEEN_LATE: Final = frozenset({Reason.CATCH_UP_WINDOW, Reason.CATCH_UP_LATEST, Reason.CATCH_UP_NONE})


def _fix(chain: _Chain, reason: Reason, found: OccurrenceRow) -> str | None:
    match reason:
        case Reason.PAUSED:
            return (
                f"evertick schedule resume --sid {chain.schedule}; then {_backfill_command(chain.schedule, chain.at)}"
            )
        case Reason.OVERLAP:
            return f"let such times wait: evertick schedule update --sid {chain.schedule} --overlap-policy BufferOne"
        case Reason.LIMIT:
            return f"evertick schedule update --sid {chain.schedule} --unset remaining-actions"
        case Reason.TARGET_INELIGIBLE | Reason.DELETED | Reason.SUPERSEDED:
            return None
        case _:
            return _backfill_command(chain.schedule, chain.at) if found.origin == Origin.SCHEDULE else None


def _backfill_command(schedule_id: str, at: Instant) -> str:
    return f"evertick schedule backfill --sid {schedule_id} --start-time {to_iso(at)} --end-time {to_iso(at)}"


def _late(found: OccurrenceRow) -> str:
    """When it was first judged, against when it was due."""
    late_ms = (found.started_at or found.decided_at) - found.actual_at
    if late_ms < SECOND_MS:
        return "on time"
    return f"{late_ms / SECOND_MS:g} s late" if late_ms > LATE_AFTER_MS else f"{late_ms / SECOND_MS:g} s after its time"


def _matched_then(chain: _Chain, row: ScheduleRow | None) -> None:
    """The rule named it, since it is in the ledger; today's rule tells more, if it still does."""
    if row is not None and chain.at >= Memo.from_text(row.memo).spec_at:
        times = ScheduleTimes(row.spec, row.id, row.tenant)
        if times.recurrence.matches(chain.at // SECOND_MS):
            _matched(chain, times)
            return
    chain.passed("matched", "the rule of that time named it")


def _matched(chain: _Chain, times: ScheduleTimes) -> bool:
    """Is it named, not excluded, within bounds? Says so, step by step."""
    told = explain_spec(times.recurrence, chain.at // SECOND_MS)
    for reason in told.reasons:
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
    if told.fires:
        chain.passed("not excluded", "no exclusion covers it")
        chain.passed("within bounds", "between the start and the end of the rule")
    return told.fires


def _nearest(times: ScheduleTimes, at: Instant) -> str:
    """The times of the rule around a moment, to be compared with what was meant."""
    before, after = times.recurrence.prev(at // SECOND_MS), times.recurrence.next(at // SECOND_MS)
    near = [to_iso(Instant(each * SECOND_MS)) for each in (before, after) if each is not None]
    return f"; the nearest are {' and '.join(near)}" if near else ""

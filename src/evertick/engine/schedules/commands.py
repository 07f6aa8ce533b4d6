"""Requests: what a user or a function does to a schedule, as plain functions over a transaction.

Every request first lets the schedule catch up with what has happened (ends of runs, due times), then happens itself,
all in the caller's transaction: a mutation that pauses a schedule pauses it together with its other writes, or not at
all. Each leaves a line in the schedule's history; what changes what it is, or pauses it, makes it a new version.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from evertick.base.errors import (
    ScheduleNotFound,
    SchemaMismatch,
    Unavailable,
    VersionConflict,
)
from evertick.base.escaping import schedule_word
from evertick.base.ids import HISTORY_PREFIX, ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import FunctionKind, ServedFunction
from evertick.base.records.schedules import OccurrenceFilter
from evertick.engine.jobs.completion import MakeId
from evertick.engine.runtime.tracing import Tracing
from evertick.engine.schedules.eligibility import ELIGIBLE, WORKFLOWS, Targets
from evertick.engine.schedules.evaluation import Inputs, evaluate
from evertick.engine.schedules.outcome import (
    ASLEEP_LOOK_EVERY_MS,
    COMPLETED_RETENTION_MS,
    Evaluated,
    Evaluation,
    FunctionOf,
    no_function,
    not_found,
    oldest_start,
    write,
)
from evertick.engine.schedules.times import times_of
from evertick.rules.jobs.coverage import served_under
from evertick.rules.schedules.catch_up import LATE_AFTER_MS, WAITED
from evertick.rules.schedules.decide import fold
from evertick.rules.schedules.events import Deleted, Event, Paused, Resumed, Updated
from evertick.rules.schedules.fates import AFTER_OUTAGE, FATE_OF, Fate, Origin, Reason
from evertick.rules.schedules.policies import BUFFER_MAX, Policies
from evertick.rules.schedules.state import FireTime, Pause, cut
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

REPORTS_MAX: Final = 1_000
ROUNDS_MAX: Final = 800
"""Pages of due times that a request judges before it happens; a schedule further behind must be caught up first."""

LEDGER_LOOK_MAX: Final = 1_000
"""Rows of the ledger beyond the present that a new schedule looks at for times of a namesake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asks, in whose name and when: what every request needs beside its own words."""

    tenant: TenantId
    actor: str
    now: Instant
    make_id: MakeId
    targets: Targets | None = WORKFLOWS
    """Who is asked whether a target may run; None lets all of them."""
    retention_ms: int = COMPLETED_RETENTION_MS
    tracing: Tracing | None = None
    function_of: FunctionOf = no_function
    """The functions at hand: a run that a request starts is in the pool of its function, and has its retry policy."""

    def evaluation(self, transaction: Transaction) -> Evaluation:
        """What evaluations on its behalf need. A function whose code is not at hand is what a live worker says."""

        def function_of(name: str, app: str | None) -> ServedFunction | None:
            own = self.function_of(name, app)
            return served_under(name, app, transaction.workers_alive(self.now)) if own is None else own

        return Evaluation(
            now=self.now, make_id=self.make_id, retention_ms=self.retention_ms, tracing=self.tracing,
            function_of=cache(function_of),
            attended_since=lambda: oldest_start(transaction.workers_alive(self.now), self.now),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is requested of a schedule: `events` for the rules, and `edit`, which gives it another spec, target, note or
    other metadata. `action` and `detail` are what its history says about it.

    With `if_version`, the change is refused if the schedule has another version. `is_edit`: it makes the schedule a new
    version. Triggers and backfills do not: who has read the schedule may still change it.
    """

    action: str = "updated"
    detail: str = ""
    events: Sequence[Event] = ()
    edit: Callable[[Schedule], Schedule] | None = None
    if_version: int | None = None
    is_edit: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Change):
    """A change of what a schedule is: what `edit` gives it, its policies, and the names of its runs. None keeps.

    `first_at` is the first moment that may be a time of a new spec, where that shall not be the one after the update.
    """

    policies: Policies | None = None
    run_id_template: str | None = None
    first_at: Instant | None = None


def create(
    transaction: Transaction, row: Schedule, requests: Sequence[Event], by: Requester, *, detail: str = ""
) -> Schedule:
    """Write a new schedule and let its first requests (a trigger, a backfill) happen at once.

    The caller has seen in this transaction that no schedule has its id. Most have no requests: such a schedule is
    written as it waits for its first time, without an evaluation. Its version goes on from that of a deleted one with
    its id: who has read that one shall not change this one.
    """
    row = row._replace(version=transaction.last_version(row.id, tenant=row.tenant) + 1)
    row = _in_trace(_beyond_ledger(transaction, row), by)
    created = Change(action="created", detail=detail, events=requests)
    first = None if requests or _may_be_blocked(row, by) else _first_time(row, by.now)
    if first is None:
        transaction.insert_schedule(row)
        return _write(transaction, row, created, by).row
    row = row._replace(wake_at=first.actual_at, next_at=first.actual_at)
    transaction.insert_schedule(row)
    _add_line(transaction, row, created, by)
    return row


def _may_be_blocked(row: Schedule, by: Requester) -> bool:
    """Whether someone must be asked if the target may run: workflows may be paused, and an app may have other rules."""
    return row.target.kind is FunctionKind.WORKFLOW or by.targets not in (None, WORKFLOWS)


def _first_time(row: Schedule, now: Instant) -> FireTime | None:
    """The time that a new schedule waits for; None if it does not just wait, or something is due already."""
    if row.state.paused or row.state.ending is not None:
        return None
    first = times_of(row).after(row.seen_until)
    return first if first is not None and first.actual_at > now else None


def apply(transaction: Transaction, schedule_id: ScheduleId, change: Change, by: Requester) -> Schedule:
    """Let a change happen to a schedule; returns the schedule as it is then.

    Raises ScheduleNotFound, VersionConflict if the schedule is not of the version that the change is for, and
    SchemaMismatch for one that this release cannot read, unless the change pauses or resumes it.
    """
    row = locked(transaction, schedule_id, by.tenant, change.if_version)
    if row.unreadable:
        return _rest(transaction, row, change, by)
    row = row if change.edit is None else change.edit(row)
    if change.is_edit:
        row = row._replace(version=row.version + 1, updated_at=by.now)
    return _write(transaction, row, change, by).row


def refuse_unreadable(row: Schedule, what: str) -> None:
    """Raise SchemaMismatch for a schedule that this release cannot read, so that `what` cannot be done to it."""
    if problems := row.why_unreadable:
        error = SchemaMismatch(
            f"schedule {row.id!r} cannot be {what}, because it cannot be read ({problems}); give it a new "
            f"definition (evertick schedule update {schedule_word(row.id)} --replace --when TEXT --function NAME, or "
            "apply a file), delete it, or update this release"
        )
        error.of_one_row = True
        raise error


def _rest(transaction: Transaction, row: Schedule, change: Change, by: Requester) -> Schedule:
    """Pause or resume a schedule that cannot be read. No time of it is judged before it can be.

    One whose state cannot be read has no place for a pause there: it is not looked at until it is resumed.
    """
    pauses = any(isinstance(event, Paused) for event in change.events)
    if change.edit is not None or not all(isinstance(event, Paused | Resumed) for event in change.events):
        refuse_unreadable(row, change.action)
    row = row._replace(version=row.version + 1, updated_at=by.now)
    if "state" not in row.unreadable:
        row = row.with_state(fold(row.state, change.events, by.now).state)
        row = row.set_aside(Instant(by.now + (ASLEEP_LOOK_EVERY_MS if pauses else 0)))
    else:
        row = row.set_aside(None if pauses else by.now)._replace(note=change.detail)
    transaction.save_schedules([row])
    _add_line(transaction, row, change, by)
    return row.saved()


def update(transaction: Transaction, schedule_id: ScheduleId, change: Update, by: Requester) -> Evaluated:
    """Change what a schedule is.

    Runs, waiting occurrences, counters, pause and results stay. The old spec and policies decide what becomes of the
    times until the update; those that start with it have the new target, as all that starts later: the code that the
    old one names may be gone. Times before the update are never made up; a time of the old spec that is between its
    nominal and its actual moment is kept. Of a schedule that cannot be read, `edit` gets one with defaults in place of
    what cannot be read, and has to replace these. Raises as `locked` does.
    """
    row = locked(transaction, schedule_id, by.tenant, change.if_version)
    if is_readable := not (problems := row.why_unreadable):
        due = row if change.edit is None else row.with_target(change.edit(row).target)
        before = _evaluated(transaction, due, (), by)
        write(transaction, [before], by.evaluation(transaction))
        seen = before.row.saved()
    else:
        seen = _made_readable(transaction, row, by)
        change = replace(change, detail=cut(f"it could not be read ({problems}); {change.detail}"))
    edited = seen if change.edit is None else change.edit(seen)
    edited = _in_trace(edited, by)._replace(version=row.version + 1, updated_at=by.now)
    spec_changed = edited.spec != row.spec
    pending: tuple[FireTime, ...] = ()
    spec_since: Instant | None = None
    if spec_changed:
        pending = _between_nominal_and_actual(row, seen.state.seen_until, by.now) if is_readable else ()
        spec_since = by.now if change.first_at is None else Instant(change.first_at - 1)
    event = Updated(
        at=by.now,
        policies=change.policies,
        run_id_template=change.run_id_template,
        spec_changed=spec_changed,
        pending=pending,
    )
    return _write(transaction, edited, replace(change, events=[event, *change.events]), by, spec_since=spec_since)


def delete(transaction: Transaction, schedule_id: ScheduleId, by: Requester, *, if_version: int | None = None) -> None:
    """Remove a schedule. What waits or is due is dropped and noted in the ledger; what runs goes on.

    Also one that this release cannot read: then times that it has not judged yet stay without a row in the ledger.
    """
    by = replace(by, targets=None)  # also what has no target any more can be deleted
    row = locked(transaction, schedule_id, by.tenant, if_version)
    if problems := row.why_unreadable:
        _drop_waiting(transaction, row, by.now)
        detail = cut(f"this release could not read it: {problems}")
        _add_line(transaction, row, Change(action="deleted", detail=detail), by)
    else:
        _write(transaction, row, Change(action="deleted", events=[Deleted(at=by.now)]), by)
    transaction.delete_schedule(schedule_id, tenant=by.tenant)


def _made_readable(transaction: Transaction, row: Schedule, by: Requester) -> Schedule:
    """The schedule with defaults in place of what cannot be read.

    With its state go its counters, its open runs and what waits: the ledger notes that. It stays paused if it was.
    """
    fresh = row.with_defaults()
    if "state" not in row.unreadable:
        return fresh
    _drop_waiting(transaction, row, by.now)
    transaction.delete_schedule(row.id, tenant=row.tenant)
    pause = Pause(at=by.now, by=by.actor, note=row.note, until=None) if row.wake_at is None else None
    fresh = fresh.with_state(fresh.state._replace(seen_until=by.now, touched_at=by.now, pause=pause, note=row.note))
    transaction.insert_schedule(fresh)
    return fresh


def _drop_waiting(transaction: Transaction, row: Schedule, now: Instant) -> None:
    """Note in the ledger that what waits will not run, without reading the schedule."""
    where = OccurrenceFilter(tenant=row.tenant, schedule_id=row.id, fates=(Fate.BUFFERED.value,))
    waiting = transaction.list_occurrences(where, limit=BUFFER_MAX)
    dropped = "the schedule was deleted"
    rows = []
    for each in waiting:
        is_overdue = each.origin == Origin.SCHEDULE and each.decided_at - each.actual_at > LATE_AFTER_MS
        reason = AFTER_OUTAGE[Reason.DELETED] if is_overdue else Reason.DELETED
        detail = f"{WAITED}for earlier runs; {dropped}" if is_overdue else dropped
        fate = FATE_OF[reason].value
        rows.append(each._replace(fate=fate, reason=reason.value, detail=detail, decided_at=now, run_id=None))
    transaction.record_occurrences(rows)


def locked(
    transaction: Transaction, schedule_id: ScheduleId, tenant: TenantId, if_version: int | None = None
) -> Schedule:
    """The schedule, to be changed.

    Raises ScheduleNotFound, or VersionConflict if it is not of version `if_version` any more.
    """
    row = transaction.lock_schedule(schedule_id, tenant=tenant)
    if row is None:
        raise not_found(transaction, schedule_id, tenant)
    if if_version is not None and row.version != if_version:
        raise VersionConflict(
            f"schedule {schedule_id!r} is at version {row.version}, not {if_version}: it was changed meanwhile; "
            "read it again"
        )
    return row


def _write(
    transaction: Transaction, row: Schedule, change: Change, by: Requester, *, spec_since: Instant | None = None
) -> Evaluated:
    """Let the events of a change happen, write what follows, and add a line to the history."""
    item = _evaluated(transaction, row, change.events, by, spec_since=spec_since)
    write(transaction, [item], by.evaluation(transaction))
    _add_line(transaction, row, change, by)
    return item


def _add_line(transaction: Transaction, row: Schedule, change: Change, by: Requester) -> None:
    """Add a line about a change to the schedule's history."""
    line_id = by.make_id(HISTORY_PREFIX, by.now)
    transaction.add_history(row.line(line_id, by.now, by.actor, change.action, change.detail))


def _evaluated(
    transaction: Transaction,
    row: Schedule,
    requests: Sequence[Event],
    by: Requester,
    *,
    spec_since: Instant | None = None,
) -> Evaluated:
    """What follows for a schedule when all that came before the requests, and then the requests, have happened.

    Due times that do not fit into one evaluation are judged and written here, page by page, so that the requests come
    after all of them. A schedule that is being changed is not removed for having ended.

    Raises Unavailable if that is more than a transaction should hold.
    """
    evaluation = by.evaluation(transaction)
    ineligible = {} if by.targets is None else by.targets.ineligible(transaction, [row], evaluation)
    eligibility = ineligible.get((row.tenant, row.id), ELIGIBLE)
    if eligibility.gone:
        raise ScheduleNotFound(f"the target of schedule {row.id!r} is gone, and the schedule goes with it")
    for _ in range(ROUNDS_MAX):
        reports = transaction.run_reports([(row.tenant, row.id)], limit=REPORTS_MAX)
        inputs = Inputs(reports=reports, requests=requests, eligibility=eligibility, spec_since=spec_since)
        item = evaluate(row, inputs, evaluation)
        if not item.more:
            return item._replace(retired=False)
        deletions = [each for each in requests if isinstance(each, Deleted)]
        page = evaluate(row, inputs._replace(requests=deletions), evaluation)
        write(transaction, [page._replace(retired=False)], evaluation)
        row = page.row.saved()
    raise Unavailable(f"schedule {row.id!r} is being caught up with what it missed; try again in a moment")


def _in_trace(row: Schedule, by: Requester) -> Schedule:
    """The schedule with the trace context of the request that defines it."""
    trace = None if by.tracing is None else by.tracing.carried()
    if by.tracing is None or row.metadata.trace == trace:
        return row
    return row.with_metadata(replace(row.metadata, trace=trace))


def _beyond_ledger(transaction: Transaction, row: Schedule) -> Schedule:
    """The new row; if one of this id was deleted and the clock set back, what the ledger holds is not named again."""
    where = OccurrenceFilter(tenant=row.tenant, schedule_id=row.id, start=Instant(row.seen_until + 1))
    beyond = transaction.list_occurrences(where, limit=LEDGER_LOOK_MAX, newest_first=True)
    seen_until = next((each.nominal_at for each in beyond if each.origin == Origin.SCHEDULE), None)
    if seen_until is None:
        return row
    return row.with_state(row.state._replace(seen_until=seen_until))


def _between_nominal_and_actual(row: Schedule, seen_until: Instant, now: Instant) -> tuple[FireTime, ...]:
    time = times_of(row).after(seen_until)
    return (time,) if time is not None and time.nominal_at <= now < time.actual_at else ()

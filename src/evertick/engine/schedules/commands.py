"""Requests: operations of users and functions on schedules, as plain functions over a transaction.

Every request first evaluates what has already happened to the schedule (ends of runs, due times), and is then applied,
all in the caller's transaction: a mutation that pauses a schedule pauses it together with its other writes, or not at
all. Each request adds a line to the schedule's history. If it changes the definition or pauses, it makes a new version.
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
    ASLEEP_POLL_EVERY_MS,
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
"""Pages of due times that a request evaluates first. If a schedule is further behind, it must be caught up before."""

LEDGER_ROWS_MAX: Final = 1_000
"""Future rows of the ledger that are checked for times of a deleted schedule with the id of a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """The actor, the tenant and the time of a request: what every request needs in addition to its content."""

    tenant: TenantId
    actor: str
    now: Instant
    make_id: MakeId
    targets: Targets | None = WORKFLOWS
    """Decides whether a target may run. None allows every target."""
    retention_ms: int = COMPLETED_RETENTION_MS
    tracing: Tracing | None = None
    function_of: FunctionOf = no_function
    """The functions of this process: a run that a request starts gets the pool and the retry policy of its function."""

    def evaluation(self, transaction: Transaction) -> Evaluation:
        """The evaluation for this request. If a function is not in this process, a live worker describes it."""

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
    """A request to a schedule: `events` for the rules, and `edit`, which replaces its spec, target, note or other
    metadata. `action` and `detail` describe it in the history.

    With `if_version`, the change is refused if the schedule has another version. `is_edit` says that it makes a new
    version. Triggers and backfills do not make one, so a client that has read the schedule may still change it.
    """

    action: str = "updated"
    detail: str = ""
    events: Sequence[Event] = ()
    edit: Callable[[Schedule], Schedule] | None = None
    if_version: int | None = None
    is_edit: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Change):
    """A change of the definition: by `edit`, to the policies, and to the names of runs. None keeps the current value.

    `first_at` is the earliest time of a new spec, if that is not the first one after the update.
    """

    policies: Policies | None = None
    run_id_template: str | None = None
    first_at: Instant | None = None


def create(
    transaction: Transaction, row: Schedule, requests: Sequence[Event], by: Requester, *, detail: str = ""
) -> Schedule:
    """Write a new schedule and apply its first requests (a trigger, a backfill) at once.

    The caller has checked in this transaction that no schedule has its id. Most schedules have no requests: they are
    written as waiting for their first time, without an evaluation. The version continues after that of a deleted
    schedule with the same id, so that a caller who has read that one cannot change this one.
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
    """Whether the target may be blocked: workflows may be paused, and an app may have other rules."""
    return row.target.kind is FunctionKind.WORKFLOW or by.targets not in (None, WORKFLOWS)


def _first_time(row: Schedule, now: Instant) -> FireTime | None:
    """The first time of a new schedule if it only has to wait for it; None if it has to be evaluated now."""
    if row.state.paused or row.state.ending is not None:
        return None
    first = times_of(row).after(row.seen_until)
    return first if first is not None and first.actual_at > now else None


def apply(transaction: Transaction, schedule_id: ScheduleId, change: Change, by: Requester) -> Schedule:
    """Apply a change to a schedule. Return the schedule after the change.

    Raises ScheduleNotFound, VersionConflict if the schedule does not have the version that the change expects, and
    SchemaMismatch if this release cannot read it, unless the change pauses or resumes it.
    """
    row = locked(transaction, schedule_id, by.tenant, change.if_version)
    if row.unreadable:
        return _rest(transaction, row, change, by)
    row = row if change.edit is None else change.edit(row)
    if change.is_edit:
        row = row._replace(version=row.version + 1, updated_at=by.now)
    return _write(transaction, row, change, by).row


def refuse_unreadable(row: Schedule, what: str) -> None:
    """Raise SchemaMismatch for a schedule that this release cannot read, which prevents the operation `what`."""
    if problems := row.why_unreadable:
        error = SchemaMismatch(
            f"schedule {row.id!r} cannot be {what}, because it cannot be read ({problems}); give it a new "
            f"definition (evertick schedule update {schedule_word(row.id)} --replace --when TEXT --function NAME, or "
            "apply a file), delete it, or update this release"
        )
        error.of_one_row = True
        raise error


def _rest(transaction: Transaction, row: Schedule, change: Change, by: Requester) -> Schedule:
    """Pause or resume a schedule that cannot be read. None of its times is judged until it can be read.

    If its state cannot be read, the pause cannot be stored there. Then it is not evaluated until it is resumed.
    """
    pauses = any(isinstance(event, Paused) for event in change.events)
    if change.edit is not None or not all(isinstance(event, Paused | Resumed) for event in change.events):
        refuse_unreadable(row, change.action)
    row = row._replace(version=row.version + 1, updated_at=by.now)
    if "state" not in row.unreadable:
        row = row.with_state(fold(row.state, change.events, by.now).state)
        row = row.mark_unreadable(Instant(by.now + (ASLEEP_POLL_EVERY_MS if pauses else 0)))
    else:
        row = row.mark_unreadable(None if pauses else by.now)._replace(note=change.detail)
    transaction.save_schedules([row])
    _add_line(transaction, row, change, by)
    return row.saved()


def update(transaction: Transaction, schedule_id: ScheduleId, change: Update, by: Requester) -> Evaluated:
    """Change the definition of a schedule.

    Runs, waiting occurrences, counters, pause and results stay. The old spec and policies decide about the times until
    the update. Occurrences that start with the update have the new target, as all later ones: the code of the old
    target may be gone. Times before the update are never caught up. A time of the old spec between its nominal and its
    actual time is kept. If the schedule cannot be read, `edit` receives it with defaults for the unreadable parts, and
    has to replace them. Raises the same errors as `locked`.
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
    """Remove a schedule. Waiting and due occurrences are dropped and recorded in the ledger; running ones continue.

    A schedule that this release cannot read can be removed, too. Times that it has not judged then get no ledger row.
    """
    by = replace(by, targets=None)  # a schedule whose target is gone can be deleted, too
    row = locked(transaction, schedule_id, by.tenant, if_version)
    if problems := row.why_unreadable:
        _drop_waiting(transaction, row, by.now)
        detail = cut(f"this release could not read it: {problems}")
        _add_line(transaction, row, Change(action="deleted", detail=detail), by)
    else:
        _write(transaction, row, Change(action="deleted", events=[Deleted(at=by.now)]), by)
    transaction.delete_schedule(schedule_id, tenant=by.tenant)


def _made_readable(transaction: Transaction, row: Schedule, by: Requester) -> Schedule:
    """Replace the unreadable parts of a schedule by defaults. Return the schedule.

    An unreadable state loses counters, open runs and waiting occurrences, which the ledger records. A pause remains.
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
    """Record in the ledger that waiting occurrences will not run, without reading the schedule."""
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
    """Lock a schedule in order to change it, and return it.

    Raises ScheduleNotFound, or VersionConflict if its version is not `if_version`.
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
    """Apply the events of a change, write the results, and add a line to the history."""
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
    """The result for a schedule after all earlier events, and then the requests, were evaluated.

    Due times that do not fit into one evaluation are evaluated and written here, page by page, so that the requests
    come after all of them. A schedule that is being changed is not removed because it has ended.

    Raises Unavailable if there are too many for one transaction.
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
    """The new row. It skips ledger times of a deleted schedule with its id, in case the clock was set back."""
    where = OccurrenceFilter(tenant=row.tenant, schedule_id=row.id, start=Instant(row.seen_until + 1))
    beyond = transaction.list_occurrences(where, limit=LEDGER_ROWS_MAX, newest_first=True)
    seen_until = next((each.nominal_at for each in beyond if each.origin == Origin.SCHEDULE), None)
    if seen_until is None:
        return row
    return row.with_state(row.state._replace(seen_until=seen_until))


def _between_nominal_and_actual(row: Schedule, seen_until: Instant, now: Instant) -> tuple[FireTime, ...]:
    time = times_of(row).after(seen_until)
    return (time,) if time is not None and time.nominal_at <= now < time.actual_at else ()

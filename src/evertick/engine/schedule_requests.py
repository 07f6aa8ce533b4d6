"""Requests: what somebody does to a schedule, as plain functions over a transaction.

Every request first lets the schedule catch up with what has happened (ends of runs, due times), then happens itself,
all in the caller's transaction: a mutation that pauses a schedule pauses it together with its other writes, or not at
all. Each bumps the schedule's version and leaves a line in its history.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from evertick.base.errors import AlreadyExists, ScheduleNotFound, Unavailable, VersionConflict
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import Instant
from evertick.base.schedule_records import HistoryRow, OccurrenceFilter, ScheduleRow
from evertick.engine.evaluation import COMPLETED_RETENTION_MS, Evaluated, evaluate
from evertick.engine.finish import MakeId
from evertick.engine.schedule_standing import OPEN, Standing, Targets
from evertick.engine.schedule_times import ScheduleTimes
from evertick.engine.schedule_writing import HISTORY_PREFIX, write
from evertick.rules.events import Deleted, Event, Updated
from evertick.rules.schedule import FireTime, Origin, Policies
from evertick.rules.state_text import from_text, to_text
from evertick.store.contract import Transaction

REPORTS_MAX: Final = 1_000
ROUNDS_MAX: Final = 200
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
    targets: Targets = OPEN
    retention_ms: int = COMPLETED_RETENTION_MS


def create(
    transaction: Transaction, row: ScheduleRow, requests: Sequence[Event], by: Requester, *, detail: str = ""
) -> Evaluated:
    """Write a new schedule and let its first requests (a trigger, a backfill) happen at once.

    Raises AlreadyExists if the id is taken.
    """
    if transaction.get_schedule(row.id, tenant=row.tenant) is not None:
        raise AlreadyExists(f"a schedule {row.id!r} exists already; update it, or choose another id")
    row = _beyond_ledger(transaction, row)
    transaction.insert_schedule(row)
    item = _evaluated(transaction, row, requests, by)
    write(transaction, [item], now=by.now, make_id=by.make_id)
    add_history(transaction, row.id, "created", detail, by)
    return item


def apply(
    transaction: Transaction,
    schedule_id: ScheduleId,
    requests: Sequence[Event],
    by: Requester,
    *,
    action: str,
    detail: str = "",
    if_version: int | None = None,
    change: Callable[[ScheduleRow], ScheduleRow] | None = None,
) -> Evaluated:
    """Let requests happen to a schedule. `change` edits what the rules do not know (its memo).

    Raises ScheduleNotFound, or VersionConflict if the schedule is not of version `if_version` any more.
    """
    row = locked(transaction, schedule_id, by.tenant, if_version)
    row = replace(row if change is None else change(row), version=row.version + 1, updated_at=by.now)
    item = _evaluated(transaction, row, requests, by)
    write(transaction, [item], now=by.now, make_id=by.make_id)
    add_history(transaction, schedule_id, action, detail, by)
    return item


def update(
    transaction: Transaction,
    schedule_id: ScheduleId,
    by: Requester,
    *,
    spec: str | None = None,
    target: str | None = None,
    function: str | None = None,
    policies: Policies | None = None,
    run_id_template: str | None = None,
    requests: Sequence[Event] = (),
    detail: str = "",
    if_version: int | None = None,
    change: Callable[[ScheduleRow], ScheduleRow] | None = None,
    first_at: Instant | None = None,
) -> Evaluated:
    """Change what a schedule does; what is None stays. `change` edits what the rules do not know (its memo).

    Runs, waiting occurrences, counters, pause and results stay too. Times before the update are never made up; a time
    of the old spec that is between its nominal and its actual moment is kept. `first_at` is the first moment that may
    be a time of the new spec, where that shall not be the one after the update.
    """
    row = locked(transaction, schedule_id, by.tenant, if_version)
    before = _evaluated(transaction, row, (), by)
    write(transaction, [before], now=by.now, make_id=by.make_id)
    changed = replace(
        before.row,
        spec=spec or row.spec,
        target=target or row.target,
        function=function or row.function,
        version=row.version + 1,
        revision=before.row.revision + 1,
        updated_at=by.now,
    )
    spec_changed = spec is not None and spec != row.spec
    pending: tuple[FireTime, ...] = ()
    spec_since: Instant | None = None
    if spec_changed:
        pending = _between_nominal_and_actual(row, before.plan.state.seen_until, by.now)
        spec_since = by.now if first_at is None else Instant(first_at - 1)
    if change is not None:
        changed = change(changed)
    event = Updated(
        at=by.now, policies=policies, run_id_template=run_id_template, spec_changed=spec_changed, pending=pending
    )
    item = _evaluated(transaction, changed, [event, *requests], by, spec_since=spec_since)
    write(transaction, [item], now=by.now, make_id=by.make_id)
    add_history(transaction, schedule_id, "updated", detail, by)
    return item


def delete(transaction: Transaction, schedule_id: ScheduleId, by: Requester, *, if_version: int | None = None) -> None:
    """Remove a schedule. What waits is dropped and noted in the ledger; what runs goes on."""
    by = replace(by, targets=OPEN)  # also what has no target any more can be deleted
    row = locked(transaction, schedule_id, by.tenant, if_version)
    item = _evaluated(transaction, row, [Deleted(at=by.now)], by)
    write(transaction, [item], now=by.now, make_id=by.make_id)
    transaction.delete_schedule(schedule_id, tenant=by.tenant)
    add_history(transaction, schedule_id, "deleted", "", by)


def locked(
    transaction: Transaction, schedule_id: ScheduleId, tenant: TenantId, if_version: int | None = None
) -> ScheduleRow:
    """The schedule, to be changed.

    Raises ScheduleNotFound, or VersionConflict if it is not of version `if_version` any more.
    """
    row = transaction.lock_schedule(schedule_id, tenant=tenant)
    if row is None:
        raise ScheduleNotFound(f"no schedule {schedule_id!r}; list them with `evertick schedule list`")
    if if_version is not None and row.version != if_version:
        raise VersionConflict(
            f"schedule {schedule_id!r} is at version {row.version}, not {if_version}: somebody changed it meanwhile; "
            "read it again"
        )
    return row


def add_history(transaction: Transaction, schedule_id: ScheduleId, action: str, detail: str, by: Requester) -> None:
    """A line about what was done."""
    transaction.add_history(
        HistoryRow(
            id=by.make_id(HISTORY_PREFIX, by.now),
            tenant=by.tenant,
            schedule_id=schedule_id,
            at=by.now,
            actor=by.actor,
            action=action,
            detail=detail,
        )
    )


def with_override(row: ScheduleRow, request: str, args: str) -> ScheduleRow:
    """The row with the arguments that a trigger brought for its own run."""
    memo = json.loads(row.memo)
    memo["overrides"] = memo.get("overrides", {}) | {request: args}
    return replace(row, memo=json.dumps(memo))


def _evaluated(
    transaction: Transaction,
    row: ScheduleRow,
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
    standing: Standing = by.targets.standing(transaction, row)
    if standing.gone:
        raise ScheduleNotFound(f"the target of schedule {row.id!r} is gone, and the schedule goes with it")
    for _ in range(ROUNDS_MAX):
        reports = transaction.run_reports([(row.tenant, row.id)], limit=REPORTS_MAX)
        judge = partial(
            evaluate,
            row,
            reports,
            now=by.now,
            make_id=by.make_id,
            retention_ms=by.retention_ms,
            standing=standing,
            spec_since=spec_since,
        )
        item = judge(requests)
        if not item.more:
            return replace(item, retired=False)
        page = judge(())
        write(transaction, [replace(page, retired=False)], now=by.now, make_id=by.make_id)
        row = replace(page.row, revision=row.revision + 1)
    raise Unavailable(f"schedule {row.id!r} is being caught up with what it missed; try again in a moment")


def _beyond_ledger(transaction: Transaction, row: ScheduleRow) -> ScheduleRow:
    """The new row; if one of this id was deleted and the clock set back, what the ledger holds is not named again."""
    where = OccurrenceFilter(tenant=row.tenant, schedule_id=row.id, start=Instant(row.seen_until + 1))
    beyond = transaction.list_occurrences(where, limit=LEDGER_LOOK_MAX, newest_first=True)
    seen_until = next((each.nominal_at for each in beyond if each.origin == Origin.SCHEDULE), None)
    if seen_until is None:
        return row
    return replace(row, seen_until=seen_until, state=to_text(replace(from_text(row.state), seen_until=seen_until)))


def _between_nominal_and_actual(row: ScheduleRow, seen_until: Instant, now: Instant) -> tuple[FireTime, ...]:
    time = ScheduleTimes(row.spec, row.id, row.tenant).after(seen_until)
    return (time,) if time is not None and time.nominal_at <= now < time.actual_at else ()

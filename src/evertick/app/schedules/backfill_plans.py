"""Backfills: what a request for one means, and what it would run."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple, TypedDict

from evertick.app.paging import all_occurrences
from evertick.app.schedules.options import word
from evertick.base.errors import Misuse
from evertick.base.instants import Instant, from_datetime, to_iso
from evertick.base.records.schedules import OccurrenceFilter, OccurrenceRow
from evertick.engine.jobs.completion import MakeId
from evertick.engine.schedules.times import times_of
from evertick.rules.schedules.backfill import BackfillPlan, plan_backfill, skips_until
from evertick.rules.schedules.events import BackfillRequested
from evertick.rules.schedules.fates import FAILURES, Fate, Origin, RunOutcome
from evertick.rules.schedules.metadata import KnownBackfill
from evertick.rules.schedules.policies import Overlap
from evertick.rules.schedules.state import BACKFILL_TIMES_MAX, Backfill, FireTime
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

# -- Caught up: missed or skipped times that a trigger or a backfill has run since.
#
# The row of the time itself stays as it is: the ledger says what happened. What reads it asks here, so that nothing
# advises to run such a time once more.

CATCHES_UP: Final = frozenset({Fate.STARTED.value, Fate.BUFFERED.value})
"""The fates with which a trigger or a backfill catches up a time; what waits is as good as started."""


def caught_up_by(missed: OccurrenceRow, rows: Iterable[OccurrenceRow]) -> OccurrenceRow | None:
    """The row of the trigger or backfill that caught up a missed or skipped time, the last if several did; None if none
    did.
    """
    found = (
        row
        for row in rows
        if row.schedule_id == missed.schedule_id
        and row.nominal_at == missed.nominal_at
        and row.origin != Origin.SCHEDULE
        and row.fate in CATCHES_UP
    )
    return max(found, key=lambda row: (row.fate == Fate.STARTED, row.decided_at), default=None)


class CaughtUp(NamedTuple):
    """How a time was or will be caught up, as text; and the command with which to check it, None if none is needed."""

    text: str
    fix: str | None


def caught_up(missed: OccurrenceRow, rows: Iterable[OccurrenceRow], schedule: Schedule | None) -> CaughtUp | None:
    """How a time of a schedule's spec that did not run was caught up, or will be; None if nothing catches it up."""
    if missed.origin != Origin.SCHEDULE:
        return None
    since = caught_up_by(missed, rows)
    if since is not None:
        who = since.request if since.origin == Origin.BACKFILL else f"the {since.origin} {since.request}"
        if since.fate == Fate.BUFFERED:
            return CaughtUp(f"to be caught up by {who}, which {since.detail or 'waits'}", None)
        ended = "" if since.outcome is None else f", which ended {since.outcome}"
        failed = since.outcome is not None and RunOutcome(since.outcome) in FAILURES
        text = f"caught up by {who} at {to_iso(since.started_at or since.decided_at)}{ended}"
        return CaughtUp(text, f"evertick job get {since.job_id}" if failed else None)
    time = FireTime(missed.nominal_at, missed.actual_at)
    for _, backfill in () if schedule is None else under_way(schedule, [time]):
        return CaughtUp(f"to be caught up by {backfill}, which is under way", None)
    return None


def under_way(row: Schedule, times: Iterable[FireTime]) -> Iterator[tuple[Instant, str]]:
    """The times for which a backfill in progress has not created an occurrence yet, each with the id of its
    backfill.
    """
    for time in times:
        for backfill in row.state.backfills:
            is_left = backfill.done_until is None or time.nominal_at > backfill.done_until
            is_within = backfill.start_at <= time.actual_at <= backfill.end_at
            if is_left and is_within and skips_until(backfill, time.nominal_at) is None:
                yield time.nominal_at, backfill.id


BACKFILL_PREFIX = "backfill"


def backfill_of(
    backfill_id: str, start: datetime, end: datetime, overlap: Overlap | str | None, max_active: int | None = None
) -> Backfill:
    """A backfill with these options, checked.

    Raises InvalidDelay for a value that is not an aware datetime, Misuse for an unknown policy or one that contradicts
    `max_active`.
    """
    chosen = None if overlap is None else word("overlap", Overlap, overlap)
    if max_active is not None and (type(max_active) is not int or max_active < 1):
        raise Misuse(f"at least 1 run of a backfill must be allowed to be active, not {max_active!r}")
    if max_active is not None and chosen not in (None, Overlap.ALLOW_ALL):
        raise Misuse(f"with a limit of its own a backfill asks no overlap policy; leave out {chosen}, or the limit")
    return Backfill(
        id=backfill_id,
        start_at=from_datetime(start, "start"),
        end_at=from_datetime(end, "end"),
        overlap=chosen,
        max_active=max_active,
    )


class BackfillOptions(TypedDict, total=False):
    """The options of a backfill: which times it runs, and how.

    `skip_done` leaves out times that ran before. `only_missed` runs only times that are recorded as missed and that no
    trigger and no backfill has caught up, or is about to.
    """

    overlap: Overlap | str | None
    max_active: int | None
    skip_done: bool
    only_missed: bool


def planned(transaction: Transaction, row: Schedule, backfill: Backfill, options: BackfillOptions) -> BackfillPlan:
    """The plan of a backfill. Raises Misuse or LimitExceeded."""
    only_missed = options.get("only_missed", False)
    times = times_of(row).between(backfill.start_at, backfill.end_at, BACKFILL_TIMES_MAX + 1)
    by_fate: dict[str, set[Instant]] = {Fate.STARTED: set(), Fate.BUFFERED: set(), Fate.MISSED: set()}
    if times and len(times) <= BACKFILL_TIMES_MAX:
        recorded = OccurrenceFilter(
            tenant=row.tenant,
            schedule_id=row.id,
            fates=tuple(by_fate) if only_missed else (Fate.STARTED.value,),
            start=times[0].nominal_at,
            end=Instant(times[-1].nominal_at + 1),
        )
        for each in all_occurrences(transaction, recorded):
            by_fate[each.fate].add(each.nominal_at)
    missed = by_fate[Fate.MISSED] - by_fate[Fate.STARTED] - by_fate[Fate.BUFFERED]
    return plan_backfill(
        backfill,
        schedule_id=row.id,
        version=row.version,
        latest=next(reversed(row.metadata.backfills), None),
        times=times,
        ran=by_fate[Fate.STARTED],
        skip_done=options.get("skip_done", False),
        missed=missed.difference(at for at, _ in under_way(row, (time for time in times if time.nominal_at in missed)))
        if only_missed
        else None,
    )


def begun(row: Schedule, plan: BackfillPlan, now: Instant, make_id: MakeId) -> tuple[Schedule, BackfillRequested]:
    """Start a backfill: returns the schedule with the backfill in its metadata, and the event that requests it."""
    backfill = plan.backfill._replace(id=make_id(BACKFILL_PREFIX, now))
    known = KnownBackfill(backfill.start_at, backfill.end_at, backfill.overlap, plan.count, now)
    return row.with_metadata(row.metadata.with_backfill(backfill.id, known)), BackfillRequested(
        at=now, backfill=backfill
    )

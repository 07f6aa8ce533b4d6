"""Made up for: what a trigger or a backfill has run since of the times that were missed or skipped.

The row of the time itself stays as it is: the ledger says what happened. What reads it asks here, so that nothing
advises to run such a time once more.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from evertick.base.instants import Instant, to_iso
from evertick.base.records.schedules import OccurrenceRow
from evertick.rules.schedules.backfill import skips_until
from evertick.rules.schedules.fates import FAILURES, Fate, Origin, RunOutcome
from evertick.rules.schedules.state import FireTime
from evertick.store.records.schedule import Schedule

MAKES_UP: Final = frozenset({Fate.STARTED.value, Fate.BUFFERED.value})
"""The fates with which a trigger or a backfill makes up for a time; what waits is as good as started."""


def made_up_by(missed: OccurrenceRow, rows: Iterable[OccurrenceRow]) -> OccurrenceRow | None:
    """The last of these rows that makes up for a time which was missed or skipped; None if none does."""
    found = (
        row
        for row in rows
        if row.schedule_id == missed.schedule_id
        and row.nominal_at == missed.nominal_at
        and row.origin != Origin.SCHEDULE
        and row.fate in MAKES_UP
    )
    return max(found, key=lambda row: (row.fate == Fate.STARTED, row.decided_at), default=None)


class MadeUp(NamedTuple):
    """What makes up for a time, in words, and a command if there is something to be done about it."""

    text: str
    fix: str | None


def made_up(missed: OccurrenceRow, rows: Iterable[OccurrenceRow], schedule: Schedule | None) -> MadeUp | None:
    """What has made up for a time of a schedule's rule that did not run, or is about to; None if nothing does."""
    if missed.origin != Origin.SCHEDULE:
        return None
    since = made_up_by(missed, rows)
    if since is not None:
        who = since.request if since.origin == Origin.BACKFILL else f"the {since.origin} {since.request}"
        if since.fate == Fate.BUFFERED:
            return MadeUp(f"to be made up for by {who}, which {since.detail or 'waits'}", None)
        ended = "" if since.outcome is None else f", which ended {since.outcome}"
        failed = since.outcome is not None and RunOutcome(since.outcome) in FAILURES
        text = f"made up for by {who} at {to_iso(since.started_at or since.decided_at)}{ended}"
        return MadeUp(text, f"evertick job get {since.job_id}" if failed else None)
    time = FireTime(missed.nominal_at, missed.actual_at)
    for _, backfill in () if schedule is None else under_way(schedule, [time]):
        return MadeUp(f"to be made up for by {backfill}, which is under way", None)
    return None


def under_way(row: Schedule, times: Iterable[FireTime]) -> Iterator[tuple[Instant, str]]:
    """Which of these times backfills that have begun will still hand over, each with the id of its backfill."""
    for time in times:
        for backfill in row.state.backfills:
            is_left = backfill.done_until is None or time.nominal_at > backfill.done_until
            is_within = backfill.start_at <= time.actual_at <= backfill.end_at
            if is_left and is_within and skips_until(backfill, time.nominal_at) is None:
                yield time.nominal_at, backfill.id

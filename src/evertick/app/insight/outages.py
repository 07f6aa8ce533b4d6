"""Outages: spans in which no worker looked at schedules, and times were missed for it.

The ledger tells them: each time that was missed for its age was due at one moment and first looked at at another, and
nothing looked at its schedule between the two. Spans that overlap are one outage.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from evertick.api.insight import OutageView
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import DAY_MS, Instant, to_datetime
from evertick.base.records.insight import MissedTime, Trouble
from evertick.rules.schedules.catch_up import OUTAGE_MAX_MS, SEEN_LATE, unseen
from evertick.rules.schedules.fates import MISSED_REASONS, Reason
from evertick.store.records.pages import MissedLook
from evertick.store.transaction.transaction import Transaction

MISSED_MAX: Final = 1_000
"""Missed times of each reason that are looked at."""
LONG_MISSED_MAX: Final = 10_000
"""The same, after an outage in which more were missed."""
SKIPPED_MAX: Final = 1_001
"""Times of a pause that are counted."""


def missed_and_skipped(
    transaction: Transaction, tenant: TenantId, now: Instant, trouble: Trouble, pauses: Mapping[ScheduleId, Instant]
) -> tuple[list[MissedTime], dict[ScheduleId, int], bool]:
    """The times that were found missed in the last 24 hours, however long before they were due; whether there are more.

    And how many times each schedule skipped in its pause, to SKIPPED_MAX.
    """
    if not (trouble.has_missed or pauses):
        return [], {}, False
    limit = LONG_MISSED_MAX if trouble.has_missed_many else MISSED_MAX
    reasons = MISSED_REASONS if trouble.has_missed else ()
    look = MissedLook(reasons, since=Instant(now - OUTAGE_MAX_MS), limit=limit, pauses=pauses, skipped_most=SKIPPED_MAX)
    times, skipped = transaction.missed_and_skipped(tenant, look)
    times = [time for time in times if now - DAY_MS <= time.decided_at <= now]  # a clock may have been set back
    return times, skipped, _is_cut(times, limit)


def outages(
    transaction: Transaction, tenant: TenantId, now: Instant, times: Sequence[MissedTime], *, more: bool
) -> tuple[OutageView, ...]:
    """The outages that ended in the last 24 hours, the newest first, from missed times; `more` if there are more."""
    spans: list[tuple[Instant, Instant]] = []
    for time in sorted(times, key=lambda each: each.actual_at):
        if not unseen(Reason(time.reason), time.detail, time.decided_at - time.actual_at):
            continue
        if spans and time.actual_at <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], time.decided_at))
        else:
            spans.append((time.actual_at, time.decided_at))
    recent = [span for span in reversed(spans) if span[1] > now - DAY_MS]
    found = [_outage(span, times, more=more and span is recent[-1]) for span in recent]
    if more and found:
        found[-1] = found[-1].model_copy(
            update={"start": to_datetime(_begin(transaction, tenant, recent[-1], times, now))}
        )
        return tuple(found)  # its begin took a statement, and is older than what the ledger may still have
    evaluated = transaction.evaluated_before([span[0] for span in recent]) if recent else {}
    return tuple(
        outage.model_copy(update={"last_evaluated": None if at is None else to_datetime(at)})
        for outage, at in ((outage, evaluated[span[0]]) for outage, span in zip(found, recent, strict=True))
    )


def _begin(
    transaction: Transaction, tenant: TenantId, span: tuple[Instant, Instant], times: Sequence[MissedTime], now: Instant
) -> Instant:
    """When an outage began that has more missed times than are looked at: those judged after its end belong to it."""
    decided = min(time.decided_at for time in times if span[0] <= time.actual_at <= span[1])
    first = transaction.first_missed(
        tenant,
        reasons=[reason.value for reason in sorted(SEEN_LATE)],
        since=Instant(now - OUTAGE_MAX_MS),
        decided=decided,
        limit=LONG_MISSED_MAX,
    )
    return span[0] if first is None else first[1]


def _outage(span: tuple[Instant, Instant], times: Sequence[MissedTime], *, more: bool) -> OutageView:
    missed = [time for time in times if span[0] <= time.actual_at <= span[1]]
    return OutageView(
        start=to_datetime(span[0]),
        end=to_datetime(span[1]),
        missed=len(missed),
        made_up=sum(time.made_up for time in missed),
        schedules=len({time.schedule_id for time in missed}),
        more=more,
    )


def _is_cut(times: Sequence[MissedTime], limit: int) -> bool:
    counts: dict[str, int] = {}
    for time in times:
        counts[time.reason] = counts.get(time.reason, 0) + 1
    return max(counts.values(), default=0) >= limit

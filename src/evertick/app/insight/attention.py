"""What needs attention: missed times, schedules that cannot be read or that no worker evaluates, jobs that no worker
serves or a paused pool holds back, runs of workflows that cannot continue, schedules and functions that fail, and
schedules that have been paused for long.

Each item has its reason as text. The queries are bounded: the newest missed times, the failing schedules that ran last,
and some of the paused schedules.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evertick.api.insight import AttentionView, OutageView
from evertick.api.schema import Count, RowReading
from evertick.app.schedules.views import pause_in
from evertick.app.workflows.details import STUCK_MAX, stuck_groups
from evertick.base.ids import ScheduleId, TenantId, pool_name
from evertick.base.instants import DAY_MS, Instant, to_datetime
from evertick.base.records.insight import DueGroup, FailingFunction, FailingSchedule, MissedTime, Trouble
from evertick.base.records.jobs import NO_ERROR, Serves
from evertick.rules.schedules.catch_up import OUTAGE_MAX_MS, SEEN_LATE, unseen
from evertick.rules.schedules.fates import FAILURES, MISSED_REASONS, Reason
from evertick.rules.schedules.state import Pause
from evertick.store.records.pages import MissedLimits
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

# -- Outages: spans in which no worker evaluated schedules and therefore times were missed.
#
# They are computed from the ledger. Each time that was missed because of its age has the instant when it was due and
# the instant when it was decided, and nothing evaluated its schedule between the two. Overlapping spans are one outage.

MISSED_MAX: Final = 1_000
"""Missed times of each reason that are read."""
LONG_MISSED_MAX: Final = 10_000
"""The same, after an outage that missed more."""
SKIPPED_MAX: Final = 1_001
"""Times of a pause that are counted."""


def missed_and_skipped(
    transaction: Transaction, tenant: TenantId, now: Instant, trouble: Trouble, pauses: Mapping[ScheduleId, Instant]
) -> tuple[list[MissedTime], dict[ScheduleId, int], bool]:
    """The times that were found missed in the last 24 hours, even if they were due long before.

    With how many times each schedule skipped in its pause, up to SKIPPED_MAX, and whether there are more missed times.
    """
    if not (trouble.has_missed or pauses):
        return [], {}, False
    limit = LONG_MISSED_MAX if trouble.has_missed_many else MISSED_MAX
    reasons = MISSED_REASONS if trouble.has_missed else ()
    limits = MissedLimits(
        reasons, since=Instant(now - OUTAGE_MAX_MS), limit=limit, pauses=pauses, skipped_most=SKIPPED_MAX
    )
    times, skipped = transaction.missed_and_skipped(tenant, limits)
    times = [time for time in times if now - DAY_MS <= time.decided_at <= now]  # because a clock may have been set back
    return times, skipped, _is_cut(times, limit)


def outages(
    transaction: Transaction, tenant: TenantId, now: Instant, times: Sequence[MissedTime], *, more: bool
) -> tuple[OutageView, ...]:
    """The outages that ended in the last 24 hours, newest first; `more` says that `times` are not all missed times."""
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
        return tuple(found)  # no last_evaluated: the start took a query, and the ledger may have lost older rows
    evaluated = transaction.evaluated_before([span[0] for span in recent]) if recent else {}
    return tuple(
        outage.model_copy(update={"last_evaluated": None if at is None else to_datetime(at)})
        for outage, at in ((outage, evaluated[span[0]]) for outage, span in zip(found, recent, strict=True))
    )


def _begin(
    transaction: Transaction, tenant: TenantId, span: tuple[Instant, Instant], times: Sequence[MissedTime], now: Instant
) -> Instant:
    """When an outage with more missed times than MISSED_MAX began: times decided after its end belong to it."""
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
        caught_up=sum(time.caught_up for time in missed),
        schedules=len({time.schedule_id for time in missed}),
        more=more,
    )


def _is_cut(times: Sequence[MissedTime], limit: int) -> bool:
    counts: dict[str, int] = {}
    for time in times:
        counts[time.reason] = counts.get(time.reason, 0) + 1
    return max(counts.values(), default=0) >= limit


SHOWN_MAX: Final = 20
"""Items shown of each problem."""
PAUSED_MAX: Final = 100
"""Paused schedules that are read."""
LONG_PAUSE_MS: Final = DAY_MS
"""A pause that lasts this long needs attention."""
RUNS_SHOWN: Final = 5
WHY_MISSED: Final = {
    Reason.CATCH_UP_WINDOW: "no worker evaluated it within its catch-up window",
    Reason.CATCH_UP_LATEST: "no worker evaluated it in time, and its policy catches up only the latest time",
    Reason.CATCH_UP_NONE: "no worker evaluated it in time, and its policy catches up nothing",
    Reason.CATCH_UP_OVERLAP: "no worker evaluated it in time, and the overlap policy starts only the first",
    Reason.CATCH_UP_SUPERSEDED: "no worker evaluated it in time, and the overlap policy starts only the last",
    Reason.CATCH_UP_DROPPED: "no worker evaluated it in time, and it was dropped before it started",
    Reason.BUFFER_FULL: "too many occurrences were waiting for earlier runs",
    Reason.RUNS_FULL: "too many runs were open",
    Reason.START_REFUSED: "its run could not be started",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the overview has read: due jobs, live workers, missed times, and other problems."""

    due: Sequence[DueGroup]
    serves: Sequence[Serves]
    missed: Sequence[MissedTime]
    trouble: Trouble
    pauses: Mapping[ScheduleId, Pause]
    skipped: Mapping[ScheduleId, int]
    """How many times schedules skipped in their long pauses, by schedule."""
    unreadable: Sequence[Schedule] = ()
    """Schedules that are not evaluated because they could not be read."""


def long_pauses(trouble: Trouble, now: Instant) -> dict[ScheduleId, Pause]:
    """The long pauses, the longest first."""
    found = {row.id: pause_in(row.state) for row in trouble.paused_schedules}
    long = [(pause.at, name, pause) for name, pause in found.items() if pause and now - pause.at >= LONG_PAUSE_MS]
    return {name: pause for _, name, pause in sorted(long, key=lambda each: each[:2])[:SHOWN_MAX]}


def attention(now: Instant, seen: Seen) -> tuple[AttentionView, ...]:
    """What needs attention, the most urgent kinds first. Missed times that were caught up need none."""
    return (
        *_missed(seen.missed),
        *_unreadable(seen.unreadable),
        *_overdue(seen.trouble, is_working=bool(seen.serves)),
        *_unserved(seen.due, seen.serves),
        *_stuck(seen.trouble),
        *_held([group for group in seen.due if is_served(group, seen.serves)], seen.trouble.paused_pools),
        *_failing(seen.trouble.failing_schedules),
        *_failed(seen.trouble.failing_functions),
        *_paused(now, seen),
    )


def is_served(group: DueGroup, serves: Sequence[Serves]) -> bool:
    """Whether a live worker runs these jobs."""
    return any(each.runs(group.name, group.pool) for each in serves)


def _missed(times: Sequence[MissedTime]) -> Iterator[AttentionView]:
    """Missed times by schedule and reason, the latest first."""
    groups: dict[tuple[ScheduleId, str], list[MissedTime]] = {}
    for time in sorted(times, key=lambda each: each.nominal_at, reverse=True):
        groups.setdefault((time.schedule_id, time.reason), []).append(time)
    for (schedule_id, reason), group in list(groups.items())[:SHOWN_MAX]:
        why = WHY_MISSED[Reason(reason)]
        yield AttentionView(
            problem="missed",
            kind="schedule",
            name=schedule_id,
            what=f"missed {_times(len(group))}, noticed in the last 24 hours",
            why=f"{why}: {group[0].detail}" if group[0].detail else why,
            count=len(group),
            more=len(group) >= MISSED_MAX,
            since=to_datetime(group[-1].nominal_at),
        )


def _unreadable(rows: Sequence[Schedule]) -> Iterator[AttentionView]:
    for row in rows[:SHOWN_MAX]:
        yield AttentionView(
            problem="unreadable",
            kind="schedule",
            name=row.id,
            what="cannot be read, so it does not run",
            why=row.why_unreadable or "a worker could not evaluate it; its log says why",
            count=1,
            more=False,
            since=to_datetime(row.updated_at),
        )


def _overdue(trouble: Trouble, *, is_working: bool) -> Iterator[AttentionView]:
    """One item for all overdue schedules: while no worker evaluates, soon every schedule is overdue."""
    if (first := trouble.first_overdue) is None:
        return
    count = Count.of(trouble.overdue)
    others = "" if count.number == 1 else f", the first of {count} such schedules"
    yield AttentionView(
        problem="overdue",
        kind="schedule",
        name=first.id,
        what=f"due, and no worker has evaluated it{others}",
        why="workers are alive, but none has evaluated it yet" if is_working else "no worker is alive",
        count=count.number,
        more=count.more,
        since=to_datetime(first.next_at),
    )


def _unserved(due: Sequence[DueGroup], serves: Sequence[Serves]) -> Iterator[AttentionView]:
    waiting = sorted((group for group in due if not is_served(group, serves)), key=lambda each: each.oldest)
    for group in waiting[:SHOWN_MAX]:
        pool = pool_name(group.pool)
        elsewhere = any(each.name == group.name for served in serves for each in served.functions)
        why = (
            "no worker is alive"
            if not serves
            else f"no live worker serves the pool {pool!r}"
            if elsewhere
            else f"no live worker has the function {group.name!r}"
        )
        yield AttentionView(
            problem="unserved",
            kind="function",
            name=group.name,
            what=f"{group.jobs:,} due job{'' if group.jobs == 1 else 's'} waiting in the pool {pool!r}",
            why=why,
            count=group.jobs,
            more=False,
            since=to_datetime(group.oldest),
        )


def _stuck(trouble: Trouble) -> Iterator[AttentionView]:
    for group in stuck_groups(trouble.stuck)[:SHOWN_MAX]:
        yield AttentionView(
            problem="stuck",
            kind="workflow",
            name=group.function,
            what=f"{group.count:,} run{'' if group.count == 1 else 's'} cannot continue",
            why=group.error,
            count=group.count,
            more=group.count >= STUCK_MAX,
            since=group.tried,
            job_id=group.job_id,
        )


def _held(due: Sequence[DueGroup], paused: Mapping[str, str]) -> Iterator[AttentionView]:
    """Paused pools with due jobs; the pool whose oldest due job waits longest comes first."""
    pools: dict[str, list[DueGroup]] = {}
    for group in sorted(due, key=lambda each: each.oldest):
        if (pool := pool_name(group.pool)) in paused:
            pools.setdefault(pool, []).append(group)
    for pool, groups in list(pools.items())[:SHOWN_MAX]:
        count = sum(group.jobs for group in groups)
        yield AttentionView(
            problem="held",
            kind="pool",
            name=pool,
            what=f"{count:,} due job{'' if count == 1 else 's'} waiting in the pool {pool!r}",
            why="the pool is paused" + (f": {paused[pool]}" if paused[pool] else ""),
            count=count,
            more=False,
            since=to_datetime(groups[0].oldest),
        )


def _failing(schedules: Iterable[FailingSchedule]) -> Iterator[AttentionView]:
    for row in schedules:
        ended = [outcome for outcome in row.outcomes if outcome is not None]
        failed = sum(outcome in FAILURES for outcome in ended)
        yield AttentionView(
            problem="failing",
            kind="schedule",
            name=row.id,
            what=f"failed {failed} of the last {len(ended)}" if ended else "its last run failed",
            why=(row.failure or "").strip() or "it has no message",
            count=failed,
            more=False,
            since=to_datetime(row.at),
        )


def _failed(functions: Iterable[FailingFunction]) -> Iterator[AttentionView]:
    for row in functions:
        error = RowReading().error("error", row.error) or NO_ERROR
        yield AttentionView(
            problem="failed",
            kind="function",
            name=row.name,
            what=f"{row.jobs:,} failed in the last hour",
            why=error.text,
            count=row.jobs,
            more=False,
            since=to_datetime(row.at),
            job_id=row.job_id,
        )


def _paused(now: Instant, seen: Seen) -> Iterator[AttentionView]:
    for name, pause in seen.pauses.items():
        count = seen.skipped.get(name, 0)
        note = f": {pause.note}" if pause.note else ""
        yield AttentionView(
            problem="paused",
            kind="schedule",
            name=name,
            what=f"paused for {(now - pause.at) // DAY_MS} d by {pause.by}{note}",
            why=f"{_times(min(count, SKIPPED_MAX - 1))}{' or more' if count >= SKIPPED_MAX else ''} skipped since",
            count=min(count, SKIPPED_MAX - 1),
            more=count >= SKIPPED_MAX,
            since=to_datetime(pause.at),
        )


def _times(count: int) -> str:
    return f"{count:,} time{'' if count == 1 else 's'}"

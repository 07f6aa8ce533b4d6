"""Backfill: running, on request, the times of a spec in a span of time, usually a past one.

A backfill is planned first: its times, how many, which of them have run already. It starts only with the plan's token,
so that exactly the displayed plan is started. Then its times are added in portions that leave space in the buffer for
the schedule's own times: half the buffer, less the waiting occurrences, shared among all backfills. So a backfill never
loses an occurrence because the buffer is full; it waits until there is space. A backfill may also limit how many of its
runs are open at a time, and exclude times that have run before.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.instants import Instant, to_iso
from evertick.rules.schedules.fates import Origin
from evertick.rules.schedules.policies import RUNS_MAX, Overlap
from evertick.rules.schedules.state import BACKFILL_TIMES_MAX, BACKFILLS_MAX, Backfill, FireTime, ScheduleState

RESERVE: Final = 50
"""Places in the buffer that backfills leave to the schedule's own times, in addition to the other half of it."""
SKIP_SPANS_MAX: Final = 1_000
"""Spans of times that a backfill may exclude; times that ran one after the other are one span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """The result of a backfill: every time, which of them have run already, and the token that starts exactly this."""

    backfill: Backfill
    times: tuple[FireTime, ...]
    already_ran: tuple[Instant, ...]
    token: str

    @property
    def count(self) -> int:
        """The number of occurrences. It includes those that have run already, unless they are excluded."""
        return len(self.times)


def plan_backfill(
    backfill: Backfill,
    *,
    schedule_id: str,
    version: int,
    times: Sequence[FireTime],
    ran: Collection[Instant],
    latest: str | None = None,
    skip_done: bool = False,
    missed: Collection[Instant] | None = None,
) -> BackfillPlan:
    """The plan of a backfill whose span contains `times`; `ran` are the nominal times that were started before.

    Those run again, since reruns are the purpose of a backfill; with `skip_done` they are excluded. With `missed`, only
    these nominal times run. `latest` is the backfill that was begun last: it makes the token of a plan valid only once.
    The evaluator asks the spec for one time more than `BACKFILL_TIMES_MAX`.
    Raises Misuse if the span ends before it starts, LimitExceeded if it contains too many times.
    """
    if backfill.end_at < backfill.start_at:
        raise Misuse(f"the backfill ends ({to_iso(backfill.end_at)}) before it starts ({to_iso(backfill.start_at)})")
    if len(times) > BACKFILL_TIMES_MAX:
        raise LimitExceeded(
            f"the backfill holds more than {BACKFILL_TIMES_MAX} times; split it, the last that fits is "
            f"{to_iso(times[BACKFILL_TIMES_MAX - 1].nominal_at)}"
        )
    ran_before = frozenset(ran)
    already_ran = tuple(time.nominal_at for time in times if time.nominal_at in ran_before)
    if missed is not None:
        left_out = frozenset(time.nominal_at for time in times).difference(missed)
    else:
        left_out = ran_before if skip_done else frozenset()
    if left_out:
        backfill = backfill._replace(skip=_spans(times, left_out))
        times = [time for time in times if time.nominal_at not in left_out]
    return BackfillPlan(
        backfill=backfill,
        times=tuple(times),
        already_ran=already_ran,
        token=_token(backfill, schedule_id, version, latest, times),
    )


def _spans(times: Sequence[FireTime], left_out: frozenset[Instant]) -> tuple[tuple[Instant, Instant], ...]:
    """The excluded times, merged to spans that contain no other time. Raises LimitExceeded for too many spans."""
    spans: list[tuple[Instant, Instant]] = []
    in_span = False
    for nominal_at in (time.nominal_at for time in times):
        if nominal_at in left_out:
            spans[-1:] = [(spans[-1][0], nominal_at)] if in_span else [*spans[-1:], (nominal_at, nominal_at)]
        in_span = nominal_at in left_out
    if len(spans) > SKIP_SPANS_MAX:
        raise LimitExceeded(
            f"what is left out lies in {len(spans)} places of the span; {SKIP_SPANS_MAX} are possible: split it"
        )
    return tuple(spans)


def skips_until(backfill: Backfill, nominal_at: Instant) -> Instant | None:
    """The end of the excluded span that contains a time. None if there is none."""
    return next((last for first, last in backfill.skip if first <= nominal_at <= last), None)


def _token(backfill: Backfill, schedule_id: str, version: int, latest: str | None, times: Sequence[FireTime]) -> str:
    """A digest of schedule, version, latest backfill, span and times. It changes with any of them."""
    asked = [backfill.start_at, backfill.end_at, backfill.overlap, backfill.max_active]
    text = json.dumps([schedule_id, version, latest, *asked, list(times)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def admit(state: ScheduleState) -> None:
    """Check that one more backfill may begin.

    Raises LimitExceeded if `BACKFILLS_MAX` are running.
    """
    if len(state.backfills) >= BACKFILLS_MAX:
        raise LimitExceeded(
            f"too many concurrent backfills: {len(state.backfills)} are under way and {BACKFILLS_MAX} is the limit; "
            "wait for one to end, or cancel one"
        )


def capacity(*, waiting: int, backfills: int, buffer_limit: int, reserve: int = RESERVE) -> int:
    """How many occurrences each of `backfills` backfills may add: half the buffer less waiting ones and the reserve."""
    return max(0, buffer_limit // 2 - waiting - reserve) // max(1, backfills)


def free_capacity(state: ScheduleState) -> int:
    """How many times each backfill of this schedule may add now; 0 if they must wait until a run has ended."""
    limit = state.policies.buffer_limit
    # A small buffer has no places to spare: there the reserve shrinks, so that a backfill advances at all.
    shared = capacity(
        waiting=state.waits,
        backfills=len(state.backfills),
        buffer_limit=limit,
        reserve=min(RESERVE, limit // 4),
    )
    if shared == 0 and not state.waits and (limit or not state.open_runs):
        shared = 1
    return max(0, min(shared, RUNS_MAX - state.open_runs))


def portion(state: ScheduleState, backfill: Backfill) -> int:
    """How many times this backfill may add now, within the capacity of the buffer and its own limit."""
    fits = free_capacity(state)
    if backfill.max_active is None or fits == 0:
        return fits
    entries = [*(run.occurrence for run in state.running), *state.waiting]
    active = sum(each.request == backfill.id and each.origin is Origin.BACKFILL for each in entries)
    return max(0, min(fits, backfill.max_active - active))


def overlap_of(backfill: Backfill, schedules: Overlap) -> Overlap:
    """The overlap policy of its occurrences: its own, otherwise the schedule's.

    If the backfill has its own limit, none of its occurrences waits for another run or stops one.
    """
    return Overlap.ALLOW_ALL if backfill.max_active is not None else backfill.overlap or schedules

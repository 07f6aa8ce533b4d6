"""Backfill: running, on request, what a spec names in a span of time, usually a past one.

A backfill is planned first: its times, how many, which of them ran already. It starts only with the plan's token, so
that nobody starts something else than what was shown. Then its times are handed over in portions that leave room in the
buffer for the schedule's own: half the buffer, less what waits, shared among all backfills. A backfill therefore never
loses an occurrence for want of room; it waits for room.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.instants import Instant, to_iso
from evertick.rules.schedule import (
    BACKFILL_TIMES_MAX,
    BACKFILLS_MAX,
    RUNS_MAX,
    Backfill,
    FireTime,
    Overlap,
    ScheduleState,
)

RESERVE: Final = 50
"""Places in the buffer that backfills leave to the schedule's own times, beside the other half of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """What a backfill would do: every time, which of them ran already, and the token that starts exactly this."""

    backfill: Backfill
    times: tuple[FireTime, ...]
    already_ran: tuple[Instant, ...]
    token: str

    @property
    def count(self) -> int:
        """How many occurrences it would make. Those that ran already run again: reruns are what a backfill is for."""
        return len(self.times)


def plan_backfill(
    backfill: Backfill, *, schedule_id: str, version: int, times: Sequence[FireTime], ran: Collection[Instant]
) -> BackfillPlan:
    """The plan of a backfill whose span holds `times`; `ran` are the nominal times that were started before.

    The evaluator asks the spec for one time more than `BACKFILL_TIMES_MAX`.
    Raises Misuse if the span ends before it starts, LimitExceeded if it holds too many times.
    """
    if backfill.end_at < backfill.start_at:
        raise Misuse(f"the backfill ends ({to_iso(backfill.end_at)}) before it starts ({to_iso(backfill.start_at)})")
    if len(times) > BACKFILL_TIMES_MAX:
        raise LimitExceeded(
            f"the backfill holds more than {BACKFILL_TIMES_MAX} times; split it, the last that fits is "
            f"{to_iso(times[BACKFILL_TIMES_MAX - 1].nominal_at)}"
        )
    ran_before = frozenset(ran)
    return BackfillPlan(
        backfill=backfill,
        times=tuple(times),
        already_ran=tuple(time.nominal_at for time in times if time.nominal_at in ran_before),
        token=_token(backfill, schedule_id, version, times),
    )


def _token(backfill: Backfill, schedule_id: str, version: int, times: Sequence[FireTime]) -> str:
    """A digest of the schedule, its version, the span and the times: another one if any of them changed."""
    text = json.dumps([schedule_id, version, backfill.start_at, backfill.end_at, backfill.overlap, list(times)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def admit(state: ScheduleState) -> None:
    """Let one more backfill in.

    Raises LimitExceeded if `BACKFILLS_MAX` are under way.
    """
    if len(state.backfills) >= BACKFILLS_MAX:
        raise LimitExceeded(
            f"too many concurrent backfills: {len(state.backfills)} are under way and {BACKFILLS_MAX} is the limit; "
            "wait for one to end, or cancel one"
        )


def capacity(*, waiting: int, backfills: int, buffer_limit: int, reserve: int = RESERVE) -> int:
    """How many occurrences each of `backfills` backfills may add: half the buffer less what waits and the reserve."""
    return max(0, buffer_limit // 2 - waiting - reserve) // max(1, backfills)


def room(state: ScheduleState) -> int:
    """How many times each backfill of this schedule may hand over now; 0 means to wait for a run to end."""
    limit = state.policies.buffer_limit
    # A small buffer has no places to spare: there the reserve shrinks, so that a backfill gets on at all.
    shared = capacity(
        waiting=len(state.waiting),
        backfills=len(state.backfills),
        buffer_limit=limit,
        reserve=min(RESERVE, limit // 4),
    )
    if shared == 0 and not state.waiting and (limit or not state.running):
        shared = 1
    return max(0, min(shared, RUNS_MAX - len(state.running)))


def overlap_of(backfill: Backfill, schedules: Overlap) -> Overlap:
    """The overlap policy of its occurrences: its own, else the schedule's."""
    return backfill.overlap or schedules

"""Backfill: running, on request, what a spec names in a span of time, usually a past one.

A backfill is planned first: its times, how many, which of them ran already. It starts only with the plan's token, so
that exactly what was shown is started. Then its times are handed over in portions that leave room in the
buffer for the schedule's own: half the buffer, less what waits, shared among all backfills. A backfill therefore never
loses an occurrence for want of room; it waits for room. It may also be told how many of its runs may be open at a time,
and to leave out what ran before.
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
"""Places in the buffer that backfills leave to the schedule's own times, beside the other half of it."""
SKIP_SPANS_MAX: Final = 1_000
"""Spans of times that a backfill may leave out; times that ran one after the other are one span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """What a backfill would do: every time, which of them ran already, and the token that starts exactly this."""

    backfill: Backfill
    times: tuple[FireTime, ...]
    already_ran: tuple[Instant, ...]
    token: str

    @property
    def count(self) -> int:
        """How many occurrences it would make. Those that ran already are among them, unless they are to be left out."""
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
    """The plan of a backfill whose span holds `times`; `ran` are the nominal times that were started before.

    Those run again, since reruns are what a backfill is for; with `skip_done` they are left out. With `missed`, only
    these nominal times run. `latest` is the backfill that was begun last: the token of a plan starts it once.
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
    """The times to be left out, as spans in which nothing else lies. Raises LimitExceeded for too many."""
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
    """The end of the span to be left out in which a time lies, or None."""
    return next((last for first, last in backfill.skip if first <= nominal_at <= last), None)


def _token(backfill: Backfill, schedule_id: str, version: int, latest: str | None, times: Sequence[FireTime]) -> str:
    """A digest of the schedule, its version and latest backfill, the span and the times: another if any changed."""
    asked = [backfill.start_at, backfill.end_at, backfill.overlap, backfill.max_active]
    text = json.dumps([schedule_id, version, latest, *asked, list(times)])
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
        waiting=state.waits,
        backfills=len(state.backfills),
        buffer_limit=limit,
        reserve=min(RESERVE, limit // 4),
    )
    if shared == 0 and not state.waits and (limit or not state.open_runs):
        shared = 1
    return max(0, min(shared, RUNS_MAX - state.open_runs))


def portion(state: ScheduleState, backfill: Backfill) -> int:
    """How many times this backfill may hand over now: what there is room for, and its own limit allows."""
    fits = room(state)
    if backfill.max_active is None or fits == 0:
        return fits
    entries = [*(run.occurrence for run in state.running), *state.waiting]
    active = sum(each.request == backfill.id and each.origin is Origin.BACKFILL for each in entries)
    return max(0, min(fits, backfill.max_active - active))


def overlap_of(backfill: Backfill, schedules: Overlap) -> Overlap:
    """The overlap policy of its occurrences: its own, else the schedule's.

    With a limit of its own none of them waits for another run, nor stops one.
    """
    return Overlap.ALLOW_ALL if backfill.max_active is not None else backfill.overlap or schedules

"""Overlap: the results for occurrences that arrive, or wait, while earlier runs use all slots.

The terms: a schedule has `limit` slots; every open run uses one, including those of allow_all and of triggers. One pass
processes some occurrences in order and puts each of them into one of four results: start, wait, skip, refuse.

1. allow_all always starts.
2. While a slot is free, the next occurrence takes it.
3. Without a free slot: skip is skipped; buffer_one waits if nothing waits yet, otherwise it is skipped; buffer_all
   waits; cancel_other and terminate_other wait, and the oldest runs are asked to stop for them.
4. If a slot became free and several cancel_other or terminate_other occurrences want it, the newest win and the others
   are superseded; a newer one even displaces an occurrence chosen earlier in the same pass.

With one slot this is Temporal's `ProcessBuffer`, except that every occurrence is counted and that allow_all starts even
in a pass that asks a run to stop. A pass always ends in one of two states, "no slot is free" or "nothing waits". So a
new occurrence can be judged without judging the waiting ones again, and nothing can wait while nothing runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from evertick.rules.schedules.fates import Origin, Reason
from evertick.rules.schedules.policies import Overlap
from evertick.rules.schedules.state import Occurrence, Run, ScheduleState, Stop

STOPS_OTHERS: Final = frozenset({Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER})


def needs_all_runs(state: ScheduleState) -> bool:
    """Whether a run may be asked to stop, or runs of a backfill are counted. Otherwise only the oldest run matters."""
    return (
        bool(state.backfills)
        or state.policies.run_timeout_ms is not None
        or state.policies.overlap in STOPS_OTHERS
        or any(each.overlap in STOPS_OTHERS for each in state.waiting)
    )


def behind_overdue(state: ScheduleState) -> Overlap | None:
    """The overlap policy for a trigger that was requested without one; None means the schedule's policy.

    Overdue times start in the trigger's transaction, before it. If no run was open before, only these can block the
    trigger, and they must not cause it to be skipped: it runs after them.
    """
    is_free = not state.open_runs
    return Overlap.BUFFER_ONE if is_free and state.policies.overlap is Overlap.SKIP else None


Refuse = Callable[[Occurrence, int], Reason | None]
"""The reason why an occurrence may not start at its turn, or None; the number counts scheduled ones chosen earlier."""


@dataclass(slots=True)
class Sorted:
    """The results of one pass, each in order. `overlapping` are starts that need no slot."""

    overlapping: list[Occurrence] = field(default_factory=list)
    chosen: list[Occurrence] = field(default_factory=list)
    kept: list[Occurrence] = field(default_factory=list)
    refused: list[tuple[Occurrence, Reason]] = field(default_factory=list)

    @property
    def starts(self) -> list[Occurrence]:
        """Everything that starts now."""
        return self.overlapping + self.chosen


def sort_out(
    entries: Sequence[Occurrence], *, open_runs: int, limit: int, capacity: int, waiting: int, refuse: Refuse
) -> Sorted:
    """One pass over `entries`.

    `open_runs` runs are open now; `capacity` is how many more may be, also for allow_all; `waiting` occurrences wait
    besides `entries`. Either nothing else waits, or `entries` are candidates and no slot is free.
    """
    free = max(0, min(limit - open_runs, capacity))
    one_pass = _Pass(open_runs=open_runs, free=free, capacity=capacity, waiting=waiting, refuse=refuse)
    if free and len(entries) > 1 and free + open_runs > 1:  # with one slot, rule 4 alone gives it to the newest
        entries = _newest_stoppers(entries, free + open_runs, refuse, one_pass.result)
    for entry in entries:
        one_pass.meet(entry)
    return one_pass.result


@dataclass(slots=True, kw_only=True)
class _Pass:
    """The current state of a pass; `scheduled` counts the starts that use up a limited action."""

    open_runs: int
    free: int
    capacity: int
    waiting: int
    refuse: Refuse
    result: Sorted = field(default_factory=Sorted)
    scheduled: int = 0

    def meet(self, entry: Occurrence) -> None:
        """Apply rules 1 and 2."""
        overlapping, chosen = self.result.overlapping, self.result.chosen
        has_capacity = len(overlapping) + len(chosen) < self.capacity
        if entry.overlap is Overlap.ALLOW_ALL:
            reason = self.refuse(entry, self.scheduled) or (None if has_capacity else Reason.RUNS_FULL)
            self.take(entry, overlapping, reason)
        elif has_capacity and len(chosen) < self.free:
            self.take(entry, chosen, self.refuse(entry, self.scheduled))
        elif entry.overlap in STOPS_OTHERS and chosen and self.no_run_to_stop():
            self.displace(entry)
        else:
            self.wait_or_skip(entry)

    def take(self, entry: Occurrence, into: list[Occurrence], reason: Reason | None) -> None:
        """Start an occurrence, or refuse it if there is a reason."""
        if reason is not None:
            self.result.refused.append((entry, reason))
            return
        into.append(entry)
        self.scheduled += entry.origin is Origin.SCHEDULE

    def no_run_to_stop(self) -> bool:
        """Whether for every open run an occurrence already waits that stops it."""
        return sum(1 for kept in self.result.kept if kept.overlap in STOPS_OTHERS) >= self.open_runs

    def displace(self, entry: Occurrence) -> None:
        """Apply rule 4: one that stops others takes the place and the limited action of the oldest chosen occurrence.

        If some wait for runs that stop, the oldest of them goes first, and `entry` waits in its place.
        """
        chosen, kept = self.result.chosen, self.result.kept
        loser = next((each for each in chosen if each.overlap not in STOPS_OTHERS), chosen[0])
        winner = next((each for each in kept if each.overlap in STOPS_OTHERS), entry)
        if winner is not entry:
            kept.remove(winner)
            kept.append(entry)
        self.scheduled -= loser.origin is Origin.SCHEDULE
        reason = self.refuse(winner, self.scheduled)
        if reason is None:
            chosen.remove(loser)
            self.result.refused.append((loser, Reason.SUPERSEDED))
        else:
            self.scheduled += loser.origin is Origin.SCHEDULE
        self.take(winner, chosen, reason)

    def wait_or_skip(self, entry: Occurrence) -> None:
        """Apply rule 3."""
        kept = self.result.kept
        first = self.waiting + len(kept) == 0
        if entry.overlap is Overlap.SKIP or (entry.overlap is Overlap.BUFFER_ONE and not first):
            self.result.refused.append((entry, Reason.OVERLAP))
        else:
            kept.append(entry)


def _newest_stoppers(entries: Sequence[Occurrence], slots: int, refuse: Refuse, result: Sorted) -> Sequence[Occurrence]:
    """`entries` without the cancel_other and terminate_other ones that newer ones supersede.

    The newest `slots` of them stay. An occurrence that may not start anyway supersedes nothing.
    """
    stoppers = [entry for entry in entries if entry.overlap in STOPS_OTHERS]
    if len(stoppers) < 2:
        return entries
    dropped: list[tuple[Occurrence, Reason]] = []
    survivors = 0
    for entry in reversed(stoppers):
        reason = refuse(entry, 0) or (Reason.SUPERSEDED if survivors >= slots else None)
        if reason is None:
            survivors += 1
        else:
            dropped.append((entry, reason))
    result.refused.extend(reversed(dropped))
    gone = {entry.key for entry, _ in dropped}
    return [entry for entry in entries if entry.key not in gone]


def stops_wanted(waiting: Sequence[Occurrence], running: Sequence[Run], limit: int) -> list[tuple[Run, Stop]]:
    """The runs that must now be asked to stop so that each waiting cancel_other or terminate_other gets a slot.

    The oldest are asked first, and no more of them than needed. A run is not asked twice, unless terminate follows
    cancel: terminate wins as soon as one waiting occurrence requests it.
    """
    stoppers = [entry.overlap for entry in waiting if entry.overlap in STOPS_OTHERS]
    if not stoppers:
        return []
    level = Stop.TERMINATE if Overlap.TERMINATE_OTHER in stoppers else Stop.CANCEL
    needed = min(len(running), max(0, len(running) - limit + len(stoppers)))
    return [
        (run, level)
        for run in running[:needed]
        if run.stop is None or (run.stop is Stop.CANCEL and level is Stop.TERMINATE)
    ]

"""Runs in memory: a run goes on where its code waits, without a replay, on the worker that let it go on last.

Memory is ahead of the database until a transaction is committed. So a run is *lent* to the transaction of a batch, and
kept only when that is known to be committed; whatever else becomes of the batch, its runs leave memory, and come back
by replay.

A run that is kept is used only for the claim that follows the one under which it was kept: each claim counts `attempt`
up, and only who has the claim writes the journal. So no one else has written anything to it in between.

To leave memory runs code of the user's (`finally`), so it happens in the threads of batches, in limited time.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from evertick.base.ids import JobId
from evertick.base.instants import MINUTE_MS
from evertick.base.records.jobs import Claim
from evertick.base.records.journal import CallKind
from evertick.base.time_limit import FunctionTimeout
from evertick.engine.runtime.metrics import Counters
from evertick.rules.workflows.run import Run

SLEEP_MAX_MS: Final = 5 * MINUTE_MS
"""A run that only sleeps, and longer than this, leaves memory at once."""
TIMED: Final = frozenset({CallKind.SLEEP, CallKind.TIMER})
"""Kinds of calls that end at a time that is known."""


class KeptRun(NamedTuple):
    """A run in memory and the claim under which it went on last."""

    run: Run
    claim: Claim


class RunsInMemory:
    """The runs that one loop keeps: the most recently used ones, no more than `limit`.

    `within_limit` calls code of a run's function in limited time.
    """

    def __init__(
        self, limit: int, within_limit: Callable[[Claim, Callable[[], None]], None], counters: Counters
    ) -> None:
        self._limit = limit
        self._within_limit = within_limit
        self._counters = counters
        self._lock = threading.Lock()
        self._kept: OrderedDict[JobId, KeptRun] = OrderedDict()
        self._lent: dict[tuple[JobId, int], KeptRun] = {}
        """What transactions have that are not known to be committed, by the job and attempt of their claims."""
        self._leaving: list[KeptRun] = []
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._kept) + len(self._lent) + len(self._leaving)

    # -- in the thread of a batch

    def lend(self, claims: Sequence[Claim]) -> set[JobId]:
        """Before a transaction: lend it the runs of its claims that are in memory; returns which these are."""
        lent = set()
        with self._lock:
            leaving, self._leaving = self._leaving, []
            for claim in claims:
                kept = self._kept.pop(claim.id, None)
                if kept is not None and _follows(claim, kept.claim):
                    self._lent[claim.id, claim.attempt] = kept
                    lent.add(claim.id)
                elif kept is not None:
                    leaving.append(kept)
            if lent:
                self._counters.add("runs_from_memory", len(lent))
        for each in leaving:
            self.evict(*each)
        return lent

    def take(self, claim: Claim) -> Run | None:
        """The run that was lent for a claim: it is about to go on."""
        with self._lock:
            lent = self._lent.pop((claim.id, claim.attempt), None)
        return None if lent is None else lent.run

    def give(self, run: Run, claim: Claim, wait_ms: int) -> None:
        """The run has gone on as far as it can, and waits for so long at most. It leaves memory if it only sleeps, and
        for long.
        """
        waits_for_others = any(call.kind not in TIMED for call in run.open_calls.values())
        stays = waits_for_others or wait_ms <= SLEEP_MAX_MS
        with self._lock:
            stays = stays and self._limit > 0 and not self._is_closed
            if stays:
                self._lent[claim.id, claim.attempt] = KeptRun(run, claim)
        if not stays:
            self.evict(run, claim)

    def evict(self, run: Run, claim: Claim) -> None:
        """End the run's code where it waits."""
        try:
            self._within_limit(claim, run.evict)
        except FunctionTimeout:
            pass  # what it has not ended by then comes to nothing: it can call no step any more

    # -- when the transaction has ended

    def keep(self, claims: Sequence[Claim]) -> None:
        """The transaction of these claims is committed."""
        with self._lock:
            for claim in claims:
                lent = self._lent.pop((claim.id, claim.attempt), None)
                if lent is None:
                    continue
                older = self._kept.pop(claim.id, None)
                if older is not None:
                    self._leaving.append(older)
                self._kept[claim.id] = lent
            while len(self._kept) > self._limit:
                self._leaving.append(self._kept.popitem(last=False)[1])

    def drop(self, claims: Sequence[Claim]) -> None:
        """The transaction of these claims is not known to be committed."""
        with self._lock:
            lent = [self._lent.pop((claim.id, claim.attempt), None) for claim in claims]
            self._leaving += [each for each in lent if each is not None]

    def close(self) -> None:
        """The worker ends: no run is kept any more."""
        with self._lock:
            self._is_closed = True
            leaving = [*self._leaving, *self._lent.values(), *self._kept.values()]
            self._leaving.clear()
            self._lent.clear()
            self._kept.clear()
        for each in leaving:
            self.evict(*each)


def _follows(claim: Claim, last: Claim) -> bool:
    """Whether a claim of a job is the next one after another."""
    return claim.attempt == last.attempt + 1

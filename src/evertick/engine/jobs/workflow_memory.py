"""Runs in memory: the worker that last advanced a run continues it where its code waits, without a replay.

Memory is ahead of the database until a transaction is committed. So a run is *lent* to the transaction of a batch. It
is kept only when that transaction is known to be committed. Otherwise the runs of the batch leave memory, and replay
restores them.

A kept run is used only for the claim that follows the one under which it was kept. Each claim increments `attempt`, and
only the holder of the claim writes the journal. So no other process wrote to it meanwhile.

Each batch has its own loan. Two batches can have the same claim of a run at the same time, if the database has lost a
claim in a crash and the same worker claims the run again. Only one of them is committed.

Removing a run from memory runs user code (`finally`), so it happens in the threads of batches, in limited time.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from evertick.base.ids import JobId
from evertick.base.instants import MINUTE_MS
from evertick.base.outcomes import Raised
from evertick.base.records.jobs import Claim, RetryPolicy
from evertick.base.records.workflows import TRY_AGAIN_MS, CallKind
from evertick.base.time_limit import FunctionTimeout
from evertick.engine.runtime.metrics import Counters
from evertick.rules.jobs.lifecycle import grown_ms
from evertick.rules.workflows.run import Run

# -- Misfits: runs whose journals do not fit this worker's code, and how long each is left alone.
#
# During the rollout of a release, the old code meets runs that the new code has begun or advanced, and vice versa. So a
# run is soon tried again, by any worker: there is probably one whose code fits. The waits of each worker double,
# because possibly no code fits, and then the journal need not be read all the time.

WAITS: Final = RetryPolicy(attempts=1_000, first_ms=250, factor=2.0, cap_ms=TRY_AGAIN_MS, jitter=0.0)
"""How long a run is left alone. The number of tries is not limited."""
KNOWN_MAX: Final = 10_000


class Misfits:
    """The runs whose history the code did not match when they were last tried here; only the most recent ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tries: OrderedDict[JobId, int] = OrderedDict()

    def add(self, run_id: JobId) -> int:
        """Note that the code does not fit the run. Return how often in a row this has happened, including this time."""
        with self._lock:
            tries = self._tries[run_id] = self._tries.pop(run_id, 0) + 1
            if len(self._tries) > KNOWN_MAX:
                self._tries.popitem(last=False)
        return tries

    def discard(self, run_id: JobId) -> None:
        """Note that the code fits the run."""
        if self._tries:
            with self._lock:
                self._tries.pop(run_id, None)


def wait_ms(tries: int) -> int:
    """How long a run is not tried after this many misfits in a row, in milliseconds."""
    return round(grown_ms(tries, WAITS))


SLEEP_MAX_MS: Final = 5 * MINUTE_MS
"""A run that only sleeps, and for longer than this, leaves memory at once."""
TIMED: Final = frozenset({CallKind.SLEEP, CallKind.TIMER})
"""Kinds of calls that end at a known time."""


class KeptRun(NamedTuple):
    """A run in memory and the claim under which it was last advanced."""

    run: Run
    claim: Claim


Loan = dict[JobId, KeptRun]
"""The runs that the transaction of a batch uses until its result is known."""


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
        self._loans: dict[int, Loan] = {}
        """Loans of transactions that are not known to be committed, by the identity of the dict."""
        self._leaving: list[KeptRun] = []
        self._is_closed = False
        self.misfits = Misfits()

    def __len__(self) -> int:
        return len(self._kept) + sum(len(loan) for loan in self._loans.values()) + len(self._leaving)

    # -- in the thread of a batch

    def lend(self, loan: Loan, claims: Sequence[Claim]) -> None:
        """Before a transaction: lend it the runs of its claims that are in memory."""
        with self._lock:
            self._loans[id(loan)] = loan
            leaving, self._leaving = self._leaving, []
            for claim in claims:
                kept = self._kept.pop(claim.id, None)
                if kept is not None and _follows(claim, kept.claim):
                    loan[claim.id] = kept
                elif kept is not None:
                    leaving.append(kept)
            if loan:
                self._counters.add("runs_from_memory", len(loan))
        for each in leaving:
            self.evict(*each)

    def take(self, loan: Loan, claim: Claim) -> Run | None:
        """Return the run that was lent for a claim, in order to advance it. None if there is none."""
        with self._lock:
            lent = loan.pop(claim.id, None)
        return None if lent is None else lent.run

    def give(self, loan: Loan, run: Run, claim: Claim, wait_ms: int) -> None:
        """Put back a run that has advanced as far as it can and waits at most `wait_ms`. It leaves memory if it only
        sleeps, and for long.
        """
        waits_for_others = any(call.kind not in TIMED for call in run.open_calls.values())
        stays = waits_for_others or wait_ms <= SLEEP_MAX_MS
        with self._lock:
            stays = stays and self._limit > 0 and not self._is_closed
            if stays:
                loan[claim.id] = KeptRun(run, claim)
        if not stays:
            self.evict(run, claim)

    def evict(self, run: Run, claim: Claim) -> None:
        """End the run's code where it waits."""
        try:
            self._within_limit(claim, run.evict)
        except FunctionTimeout:
            pass  # code that has not ended by then has no effect: it can call no step any more

    # -- when the transaction has ended

    def keep(self, loan: Loan) -> None:
        """Keep the runs of a loan: the transaction is committed."""
        with self._lock:
            for job_id, lent in self._returned(loan).items():
                older = self._kept.pop(job_id, None)
                if older is not None:
                    self._leaving.append(older)
                self._kept[job_id] = lent
            while len(self._kept) > self._limit:
                self._leaving.append(self._kept.popitem(last=False)[1])

    def drop(self, loan: Loan) -> None:
        """Drop the runs of a loan: the transaction is not known to be committed."""
        with self._lock:
            self._leaving += self._returned(loan).values()

    def close(self) -> None:
        """Drop all runs, because the worker ends."""
        with self._lock:
            self._is_closed = True
            lent = [run for loan in list(self._loans.values()) for run in self._returned(loan).values()]
            leaving = [*self._leaving, *lent, *self._kept.values()]
            self._leaving.clear()
            self._kept.clear()
        for each in leaving:
            self.evict(*each)

    def _returned(self, loan: Loan) -> dict[JobId, KeptRun]:
        """Return the contents of a loan and empty it."""
        self._loans.pop(id(loan), None)
        runs = dict(loan)
        loan.clear()
        return runs


def _follows(claim: Claim, last: Claim) -> bool:
    """Whether a claim of a job directly follows another one."""
    return claim.attempt == last.attempt + 1


# -- A run whose transaction is refused: the step that cannot be committed fails, as if its function had.


class OneStep(NamedTuple):
    """The run executes at most one step per transaction, so that it is known which step the database refuses."""

    refused: Raised | None = None
    """The end of that step, which is not run again: the commit of this step alone was refused, too."""

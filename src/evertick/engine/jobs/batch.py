"""A batch of mutations in one transaction: their writes, the jobs that they schedule, and their ends share a commit.

So either everything of a mutation is committed or nothing. The end of a job is fenced: if one job of the batch is not
held any more (canceled, or reaped from a worker that seemed dead), `FenceLost` rolls back the whole transaction.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from evertick.base.errors import TransactionEnded, WriteConflict
from evertick.base.ids import JobId, WorkerId
from evertick.base.instants import MILLISECOND, Instant
from evertick.base.records.jobs import Claim, FunctionKind, JobEnd, JobState
from evertick.base.time_limit import TimeOver
from evertick.engine.jobs.completion import finish, logged_by
from evertick.engine.jobs.workflow_memory import Loan, OneStep
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.metrics import JobEnded
from evertick.engine.runtime.runner import WAITING_RUNS_MAX, WaitedTooLong
from evertick.rules.jobs.lifecycle import ended
from evertick.store.records.claims import OwnJob
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import UnitOfWork

_logger: Final = logging.getLogger("evertick.engine")

HELD_LONG_S: Final = 1.0
"""A mutation that locks a SQLite file for longer is logged. In seconds of real time, whatever clock the app has."""


class FenceLost(WriteConflict):
    """A job of the batch is not held any more."""


class EndedItself(FenceLost):
    """A function of the batch has ended or changed its own job: the job was held when the transaction began."""


class Losses(NamedTuple):
    """How often in a row the mutation's own statements have lost the connection, while no other statement did."""

    times: int
    since: Instant
    outages: int
    """The runner's count of outages at the first of these losses."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Claimed mutations that share a commit."""

    claims: list[Claim]
    worker_id: WorkerId
    failures: int = 0
    """How often a single mutation could not be committed although it ran alone."""
    refusals: int = 0
    """How often in a row the database has refused the batch, although it answered other statements."""
    losses: Losses | None = None
    """Losses of a single mutation."""
    waits: int = 0
    """How often a single mutation has used up its time limit by waiting."""
    one_step: OneStep | None = None
    """Set for a single run that executes one step per transaction."""
    loan: Loan = field(default_factory=dict)
    """The runs in memory that the transaction uses."""
    waited: list[Claim] = field(default_factory=list)
    """Claims to run again after the commit because they have used up their time limit by waiting."""

    @property
    def is_single(self) -> bool:
        """Whether the batch is a single mutation."""
        return len(self.claims) == 1

    @property
    def has_runs(self) -> bool:
        """Whether the batch consists of workflow runs. Each loop claims jobs of one kind."""
        return bool(self.claims) and self.claims[0].kind is FunctionKind.WORKFLOW

    @property
    def runs_again(self) -> bool:
        """Whether a function that uses up its time limit by waiting is run again instead of ended."""
        return self.waits + 1 < WAITING_RUNS_MAX

    def only(self, claims: list[Claim]) -> "list[Batch]":
        """A list with one batch of only these claims; an empty list if there are no claims."""
        return [replace(self, claims=claims)] if claims else []

    def halves(self) -> "list[Batch]":
        """Two smaller batches."""
        middle = len(self.claims) // 2
        return self.only(self.claims[:middle]) + self.only(self.claims[middle:])


class Runs(Protocol):
    """The workflow runs in a batch (`engine/jobs/workflow_runs.py`)."""

    def resume(self, claim: Claim, *, now: Instant) -> tuple[JobEnd, bool]:
        """Advance a run. Return its end, or that it is parked; and whether one of its own steps has written that."""
        ...

    def write(self) -> None:
        """Write what the runs produced."""
        ...

    def finish(self) -> None:
        """Do the remaining work after everything of the batch is written."""
        ...


MakeRuns = Callable[[Transaction, UnitOfWork], Runs]


def is_parked(claim: Claim, end: JobEnd) -> bool:
    """Whether the job is a workflow run that waits. A mutation that is pending again has failed and will be retried."""
    return claim.kind is FunctionKind.WORKFLOW and end.state is JobState.PENDING and end.failures == claim.failures


class OpenBatch:
    """The transaction of a batch: the mutations that ran in it and which of their ends are written."""

    def __init__(
        self, transaction: Transaction, worker_id: WorkerId, deps: EngineDeps, runs: MakeRuns | None = None
    ) -> None:
        self.was_held = False
        """Whether this transaction has verified that every job of the batch is held."""
        self.unit = UnitOfWork(transaction, write_completions=self.write_completions)
        self.runs = None if runs is None else runs(transaction, self.unit)
        self.results: list[JobEnded] = []
        self.ended_by_steps: set[JobId] = set()
        """Runs whose end is in the transaction already because one of their steps has ended them."""
        self._transaction = transaction
        self._worker_id = worker_id
        self._deps = deps
        self._written = 0
        self._fence_lost: type[FenceLost] | None = None

    def write_completions(self) -> None:
        """Write the ends that are not written yet, because a later mutation is about to read the database.

        Raises FenceLost if a job is not held any more, and on every later call: a function may catch the first one.
        """
        if self._fence_lost is not None:
            raise self._fence_lost
        results = self.results[self._written :]
        if not results:
            return
        self._written = len(self.results)
        if self.runs is not None:
            self.runs.write()
        now = self._deps.clock.now()
        held, left = (set[JobId](), results) if self.runs is None else self._write_waiting(results, now)
        held |= finish(
            self._transaction,
            {result.claim.id: result.claim for result in left},
            [result.end for result in left],
            worker_id=self._worker_id,
            now=now,
            make_id=self._deps.ids.make,
        ).keys()
        if len(held) < len(results):
            self._fence_lost = EndedItself if self.was_held else FenceLost
            raise self._fence_lost
        self._transaction.insert_jobs(self.unit.take_successors())

    def _write_waiting(self, results: list[JobEnded], now: Instant) -> tuple[set[JobId], list[JobEnded]]:
        """Park workflow runs that wait, and write their logs and those of runs whose end a step has written.

        Return the ids of those that are held, and the ends of the other jobs.
        """
        held = {result.claim.id for result in results} & self.ended_by_steps
        parked = [end for claim, end, *_ in results if end.id not in held and is_parked(claim, end)]
        done = held | {end.id for end in parked}
        logged = [logged_by(claim, end.attempt, end.logs) for claim, end, *_ in results if end.logs and end.id in done]
        if logged:
            self._transaction.add_logs(logged, now=now)
        if parked:
            held |= self._transaction.park_runs(parked, worker_id=self._worker_id, now=now)
        return held, [result for result in results if result.claim.id not in done]

    def finish(self) -> list[JobEnded]:
        """Write everything that is pending, including the ends."""
        self.unit.flush()
        self.write_completions()
        if self.runs is not None:
            self.runs.finish()
        results, self.results = self.results, []  # breaks a reference cycle with the unit, for the collector
        return results


def run_batch(
    transaction: Transaction, batch: Batch, deps: EngineDeps, *, runs: MakeRuns | None = None
) -> list[JobEnded]:
    """Run the mutations of a batch, at least one, until all have run, `batch_time` is over or one has waited too long.

    Raises FenceLost, Conflict or Unavailable. Then nothing of the batch may be committed.
    """
    if batch.failures and not still_held(transaction, batch):
        raise FenceLost  # do not run again what was canceled meanwhile
    transaction.is_shared = not batch.is_single
    batch.waited.clear()
    opened = OpenBatch(transaction, batch.worker_id, deps, runs)
    opened.was_held = batch.failures > 0
    clock, run_mutation = deps.clock, deps.runner.run_mutation
    began_at = now = clock.now()
    begun_s = time.monotonic()
    try:
        for claim in batch.claims:
            if now - began_at > deps.settings.batch_time // MILLISECOND and opened.results:
                break
            transaction.own = OwnJob(claim, batch.worker_id)
            if opened.runs is not None:
                end, is_written = opened.runs.resume(claim, now=now)
                if is_written:
                    opened.ended_by_steps.add(claim.id)
                end = end._replace(started_at=now)
                ended_at = clock.now()
            else:
                ran = run_mutation(opened.unit, claim, now=now)
                if ran.over is TimeOver.WAITED and batch.runs_again:
                    batch.waited.append(claim)
                    break  # commit first what ran before it
                ended_at = clock.now()
                end = ended(claim, ran.outcome, now=ended_at, entropy=deps.entropy, logs=ran.logs, started_at=now)
            opened.results.append(JobEnded(claim, end, now, ended_at))
            now, before_s, begun_s = ended_at, begun_s, time.monotonic()
            if begun_s - before_s > HELD_LONG_S and deps.store.single_engine:
                _name_slow(claim, begun_s - before_s)
    except TransactionEnded as error:
        error.job_id = claim.id
        raise
    except WaitedTooLong:
        batch.waited.append(claim)
    finally:
        transaction.own = None
    return opened.finish()


def _name_slow(claim: Claim, took_s: float) -> None:
    """Log a mutation that locked a SQLite file for long: all other writers waited for it."""
    _logger.warning(
        "%s held the database file for %.1f s: nothing else could be written meanwhile; "
        "move what takes long into an action",
        claim.name, took_s, extra={"job_id": claim.id, "function": claim.name},
    )  # fmt: skip


def still_held(transaction: Transaction, batch: Batch) -> list[Claim]:
    """The claims of a batch that are still held and have not ended. Waits for a commit that is in progress."""
    return [c for c in batch.claims if transaction.is_held(c.id, worker_id=batch.worker_id, attempt=c.attempt)]

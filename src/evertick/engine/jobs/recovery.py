"""Recovery: runs batches of claimed mutations again until the end of each mutation is written.

* A conflict, or a job that was taken away: nothing was written. The batch is run again in halves, and these in halves.
  So the one mutation that causes it is found in a few commits, and the others still share theirs. A single mutation
  that meets conflicts is retried without limit, at growing intervals.
* The function of a mutation has ended or changed its own job, for example by SQL: the mutation ends failed.
* The database can never commit the batch (a constraint that is checked at the commit), or the engine failed with an
  unknown error: the same halves find the one mutation. It ends failed, and delays no other. A refused run of a workflow
  runs one step per transaction. The step that is refused then fails, as if its function had.
* A function has ended the transaction of the batch, which may have committed some of it: that mutation ends failed and
  never runs again. The others run again if their ends were not committed.
* A statement in a function loses the connection repeatedly (for example, it ends its own session), or PostgreSQL has
  no space to commit the writes of the function, while the database works otherwise: that mutation ends failed. In an
  outage other statements fail as well, and the mutation is run again.
* The connection broke during the commit: the rows, read under a lock, show whether the commit was applied. If a job is
  still held, it was not applied, and the job is run again.
* The time of a batch was over before all had run: the others are the next batch.
* A function used up its time limit by waiting: it is run again alone, `WAITING_RUNS_MAX` times in all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from evertick.base.error_text import context_of, message_of
from evertick.base.errors import (
    Conflict,
    OutcomeUnknown,
    StorageFailed,
    TransactionEnded,
    TransactionRefused,
    Unavailable,
)
from evertick.base.ids import JobId, WorkerId
from evertick.base.instants import SECOND_MS
from evertick.base.outcomes import TIMED_OUT, Raised
from evertick.base.records.jobs import Claim, RetryPolicy
from evertick.base.records.workflows import RunRecord
from evertick.base.time_limit import FunctionTimeout
from evertick.engine.jobs.batch import (
    Batch,
    EndedItself,
    FenceLost,
    Losses,
    OpenBatch,
    is_parked,
    run_batch,
    still_held,
)
from evertick.engine.jobs.workflow_memory import OneStep, RunsInMemory
from evertick.engine.jobs.workflow_runs import OpenRuns
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import Work
from evertick.engine.runtime.loop import RepeatedLog
from evertick.engine.runtime.metrics import JobEnded
from evertick.rules.jobs.lifecycle import ended, retry_delay_ms
from evertick.store.store import Isolation, LostInFunction
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import UnitOfWork

_logger: Final = logging.getLogger("evertick.engine")

REFUSALS_MAX: Final = 3
"""How often in a row the database may refuse a batch before it is run again in halves."""
LOSSES_MAX: Final = 5
"""How often in a row a mutation may lose the connection by its own statement, or meet a server that cannot commit its
writes, without an outage in between."""
LOST_FOR_MS: Final = 30 * SECOND_MS
"""For less time than this, such a mutation is run again: the cause may be a failover."""
NAMES_SHOWN_MAX: Final = 5
"""Functions listed in a log line about a batch."""
READ_WITHIN_MAX: Final = 16
"""A batch with at most this many runs is cheap to repeat. Its transaction reads their records: one round trip less."""
CONFLICT_BACKOFF: Final = RetryPolicy(attempts=1_000, first_ms=5, factor=2.0, cap_ms=1_000, jitter=0.5)
"""Waits between runs of a mutation that meets conflicts. There is no limit: internal errors are always retried."""


class _GivenUp(NamedTuple):
    """A single mutation that can never be committed: it ends as failed."""

    error: Exception


class BatchRunner:
    """Runs claimed mutations to their end. Waits while the database is unavailable."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps
        self.memory = RunsInMemory(deps.settings.runs_in_memory, deps.runner.within_limit, deps.counters)
        self._unavailable = 0
        self._outages = 0
        """Failures of the database that no statement of a function can have caused."""
        self._unexpected = RepeatedLog(_logger, deps.clock)
        self.last_batch_complete = False
        """Whether the last commit contained every mutation of its batch: none was left because the time was over."""

    def work(self, batch: Batch, records: Mapping[JobId, RunRecord] | None = None) -> Work[list[JobEnded]]:
        """The work of a batch's transaction. A caller that begins it then calls `complete`.

        `records` are those of its runs, if they were read before.
        """
        deps, memory = self._deps, self.memory
        if not batch.has_runs:
            return lambda transaction: run_batch(transaction, batch, deps)

        def work(transaction: Transaction) -> list[JobEnded]:
            def runs(transaction: Transaction, unit: UnitOfWork) -> OpenRuns:
                opened = OpenRuns(transaction, unit, batch.claims, deps, memory, batch.loan, records)
                opened.one_step, opened.runs_again = batch.one_step, batch.runs_again
                return opened

            return run_batch(transaction, batch, deps, runs=runs)

        return work

    def reads_before(self, batch: Batch) -> bool:
        """Whether the records of the batch's runs are read before its transaction instead of in it.

        PostgreSQL tracks the reads of a serializable transaction as index pages, and all batches insert new runs into
        the same page: of two concurrent batches one would be run again, with all its steps. Only the holder of a run's
        claim writes its record, so reading it earlier returns the same.
        """
        return batch.has_runs and not self._deps.store.single_engine and len(batch.claims) > READ_WITHIN_MAX

    async def run(self, claims: list[Claim], worker_id: WorkerId) -> None:
        """Run mutations until the end of each is written."""
        await self._run_all(Batch([], worker_id).only(claims))

    async def complete(self, batch: Batch, begun: Awaitable[list[JobEnded]]) -> None:
        """Continue as `run` for a batch whose first run has begun."""
        await self._run_all(await self._left_over(batch, begun))

    async def _run_all(self, batches: list[Batch]) -> None:
        while batches:
            batch = batches.pop(0)
            if batch.failures > 1:
                await self._back_off(batch.failures - 1)
            left = await self._left_over(batch, self._write(batch))
            # A single mutation that is run again, perhaps for long, does not delay the others.
            batches = [*batches, *left] if batch.is_single else [*left, *batches]

    async def _write(self, batch: Batch) -> list[JobEnded]:
        """Make one attempt at a batch."""
        executors, records = self._deps.executors, None
        if self.reads_before(batch):
            ids = [claim.id for claim in batch.claims]
            records = await executors.view(lambda transaction: transaction.get_runs(ids))
        return await executors.write(self.work(batch, records))

    async def _left_over(self, batch: Batch, running: Awaitable[list[JobEnded]]) -> list[Batch]:
        """Wait for a run of a batch. Return what must be run after it."""
        given_up = 0
        while True:
            left = await self._attempt(batch, running)
            if not isinstance(left, _GivenUp):
                return left
            if given_up:  # its end could not be written either, because of an unknown error
                claims = [claim._replace(on_complete=None, schedule=None, retry=None) for claim in batch.claims]
                batch = replace(batch, claims=claims)  # the cause may be what follows from the end
                await self._back_off(given_up)
            given_up += 1
            running = self._end_failed(batch, left.error)

    async def _attempt(self, batch: Batch, running: Awaitable[list[JobEnded]]) -> "list[Batch] | _GivenUp":
        """Wait as `_left_over`, but do not write the end of a single mutation that is given up."""
        counters = self._deps.counters
        try:
            results = await (self._in_memory(batch, running) if batch.has_runs else running)
        except FenceLost as error:
            counters.add("mutations_taken")
            return batch.halves() if not batch.is_single else await self._after_loss(batch, error)
        except Conflict as error:
            counters.add("mutation_conflicts")
            if not batch.is_single:
                return batch.halves()
            claim = batch.claims[0]
            _logger.info("%s met a conflict and will be retried: %s", claim.name, error,
                         extra={"job_id": claim.id, "will_retry": True})  # fmt: skip
            return [Batch(batch.claims, batch.worker_id, batch.failures + 1, waits=batch.waits)]
        except TransactionEnded as error:
            return await self._end_alone(batch, error)
        except TransactionRefused as error:
            return batch.halves() if not batch.is_single else _after_refusal(batch, error)
        except Unavailable as error:
            return await self._after_outage(batch, error)
        except Exception as error:
            self._unexpected.error(error, "running %d mutations failed unexpectedly", len(batch.claims))
            return batch.halves() if not batch.is_single else _GivenUp(error)
        self._unavailable = 0
        if batch.has_runs:
            counters.jobs_ended([each for each in results if not is_parked(each.claim, each.end)])
        else:
            counters.jobs_ended(results)
        done = {result.claim.id for result in results}
        self.last_batch_complete = len(done) == len(batch.claims)
        left = batch.only([claim for claim in batch.claims if claim.id not in done and claim not in batch.waited])
        return left + [self._after_wait(batch, claim) for claim in batch.waited]

    def _after_wait(self, batch: Batch, claim: Claim) -> Batch:
        """The batch to run after a single function has used up its time limit by waiting."""
        _logger.warning("%s used up its time by waiting, for a lock, a network, a sleep or a busy machine, and is run "
                        "again", claim.name, extra={"job_id": claim.id, "will_retry": True})  # fmt: skip
        return Batch([claim], batch.worker_id, batch.failures + 1, waits=batch.waits + 1)

    async def _after_loss(self, batch: Batch, error: FenceLost) -> "list[Batch] | _GivenUp":
        """Handle a single mutation whose job was taken away, or ended by its own function, which is undone now.

        The function need not be the cause if the job is held again: the database can lose a claim in a crash,
        and this worker may have claimed the job again. So it is run again by a transaction that checks the claim first.
        """
        if not await self._still_held(batch):
            return []
        if isinstance(error, EndedItself):
            return _GivenUp(TransactionRefused("its function has ended its own job; nothing is written"))
        return [replace(batch, failures=max(batch.failures, 1))]

    async def _after_outage(self, batch: Batch, error: Unavailable) -> "list[Batch] | _GivenUp":
        """Query the state of a batch when the database replies again. Return what must be run again."""
        unknown = isinstance(error, OutcomeUnknown)
        self._deps.counters.add("outcomes_unknown" if unknown else "database_unavailable")
        if isinstance(error, LostInFunction) and not batch.is_single:
            return batch.halves()
        names = ", ".join(sorted({claim.name for claim in batch.claims})[:NAMES_SHOWN_MAX])
        _logger.warning("mutations: %s; looking up what became of %d jobs of %s", error, len(batch.claims), names,
                        extra={"job_id": batch.claims[0].id} if batch.is_single else None)  # fmt: skip
        losses = self._losses(batch, error)
        if losses and losses.times >= LOSSES_MAX and self._deps.clock.now() - losses.since >= LOST_FOR_MS:
            words = f"its own statements failed {losses.times} times, while those of others worked: {error}"
            return _after_refusal(batch, TransactionRefused(words))
        # A database that can be read but not written (its disk is full, say) must not cause a busy loop.
        self._unavailable += 1
        await self._back_off(max(self._unavailable, losses.times if losses else 0))
        held = await self._still_held(batch)
        refusals = batch.refusals + (not isinstance(error, StorageFailed | OutcomeUnknown))
        left = replace(batch, claims=held, refusals=refusals, losses=losses)
        # The database replies, and refuses this batch repeatedly: a function may be the cause.
        return left.halves() if refusals % REFUSALS_MAX == 0 and len(held) > 1 else left.only(held)

    def _losses(self, batch: Batch, error: Unavailable) -> Losses | None:
        """The losses of a batch including this one. The count restarts if the database has failed otherwise."""
        if not isinstance(error, LostInFunction):
            self._outages += 1
            return None
        if not batch.is_single:
            return None
        if batch.losses is None or batch.losses.outages != self._outages:
            return Losses(1, self._deps.clock.now(), self._outages)
        return batch.losses._replace(times=batch.losses.times + 1)

    async def _in_memory(self, batch: Batch, running: Awaitable[list[JobEnded]]) -> list[JobEnded]:
        """Await `running`; the runs of the batch stay in memory only if it is committed."""
        try:
            results = await running
        except BaseException:
            self.memory.drop(batch.loan)
            raise
        self.memory.keep(batch.loan)
        return results

    async def _end_alone(self, batch: Batch, error: TransactionEnded) -> list[Batch]:
        """End the mutation that has ended the batch's transaction: what it committed must not be written again.

        Those before it in the batch are committed with their ends, or not at all.
        """
        (culprit,) = batch.only([claim for claim in batch.claims if claim.id == error.job_id])
        left = await self._left_over(culprit, self._end_failed(culprit, error))
        held = await self._still_held(batch)
        return left + batch.only([claim for claim in held if claim.id != error.job_id])

    async def _end_failed(self, batch: Batch, error: Exception) -> list[JobEnded]:
        """End a mutation that cannot be committed as failed. Only that end is written."""
        deps = self._deps
        claim = batch.claims[0]
        outcome = Raised(type(error).__name__, message_of(error))
        if _was_timed_out(error):
            outcome = Raised(TIMED_OUT, f"{claim.name} took longer than its time limit; {outcome.message}")
        now = deps.clock.now()
        end = ended(claim, outcome, now=now, entropy=deps.entropy)
        failed = JobEnded(claim, end, now, now)

        def work(transaction: Transaction) -> list[JobEnded]:
            opened = OpenBatch(transaction, batch.worker_id, deps)
            opened.results.append(failed)
            return opened.finish()

        return await deps.executors.write(work)

    async def _still_held(self, batch: Batch) -> list[Claim]:
        """The claims that are still held, so must be run again. Queries until the database replies."""
        failures = 0
        while True:
            try:
                return await self._deps.executors.write(
                    lambda transaction: still_held(transaction, batch), isolation=Isolation.READ_COMMITTED
                )
            except (Unavailable, Conflict) as error:
                self._outages += isinstance(error, Unavailable)
                failures += 1
                await self._back_off(failures)

    async def _back_off(self, failures: int) -> None:
        await asyncio.sleep(retry_delay_ms(failures, CONFLICT_BACKOFF, self._deps.entropy) / 1000)


def _after_refusal(batch: Batch, error: TransactionRefused) -> "list[Batch] | _GivenUp":
    """Handle a single mutation that can never be committed. For a run, it is one step that fails."""
    if not batch.has_runs or (batch.one_step is not None and batch.one_step.refused is not None):
        return _GivenUp(error)
    refused = None if batch.one_step is None else Raised(type(error).__name__, message_of(error))
    return [replace(batch, one_step=OneStep(refused))]


def _was_timed_out(error: BaseException | None) -> bool:
    """Whether an error of the transaction was raised by a function that was interrupted at its time limit."""
    while error is not None:
        if issubclass(type(error), FunctionTimeout):
            return True
        error = context_of(error)
    return False

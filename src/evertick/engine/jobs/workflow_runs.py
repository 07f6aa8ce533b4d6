"""Open runs: the workflow runs of a batch, from reading their state to writing the results.

The state of all runs of a batch is read at once, when its transaction begins or just before. Journals are read only for
runs that are not in memory (`workflow_memory.py`). Each run then advances as far as it can
(`rules/workflows/advance.py`), and ends or is *parked*: pending until its first timer, or until it receives a message.
Journal rows, ends and parked runs are written under the fence of the claims, in the same commit as the writes of the
steps.

A run that receives a message after the batch has read its messages is made due when it is parked (`wake_parked`).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from evertick.base.errors import QuotaExceeded, ReplayMismatch
from evertick.base.ids import JOB_PREFIX, JobId, TenantId, full_pool
from evertick.base.instants import Instant
from evertick.base.outcomes import Canceled, Outcome, Raised, Returned
from evertick.base.records.history import LogLine, append, line_of
from evertick.base.records.jobs import (
    COMPLETION,
    JOB_ERROR,
    RETRY,
    Claim,
    Completion,
    JobEnd,
    JobError,
    JobState,
    NewJob,
)
from evertick.base.records.workflows import (
    STEP,
    TRY_AGAIN_MS,
    Message,
    MessageKind,
    NewMessage,
    Row,
    RunRecord,
    from_text,
    to_text,
)
from evertick.base.time_limit import FunctionTimeout, TimeOver
from evertick.engine.jobs.completion import cancel
from evertick.engine.jobs.workflow_memory import Loan, OneStep, RunsInMemory, wait_ms
from evertick.engine.runtime import spans
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.runner import WaitedTooLong
from evertick.rules.jobs.lifecycle import ended
from evertick.rules.workflows.advance import Progress, advance
from evertick.rules.workflows.calls import Call, ContinuedAsNew
from evertick.rules.workflows.run import JOURNAL_ROWS_MAX, Run, new_run
from evertick.store.records.workflows import Entry, Parked
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import UnitOfWork

# -- Child workflows with keys: if the key is taken, the child does not begin and its step fails.

Begun = list[tuple[JobId, Call]]
"""Calls that begin as jobs."""


def without_key_conflicts(claim: Claim, begun: Begun, flushed: Callable[[], Transaction], *, now: Instant) -> Begun:
    """The calls of a run that begin: those without a key, and those whose key no unfinished job has.

    For the run, the other calls have ended at once with AlreadyExists. `flushed` returns the transaction after all
    scheduled jobs were written.
    """
    if all(call.options.key is None for _, call in begun):
        return begun
    transaction, holders, accepted = flushed(), dict[str, JobId](), Begun()
    for job_id, call in begun:
        key = call.options.key
        if key is not None:
            holder = holders.get(key) or transaction.find_unfinished_key(key, tenant=claim.tenant)
            if holder is not None:
                refused = Raised("AlreadyExists", f"the unfinished job {holder} holds the key {key!r}")
                ended = NewMessage(claim.id, MessageKind.ENDED, "", call.seq, refused)
                transaction.send_messages([ended], now=now)
                continue
            holders[key] = job_id
        accepted.append((job_id, call))
    return accepted


_logger: Final = logging.getLogger("evertick.engine")


class OpenRuns:
    """The runs among the claims of a batch."""

    def __init__(
        self,
        transaction: Transaction,
        unit: UnitOfWork,
        claims: Sequence[Claim],
        deps: EngineDeps,
        memory: RunsInMemory,
        loan: Loan,
        records: Mapping[JobId, RunRecord] | None = None,
    ) -> None:
        self._transaction = transaction
        self._unit = unit
        self._deps = deps
        self._memory = memory
        self._loan = loan
        self.one_step: OneStep | None = None
        """Set if the batch is a run whose transaction was refused."""
        self.runs_again = False
        """Whether a run that uses up its time limit by waiting is run again instead of ended."""
        ids = [claim.id for claim in claims]
        self._records = dict(transaction.get_runs(ids) if records is None else records)
        memory.lend(loan, claims)
        replayed = [(each.id, each.generation) for each in self._records.values() if each.id not in loan]
        self._journals = transaction.load_journals(replayed)
        self._messages: dict[JobId, list[Message]] = {}
        for message in transaction.waiting_messages(ids):
            self._messages.setdefault(message.run_id, []).append(message)
        self._entries: list[Entry] = []
        self._new: list[RunRecord] = []
        self._changed: dict[JobId, RunRecord] = {}
        self._continued: list[tuple[JobId, int]] = []
        """The new generations of runs that continue as new."""
        self._attributes: dict[JobId, tuple[TenantId, str]] = {}
        self._taken: list[int] = []
        self._seen: list[int] = []
        """Messages that were consumed and are recorded as such."""
        self._given_up: list[tuple[JobId, Claim]] = []
        self._parked: list[Parked] = []

    def resume(self, claim: Claim, *, now: Instant) -> tuple[JobEnd, bool]:
        """Advance a run. Return its end, or that it is parked; and whether one of its own steps has written that.

        Raises errors of the database; an error of the run's code becomes the run's end.
        """
        tracing = self._deps.tracing
        if tracing is None:
            return self._resume(claim, now=now)
        function = self._deps.runner.function(claim.name)
        with tracing.span(spans.attempt(claim, "" if function is None else function.pool)) as span:
            end, is_written = self._resume(claim, now=now)
            spans.record_run(span, end, claim)
        return end, is_written

    def write(self) -> None:
        """Write what the runs did since the last call. The caller writes their ends."""
        transaction, now = self._transaction, self._deps.clock.now()
        transaction.insert_runs(self._new)
        transaction.append_journal(self._entries)
        transaction.save_runs(list(self._changed.values()))
        transaction.drop_generations(self._continued, limit=JOURNAL_ROWS_MAX)
        transaction.save_attributes(self._attributes)
        transaction.take_messages(self._taken, now=now)
        self._seen += self._taken
        self._new, self._entries, self._taken, self._continued = [], [], [], []
        self._changed.clear()
        self._attributes.clear()

    def finish(self) -> None:
        """Cancel abandoned jobs and wake runs that received more messages, after all other writes of the batch."""
        now = self._deps.clock.now()
        for job_id, claim in self._given_up:
            cancel(self._transaction, job_id, tenant=claim.tenant, now=now, make_id=self._deps.ids.make)
        self._transaction.wake_parked(self._parked, now=now)
        # Last, because SQLite reuses the id of a removed row, and ids determine which messages the runs have not seen.
        self._transaction.drop_messages(self._seen)

    # -- helpers

    def _resume(self, claim: Claim, *, now: Instant) -> tuple[JobEnd, bool]:
        depth = self._unit.depth
        self._unit.begin()
        around = _Around(self._transaction, self._unit, claim, self._deps, self.one_step, runs_again=self.runs_again)
        journal = self._journals.get(claim.id, [])
        record = self._records.get(claim.id)
        if self._transaction.has_withdrawn:  # a step of an earlier run may have withdrawn messages to this one
            self._messages[claim.id] = self._transaction.waiting_messages([claim.id])
        run = self._memory.take(self._loan, claim) or self._new_run(claim, journal, record)
        run.on_line = around.write_line
        waits_until: Instant | None = None
        try:
            progress = advance(run, journal, self._messages.get(claim.id, []), around)
            end = self._end_of(claim, run, progress, now=now)
            waits_until = None if run.has_ended or progress.run_is_over else progress.due_at
        except (ReplayMismatch, QuotaExceeded) as error:
            self._unit.undo_to(depth)
            return _parked(claim, Instant(now + self._retry_after_ms(claim, error)), error), False
        except BaseException as error:
            if self.runs_again and _has_waited(error):
                self._unit.undo_to(depth)
                raise WaitedTooLong from error
            outcome = self._deps.runner.raised(self._unit, claim, error)  # raises errors that are not the run's
            self._unit.undo_to(depth)
            waited_for = [call.job_id for call in run.open_calls.values() if call.runs_as_job]
            self._given_up += [(job_id, claim) for job_id in waited_for if job_id is not None]
            return self._ended(claim, outcome)._replace(logs=around.logs), False
        finally:
            run.on_line = None
            if waits_until is None:
                self._memory.evict(run, claim)
            else:
                self._memory.give(self._loan, run, claim, waits_until - now)
        self._unit.keep()
        self._memory.misfits.discard(claim.id)
        self._note(claim, record, run, progress)
        return end._replace(logs=around.logs), progress.run_is_over

    def _retry_after_ms(self, claim: Claim, error: ReplayMismatch | QuotaExceeded) -> int:
        """Log why a run cannot continue, the first time. Return after how many milliseconds to try again."""
        level, tries, wait = logging.WARNING, 1, TRY_AGAIN_MS
        if isinstance(error, ReplayMismatch):
            level, tries = logging.ERROR, self._memory.misfits.add(claim.id)
            wait = wait_ms(tries)
        if tries == 1:
            _logger.log(level, "%s cannot go on: %s", claim.name, error, extra={"job_id": claim.id})
        return wait

    def _new_run(self, claim: Claim, journal: Sequence[Row], record: RunRecord | None) -> Run:
        first = journal[0].outcome if journal else None
        arguments = first.result if isinstance(first, Returned) else claim.args
        seed = claim.id if record is None else record.seed_of_generation
        run = new_run(claim.id, self._deps.runner.workflow(claim, arguments), seed=seed)
        run.attributes = from_text(None if record is None else record.attributes)  # the first row repeats them
        return run

    def _end_of(self, claim: Claim, run: Run, progress: Progress, *, now: Instant) -> JobEnd:
        end = run.end
        progress.begun = without_key_conflicts(claim, progress.begun, self._unit.flush_to_db, now=now)
        jobs = [self._job_of(job_id, call, claim, now) for job_id, call in progress.begun]
        if jobs:
            self._deps.runner.check_quotas(self._unit, jobs, now=now)
        for job in jobs:
            self._unit.schedule(job)
        if progress.run_is_over:
            return self._ended(claim, Canceled())
        if end is None:
            return _parked(claim, progress.due_at)
        if isinstance(end, ContinuedAsNew):
            return _parked(claim, self._deps.clock.now())
        if isinstance(end, Raised) and run.error is not None:
            raised = self._deps.runner.raised(self._unit, claim, run.error)  # with its traceback, and for hooks
            return self._ended(claim, replace(raised, data=end.data) if isinstance(raised, Raised) else raised)
        return self._ended(claim, end)

    def _ended(self, claim: Claim, outcome: Outcome) -> JobEnd:
        return ended(claim, outcome, now=self._deps.clock.now(), entropy=self._deps.entropy)

    def _note(self, claim: Claim, record: RunRecord | None, run: Run, progress: Progress) -> None:
        """Collect what is to be written about a run that was advanced."""
        if record is None:
            record = RunRecord(claim.id, claim.id, progress=run.progress)
            self._new.append(record)
        elif run.progress is not None and run.progress != record.progress:
            record = self._changed[claim.id] = record._replace(progress=run.progress)
        if (attributes := to_text(run.attributes)) != (record.attributes or ""):
            self._attributes[claim.id] = claim.tenant, attributes
        self._entries += [Entry(claim.id, record.generation, row) for row in progress.rows]
        self._taken += progress.taken
        self._given_up += [(job_id, claim) for job_id in progress.given_up]
        for job_id, call in progress.begun:
            if call.options.attributes:
                self._new.append(RunRecord(job_id, job_id, attributes=call.options.attributes))
                self._attributes[job_id] = claim.tenant, call.options.attributes
        if isinstance(run.end, ContinuedAsNew):
            again = self._changed[claim.id] = record._replace(generation=record.generation + 1)
            first = run.start_row(run.now)._replace(outcome=Returned(run.end.arguments))
            self._entries.append(Entry(claim.id, again.generation, first))
            self._continued.append((claim.id, again.generation))
        if not progress.run_is_over and (run.end is None or isinstance(run.end, ContinuedAsNew)):
            seen = [message.id for message in self._messages.get(claim.id, [])]
            self._parked.append(Parked(claim.id, max(seen, default=0)))

    def _job_of(self, job_id: JobId, call: Call, claim: Claim, now: Instant) -> NewJob:
        """The job that runs a call. The run is notified of its end."""
        function = self._deps.runner.function(call.function)
        assert function is not None  # noqa: S101
        options, retry = call.options, call.options.retry or function.retry
        return NewJob(
            id=job_id,
            kind=function.kind,
            name=function.name,
            args=call.arguments,
            requested_at=now,
            due_at=now,
            created_at=now,
            tenant=claim.tenant,
            parent_id=claim.id,
            retry=None if retry is None else RETRY.value(retry),
            on_complete=COMPLETION.value(Completion(claim.id, STEP, (), call.seq)),
            pool=function.pool if options.pool is None else full_pool(self._deps.app, options.pool),
            limit_key=options.limit_key,
            key=options.key,
            priority=options.priority or 0,
            trace=None if self._deps.tracing is None else self._deps.tracing.carried(),
        )


class _Around:
    """The functions that a run needs while it advances."""

    def __init__(
        self,
        transaction: Transaction,
        unit: UnitOfWork,
        claim: Claim,
        deps: EngineDeps,
        one_step: OneStep | None,
        *,
        runs_again: bool,
    ) -> None:
        self.run_is_over = False
        self.is_enough = False
        self.cancel: Message | None = None
        self._transaction = transaction
        self._unit = unit
        self._claim = claim
        self._deps = deps
        self.now = deps.clock.now
        self.logs: list[LogLine] = []
        self._one_step = one_step
        self._runs_again = runs_again

    def write_line(self, at: Instant, level: str, text: str) -> None:
        """Store a line that the run's code logs, after those of the steps so far."""
        append(self.logs, [line_of(0, at, level, text)])

    def make_job_id(self) -> JobId:
        return JobId(self._deps.ids.make(JOB_PREFIX, self._deps.clock.now()))

    def run_step(self, call: Call) -> Returned | Raised:
        if self._one_step is not None:
            self.is_enough = True
            if self._one_step.refused is not None:
                return self._one_step.refused
        ran = self._deps.runner.run_step(self._unit, self._claim, call, now=self._deps.clock.now())
        if self._runs_again and ran.over is TimeOver.WAITED:
            raise WaitedTooLong
        append(self.logs, ran.logs)
        own, claim = self._transaction.own, self._claim
        if own is not None and own.was_ended:
            own.was_ended = False
            held = self._transaction.is_held(claim.id, worker_id=own.worker_id, attempt=claim.attempt)
            self.run_is_over = not held
        if own is not None and own.was_canceled:
            own.was_canceled = False
            sent = [each for each in self._transaction.waiting_messages([claim.id]) if each.kind is MessageKind.CANCEL]
            self.cancel = sent[-1] if sent else None
        assert isinstance(ran.outcome, Returned | Raised)  # noqa: S101
        return ran.outcome

    def within_limit(self, deliver: Callable[[], None]) -> None:
        self._deps.runner.within_limit(self._claim, deliver)


def _has_waited(error: BaseException) -> bool:
    """Whether a step or the code of a run has used up its time limit by waiting."""
    if type(error) is FunctionTimeout:
        return error.over is not None and error.over.by is TimeOver.WAITED
    return type(error) is WaitedTooLong


def _parked(claim: Claim, due_at: Instant, error: Exception | None = None) -> JobEnd:
    """The end of an attempt whose run waits."""
    stored = None if error is None else JOB_ERROR.value(JobError(type(error).__name__, str(error)))
    return JobEnd(
        claim.id, claim.tenant, claim.name, claim.attempt, JobState.PENDING, None, due_at,
        claim.failures, 0, None, stored,
    )  # fmt: skip

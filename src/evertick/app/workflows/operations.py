"""Operations on the runs of workflows, as work for a transaction."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Unpack

from evertick.api.workflows import RunPage, RunView
from evertick.app.documents.tables import require_job_id
from evertick.app.functions.events import EventTypes
from evertick.app.functions.function import Function, FunctionCall, Workflow
from evertick.app.functions.options import OnConflict
from evertick.app.functions_by_name import check_event
from evertick.app.paging import page_of_jobs
from evertick.app.run.run import TransactionRun
from evertick.app.scheduling.choice import keys_like
from evertick.app.scheduling.job_builder import (
    JobBuilder,
    Options,
    Request,
    RunOptions,
    check_active,
    known_as,
    place_under_key,
    present_names,
)
from evertick.app.transacting import Work
from evertick.app.workflows.choice import RunsWhere, run_views, runs_where
from evertick.app.workflows.restarting import (
    check_restart,
    ends_after,
    position_to_restart,
    record_of_restart,
    rows_kept,
)
from evertick.base.errors import AlreadyExists, InvalidArguments, LimitExceeded, Misuse, RunNotOpen
from evertick.base.ids import JOB_PREFIX, JobId, TenantId, table_of
from evertick.base.instants import Instant
from evertick.base.job_options import KEY, check_name
from evertick.base.options import Unchanged, check_options, some
from evertick.base.outcomes import Returned
from evertick.base.paging import PAGE_MAX, check_limit
from evertick.base.records.jobs import UNFINISHED, FunctionKind, Job, JobFilter, NewJob, Stop
from evertick.base.records.stored import json_of, json_of_typed, size_of
from evertick.base.records.workflows import (
    STEP,
    MessageKind,
    NewMessage,
    Row,
    RunFilter,
    RunRecord,
    Sender,
    changed,
    checked,
    to_text,
)
from evertick.base.suggested_commands import no_run
from evertick.engine.jobs.completion import cancel
from evertick.engine.jobs.repair import copy_of, keep_attributes
from evertick.store.records.workflows import Entry
from evertick.store.transaction.transaction import Transaction

EVENT_BYTES_MAX: Final = 1024 * 1024
"""Bytes of the value of an event."""
EVENTS_MAX: Final = 1_000
"""Events that can wait for one run. All of them are read each time the run continues, and each event wakes it."""
WAITING_CHARS_MAX: Final = 16 * 1024 * 1024
"""Characters of all values of these events together."""
NO_OPTIONS: Final = Options()
RunId = JobId | str


class Sent(NamedTuple):
    """An event as it was sent: the run that it was sent to, and its value as JSON text."""

    job: Job
    value: str


@dataclass(frozen=True, slots=True)
class WorkflowOperations:
    """Operations on the runs of a tenant.

    A run is given by its id, `job_...`, or by the key that it was started under. A key means its unfinished run, or if
    there is none its last run.
    """

    tenant: TenantId
    job_builder: JobBuilder
    parent_id: JobId | None = None
    within: TransactionRun | None = None
    """The mutation to whose transaction the operations belong; None outside of mutations."""
    options: Options = NO_OPTIONS
    attributes: str = ""
    actor: str | None = None
    """The sender of events, shown in histories."""

    def using(self, options: RunOptions) -> "WorkflowOperations":
        """A copy with options for the runs that are started."""
        text = self.attributes
        if not isinstance(options.attributes, Unchanged):
            text = to_text(changed({}, checked(options.attributes or {})))
        return replace(self, options=self.options.merged(options), attributes=text)

    def start(
        self, workflow: Function[..., Any] | str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Work[JobId]:
        """Start a run with these arguments; returns its id. Raises WorkflowInactive."""
        call = self.job_builder.call(workflow, args, dict(kwargs))
        if not isinstance(call.function, Workflow):
            name = call.function.name
            raise Misuse(
                f"{name} is not a workflow; use scheduler.run_after(0, ...) or `evertick run {name} --after 0s`"
            )

        def work(transaction: Transaction) -> JobId:
            return self._place(transaction, call)

        return work

    def get(self, run_id: RunId) -> Work[RunView]:
        """A run: its state, progress, result or error. Raises JobNotFound."""
        return lambda transaction: self._view(transaction, self.job(transaction, run_id))

    def list(
        self, workflow: Function[..., Any] | str | None = None, *, limit: int = 100, cursor: str | None = None,
        **where: Unpack[RunsWhere],
    ) -> Work[RunPage]:  # fmt: skip
        """A page of the runs of a workflow, or of all workflows, newest first.

        - `state`: pending (not begun), running, paused, success, failed or canceled, or several of them.
        - `prefix`: the beginning of a run's key or id.
        - `schedule`: the id of the schedule or cron that started them.
        - `attributes`: names with values; a run must have all of them.
        - `started_from`, `started_until`: started at this time or later, and before.
        - `occurrence_from`, `occurrence_until`: started by a schedule for a nominal time then or later, and before.
        - `not_retried`: failed, not run again since, and not called by another run, which would call it again.
        - `error`: a part of the error's type and message, such as "ReplayMismatch"; also finds stuck runs.
        - `roots`: if True, only runs that no other run called with `step.workflow`; `children` lists those.
        - `cursor` continues after the page that returned it. A page with a filter for running or pending runs, a prefix
          of keys, or attributes searches 2,000 runs. It may have few or no runs, and a cursor to continue.

        Raises Misuse for an unknown state, LimitExceeded for more than 1,000 at a time, InvalidArguments for a cursor
        of another list.
        """
        check_limit(limit, PAGE_MAX, "a page has 1 to {:,} runs")
        chosen = runs_where(self.tenant, workflow, **where)
        after = None if cursor is None else require_job_id(cursor)

        def work(transaction: Transaction) -> RunPage:
            jobs, more = page_of_jobs(transaction, chosen, limit=limit, after=after, newest_first=True)
            return RunPage(runs=self.views(transaction, jobs), cursor=more)

        return work

    def children(self, run_id: RunId) -> Work[tuple[RunView, ...]]:
        """The runs that a run called with `step.workflow`, in the order of the calls.

        Only calls of its current generation are included, as in its history, and only runs that are still stored.
        Raises JobNotFound.
        """

        def work(transaction: Transaction) -> tuple[RunView, ...]:
            _, rows = self.journal(transaction, self.job(transaction, run_id))
            called = [row.outcome.result for row in rows if row.is_child and isinstance(row.outcome, Returned)]
            found = {job.id: job for job in transaction.get_jobs([JobId(each) for each in called], tenant=self.tenant)}
            return self.views(transaction, [found[JobId(each)] for each in called if each in found])

        return work

    def signal(self, run_id: RunId, event: str, value: Any = None, *, key: str | None = None) -> Work[None]:
        """Send an event to a run; its code takes it with `step.wait_for(event)`. The event waits until then.

        `value` must have the type that the workflow declares for the event. Without a declared type it must be a JSON
        value: a model, a datetime or a tuple is refused. `key`: of several events with the same key the run gets only
        the first, so sending again is safe.

        Raises JobNotFound, RunNotOpen if the run has ended, InvalidArguments if the value cannot be written as JSON or
        does not match the declared type, Misuse if the workflow declares events but not this one, LimitExceeded if the
        value has more than a megabyte, or if 1,000 events or events with 16 million characters together wait for the
        run.
        """
        send = self.send(run_id, event, value, key=key)

        def work(transaction: Transaction) -> None:
            send(transaction)

        return work

    def send(self, run_id: RunId, event: str, value: Any = None, *, key: str | None = None) -> Work[Sent]:
        """Like `signal`; returns what was sent."""
        check_name(event, "an event")
        check_options({"key": KEY}, some({"key": key}))
        words = f"the value of the event {event!r}"
        _ = json_of_typed(value, words)

        def work(transaction: Transaction) -> Sent:
            job = self.job(transaction, run_id)
            text = self._event_text(transaction, job, event, value, words)
            if (size := size_of(text)) > EVENT_BYTES_MAX:
                raise LimitExceeded(
                    f"the value of the event {event!r} has {size} bytes; the limit is {EVENT_BYTES_MAX}"
                )
            count, chars = transaction.waiting_size(job.id, limit=EVENTS_MAX)
            if count >= EVENTS_MAX or chars + len(text) > WAITING_CHARS_MAX:
                raise LimitExceeded(
                    f"run {job.id} has {count:,} events of {chars:,} characters that its code has not taken yet; at "
                    f"most {EVENTS_MAX:,} of {WAITING_CHARS_MAX:,} together can wait: send more after it has taken "
                    "some, or end the run"
                )
            sender = None if self.actor is None else Sender(self.actor, self.parent_id).to_text()
            message = NewMessage(job.id, MessageKind.EVENT, event, outcome=Returned(text), key=key, sender=sender)
            if not transaction.send_messages([message], now=self.job_builder.now()):
                raise RunNotOpen(job.id, job.state.value)
            return Sent(job, text)

        return work

    def cancel(self, run_id: RunId) -> Work[bool]:
        """Ask a run to end: its code gets CancelledError where it waits, and can clean up with further steps.

        The calls that it waits for are canceled too, and a paused run is resumed. Returns whether it had not ended.

        Raises JobNotFound.
        """
        return self._end(run_id, Stop.CANCEL)

    def terminate(self, run_id: RunId) -> Work[bool]:
        """End a run at once: its code does not run any more. What it has started continues.

        Returns whether it had not ended. Raises JobNotFound.
        """
        return self._end(run_id, Stop.FORCE)

    def pause(self, run_id: RunId) -> Work[bool]:
        """Stop a run from taking further steps until it is resumed or canceled.

        What it has begun continues: actions, jobs and child workflows. Its events are stored and its timers expire;
        the run sees both when it is resumed. A worker that is running it still saves what it has just done.

        Returns whether the run had not ended. Raises JobNotFound.
        """

        def work(transaction: Transaction) -> bool:
            job = self.job(transaction, run_id)
            if job.state in UNFINISHED:
                transaction.pause_run(job.id, tenant=self.tenant)
            return job.state in UNFINISHED

        return work

    def resume(self, run_id: RunId) -> Work[bool]:
        """Let a paused run continue; returns whether it was paused. Raises JobNotFound."""

        def work(transaction: Transaction) -> bool:
            job = self.job(transaction, run_id)
            return transaction.resume_run(job.id, tenant=self.tenant, now=self.job_builder.now())

        return work

    def restart(self, run_id: RunId, *, step: int | str | None = None, from_failed: bool = False) -> Work[JobId]:
        """Run a workflow again from one of its steps, or from its beginning; returns the id of the new run.

        `step`: the number of the step in the history, or its name (the last one with that name). Steps before it keep
        their outcomes and times. The step itself, calls made together with it, and all later steps run again, and their
        sleeps and timeouts count from the restart. `from_failed`: from the step that made the run fail. If the code
        failed after a step, or was canceled, all outcomes are kept and the code continues there.

        A run that has not ended is terminated, but what it has started continues: actions, jobs and child workflows.
        The new run has the retry policy, the `on_complete` and the events not yet taken of the old one. A workflow that
        called the old run as a child gets only its result. The old run has the new run's id in `retried_as`.

        Raises JobNotFound, Misuse for a step that the run did not make and for `from_failed` of one that succeeded,
        StepStillRuns if an earlier call has no end yet, WorkflowInactive, and AlreadyExists if another run has taken
        the key meanwhile, unless `using(on_conflict="replace")` cancels that run.
        """
        check_restart(step, from_failed=from_failed)

        def work(transaction: Transaction) -> JobId:
            job = self.job(transaction, run_id)
            if transaction.own is not None and transaction.own.claim.id == job.id:
                raise Misuse(
                    "a step cannot restart its own run: to start over, call step.continue_as_new(...) in the workflow, "
                    "or restart the run from outside"
                )
            check_active(transaction, present_names(self.job_builder.functions, job.name))
            record, rows = self.journal(transaction, job)
            now = self.job_builder.now()
            position = position_to_restart(job, rows, step, from_failed=from_failed)
            kept = rows_kept(rows, position, now) if position else []
            missing = ends_after(transaction, rows, kept, job)
            self._end(job.id, Stop.FORCE)(transaction)
            [again] = self._again(transaction, job, rows, now)
            transaction.mark_retried(job.id, again, tenant=self.tenant, replaces=job.retried_as)
            transaction.mark_steps_retried(job.id, again, tenant=self.tenant)
            transaction.move_events(job.id, again)
            keep_attributes(transaction, record_of_restart(again, job.id, record, kept), tenant=self.tenant)
            if kept and record is not None:
                # In the database: there may be 50,000 rows, and the longer this takes, the likelier are conflicts.
                transaction.copy_journal((job.id, record.generation), again, rows=len(kept) - 1)
                transaction.append_journal([Entry(again, 0, kept[-1])])
                transaction.send_messages([message._replace(run_id=again) for message in missing], now=now)
            return again

        return work

    def job(self, transaction: Transaction, run_id: RunId) -> Job:
        """The job of a run. Raises JobNotFound, Misuse for the job of another function, InvalidArguments."""
        if not isinstance(run_id, str):
            raise InvalidArguments(f"a run is given by its id or key, which must be text, not {run_id!r}")
        found: JobId | None = JobId(run_id)
        if table_of(run_id) != JOB_PREFIX:
            found = transaction.find_unfinished_key(run_id, tenant=self.tenant)
        if found is None:
            of_key = JobFilter(tenant=self.tenant, key=run_id, runs=RunFilter())
            found = next((each.id for each in transaction.list_jobs(of_key, limit=1, newest_first=True)), None)
        job = None if found is None else transaction.get_job(found, tenant=self.tenant)
        if job is None:
            raise no_run(run_id, self.tenant, keys_like(transaction, run_id, self.tenant, of_runs=True))
        if job.kind is not FunctionKind.WORKFLOW:
            raise Misuse(f"{job.id} is a job of the {job.kind.value} {job.name}, not the run of a workflow")
        return job

    def journal(self, transaction: Transaction, job: Job) -> tuple[RunRecord | None, Sequence[Row]]:
        """The record of a run, None if it has not begun, and the rows of its current generation."""
        record = transaction.get_runs([job.id]).get(job.id)
        if record is None:
            return None, []
        return record, transaction.load_journals([(job.id, record.generation)])[job.id]

    def views(self, transaction: Transaction, jobs: Sequence[Job]) -> tuple[RunView, ...]:
        """The views of the jobs' runs."""
        return run_views(transaction, jobs)

    def declared_events(self, workflow: str) -> EventTypes | None:
        """The events that a workflow declares; None if it declares none, or its code is not in this process."""
        function = known_as(self.job_builder.functions, workflow)
        return None if function is None else function.events

    # -- helpers

    def _event_text(self, transaction: Transaction, job: Job, event: str, value: Any, words: str) -> str:
        """The JSON text of an event's value, written by its declared type, or as plain JSON if none is declared.

        If the code of the workflow is not in this process, the event is checked by what live workers declare, and the
        value is written like an argument. Raises Misuse, InvalidArguments.
        """
        if (events := self.declared_events(job.name)) is not None:
            return events.write(event, value)
        if known_as(self.job_builder.functions, job.name) is not None:
            return json_of(value, words)
        text = json_of_typed(value, words)
        if transaction.own is None:  # reading workers in a function could conflict with their heartbeats
            check_event(transaction, job.name, event, json.loads(text))
        return text

    def _place(self, transaction: Transaction, call: FunctionCall) -> JobId:
        now = self.job_builder.now()
        request = Request([call], now, now)
        jobs = self.job_builder.draft(request, tenant=self.tenant, options=self.options, parent_id=self.parent_id)
        if self.within is None:
            [placed] = self.job_builder.place(transaction, jobs, self.options.on_conflict, now=now)
        else:
            [placed] = place_under_key(
                self.job_builder, self.within.unit, self.within.own_job, jobs, self.options, now=now
            )
        if placed == jobs[0].id:
            self._keep_attributes(transaction, placed, self.attributes)
        else:
            self._check_holder(transaction, placed, call.function)
        return placed

    def _check_holder(self, transaction: Transaction, holder: JobId, workflow: Function[..., Any]) -> None:
        """Raise AlreadyExists if the job that has the key is not a run of the workflow."""
        job: Job | NewJob | None = transaction.get_job(holder, tenant=self.tenant)
        if job is None and self.within is not None and self.options.key is not None:
            job = self.within.unit.successor(self.options.key)
        if job is not None and job.name not in (workflow.name, *workflow.aliases):
            raise AlreadyExists(
                f"the key {self.options.key!r} belongs to {holder}, which is not a run of {workflow.name} but the "
                f"{job.kind.value} {job.name}: choose another key, or replace it with on_conflict='replace'"
            )

    def _keep_attributes(self, transaction: Transaction, run_id: JobId, attributes: str) -> None:
        """Save the record of a run that starts with attributes."""
        if attributes:
            keep_attributes(transaction, RunRecord(run_id, run_id, attributes=attributes), tenant=self.tenant)

    def _again(self, transaction: Transaction, job: Job, rows: Sequence[Row], now: Instant) -> Sequence[JobId]:
        """Save the job of the new run that restarts `job`."""
        first = rows[0].outcome if rows else None
        new = copy_of(job, JobId(self.job_builder.make_id(JOB_PREFIX, now)), now)._replace(
            args=first.result if isinstance(first, Returned) else job.args,
            parent_id=self.parent_id,
            # For `step.schedule`. The schedule itself waits only for the first run, whose end closes the occurrence.
            schedule=job.schedule,
            on_complete=None if job.on_complete is None or job.on_complete.value.kind == STEP else job.on_complete,
        )
        # Keeping the job that has the key would give it the journal, the events and the attributes of another run.
        replaces = self.options.on_conflict is OnConflict.REPLACE
        on_conflict = OnConflict.REPLACE if replaces else OnConflict.ERROR
        return self.job_builder.place(transaction, self.job_builder.traced([new]), on_conflict, now=now)

    def _end(self, run_id: RunId, stop: Stop) -> Work[bool]:
        def work(transaction: Transaction) -> bool:
            job = self.job(transaction, run_id)
            make_id = self.job_builder.make_id
            now = self.job_builder.now()
            return cancel(transaction, job.id, tenant=self.tenant, now=now, make_id=make_id, stop=stop)

        return work

    def _view(self, transaction: Transaction, job: Job) -> RunView:
        return self.views(transaction, [job])[0]

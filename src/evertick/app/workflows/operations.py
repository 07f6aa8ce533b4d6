"""What may be done with the runs of workflows, as work for a transaction."""

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
from evertick.engine.jobs.repair import alike, keep_attributes
from evertick.store.records.workflows import Entry
from evertick.store.transaction.transaction import Transaction

EVENT_BYTES_MAX: Final = 1024 * 1024
"""The value of an event."""
EVENTS_MAX: Final = 1_000
"""Events that wait for one run. Each time the run goes on, and each event wakes it, all of them are read."""
WAITING_CHARS_MAX: Final = 16 * 1024 * 1024
"""Characters that their values have together."""
NO_OPTIONS: Final = Options()
RunId = JobId | str


class Sent(NamedTuple):
    """The run to which an event was sent, and the value as its code will read it: JSON text."""

    job: Job
    value: str


@dataclass(frozen=True, slots=True)
class WorkflowOperations:
    """What may be done with the runs of a tenant.

    A run is named by its id, `job_...`, or by the key that it was started under: that is the run of this key that has
    not ended, else the last one.
    """

    tenant: TenantId
    job_builder: JobBuilder
    parent_id: JobId | None = None
    within: TransactionRun | None = None
    """The mutation to whose transaction they belong, if they belong to one."""
    options: Options = NO_OPTIONS
    attributes: str = ""
    actor: str | None = None
    """In whose name events are sent, as histories show it."""

    def using(self, options: RunOptions) -> "WorkflowOperations":
        """The same with options for what is started."""
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
                f"{name} is no workflow; schedule it: scheduler.run_after(0, ...), or `evertick run {name} --after 0s`"
            )

        def work(transaction: Transaction) -> JobId:
            return self._place(transaction, call)

        return work

    def get(self, run_id: RunId) -> Work[RunView]:
        """A run by itself: its state, its progress, its result or error. Raises JobNotFound."""
        return lambda transaction: self._view(transaction, self.job(transaction, run_id))

    def list(
        self, workflow: Function[..., Any] | str | None = None, *, limit: int = 100, cursor: str | None = None,
        **where: Unpack[RunsWhere],
    ) -> Work[RunPage]:  # fmt: skip
        """A page of the runs of a workflow, or of all workflows, the newest first.

        - `state`: pending (not begun), running, paused, success, failed or canceled, or several of them.
        - `prefix`: how a run's key begins, or its id.
        - `schedule`: the id of the schedule or cron that has started them.
        - `attributes`: names with values; a run has all of them.
        - `started_from`, `started_until`: started at this time or later, and before.
        - `occurrence_from`, `occurrence_until`: started by a schedule for a nominal time then or later, and before.
        - `not_retried`: failed, not run again since, and not called by another run, which would call it again.
        - `error`: a part of the error's type and message, such as "ReplayMismatch": also of runs that cannot go on.
        - `roots`: with True those alone that no other run has called with `step.workflow`; `children` has the others.
        - `cursor` continues after the page that returned it. A page that chooses running or pending runs, a prefix of
          keys, or attributes, looks through 2,000 runs, so it may hold few, or none, and go on all the same.

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
        """The runs that a run has called with `step.workflow`, in the order of the calls.

        Those of its present generation, as its history; one that ended long ago is not there any more. Raises
        JobNotFound.
        """

        def work(transaction: Transaction) -> tuple[RunView, ...]:
            _, rows = self.journal(transaction, self.job(transaction, run_id))
            called = [row.outcome.result for row in rows if row.is_child and isinstance(row.outcome, Returned)]
            found = {job.id: job for job in transaction.get_jobs([JobId(each) for each in called], tenant=self.tenant)}
            return self.views(transaction, [found[JobId(each)] for each in called if each in found])

        return work

    def signal(self, run_id: RunId, event: str, value: Any = None, *, key: str | None = None) -> Work[None]:
        """Send an event to a run, whose code takes it with `step.wait_for(event)`; it waits until then.

        `value` has the type that the workflow declares for the event. Without a declared type it is a JSON value: a
        model, a datetime or a tuple is refused. `key`: of several events with a key the run sees the first one, so
        sending again is safe.

        Raises JobNotFound, RunNotOpen if the run has ended, InvalidArguments if the value cannot be written as JSON or
        does not fit the type that the workflow declares, Misuse if the workflow declares events and not this one,
        LimitExceeded if it has more than a megabyte, or if the run has not taken 1,000 events, or events of 16
        million characters together.
        """
        send = self.send(run_id, event, value, key=key)

        def work(transaction: Transaction) -> None:
            send(transaction)

        return work

    def send(self, run_id: RunId, event: str, value: Any = None, *, key: str | None = None) -> Work[Sent]:
        """As `signal`; returns what was sent."""
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
                    f"run {job.id} has {count:,} events of {chars:,} characters that its code has not taken yet; "
                    f"{EVENTS_MAX:,} of {WAITING_CHARS_MAX:,} together can wait: send more when it has taken some, or "
                    "end the run"
                )
            sender = None if self.actor is None else Sender(self.actor, self.parent_id).to_text()
            message = NewMessage(job.id, MessageKind.EVENT, event, outcome=Returned(text), key=key, sender=sender)
            if not transaction.send_messages([message], now=self.job_builder.now()):
                raise RunNotOpen(job.id, job.state.value)
            return Sent(job, text)

        return work

    def cancel(self, run_id: RunId) -> Work[bool]:
        """Ask a run to end: its code meets CancelledError where it waits, and can clean up with further steps.

        What it waits for is canceled too, and a paused run is resumed. Returns whether it had not ended.

        Raises JobNotFound.
        """
        return self._end(run_id, Stop.CANCEL)

    def terminate(self, run_id: RunId) -> Work[bool]:
        """End a run at once: none of its code runs any more. What it has started goes on.

        Returns whether it had not ended. Raises JobNotFound.
        """
        return self._end(run_id, Stop.FORCE)

    def pause(self, run_id: RunId) -> Work[bool]:
        """Let a run take no further step until it is resumed, or canceled.

        What it has begun goes on: actions, jobs and child workflows. Its events are kept, and its timers come due: the
        run sees them when it is resumed. A worker that has the run writes down what it has just done.

        Returns whether the run had not ended. Raises JobNotFound.
        """

        def work(transaction: Transaction) -> bool:
            job = self.job(transaction, run_id)
            if job.state in UNFINISHED:
                transaction.pause_run(job.id, tenant=self.tenant)
            return job.state in UNFINISHED

        return work

    def resume(self, run_id: RunId) -> Work[bool]:
        """Let a paused run go on; returns whether it was paused. Raises JobNotFound."""

        def work(transaction: Transaction) -> bool:
            job = self.job(transaction, run_id)
            return transaction.resume_run(job.id, tenant=self.tenant, now=self.job_builder.now())

        return work

    def restart(self, run_id: RunId, *, step: int | str | None = None, from_failed: bool = False) -> Work[JobId]:
        """Run a workflow again from one of its steps, or from its beginning; returns the id of the new run.

        `step`: the number of the step, as the history shows it, or its name (the last one of that name). Steps before
        it keep their outcomes and times; it, what was called together with it, and what follows run again, and their
        sleeps and timeouts count from the restart. `from_failed`: from the step that the run failed with; where its
        code failed behind a step, or was canceled, all outcomes are kept and the code goes on there.

        A run that has not ended is terminated, and what it has started goes on: actions, jobs and child workflows. The
        new run has the retry policy and the `on_complete` of the old one, and the events that it had not taken; the
        workflow that called a child hears of the old one only. The old run says in `retried_as` which the new one is.

        Raises JobNotFound, Misuse for a step that the run did not make and for `from_failed` of one that succeeded,
        StepStillRuns if a call that was begun earlier has no end yet, WorkflowInactive, and AlreadyExists if another
        run holds the key meanwhile, unless `using(on_conflict="replace")` cancels that one.
        """
        check_restart(step, from_failed=from_failed)

        def work(transaction: Transaction) -> JobId:
            job = self.job(transaction, run_id)
            if transaction.own is not None and transaction.own.claim.id == job.id:
                raise Misuse(
                    "a step cannot restart its own run: to begin anew, call step.continue_as_new(...) in the workflow; "
                    "or restart the run from outside of it"
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
                # In the database: there may be 50,000, and the longer this takes, the likelier it meets another write.
                transaction.copy_journal((job.id, record.generation), again, rows=len(kept) - 1)
                transaction.append_journal([Entry(again, 0, kept[-1])])
                transaction.send_messages([message._replace(run_id=again) for message in missing], now=now)
            return again

        return work

    def job(self, transaction: Transaction, run_id: RunId) -> Job:
        """The job of a run. Raises JobNotFound, Misuse for the job of another function, InvalidArguments."""
        if not isinstance(run_id, str):
            raise InvalidArguments(f"a run is named by its id or key, which is a text, not {run_id!r}")
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
        """What a run has beside its job, None if it has not begun, and the rows of its present generation."""
        record = transaction.get_runs([job.id]).get(job.id)
        if record is None:
            return None, []
        return record, transaction.load_journals([(job.id, record.generation)])[job.id]

    def views(self, transaction: Transaction, jobs: Sequence[Job]) -> tuple[RunView, ...]:
        """The runs of jobs."""
        return run_views(transaction, jobs)

    def declared_events(self, workflow: str) -> EventTypes | None:
        """The events that a workflow declares; None if it declares none, or its code is not here."""
        function = known_as(self.job_builder.functions, workflow)
        return None if function is None else function.events

    # -- helpers

    def _event_text(self, transaction: Transaction, job: Job, event: str, value: Any, words: str) -> str:
        """The value of an event as its type has it; a value of JSON if the workflow declares no events.

        Where the code of the workflow is not here, the live workers' is asked, and the value is written as an argument.
        Raises Misuse, InvalidArguments.
        """
        if (events := self.declared_events(job.name)) is not None:
            return events.write(event, value)
        if known_as(self.job_builder.functions, job.name) is not None:
            return json_of(value, words)
        text = json_of_typed(value, words)
        if transaction.own is None:  # a function that read workers could meet the writes of their heartbeats
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
        """Raise AlreadyExists if what holds the key is no run of the workflow."""
        job: Job | NewJob | None = transaction.get_job(holder, tenant=self.tenant)
        if job is None and self.within is not None and self.options.key is not None:
            job = self.within.unit.successor(self.options.key)
        if job is not None and job.name not in (workflow.name, *workflow.aliases):
            raise AlreadyExists(
                f"the key {self.options.key!r} is held by {holder}, which is no run of {workflow.name} but the "
                f"{job.kind.value} {job.name}: choose another key, or replace it with on_conflict='replace'"
            )

    def _keep_attributes(self, transaction: Transaction, run_id: JobId, attributes: str) -> None:
        """Write the record of a run that begins with attributes."""
        if attributes:
            keep_attributes(transaction, RunRecord(run_id, run_id, attributes=attributes), tenant=self.tenant)

    def _again(self, transaction: Transaction, job: Job, rows: Sequence[Row], now: Instant) -> Sequence[JobId]:
        """Write the job of a run that is restarted."""
        first = rows[0].outcome if rows else None
        new = alike(job, JobId(self.job_builder.make_id(JOB_PREFIX, now)), now)._replace(
            args=first.result if isinstance(first, Returned) else job.args,
            parent_id=self.parent_id,
            # What `step.schedule` says. The schedule hears of the first run, whose end closes the occurrence.
            schedule=job.schedule,
            on_complete=None if job.on_complete is None or job.on_complete.value.kind == STEP else job.on_complete,
        )
        # To keep the holder of the key would be to give it the journal, the events and the attributes of another run.
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

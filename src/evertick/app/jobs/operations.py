"""What may be done with jobs, as work for a transaction; each operation with its endpoint of the HTTP API."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, TypeAlias, Unpack

from evertick.api.jobs import AttemptView, JobLogs, JobPage, JobView, LogPage
from evertick.api.schema import Count
from evertick.app.documents.tables import require_job_id
from evertick.app.functions.function import Function, check_args_size
from evertick.app.jobs.counting import count_of_jobs
from evertick.app.jobs.log_lines import LinesWhere, family_of, log_lines
from evertick.app.jobs.views import job_views, upcoming
from evertick.app.operations import (
    Endpoint,
    PageCursor,
    PageLimit,
    Parameter,
    RequestSender,
    reads,
    writes,
    writes_pages,
)
from evertick.app.paging import AT_ONCE, page_of_jobs
from evertick.app.scheduling.choice import JobsWhere, is_key, job_named, jobs_where, name_of, rfc_3339
from evertick.app.scheduling.job_builder import Functions, check_active, check_horizon, moment, present_names
from evertick.app.transacting import Page, Work
from evertick.base.clock import Clock
from evertick.base.errors import (
    AlreadyExists,
    FunctionNotFound,
    InvalidArguments,
    LimitExceeded,
    Misuse,
    SchemaMismatch,
    WorkflowInactive,
)
from evertick.base.ids import JOB_PREFIX, JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.paging import PAGE_MAX, check_limit
from evertick.base.records.access import Scope
from evertick.base.records.history import JobCounts
from evertick.base.records.jobs import UNFINISHED, FunctionKind, Job, JobState, Stop, lines_of
from evertick.base.records.stored import check_depth, difference
from evertick.engine.jobs import repair
from evertick.engine.jobs.completion import MakeId, cancel, cancel_page
from evertick.engine.runtime.tracing import Tracing
from evertick.store.transaction.transaction import Transaction

RETRY_PAGE: Final = 500
"""Jobs that `retry_all` reads in one transaction."""

JobIdOrKey: TypeAlias = Annotated[JobId | str, Parameter(str)]
"""A job, named by its id or by its key."""
LineCursor: TypeAlias = Annotated[str | None, Parameter(max_length=200)]
Moment: TypeAlias = Annotated[datetime | float, Parameter("Time", encode=rfc_3339)]


def _in_states(*states: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Filters with these states, unless they name others."""
    return lambda where: {"state": states, **where}


def _failed_not_retried(where: dict[str, Any]) -> dict[str, Any]:
    """Filters without the jobs that were retried already, unless they name other states than failed."""
    return where if set(where.get("state", [JobState.FAILED])) != {JobState.FAILED} else {**where, "not_retried": True}


def _check_new_args(sender: RequestSender, operations: Any, work: Work[Any], given: Mapping[str, Any]) -> Work[Any]:
    """The work of `retry`. Raises if it gives other arguments to the function, and the sender may not do that."""
    if given["args"] is None:
        return work
    job = operations.get(given["job_id"])
    return sender.with_args(work, lambda transaction: job(transaction).function)


@dataclass(slots=True, eq=False, repr=False)
class JobOperations:
    """Operations on the jobs of a tenant, in Python and over HTTP."""

    noun: ClassVar[str] = "job"

    tenant: TenantId
    clock: Clock
    make_id: MakeId
    functions: Functions
    check: repair.Check
    """Whether a tenant has room for a job that runs again."""
    tracing: Tracing | None = None

    @reads(Endpoint("GET", "/jobs/{job_id}", Scope.READ))
    def get(self, job_id: JobIdOrKey) -> Work[JobView]:
        """A job: its state, its arguments, its result or error. `blocked` says that no live worker can run it.

        Every method that takes a single job takes its id or its key. A key means the unfinished job that has it, or if
        there is none, the newest job that had it. Raises JobNotFound, InvalidArguments for the id of something else.
        """
        is_key(job_id)
        return lambda transaction: self._view(transaction, job_id)

    @reads(
        Endpoint(
            "GET", "/jobs", Scope.READ, operation_id="list_jobs", http_defaults={"newest_first": False},
            description="A page of jobs, the oldest first unless asked otherwise. `state` may be repeated.",
        )
    )  # fmt: skip
    def list(
        self,
        *,
        limit: PageLimit = 100,
        cursor: PageCursor = None,
        newest_first: bool = True,
        **where: Unpack[JobsWhere],
    ) -> Work[JobPage]:
        """A page of jobs in the order of their creation.

            page = app.jobs.list(state="failed", function=send, due_from=datetime.now(UTC) - timedelta(days=1))

        - `state`: one state or several: pending, in_progress, success, failed, canceled.
        - `function`: a function or its name.
        - `schedule`: the id of the schedule or cron that started the jobs.
        - `key`: the key that they were scheduled with.
        - `parent`: the id of the job that scheduled them.
        - `id_prefix`: the beginning of their ids, such as `job_01a20c`.
        - `due_from`, `due_until`: due at this time or later, and before.
        - `occurrence_from`, `occurrence_until`: started by a schedule for a nominal time then or later, and before.
        - `error`: a part of the error's type and message, such as "TimeoutError" or "no such user"; case is ignored.
        - `pool`: the name of their pool.
        - `limit_key`: the limit key that they were scheduled with.
        - `blocked=True`: due, and no live worker runs them.
        - `not_retried=True`: failed, and not run again since. Calls of workflows are excluded, because their run
          repeats them.
        - `without_runs=True`: exclude runs of workflows, which are jobs too.
        - `limit`: at most 1,000. `cursor` continues after the page that returned it.

        Not every filter has an index: times, `error`, `pool`, `limit_key`, and any second filter have none. With these,
        a page searches a few thousand jobs. It may therefore have few or no jobs, and a cursor to continue.

        Raises Misuse for an unknown word, LimitExceeded, InvalidDelay, InvalidArguments for a cursor of another list.
        """
        _check_page(limit)
        chosen = jobs_where(self.tenant, now=self.clock.now(), **where)
        after = None if cursor is None else require_job_id(cursor)

        def work(transaction: Transaction) -> JobPage:
            jobs, more = page_of_jobs(transaction, chosen, limit=limit, after=after, newest_first=newest_first)
            views = job_views(transaction, jobs, self.clock.now(), all_blocked=chosen.blocked_at is not None)
            return JobPage(jobs=views, cursor=more)

        return work

    @reads(
        Endpoint(
            "GET", "/jobs/upcoming", Scope.READ, operation_id="list_upcoming_jobs",
            description="A page of the jobs that wait for their time, the soonest due first. "
            "It takes no `state`, no `blocked` and no `not_retried`.",
        )
    )  # fmt: skip
    def upcoming(
        self, *, limit: PageLimit = 100, cursor: PageCursor = None, **where: Unpack[JobsWhere]
    ) -> Work[JobPage]:
        """A page of the jobs that wait for their time, the soonest due first.

        The filters, `limit` and `cursor` are those of `list`, except `state`, `blocked` and `not_retried`. Not included
        are jobs that are due already (`list(state="pending", due_until=datetime.now(UTC))` returns those), paused runs
        of workflows, and jobs whose workers have died twice. A page searches 2,000 waiting jobs of all tenants. It may
        therefore have few or no jobs, and a cursor to continue. Raises as `list`.
        """
        _check_page(limit)
        return upcoming(self.tenant, self._views, self.clock.now(), limit=limit, cursor=cursor, **where)

    @reads(
        Endpoint(
            "GET", "/jobs/count", Scope.READ, operation_id="count_chosen_jobs",
            description="How many jobs are chosen; with other filters than `state` and `function`, at most 10,000.",
        )
    )  # fmt: skip
    def count(self, **where: Unpack[JobsWhere]) -> Work[Count]:
        """How many jobs match the filters of `list`. Raises as `list`.

        Counts by state and function are exact. With other filters, jobs are counted one by one, up to 10,000, and only
        among the newest jobs if there are many.
        """
        chosen = jobs_where(self.tenant, now=self.clock.now(), **where)
        return lambda transaction: count_of_jobs(transaction, chosen)

    @reads(Endpoint("GET", "/jobs/counts", Scope.READ, operation_id="count_jobs"))
    def counts_by_function(self) -> Work[dict[str, dict[str, int]]]:
        """How many jobs of each function there are in each state. The call is fast, because these counts are stored."""

        def work(transaction: Transaction) -> dict[str, dict[str, int]]:
            return {name: each._asdict() for name, each in transaction.count_jobs(self.tenant).items()}

        return work

    @reads(Endpoint("GET", "/jobs/{job_id}/attempts", Scope.READ, operation_id="list_attempts"))
    def attempts(self, job_id: JobIdOrKey) -> Work[tuple[AttemptView, ...]]:
        """Every attempt at a job, oldest first: its worker, its start and end, how it ended and its error.

        Raises JobNotFound, InvalidArguments for the id of something else.
        """
        is_key(job_id)

        def work(transaction: Transaction) -> tuple[AttemptView, ...]:
            job = job_named(transaction, job_id, self.tenant)
            attempts = transaction.list_attempts([job.id]).get(job.id, ())
            if job.kind is FunctionKind.WORKFLOW:  # which goes on many times: those that have ended are counted
                attempts = [each._replace(attempt=number) for number, each in enumerate(attempts, 1)]
            return tuple(map(AttemptView.of, attempts))

        return work

    @reads(Endpoint("GET", "/jobs/{job_id}/logs", Scope.READ, operation_id="get_job_logs"))
    def logs(self, job_id: JobIdOrKey, *, all_attempts: bool = False) -> Work[JobLogs]:
        """The lines that a job's function wrote with `ctx.log` in its last attempt, or in all attempts with
        `all_attempts`.

        The lines of an action are available while it runs. For a run of a workflow, the result has the lines of its
        code (`step.log`) and of its steps, up to the point where it waits.

        Raises JobNotFound, InvalidArguments for the id of something else.
        """
        is_key(job_id)

        def work(transaction: Transaction) -> JobLogs:
            job = job_named(transaction, job_id, self.tenant)
            return JobLogs.of(transaction.list_logs(job.id), None if all_attempts else lines_of(job))

        return work

    @reads(Endpoint("GET", "/jobs/{job_id}/request", Scope.READ, operation_id="list_request"))
    def request(self, job_id: JobIdOrKey) -> Work[tuple[JobView, ...]]:
        """All jobs of the request that a job belongs to: the job that began it, and those that followed; at most 50, by
        id.

        Raises JobNotFound, InvalidArguments for the id of something else.
        """
        is_key(job_id)

        def work(transaction: Transaction) -> tuple[JobView, ...]:
            ids = family_of(transaction, job_named(transaction, job_id, self.tenant).id, self.tenant)[:AT_ONCE]
            return self._views(transaction, transaction.get_jobs(ids, tenant=self.tenant))

        return work

    @reads(
        Endpoint(
            "GET", "/logs", Scope.READ, operation_id="list_log_lines",
            description="A page of the lines that functions wrote with `ctx.log`, by default the newest first.",
        )
    )  # fmt: skip
    def log_lines(
        self,
        *,
        limit: PageLimit = 100,
        cursor: LineCursor = None,
        newest_first: bool = True,
        **where: Unpack[LinesWhere],
    ) -> Work[LogPage]:
        """A page of the lines that functions wrote with `ctx.log`, in the order in which they were stored.

            for line in app.jobs.log_lines(level="warning", function=send).lines:
                print(line.time, line.function, line.message)

        - `function`: a function or its name.
        - `level`: debug, info, warning or error; includes the levels above it.
        - `text`: a part of the line; case is ignored.
        - `request`: the id of a job. Returns the lines of all jobs of its request: the job that began it, and those
          that followed (at most 500 jobs).
        - `since`, `until`: stored at this time or later, and before.
        - `limit`: at most 1,000. `cursor` continues after the page or the line that returned it.

        With `function`, `level` or `text`, a page searches 10,000 lines. It may therefore have few or no lines, and a
        cursor to continue.

        The lines of a mutation are stored when it is committed, those of an action within a second. When a job is
        removed, its lines are removed with it.

        Raises Misuse for an unknown level, LimitExceeded, JobNotFound for `request`, InvalidArguments for a cursor of
        another list, InvalidDelay for a time without a zone.
        """
        return log_lines(self.tenant, self.clock, limit=limit, cursor=cursor, newest_first=newest_first, **where)

    @writes(
        Endpoint(
            "POST", "/jobs/{job_id}/cancel", Scope.OPERATE,
            description="Cancel a job. One that runs goes on, and its result counts, unless it is a retry.",
        )
    )  # fmt: skip
    def cancel(self, job_id: JobIdOrKey) -> Work[JobView]:
        """Cancel a job and return it: a pending job never starts, and an ended job is not changed.

        A running action is notified. Its state stays in_progress, with `cancel_requested`, until its function has
        ended.

        Raises JobNotFound, InvalidArguments for the id of something else.
        """
        return self._canceled(job_id, Stop.CANCEL)

    @writes(
        Endpoint(
            "POST", "/jobs/{job_id}/stop", Scope.OPERATE, description="Cancel a job, and end its function if it runs."
        )
    )
    def stop(self, job_id: JobIdOrKey) -> Work[JobView]:
        """Cancel a job like `cancel`; a running action is also interrupted, again and again until it has ended.

        Raises JobNotFound, InvalidArguments for the id of something else.
        """
        return self._canceled(job_id, Stop.FORCE)

    @writes(Endpoint("POST", "/jobs/{job_id}/reschedule", Scope.OPERATE, body_name="Reschedule"))
    def reschedule(self, job_id: JobIdOrKey, at: Moment) -> Work[JobView]:
        """Change the time at which a pending job runs. Raises JobNotFound, JobNotPending, InvalidDelay."""
        return self._moved(job_id, moment(at, "reschedule"))

    @writes(Endpoint("POST", "/jobs/{job_id}/run-now", Scope.OPERATE, operation_id="run_job_now"))
    def run_now(self, job_id: JobIdOrKey) -> Work[JobView]:
        """Make a pending job due now. Raises JobNotFound, JobNotPending."""
        return self._moved(job_id, None)

    @writes(
        Endpoint(
            "POST", "/jobs/{job_id}/retry", Scope.OPERATE, status=201, returns_id=True, body_name="Again",
            is_idempotent=True, check_arguments=_check_new_args,
        )
    )  # fmt: skip
    def retry(self, job_id: JobIdOrKey, *, args: Mapping[str, Any] | None = None) -> Work[JobId]:
        """Run a failed or canceled job again, now, as a new job; returns its id. A job can be retried once.

        `args` replaces the arguments, given by name. They are checked against the code if this app has the function.
        With `args`, a pending job can be replaced, too; the new job is due at the same time. A call of a workflow
        cannot be retried: restart its run.

        Raises JobNotFound, JobNotRetryable, InvalidArguments, ArgumentsTooLarge, QuotaExceeded, AlreadyExists if a job
        holds the key meanwhile.
        """
        is_key(job_id)

        def work(transaction: Transaction) -> JobId:
            job = job_named(transaction, job_id, self.tenant)
            encoded = None if args is None else self._encoded(job, args)
            return self._again(transaction, job, encoded)

        return work

    @writes_pages(
        Endpoint(
            "POST", "/jobs/retry-all", Scope.OPERATE, operation_id="retry_jobs", body_name="Bulk",
            description="Run all failed jobs again that the filters choose and that were not retried yet.",
            default_filters=_failed_not_retried,
        )
    )  # fmt: skip
    def retry_all(self, after: str, **where: Unpack[JobsWhere]) -> Work[Page]:
        """Run all failed jobs again that match the filters of `list` and that were not retried yet; returns how many.

            app.jobs.retry_all(function=send, due_from=yesterday)

        `state="canceled"` selects canceled jobs instead. Jobs whose key another job has meanwhile are skipped. Calls of
        workflows are skipped, too: use `app.workflows.restart_all`. Works in pages, each its own transaction.

        Raises Misuse for another state or an unknown word, InvalidDelay, QuotaExceeded when there is no room for more.
        """
        chosen = jobs_where(self.tenant, [JobState.FAILED], now=self.clock.now(), **where)
        if not set(chosen.states) <= {JobState.FAILED, JobState.CANCELED}:
            raise Misuse("only failed and canceled jobs can be tried again")

        chosen = replace(chosen, not_retried=set(chosen.states) == {JobState.FAILED})
        last, _, newest = after.partition(" ")
        newest = newest or self.make_id(JOB_PREFIX, self.clock.now())  # jobs that fail again meanwhile are left

        def work(transaction: Transaction) -> Page:
            found, following = transaction.find_jobs(chosen, limit=RETRY_PAGE, after=last)
            page = [job.id for job in found if job.id < newest]
            count = sum(self._retried(transaction, job) for job in transaction.get_jobs(page, tenant=self.tenant))
            goes_on = following is not None and following < newest
            return count, f"{following} {newest}" if goes_on else None

        return work

    @writes_pages(
        Endpoint(
            "POST", "/jobs/run-now-all", Scope.OPERATE, operation_id="run_jobs_now", body_name="Bulk",
            description="Let all pending jobs run now that the filters choose.",
            default_filters=_in_states(JobState.PENDING),
        )
    )  # fmt: skip
    def run_now_all(self, after: str, **where: Unpack[JobsWhere]) -> Work[Page]:
        """Make all pending jobs that match the filters of `list` due now; returns how many.

            app.jobs.run_now_all(function=send)

        Works in pages, each its own transaction. Raises Misuse for another state or an unknown word, InvalidDelay.
        """
        now = self.clock.now()
        chosen = jobs_where(self.tenant, [JobState.PENDING], now=now, **where)
        if set(chosen.states) != {JobState.PENDING}:
            raise Misuse("only pending jobs can run now")

        def work(transaction: Transaction) -> Page:
            found, following = transaction.find_jobs(chosen, limit=RETRY_PAGE, after=after or None)
            later = [job.id for job in found if job.due_at > now]
            count = sum(transaction.reschedule_job(each, tenant=self.tenant, due_at=now, now=now) for each in later)
            return count, following

        return work

    @writes_pages(
        Endpoint(
            "POST", "/jobs/cancel-all", Scope.OPERATE, operation_id="cancel_jobs", body_name="Bulk",
            description="Cancel all unfinished jobs that the filters choose.",
            default_filters=_in_states(*UNFINISHED),
        )
    )  # fmt: skip
    def cancel_all(self, after: str, **where: Unpack[JobsWhere]) -> Work[Page]:
        """Cancel all unfinished jobs that match the filters of `list`; returns how many.

            app.jobs.cancel_all(blocked=True)

        Works in pages, each its own transaction. Raises Misuse for a finished state or an unknown word, InvalidDelay.
        """
        now = self.clock.now()
        chosen = jobs_where(self.tenant, UNFINISHED, now=now, **where)
        if not UNFINISHED.issuperset(chosen.states):
            raise Misuse("only pending and running jobs can be canceled")
        return lambda transaction: cancel_page(transaction, chosen, after=after, now=now, make_id=self.make_id)

    # -- what they share

    def _moved(self, job_id: JobIdOrKey, at: Instant | None) -> Work[JobView]:
        """Give a pending job another time; None is the moment of the change."""
        is_key(job_id)

        def work(transaction: Transaction) -> JobView:
            found, now = job_named(transaction, job_id, self.tenant).id, self.clock.now()
            due_at = now if at is None else at
            check_horizon(due_at, now)
            repair.reschedule(transaction, found, due_at, tenant=self.tenant, now=now)
            return self._view(transaction, found)

        return work

    def _canceled(self, job_id: JobIdOrKey, stop: Stop) -> Work[JobView]:
        is_key(job_id)

        def work(transaction: Transaction) -> JobView:
            found, now = job_named(transaction, job_id, self.tenant).id, self.clock.now()
            cancel(transaction, found, tenant=self.tenant, now=now, make_id=self.make_id, stop=stop)
            return self._view(transaction, found)

        return work

    def _again(self, transaction: Transaction, job: Job, args: str | None) -> JobId:
        now, trace = self.clock.now(), None if self.tracing is None else self.tracing.carried()
        if job.kind is FunctionKind.WORKFLOW:
            check_active(transaction, present_names(self.functions, job.name) - {job.name})
        return repair.retry(transaction, job, args=args, trace=trace, now=now, make_id=self.make_id, check=self.check)

    def _retried(self, transaction: Transaction, job: Job) -> bool:
        """Run a job again, unless that was done, a run called it, its key is taken, or it may not; returns whether."""
        if job.retried_as is not None:
            return False
        try:
            if repair.called_by(job) is not None:
                return False
            self._again(transaction, job, None)
        except (AlreadyExists, SchemaMismatch, WorkflowInactive):
            return False
        return True

    def _view(self, transaction: Transaction, job_id: JobIdOrKey) -> JobView:
        return self._views(transaction, [job_named(transaction, job_id, self.tenant)])[0]

    def _views(self, transaction: Transaction, jobs: Sequence[Job]) -> tuple[JobView, ...]:
        return job_views(transaction, jobs, self.clock.now())

    def _encoded(self, job: Job, args: Mapping[str, Any]) -> str:
        """Arguments as text. Raises InvalidArguments if the function does not take them, or if they are not JSON."""
        try:
            function = self.functions.resolve(job.name)
        except FunctionNotFound:  # another program has it
            return as_they_are(job.name, args)
        encoded = function.encode_args((), args)
        check_args_size(len(encoded.encode()))
        return encoded


class LocalJobOperations(JobOperations):
    """Operations on the jobs of a tenant, including those that need access to the database."""

    __slots__ = ()

    @reads
    def get_many(self, job_ids: Sequence[JobId | str]) -> Work[tuple[JobView | None, ...]]:
        """Several jobs, at most 1,000, in the order of `job_ids`; None for an unknown id. They are read in one
        statement.

        Raises LimitExceeded, InvalidArguments for the id of something else.
        """
        ids = [require_job_id(each) for each in job_ids]
        if len(ids) > PAGE_MAX:
            raise LimitExceeded(f"get_many takes at most {PAGE_MAX:,} ids, not {len(ids):,}")

        def work(transaction: Transaction) -> tuple[JobView | None, ...]:
            found = transaction.get_jobs(list(dict.fromkeys(ids)), tenant=self.tenant)
            views = {view.id: view for view in self._views(transaction, found)}
            return tuple(views.get(each) for each in ids)

        return work

    @reads
    def counts(self, *, function: Function[..., Any] | str | None = None) -> Work[dict[str, int]]:
        """How many jobs there are in each state, of one function or of all if None. Ended jobs count until they are
        removed.

        `failed` counts all failed jobs, `not_retried` those of them that were not run again. Raises Misuse if
        `function` is not a function or its name.
        """
        name = name_of(function)

        def work(transaction: Transaction) -> dict[str, int]:
            functions = transaction.count_jobs(self.tenant, name=name).values()
            return {name: sum(getattr(each, name) for each in functions) for name in JobCounts._fields}

        return work


def _check_page(limit: int) -> None:
    check_limit(limit, PAGE_MAX, "a page has 1 to {:,} jobs")


def as_they_are(name: str, args: Mapping[str, Any]) -> str:
    """The JSON text of arguments for a function whose code is not in this process.

    Raises InvalidArguments, ArgumentsTooLarge.
    """
    try:
        text = json.dumps(dict(args), allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"arguments for {name}: {error}") from None
    check_depth(text, args, f"what {name} is called with")
    if (changed := difference(dict(args), json.loads(text))) is not None:
        raise InvalidArguments(f"arguments for {name}: {changed}")
    check_args_size(size)
    return text

"""Schedulers: `run_after`, `run_at` and `cancel`, for each place that schedules.

In a mutation the jobs belong to its transaction. From an action, a program or the command line each call is a
transaction of its own. `bound` has those on a connection of the user's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from evertick.app.functions.function import Function, FunctionCall
from evertick.app.run.run import Budget, Run, TransactionRun
from evertick.app.scheduling.choice import is_key, jobs_where, unfinished_named
from evertick.app.scheduling.job_builder import (
    JobBuilder,
    JobOptions,
    Options,
    Request,
    after,
    cancel_under_key,
    check_active,
    checked_calls,
    moment,
    place_under_key,
    runs_among,
)
from evertick.app.transacting import Page, Transactions, Work, in_pages, in_pages_async
from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.options import takes
from evertick.base.records.jobs import UNFINISHED, FunctionKind, JobState, NewJob, Stop
from evertick.engine.jobs.completion import CANCEL_PAGE, cancel, cancel_many, cancel_page
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

P = ParamSpec("P")
One = TypeVar("One")
Many = TypeVar("Many")


class _Scheduler(ABC, Generic[One, Many]):
    """What all schedulers share. Scheduling returns `One` id or `Many`; the awaited scheduler returns coroutines."""

    def __init__(self, job_builder: JobBuilder, tenant: TenantId, *, parent_id: JobId | None = None) -> None:
        self._job_builder = job_builder
        self._tenant = tenant
        self._parent_id = parent_id
        self._options = Options()

    @takes(JobOptions, "scheduler.using()")
    def using(self, options: JobOptions) -> Self:
        """A scheduler with options for the calls that follow. None restores an option's default.

            ctx.scheduler.using(key=f"remind/{user}", on_conflict="replace").run_after(3600, remind, user)

        - `key`: your own id for the job. At most one unfinished job has a key.
        - `on_conflict`: what to do if another unfinished job has the key: "keep", "replace" or "error".
        - `retry`: how to try a failed call again, for example `Retry(5)`.
        - `on_complete`: a mutation or action `(ctx, job_id, context, result)` to call when the job has ended, after all
          its retries. It is scheduled in the transaction that ends the job.
        - `context`: a value to pass to `on_complete`.
        - `on_complete_for`: the ends for which `on_complete` is called: one or several of "success", "failed" and
          "canceled"; all by default.
        - `priority`: from -1,000 to 1,000, 0 by default. A job of a higher priority runs before others of its tenant
          and function; one step of priority counts as much as one minute of waiting.
        - `limit_key`: whom the job is for, such as a customer. A pool with a limit `per_key` runs only so many jobs of
          one key at a time.
        - `pool`: the pool of the job, instead of its function's. A worker that serves either pool runs it. A run of a
          workflow takes none.

        Raises Misuse for an option that is not known or not valid.
        """
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._options = self._options.merged(options)
        return copy

    @overload
    def run_after(
        self, delay: float | timedelta, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> One: ...
    @overload
    def run_after(self, delay: float | timedelta, function: str, /, *args: Any, **kwargs: Any) -> One: ...
    def run_after(
        self, delay: float | timedelta, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> One:
        """Run a function `delay` (seconds, or a timedelta) from now; 0 means right after the commit.

            job_id = ctx.scheduler.run_after(5, remind, "ada")

        Returns the job's id. Raises InvalidDelay for a delay that is negative or longer than five years,
        InvalidArguments, FunctionNotFound, ArgumentsTooLarge, in functions TooManyJobs, and QuotaExceeded where the
        tenant may have no more.
        """
        now = self._now()
        due_at = after(delay, now)
        return self._schedule_one(Request((self._job_builder.call(function, args, kwargs),), due_at, now))

    @overload
    def enqueue(self, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> One: ...
    @overload
    def enqueue(self, function: str, /, *args: Any, **kwargs: Any) -> One: ...
    def enqueue(self, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any) -> One:
        """Run a function now, which in a mutation means right after its commit: `run_after` with a delay of 0.

            job_id = ctx.scheduler.enqueue(remind, "ada")

        Returns the job's id. Raises what `run_after` raises.
        """
        return self.run_after(0, function, *args, **kwargs)

    @overload
    def run_at(self, at: datetime | float, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> One: ...
    @overload
    def run_at(self, at: datetime | float, function: str, /, *args: Any, **kwargs: Any) -> One: ...
    def run_at(self, at: datetime | float, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any) -> One:
        """Run a function at `at`, an aware datetime or seconds since the epoch. If that time has passed, it runs at
        once.

        Returns the job's id. Raises InvalidDelay for a datetime without a time zone or more than five years away, and
        what `run_after` raises.
        """
        due_at = moment(at)
        return self._schedule_one(Request((self._job_builder.call(function, args, kwargs),), due_at, self._now()))

    def run_after_many(self, delay: float | timedelta, calls: Iterable[FunctionCall]) -> Many:
        """Schedule many calls, such as `[fn.with_args(1), fn.with_args(2)]`, all `delay` (seconds, or a timedelta) from
        now.

        Returns their ids in the order of the calls.
        """
        now = self._now()
        return self._schedule(Request(checked_calls(calls), after(delay, now), now))

    def run_at_many(self, at: datetime | float, calls: Iterable[FunctionCall]) -> Many:
        """Schedule many calls for the same time. Returns their ids in the order of the calls."""
        return self._schedule(Request(checked_calls(calls), moment(at), self._now()))

    def _now(self) -> Instant:
        return self._job_builder.now()

    @abstractmethod
    def _schedule_one(self, request: Request) -> One: ...

    @abstractmethod
    def _schedule(self, request: Request) -> Many: ...

    def _draft(self, request: Request, budget: Budget | None = None) -> list[NewJob]:
        return self._job_builder.draft(
            request, tenant=self._tenant, options=self._options, parent_id=self._parent_id, budget=budget
        )

    def _cancel_work(self, job_id: JobId | str, stop: Stop = Stop.CANCEL) -> Work[None]:
        is_key(job_id)

        def work(transaction: Transaction) -> None:
            now, make_id = self._job_builder.now(), self._job_builder.make_id
            if (found := unfinished_named(transaction, job_id, self._tenant)) is not None:
                cancel(transaction, found, tenant=self._tenant, now=now, make_id=make_id, stop=stop)

        return work

    def _place_work(self, jobs: list[NewJob], origin_id: JobId | None, now: Instant) -> Work[list[JobId]]:
        def work(transaction: Transaction) -> list[JobId]:
            canceled = origin_id is not None and is_canceled(transaction, origin_id, self._tenant)
            rows = [job._replace(state=JobState.CANCELED) for job in jobs] if canceled else jobs
            return self._job_builder.place(transaction, rows, self._options.on_conflict, now=now)

        return work


class BlockingScheduler(_Scheduler[JobId, list[JobId]]):
    """Schedulers whose calls return when the job has been written."""

    def _schedule_one(self, request: Request) -> JobId:
        return self._schedule(request)[0]


class AwaitedScheduler(_Scheduler[Coroutine[Any, Any, JobId], Coroutine[Any, Any, list[JobId]]]):
    """Schedulers whose calls are awaited."""

    async def _schedule_one(self, request: Request) -> JobId:
        return (await self._schedule(request))[0]


class MutationScheduler(BlockingScheduler):
    """`ctx.scheduler` in a mutation: jobs are part of its transaction."""

    def __init__(self, job_builder: JobBuilder, run: TransactionRun) -> None:
        super().__init__(job_builder, run.tenant, parent_id=run.job_id or run.origin_id)
        self._run = run
        self._unit = run.unit
        self._origin_canceled: bool | None
        self.forget_origin_state()

    def cancel(self, job_id: JobId | str) -> None:
        """Cancel a job, by its id or its key: a pending job never starts, and an ended job is not changed.

            ctx.scheduler.cancel(f"reminder:{appointment}")

        A key means the unfinished job that has it; if there is none, nothing happens. A running action is notified
        (`ctx.cancel_requested`, and CancelledError in an `async def`). From then on it cannot schedule anything. Its
        state stays in_progress until its function has ended, then it is canceled.

        Raises Misuse if a mutation cancels itself, InvalidArguments for an id of something else.
        """
        self._cancel(job_id, Stop.CANCEL)

    def stop(self, job_id: JobId | str) -> None:
        """Cancel a job like `cancel`; a running action is also interrupted, again and again until it has ended.

        Raises what `cancel` raises.
        """
        self._cancel(job_id, Stop.FORCE)

    def _cancel(self, job_id: JobId | str, stop: Stop) -> None:
        own, make_id = self._run.own_job, self._job_builder.make_id
        if not is_key(job_id) and job_id == own:
            raise Misuse("a mutation cannot cancel itself; raise an exception instead")
        transaction = self._unit.flush_to_db()
        found = unfinished_named(transaction, job_id, self._tenant)
        if found is None:
            return
        if found == own:
            cancel_under_key(self._unit, job_id)
            return
        cancel(transaction, found, tenant=self._tenant, now=self._run.now, make_id=make_id, stop=stop)
        if found == self._run.origin_id:
            self.forget_origin_state()

    def cancel_all(
        self,
        function: Function[..., Any] | str | None = None,
        *,
        due_from: datetime | float | None = None,
        due_until: datetime | float | None = None,
    ) -> int:
        """Cancel unfinished jobs as part of the mutation's transaction, like `Scheduler.cancel_all`; returns how many.

        The job of the mutation itself is not canceled. Raises LimitExceeded for more jobs than one transaction takes;
        then cancel them from an action.
        """
        where = jobs_where(self._tenant, UNFINISHED, function=function, due_from=due_from, due_until=due_until)
        transaction = self._unit.flush_to_db()
        found = [job.id for job in transaction.list_jobs(where, limit=CANCEL_PAGE + 2)]
        job_ids = [job_id for job_id in found if job_id != self._run.job_id]
        if len(job_ids) > CANCEL_PAGE:
            raise LimitExceeded(
                f"a mutation cancels at most {CANCEL_PAGE:,} jobs at once; cancel_all in an action does more"
            )
        make_id = self._job_builder.make_id
        count = cancel_many(transaction, job_ids, tenant=self._tenant, now=self._run.now, make_id=make_id)
        if self._run.origin_id in job_ids:
            self.forget_origin_state()
        return count

    def forget_origin_state(self) -> None:
        """Check again whether the calling action was canceled, because this transaction may have canceled it."""
        self._origin_canceled = None if self._run.origin_id is not None else False

    def _now(self) -> Instant:
        return self._run.now

    def _schedule(self, request: Request) -> list[JobId]:
        jobs = self._draft(request, self._run.budget)
        if self._origin_canceled is None:
            # What a canceled action schedules from then on is born canceled, also through mutations it calls.
            self._origin_canceled = is_canceled(self._unit.flush_to_db(), self._run.origin_id, self._tenant)
        if self._origin_canceled:
            jobs = [job._replace(state=JobState.CANCELED) for job in jobs]
        if self._options.key is not None:
            return place_under_key(
                self._job_builder, self._unit, self._run.own_job, jobs, self._options, now=request.now
            )
        if self._job_builder.quotas.may_refuse(request.now):
            self._job_builder.quotas.check(self._unit.flush_to_db(), jobs, now=request.now)
        if any(job.kind is FunctionKind.WORKFLOW for job in jobs):
            check_active(self._unit.flush_to_db(), runs_among(jobs))
        for job in jobs:
            self._unit.schedule(job)
        return [job.id for job in jobs]


class _Outside(_Scheduler[One, Many]):
    """Schedulers outside mutations, whose calls are transactions of their own."""

    def __init__(
        self, job_builder: JobBuilder, tenant: TenantId, transactions: Transactions, *, action: Run | None = None
    ) -> None:
        origin_id = None if action is None else action.origin_id
        super().__init__(job_builder, tenant, parent_id=origin_id)
        self._transactions = transactions
        self._budget = None if action is None else action.budget
        self._origin_id = origin_id
        """The running action that schedules, if it is one."""

    @property
    def _isolation(self) -> Isolation:
        """EACH where writing the rows is one statement, because nothing is read first; else SERIALIZABLE."""
        is_one_statement = self._options.key is None and self._origin_id is None
        return Isolation.EACH if is_one_statement else Isolation.SERIALIZABLE

    def _write_work(self, request: Request) -> Work[list[JobId]]:
        return self._place_work(self._draft(request, self._budget), self._origin_id, request.now)

    def _cancel_pages(
        self,
        function: Function[..., Any] | str | None,
        due_from: datetime | float | None,
        due_until: datetime | float | None,
    ) -> Callable[[str], Work[Page]]:
        where = jobs_where(self._tenant, UNFINISHED, function=function, due_from=due_from, due_until=due_until)

        def page(last_id: str) -> Work[Page]:
            now, make_id = self._job_builder.now(), self._job_builder.make_id
            return lambda transaction: cancel_page(transaction, where, after=last_id, now=now, make_id=make_id)

        return page


class Scheduler(_Outside[JobId, list[JobId]], BlockingScheduler):
    """`app.scheduler`, and `ctx.scheduler` of an action that is a plain `def`: each call is its own transaction."""

    def cancel(self, job_id: JobId | str) -> None:
        """Cancel a job, by its id or its key: a pending job never starts, and an ended job is not changed.

            ctx.scheduler.cancel(f"reminder:{appointment}")

        A key means the unfinished job that has it; if there is none, nothing happens. A running action is notified
        (`ctx.cancel_requested`, and CancelledError in an `async def`). From then on it cannot schedule anything. Its
        state stays in_progress until its function has ended, then it is canceled.

        Raises InvalidArguments for an id of something else.
        """
        self._transactions.transact(self._cancel_work(job_id))

    def stop(self, job_id: JobId | str) -> None:
        """Cancel a job like `cancel`; a running action, also a plain `def`, is interrupted until it has ended.

        Raises InvalidArguments for an id of something else.
        """
        self._transactions.transact(self._cancel_work(job_id, Stop.FORCE))

    def cancel_all(
        self,
        function: Function[..., Any] | str | None = None,
        *,
        due_from: datetime | float | None = None,
        due_until: datetime | float | None = None,
    ) -> int:
        """Cancel all unfinished jobs that match the given filters; returns how many.

        `function`: a function or its name, which may be unknown. `due_from`, `due_until`: due at this time or later,
        and before. Works in pages, each its own transaction.
        """
        return in_pages(self._transactions.transact, self._cancel_pages(function, due_from, due_until))

    def _schedule(self, request: Request) -> list[JobId]:
        return self._transactions.transact(self._write_work(request), isolation=self._isolation)


class AsyncScheduler(_Outside[Coroutine[Any, Any, JobId], Coroutine[Any, Any, list[JobId]]], AwaitedScheduler):
    """`ctx.scheduler` of an `async def` action: each call is awaited and is its own transaction."""

    async def cancel(self, job_id: JobId | str) -> None:
        """Cancel a job, by its id or its key; see `Scheduler.cancel`."""
        await self._transactions.transact_async(self._cancel_work(job_id))

    async def stop(self, job_id: JobId | str) -> None:
        """Cancel a job, and interrupt it if it is a running action; see `Scheduler.stop`."""
        await self._transactions.transact_async(self._cancel_work(job_id, Stop.FORCE))

    async def cancel_all(
        self,
        function: Function[..., Any] | str | None = None,
        *,
        due_from: datetime | float | None = None,
        due_until: datetime | float | None = None,
    ) -> int:
        """Cancel all unfinished jobs that match the given filters; returns how many. See `Scheduler.cancel_all`."""
        pages = self._cancel_pages(function, due_from, due_until)
        return await in_pages_async(self._transactions.transact_async, pages)

    async def _schedule(self, request: Request) -> list[JobId]:
        return await self._transactions.transact_async(self._write_work(request), isolation=self._isolation)


def is_canceled(transaction: Transaction, job_id: JobId | None, tenant: TenantId) -> bool:
    """Whether the running action that schedules was canceled."""
    job = None if job_id is None else transaction.get_job(job_id, tenant=tenant)
    return job is not None and job.is_canceled

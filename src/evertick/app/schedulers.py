"""Schedulers: `run_after`, `run_at` and `cancel`, for each place one schedules from.

In a mutation the jobs belong to its transaction. From an action, a program or the command line each call is a
transaction of its own. On somebody else's connection the jobs belong to whatever that connection commits.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, ParamSpec, Protocol, Self, TypeVar

from evertick.app.budget import Budget, size_of
from evertick.app.database import require_job_id
from evertick.app.functions import Function, FunctionCall
from evertick.app.options import OnConflict, Retry
from evertick.app.scheduling import Drafter, Options, after, checked_calls, moment, place
from evertick.base.errors import AlreadyExists, Misuse
from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.records import JobFilter, JobState, NewJob
from evertick.engine.finish import cancel, cancel_many
from evertick.store.contract import Isolation, Transaction
from evertick.store.unit_of_work import UnitOfWork

P = ParamSpec("P")
T = TypeVar("T")

CANCEL_PAGE: Final = 1_000
"""Jobs that `cancel_all` cancels in one transaction."""


class Transact(Protocol):
    """Runs work in a transaction of its own, again if it conflicts."""

    def __call__(self, work: Callable[[Transaction], T], /) -> T: ...


class TransactAsync(Protocol):
    """As Transact, without blocking the event loop."""

    async def __call__(self, work: Callable[[Transaction], T], /) -> T: ...


class TransactAs(Protocol):
    """As Transact, with a choice of how the transaction sees others."""

    def __call__(self, work: Callable[[Transaction], T], /, *, isolation: Isolation = ...) -> T: ...


class TransactAsyncAs(Protocol):
    """As TransactAs, without blocking the event loop."""

    async def __call__(self, work: Callable[[Transaction], T], /, *, isolation: Isolation = ...) -> T: ...


class _Base:
    """What all schedulers share: a drafter, a tenant, a parent and options."""

    def __init__(
        self, drafter: Drafter, tenant: TenantId, *, parent_id: JobId | None = None, options: Options | None = None
    ) -> None:
        self._drafter = drafter
        self._tenant = tenant
        self._parent_id = parent_id
        self._options = options or Options()

    def using(
        self,
        *,
        key: str | None = None,
        on_conflict: OnConflict | str | None = None,
        retry: Retry | None = None,
        on_complete: Function[..., Any] | None = None,
        context: Any = None,
    ) -> Self:
        """A scheduler with options for the calls that follow.

        `key`: at most one unfinished job holds it; `on_conflict` says what to do if one does (keep, replace, error).
        `retry`: try a failed call again. `on_complete`: a mutation or action `(ctx, job_id, context, result)` that is
        scheduled, in the finishing transaction, when the job has ended for good; `context` is handed to it.
        """
        copy = self._copy()
        copy._options = self._options.merged(
            key=key, on_conflict=on_conflict, retry=retry, on_complete=on_complete, context=context
        )
        return copy

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def _draft(self, calls: Iterable[FunctionCall], requested_at: Instant, now: Instant) -> list[NewJob]:
        return self._drafter.draft(
            calls,
            requested_at=requested_at,
            now=now,
            tenant=self._tenant,
            options=self._options,
            parent_id=self._parent_id,
        )

    def _cancel_work(self, job_id: JobId) -> Callable[[Transaction], None]:
        def work(transaction: Transaction) -> None:
            make_id = self._drafter.make_id
            cancel(transaction, job_id, tenant=self._tenant, now=self._drafter.now(), make_id=make_id)

        return work

    def _cancel_page_work(
        self, where: JobFilter, after_id: JobId | None
    ) -> Callable[[Transaction], tuple[int, JobId | None]]:
        """Cancel a page of jobs; answers how many there were, and the last one's id unless it was the last page."""

        def work(transaction: Transaction) -> tuple[int, JobId | None]:
            ids = [job.id for job in transaction.list_jobs(where, limit=CANCEL_PAGE, after=after_id)]
            count = cancel_many(
                transaction, ids, tenant=self._tenant, now=self._drafter.now(), make_id=self._drafter.make_id
            )
            return count, ids[-1] if len(ids) == CANCEL_PAGE else None

        return work

    def _unfinished(
        self,
        function: Function[..., Any] | str | None,
        due_from: datetime | float | None,
        due_until: datetime | float | None,
    ) -> JobFilter:
        return JobFilter(
            tenant=self._tenant,
            states=(JobState.PENDING, JobState.IN_PROGRESS),
            name=_name_of(function),
            due_from=None if due_from is None else moment(due_from),
            due_until=None if due_until is None else moment(due_until),
        )

    def _place_work(
        self, jobs: list[NewJob], origin_id: JobId | None, now: Instant
    ) -> Callable[[Transaction], list[JobId]]:
        def work(transaction: Transaction) -> list[JobId]:
            canceled = origin_id is not None and is_canceled(transaction, origin_id, self._tenant)
            rows = [replace(job, state=JobState.CANCELED) for job in jobs] if canceled else jobs
            return place(transaction, rows, self._options.on_conflict, now=now, make_id=self._drafter.make_id)

        return work

    def _isolation(self, origin_id: JobId | None) -> Isolation:
        """Where nothing is looked up first, writing the rows is one statement."""
        return Isolation.EACH if self._options.key is None and origin_id is None else Isolation.SERIALIZABLE


class _Blocking(_Base):
    """Schedulers whose calls return when the job is written."""

    def run_after(
        self, delay: float | timedelta, function: Function[P, Any] | str, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId:
        """Run a function `delay` (seconds, or a timedelta) from now; 0 is right after the commit.

        Raises InvalidDelay, InvalidArguments, FunctionNotFound, TooManyJobs or ArgumentsTooLarge.
        """
        now = self._now()
        return self._write([self._drafter.call(function, args, kwargs)], after(delay, now), now)[0]

    def run_at(
        self, at: datetime | float, function: Function[P, Any] | str, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId:
        """Run a function at a moment: an aware datetime, or seconds since the epoch. A past one runs at once."""
        return self._write([self._drafter.call(function, args, kwargs)], moment(at), self._now())[0]

    def run_after_many(self, delay: float | timedelta, calls: Iterable[FunctionCall]) -> list[JobId]:
        """Run many calls, `[fn.args(1), fn.args(2)]`, the same delay from now."""
        now = self._now()
        return self._write(checked_calls(calls), after(delay, now), now)

    def run_at_many(self, at: datetime | float, calls: Iterable[FunctionCall]) -> list[JobId]:
        """Run many calls at the same moment."""
        return self._write(checked_calls(calls), moment(at), self._now())

    def _now(self) -> Instant:
        return self._drafter.now()

    def _write(self, calls: list[FunctionCall], requested_at: Instant, now: Instant) -> list[JobId]:
        raise NotImplementedError


class MutationScheduler(_Blocking):
    """`ctx.scheduler` in a mutation: jobs are part of its transaction."""

    def __init__(
        self,
        drafter: Drafter,
        tenant: TenantId,
        *,
        unit: UnitOfWork,
        budget: Budget,
        now: Instant,
        own_id: JobId | None,
        origin_id: JobId | None,
    ) -> None:
        super().__init__(drafter, tenant, parent_id=own_id or origin_id)
        self._unit = unit
        self._budget = budget
        self._frozen_now = now
        self._own_id = own_id
        self._origin_id = origin_id
        self._origin_canceled: bool | None
        self.look_again()

    def cancel(self, job_id: JobId | str) -> None:
        """Cancel a job: a pending one never starts, of a running one nothing more is scheduled, an ended one stays.

        Raises Misuse if a mutation cancels itself, InvalidArguments for an id of something else.
        """
        job_id = require_job_id(job_id)
        if job_id == self._own_id:
            raise Misuse("a mutation cannot cancel itself; raise an exception instead")
        cancel(self._unit.touch(), job_id, tenant=self._tenant, now=self._frozen_now, make_id=self._drafter.make_id)
        if job_id == self._origin_id:
            self.look_again()

    def look_again(self) -> None:
        """Do not trust what was seen of the action that called: this transaction may have canceled it meanwhile."""
        self._origin_canceled = None if self._origin_id is not None else False

    def _now(self) -> Instant:
        return self._frozen_now

    def _write(self, calls: list[FunctionCall], requested_at: Instant, now: Instant) -> list[JobId]:
        for call in calls:
            self._budget.schedule(size_of(call.args))
        jobs = self._draft(calls, requested_at, now)
        if self._origin_canceled is None:
            # What a canceled action schedules from then on is born canceled, also through mutations it calls.
            self._origin_canceled = is_canceled(self._unit.touch(), self._origin_id, self._tenant)
        if self._origin_canceled:
            jobs = [replace(job, state=JobState.CANCELED) for job in jobs]
        if self._options.key is not None:
            return self._write_under_key(jobs, self._options.key, now)
        for job in jobs:
            self._unit.schedule(job)
        return [job.id for job in jobs]

    def _write_under_key(self, jobs: list[NewJob], key: str, now: Instant) -> list[JobId]:
        """A key is held by one unfinished job. The mutation that runs does not count: with this commit it has ended."""
        transaction = self._unit.touch()
        on_conflict = self._options.on_conflict
        holder = transaction.find_unfinished_key(key, tenant=self._tenant)
        if holder is None or holder != self._own_id or self._origin_canceled or not jobs:
            return place(transaction, jobs, on_conflict, now=now, make_id=self._drafter.make_id)
        successor = self._unit.successor(key)
        if successor is not None and on_conflict is OnConflict.KEEP:
            return [successor.id]
        if successor is not None and on_conflict is OnConflict.ERROR:
            raise AlreadyExists(f"this function has scheduled {successor.id} with the key {key!r} already")
        self._unit.schedule_successor(jobs[0])
        return [jobs[0].id]


class Scheduler(_Blocking):
    """`app.scheduler`, and `ctx.scheduler` of an action that is a plain `def`: each call is its own transaction."""

    def __init__(
        self, drafter: Drafter, tenant: TenantId, transact: TransactAs, *, origin_id: JobId | None = None
    ) -> None:
        super().__init__(drafter, tenant, parent_id=origin_id)
        self._transact = transact
        self._origin_id = origin_id

    def cancel(self, job_id: JobId | str) -> None:
        """Cancel a job; see `MutationScheduler.cancel`."""
        self._transact(self._cancel_work(require_job_id(job_id)))

    def cancel_all(
        self,
        function: Function[..., Any] | str | None = None,
        *,
        due_from: datetime | float | None = None,
        due_until: datetime | float | None = None,
    ) -> int:
        """Cancel every unfinished job, or those of one function (by name also of one that is gone), or those due from
        a moment on and before another; answers how many. Works in pages, each a transaction of its own.
        """
        where = self._unfinished(function, due_from, due_until)
        canceled, last_id = self._transact(self._cancel_page_work(where, None))
        while last_id is not None:
            count, last_id = self._transact(self._cancel_page_work(where, last_id))
            canceled += count
        return canceled

    def _write(self, calls: list[FunctionCall], requested_at: Instant, now: Instant) -> list[JobId]:
        jobs = self._draft(calls, requested_at, now)
        return self._transact(self._place_work(jobs, self._origin_id, now), isolation=self._isolation(self._origin_id))


class AsyncScheduler(_Base):
    """`ctx.scheduler` of an `async def` action: each call is its own transaction, and is awaited."""

    def __init__(
        self, drafter: Drafter, tenant: TenantId, transact: TransactAsyncAs, *, origin_id: JobId | None = None
    ) -> None:
        super().__init__(drafter, tenant, parent_id=origin_id)
        self._transact = transact
        self._origin_id = origin_id

    async def run_after(
        self, delay: float | timedelta, function: Function[P, Any] | str, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId:
        """Run a function `delay` (seconds, or a timedelta) from now."""
        now = self._drafter.now()
        return (await self._write([self._drafter.call(function, args, kwargs)], after(delay, now), now))[0]

    async def run_at(
        self, at: datetime | float, function: Function[P, Any] | str, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId:
        """Run a function at a moment: an aware datetime, or seconds since the epoch."""
        call = self._drafter.call(function, args, kwargs)
        return (await self._write([call], moment(at), self._drafter.now()))[0]

    async def run_after_many(self, delay: float | timedelta, calls: Iterable[FunctionCall]) -> list[JobId]:
        """Run many calls the same delay from now, written in one transaction."""
        now = self._drafter.now()
        return await self._write(checked_calls(calls), after(delay, now), now)

    async def run_at_many(self, at: datetime | float, calls: Iterable[FunctionCall]) -> list[JobId]:
        """Run many calls at the same moment, written in one transaction."""
        return await self._write(checked_calls(calls), moment(at), self._drafter.now())

    async def cancel(self, job_id: JobId | str) -> None:
        """Cancel a job; see `MutationScheduler.cancel`."""
        await self._transact(self._cancel_work(require_job_id(job_id)))

    async def cancel_all(
        self,
        function: Function[..., Any] | str | None = None,
        *,
        due_from: datetime | float | None = None,
        due_until: datetime | float | None = None,
    ) -> int:
        """Cancel every unfinished job, or a choice of them; see `Scheduler.cancel_all`."""
        where = self._unfinished(function, due_from, due_until)
        canceled, last_id = await self._transact(self._cancel_page_work(where, None))
        while last_id is not None:
            count, last_id = await self._transact(self._cancel_page_work(where, last_id))
            canceled += count
        return canceled

    async def _write(self, calls: list[FunctionCall], requested_at: Instant, now: Instant) -> list[JobId]:
        jobs = self._draft(calls, requested_at, now)
        return await self._transact(
            self._place_work(jobs, self._origin_id, now), isolation=self._isolation(self._origin_id)
        )


class BoundScheduler(_Blocking):
    """`app.bind(connection)`: jobs belong to the transaction that is open on that connection, or begins there."""

    def __init__(self, drafter: Drafter, tenant: TenantId, on_connection: Transact) -> None:
        super().__init__(drafter, tenant)
        self._on_connection = on_connection

    def cancel(self, job_id: JobId | str) -> None:
        """Cancel a job when the connection's transaction commits; see `MutationScheduler.cancel`."""
        self._on_connection(self._cancel_work(require_job_id(job_id)))

    def _write(self, calls: list[FunctionCall], requested_at: Instant, now: Instant) -> list[JobId]:
        jobs = self._draft(calls, requested_at, now)
        return self._on_connection(self._place_work(jobs, None, now))


def is_canceled(transaction: Transaction, job_id: JobId | None, tenant: TenantId) -> bool:
    """Whether the running action that schedules was canceled meanwhile."""
    job = None if job_id is None else transaction.get_job(job_id, tenant=tenant)
    return job is not None and job.state is JobState.CANCELED


def _name_of(function: Any) -> str | None:
    """The name of a function that may be gone. Raises Misuse for what has no name."""
    if isinstance(function, Function):
        return function.name
    if function is None or isinstance(function, str):
        return function
    raise Misuse(f"{function!r} is no function and no name of one")

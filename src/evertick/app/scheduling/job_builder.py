"""Scheduling: from "run this later" to the row of a job. The same for every caller.

What differs between a mutation, an action, a program and a foreign transaction is only where the row is written:
each brings its own `place`. What is the same stands here: which moment is meant, whether it can be, which function
and arguments, and what to do about keys.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from evertick.app.functions.function import Function, FunctionCall, check_args_size
from evertick.app.functions.options import OnConflict, Retry
from evertick.base.clock import Clock
from evertick.base.errors import (
    AlreadyExists,
    InvalidArguments,
    InvalidDelay,
    Misuse,
    QuotaExceeded,
    WorkflowInactive,
)
from evertick.base.ids import JOB_PREFIX, IdMaker, JobId, TenantId, app_of, check_pool, full_pool
from evertick.base.instants import (
    HORIZON_MS,
    LONG_AGO,
    Instant,
    duration_ms,
    from_datetime,
    not_aware,
    to_iso,
    warn_of_gaps,
)
from evertick.base.job_options import KEY, PRIORITY, check_key
from evertick.base.options import UNCHANGED, Rule, Unchanged, check_options, one_of, one_of_type, shown, some, stated
from evertick.base.records.jobs import (
    COMPLETION,
    IS_RETRY,
    RETRY,
    UNFINISHED,
    Completion,
    FunctionKind,
    Job,
    JobState,
    NewJob,
    ServedFunction,
    retry_of_run,
)
from evertick.base.records.stored import Stored, size_of
from evertick.base.records.workflows import Value, WorkflowStatus
from evertick.engine.jobs.completion import cancel
from evertick.engine.runtime.tracing import Tracing
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import FunctionUnit

if TYPE_CHECKING:
    from evertick.app.run.run import Budget


# -- Quotas: how many unfinished jobs a tenant may have, how large their arguments may be together, how many
# schedules.
#
# They concern what a tenant's programs and functions schedule. What schedules start and what follows a job's end
# counts, but is never refused; jobs that run do not count for what jobs schedule. Two transactions at a time may each
# find room: a quota can be exceeded by what they write.

ASK_EVERY_MS: Final = 1_000
"""Time between two queries whether any tenant has limits: a first limit takes effect within this time."""


class Quotas:
    """Refuses jobs and schedules beyond a tenant's quotas. While no tenant has limits, the database is queried for
    limits at most once a second.
    """

    def __init__(self) -> None:
        self._any = True
        self._asked_at = LONG_AGO

    def forget(self) -> None:
        """Query the database again at the next check, because limits were changed in this process."""
        self._any = True

    def may_refuse(self, now: Instant) -> bool:
        """Whether a check must query the database. It need not for a second after no tenant had limits."""
        return self._any or not 0 <= now - self._asked_at < ASK_EVERY_MS

    def check(self, transaction: Transaction, jobs: Sequence[NewJob], *, now: Instant) -> None:
        """Raise QuotaExceeded if a tenant's quotas do not allow these further jobs. All jobs belong to one tenant."""
        jobs = [job for job in jobs if job.state is JobState.PENDING]
        if not jobs or not self._are_any(transaction, now):
            return
        tenant = jobs[0].tenant
        limits = transaction.get_tenant_limits(tenant)
        if limits.jobs is not None:
            used = transaction.unfinished_jobs(tenant)
            if jobs[0].parent_id is not None and used + len(jobs) > limits.jobs:
                # A job that schedules what follows it is about to end. If running jobs counted, a tenant at its limit
                # would lose jobs that it has already: their functions would fail with QuotaExceeded.
                used -= transaction.running_jobs([tenant])[tenant]
            _refuse_beyond(limits.jobs, used, len(jobs), tenant, "unfinished jobs", "jobs")
        if limits.argument_bytes is not None:
            size, more = transaction.argument_bytes(tenant), sum(size_of(job.args) for job in jobs)
            _refuse_beyond(
                limits.argument_bytes, size, more, tenant, "bytes of arguments of unfinished jobs", "argument_bytes"
            )

    def check_schedule(self, transaction: Transaction, tenant: TenantId, *, now: Instant) -> None:
        """Raise QuotaExceeded if a tenant's quota does not allow another schedule."""
        if not self._are_any(transaction, now):
            return
        limit = transaction.get_tenant_limits(tenant).schedules
        if limit is not None:
            _refuse_beyond(limit, transaction.count_schedules(tenant, limit=limit), 1, tenant, "schedules", "schedules")

    def _are_any(self, transaction: Transaction, now: Instant) -> bool:
        """Whether a tenant has limits, as far as is known."""
        if self.may_refuse(now):
            self._any, self._asked_at = transaction.any_tenant_limits(), now
        return self._any


def _refuse_beyond(limit: int, used: int, more: int, tenant: TenantId, what: str, name: str) -> None:
    if used + more > limit:
        raise QuotaExceeded(
            f"tenant {tenant} has {used:,} {what} and is given {more:,} more; its limit is {limit:,}: wait, remove "
            f"some, or raise the limit (app.tenants.set, evertick tenant set --{name.replace('_', '-')})"
        )


# -- Workflows that are paused, deprecated or deleted: no program, function or command starts runs of them.


def runs_among(jobs: Sequence[NewJob]) -> set[str]:
    """The names of the workflows of which these jobs are runs."""
    return {job.name for job in jobs if job.kind is FunctionKind.WORKFLOW and job.state is JobState.PENDING}


def present_names(functions: Iterable[Function[..., Any]], name: str) -> set[str]:
    """The given name of a workflow, and its current name in this process's code if it was renamed."""
    return {name, *(each.name for each in functions if name in each.aliases)}


def inactive_among(transaction: Transaction, names: set[str]) -> Mapping[str, WorkflowStatus]:
    """The workflows whose runs may not start, with their status. Without names, the database is not queried."""
    found = transaction.workflow_types(names) if names else {}
    return {name: each.status for name, each in found.items() if each.status is not WorkflowStatus.ACTIVE}


def check_active(transaction: Transaction, names: set[str]) -> None:
    """Raise WorkflowInactive if runs of one of the workflows may not start."""
    for name, status in inactive_among(transaction, names).items():
        raise WorkflowInactive(name, status.value)


Target = Function[..., Any] | str
ENDS: Final = tuple(state.value for state in JobState if state not in UNFINISHED)


class Functions(Protocol):
    """The registered functions of an app."""

    def resolve(self, target: Target, /) -> Function[..., Any]:
        """The function, given as an object or by name. Raises FunctionNotFound."""
        ...

    def __iter__(self) -> Iterator[Function[..., Any]]: ...


def known_as(functions: Functions, name: str) -> Function[..., Any] | None:
    """The function with this name or alias; None if it is not in this process."""
    # They are searched: to resolve a name without the code reads the database, and this is inside a transaction.
    return next((each for each in functions if name in (each.name, *each.aliases)), None)


def served_as(functions: Functions, name: str, app: str | None = None) -> ServedFunction | None:
    """How a worker with these functions describes the function with this name; None if there is none, or it belongs to
    another app than `app`.
    """
    function = known_as(functions, name)
    if function is None or app not in (None, function.app_name) or function.kind is FunctionKind.QUERY:
        return None
    return function.served._replace(name=name)


@dataclass(frozen=True, kw_only=True)
class KeyOptions:
    """The options that jobs and runs of workflows share."""

    key: str | Unchanged | None = UNCHANGED
    on_conflict: OnConflict | str | Unchanged | None = UNCHANGED


@dataclass(frozen=True, kw_only=True)
class EndOptions:
    """Options of jobs and runs: the function to call when they have ended."""

    on_complete: Function[..., Any] | str | Unchanged | None = UNCHANGED
    on_complete_for: str | Iterable[str] | Unchanged | None = UNCHANGED
    context: object = UNCHANGED


@dataclass(frozen=True, kw_only=True)
class SentJobOptions(KeyOptions):
    """The options of `client.scheduler.using(...)`; `app.scheduler.using` documents them."""

    retry: Retry | Unchanged | None = UNCHANGED
    priority: int | Unchanged | None = UNCHANGED
    limit_key: str | Unchanged | None = UNCHANGED
    pool: str | Unchanged | None = UNCHANGED


@dataclass(frozen=True, kw_only=True)
class JobOptions(EndOptions, SentJobOptions):
    """The options of `scheduler.using(...)`, which documents them."""


@dataclass(frozen=True, kw_only=True)
class SentRunOptions(KeyOptions):
    """The options of `client.workflows.using(...)`; `app.workflows.using` documents them."""

    priority: int | Unchanged | None = UNCHANGED
    attributes: Mapping[str, Value] | Unchanged | None = UNCHANGED


@dataclass(frozen=True, kw_only=True)
class RunOptions(EndOptions, SentRunOptions):
    """The options of `workflows.using(...)`, which documents them."""


RULES: Final[Mapping[str, Rule]] = {
    "on_conflict": one_of(OnConflict),
    "retry": IS_RETRY,
    "on_complete": Rule(
        "a registered mutation or action, or its name",
        lambda value: isinstance(value, str) or (isinstance(value, Function) and value.kind is not FunctionKind.QUERY),
    ),
    "on_complete_for": one_of_type(Iterable, f"one or several of {', '.join(ENDS)}"),
    "priority": PRIORITY,
    "limit_key": KEY,
}
"""The rules for the options of jobs and runs, except the key and the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All options that `using(...)` can set for the calls that follow."""

    key: str | None = None
    on_conflict: OnConflict = OnConflict.KEEP
    retry: Retry | None = None
    on_complete: Function[..., Any] | str | None = None
    on_complete_for: str | Iterable[str] = ()
    context: Any = None
    priority: int = 0
    limit_key: str | None = None
    pool: str | None = None

    def check_complete(self) -> None:
        """Raise Misuse for an option that has no effect without another one, which is missing."""
        if self.on_complete is None and (self.context is not None or self.on_complete_for != ()):
            raise Misuse("context= and on_complete_for= are for the function of on_complete=, which is missing")
        if self.key is None and self.on_conflict is not OnConflict.KEEP:
            raise Misuse(f"on_conflict={self.on_conflict.value} is about jobs with the same key=, which is missing")

    def merged(self, changes: KeyOptions) -> "Options":
        """A copy with these options changed; None restores a default. Raises Misuse for an invalid value."""
        said = {name: value for name, value in stated(changes).items() if name != "attributes"}
        found, defaults = some(said), Options()
        check_options(RULES, found)
        if "key" in found:
            check_key(found["key"], what="a key")
        if "pool" in found:
            check_pool(found["pool"])
        if "on_conflict" in found:
            found["on_conflict"] = OnConflict(found["on_conflict"])
        if "on_complete_for" in found:
            found["on_complete_for"] = _ends(found["on_complete_for"])
        return replace(self, **{name: found.get(name, getattr(defaults, name)) for name in said})


@dataclass(frozen=True, slots=True)
class Request:
    """Calls that are scheduled together: requested at the time `now`, to run at `requested_at`."""

    calls: Sequence[FunctionCall]
    requested_at: Instant
    now: Instant


class JobBuilder:
    """Builds the rows of jobs, and checks everything that can be checked before the row is written."""

    def __init__(self, functions: Functions, ids: IdMaker, clock: Clock, tracing: Tracing | None = None) -> None:
        self.functions = functions
        self.ids = ids
        self.clock = clock
        self.tracing = tracing
        self.quotas = Quotas()

    def now(self) -> Instant:
        """The current time of the clock."""
        return self.clock.now()

    def make_id(self, prefix: str, now: Instant) -> str:
        """A new id for a row that is created now."""
        return self.ids.make(prefix, now)

    def call(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FunctionCall:
        """A function with checked arguments. Raises FunctionNotFound, InvalidArguments or Misuse."""
        function = self.functions.resolve(target)
        return FunctionCall(function, function.encode_args(args, kwargs))

    def draft(
        self,
        request: Request,
        *,
        tenant: TenantId,
        options: Options,
        parent_id: JobId | None,
        budget: "Budget | None" = None,
    ) -> list[NewJob]:
        """Build the rows of jobs for calls that are due at one time. `budget` counts them for the function that
        schedules them.

        Raises InvalidDelay beyond the horizon, ArgumentsTooLarge, TooManyJobs, FunctionNotFound, Misuse for queries.
        """
        requested_at, now = request.requested_at, request.now
        check_horizon(requested_at, now)
        check_size = check_args_size if budget is None else budget.schedule
        options.check_complete()
        # What calls of one function share is made once for all of them.
        given = None if options.retry is None else RETRY.value(options.retry)
        on_complete = None if options.on_complete is None else self._completion(options)
        due_at, shared = max(requested_at, now), dict[Target, tuple[Function[..., Any], Any, str]]()
        jobs = []
        for call in request.calls:
            check_size(size_of(call.args))
            known = shared.get(call.function)
            if known is None:
                function = self._schedulable(call.function, options)
                retry = given if given or function.retry is None else RETRY.value(function.retry)
                pool = function.pool if options.pool is None else _pool_in_same_app(function.pool, options.pool)
                known = shared[call.function] = function, retry, pool
            function, retry, pool = known
            jobs.append(
                NewJob(
                    id=JobId(self.ids.make(JOB_PREFIX, now)),
                    tenant=tenant,
                    kind=function.kind,
                    name=function.name,
                    args=call.args,
                    requested_at=requested_at,
                    due_at=due_at,
                    created_at=now,
                    parent_id=parent_id,
                    key=options.key,
                    retry=retry,
                    on_complete=on_complete,
                    pool=pool,
                    priority=options.priority,
                    limit_key=options.limit_key,
                )
            )
        if options.key is not None and len(jobs) > 1:
            raise Misuse("a key names one job: schedule the calls one by one, each with its own key")
        return self.traced(jobs)

    def _schedulable(self, target: Target, options: Options) -> Function[..., Any]:
        """A function that may be scheduled with these options. Raises FunctionNotFound, Misuse."""
        function = self.functions.resolve(target)
        if function.kind is FunctionKind.QUERY:
            raise Misuse(f"{function.name} is a query, which has no effect; schedule a mutation or an action")
        if function.kind is FunctionKind.WORKFLOW and options.retry is not None:
            raise retry_of_run(function.name)
        if function.kind is FunctionKind.WORKFLOW and options.pool is not None:
            raise Misuse(
                f"a run of {function.name} is in the pool of its workflow; leave out pool=, and give it to the "
                "calls in it: step.using(pool=...)"
            )
        return function

    def traced(self, jobs: list[NewJob]) -> list[NewJob]:
        """The jobs with the trace context of the current span, if the app is traced."""
        if self.tracing is None or not jobs:
            return jobs
        from evertick.engine.runtime.spans import scheduled

        return scheduled(self.tracing, jobs)

    def place(
        self, transaction: Transaction, jobs: list[NewJob], on_conflict: OnConflict, *, now: Instant
    ) -> list[JobId]:
        """Write drafted jobs, and resolve conflicts of their keys in the same transaction; returns the ids.

        Raises AlreadyExists where a key is taken and `on_conflict` says so, WorkflowInactive and QuotaExceeded.
        """
        placed = []
        rows = []
        inactive = inactive_among(transaction, runs_among(jobs))
        for job in jobs:
            holder = _holder_of_key(transaction, job)
            if holder is not None:
                if on_conflict is OnConflict.ERROR:
                    raise AlreadyExists(f"the unfinished job {holder} holds the key {job.key!r}")
                if on_conflict is OnConflict.KEEP:
                    placed.append(holder)
                    continue
            if job.name in inactive:
                raise WorkflowInactive(job.name, inactive[job.name].value)
            if holder is not None:
                cancel(transaction, holder, tenant=job.tenant, now=now, make_id=self.make_id)
                transaction.release_key(holder, tenant=job.tenant)
            rows.append(job)
            placed.append(job.id)
        self.quotas.check(transaction, rows, now=now)
        transaction.insert_jobs(rows)
        return placed

    def _completion(self, options: Options) -> Stored[Completion]:
        """What is kept of `on_complete`: whom to call, and with which context."""
        assert options.on_complete is not None  # noqa: S101
        function = self.functions.resolve(options.on_complete)
        if function.kind is FunctionKind.QUERY:
            raise Misuse(f"on_complete={function.name} is a query, which has no effect; give a mutation")
        names = function.parameter_names
        if len(names) != 3:
            raise InvalidArguments(
                f"on_complete={function.name} must take (job_id, context, result) after its own context; "
                f"it takes ({', '.join(names)})"
            )
        sample = function.encode_args(("", options.context, {"kind": "canceled"}), {})
        context = json.loads(sample)[names[1]]
        kind, ends = function.kind.value, tuple(options.on_complete_for)
        return COMPLETION.value(Completion(function.name, kind, tuple(names), context, function.pool, ends))


def _pool_in_same_app(pool: str, other: str) -> str:
    """Another pool of the app to which a pool belongs."""
    app = app_of(pool)
    return other if app is None else full_pool(app, other)


def _ends(given: str | Iterable[str]) -> tuple[str, ...]:
    """Final states after which `on_complete` is called. Raises Misuse for what is none."""
    ends = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(each, str) and each in ENDS for each in ends):
        raise Misuse(f"on_complete_for= takes one or several of {', '.join(ENDS)}, not {shown(ends)}")
    return tuple(end for end in ENDS if end in ends)


def _holder_of_key(transaction: Transaction, job: NewJob) -> JobId | None:
    """The unfinished job that has the key of a new one. An action does not count for what it schedules itself: its
    successor takes the key over. Raises AlreadyExists for a job of another app.
    """
    if job.key is None or job.state is not JobState.PENDING:
        return None
    holder = transaction.find_unfinished_key(job.key, tenant=job.tenant)
    if holder is None:
        return None
    held = transaction.get_job(holder, tenant=job.tenant)
    if holder == job.parent_id and held is not None and held.kind is FunctionKind.ACTION:
        transaction.release_key(holder, tenant=job.tenant)
        return None
    _refuse_of_another_app(held, job)
    return holder


def _refuse_of_another_app(held: Job | None, job: NewJob) -> None:
    """Raise AlreadyExists if the key of a job is held by one of another app on the same tables."""
    app = app_of(job.pool)
    if held is not None and app is not None and held.app not in (None, app):
        raise AlreadyExists(
            f"the unfinished job {held.id} of the app {held.app} holds the key {job.key!r}; apps on the same tables "
            "share keys: choose another one, or give each app tables of its own"
        )


MILLISECONDS_FROM = 100_000_000_000
"""Seconds since the epoch from here on (the year 5138) are taken for milliseconds (1973 and later)."""


def checked_calls(calls: Iterable[FunctionCall]) -> list[FunctionCall]:
    """The calls of a bulk operation, as a list. Raises Misuse for anything that is not `fn.with_args(...)`."""
    if isinstance(calls, FunctionCall) or not isinstance(calls, Iterable):
        raise Misuse(f"many calls are a list, [fn.with_args(1), fn.with_args(2)], not {calls!r}")
    found = list(calls)
    for call in found:
        if not isinstance(call, FunctionCall):
            raise Misuse(f"scheduling in bulk takes calls, [fn.with_args(1), fn.with_args(2)], not {call!r}")
    return found


def after(delay: float | timedelta, now: Instant) -> Instant:
    """The time `delay` from now. Raises InvalidDelay if the delay is negative or not a duration."""
    return Instant(now + delay_ms(delay))


def delay_ms(delay: float | timedelta) -> int:
    """The delay of `run_after` in milliseconds. Raises InvalidDelay if it is negative or not a duration."""
    if isinstance(delay, Function):
        raise InvalidDelay(f"the delay comes first: run_after(5, {delay.name.rpartition('.')[2]}, ...)")
    return duration_ms(delay, name="delay")


def moment(at: datetime | float, name: str = "run_at") -> Instant:
    """The instant of an aware datetime, or of seconds since the epoch. Raises InvalidDelay for anything else.

    `name` is the function or the parameter for the error message.
    """
    if isinstance(at, Function):
        raise InvalidDelay(f"the time comes first: {name}(at, {at.name.rpartition('.')[2]}, ...)")
    if isinstance(at, datetime):
        requested_at = from_datetime(at, name)
        warn_of_gaps([at])
        return requested_at
    if isinstance(at, bool) or not isinstance(at, int | float):
        raise not_aware(name, at, " or seconds since the epoch")
    if MILLISECONDS_FROM <= at < MILLISECONDS_FROM * 1_000:
        raise InvalidDelay(f"{name} takes seconds since the epoch, and {at} looks like milliseconds: divide by 1000")
    return Instant(duration_ms(at, name=name))


def check_horizon(requested_at: Instant, now: Instant) -> None:
    """Raise InvalidDelay if the time is more than five years in the past or in the future."""
    if requested_at - now > HORIZON_MS:
        raise InvalidDelay(f"{_shown(requested_at)} is more than 5 years in the future")
    if now - requested_at > HORIZON_MS:
        raise InvalidDelay(f"{_shown(requested_at)} is more than 5 years in the past")


def _shown(instant: Instant) -> str:
    try:
        return to_iso(instant)
    except OverflowError:
        return "a moment beyond the year 9999"


# -- Keys in mutations: who holds one when the job that runs has it.


def place_under_key(
    job_builder: JobBuilder,
    unit: FunctionUnit,
    own: JobId | None,
    jobs: list[NewJob],
    options: Options,
    *,
    now: Instant,
) -> list[JobId]:
    """Write jobs with a key, which only one unfinished job can have; returns the ids of the jobs that have it now.

    `own` is the job of the mutation that is running; it does not count as unfinished, because it ends with this commit.
    It is None in a step of a workflow, whose run continues after the commit.

    Raises AlreadyExists, WorkflowInactive and QuotaExceeded.
    """
    transaction, key = unit.flush_to_db(), options.key
    if own is None or key is None or not jobs or jobs[0].state is not JobState.PENDING:
        return job_builder.place(transaction, jobs, options.on_conflict, now=now)
    if transaction.find_unfinished_key(key, tenant=jobs[0].tenant) != own:
        return job_builder.place(transaction, jobs, options.on_conflict, now=now)
    successor = unit.successor(key)
    if successor is not None and successor.state is JobState.CANCELED:
        successor = None
    if successor is not None and options.on_conflict is OnConflict.KEEP:
        return [successor.id]
    if successor is not None and options.on_conflict is OnConflict.ERROR:
        raise AlreadyExists(f"this function has scheduled {successor.id} with the key {key!r} already")
    check_active(transaction, runs_among(jobs))
    unit.schedule_successor(jobs[0])
    return [jobs[0].id]


def cancel_under_key(unit: FunctionUnit, key: str) -> None:
    """Cancel the job that this mutation has scheduled with the key of its own job. Does nothing if there is none."""
    successor = unit.successor(key)
    if successor is not None:
        unit.schedule_successor(successor._replace(state=JobState.CANCELED))

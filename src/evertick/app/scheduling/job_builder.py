"""Scheduling: from "run this later" to the row of a job. The same for every caller.

What differs between a mutation, an action, a program and a foreign transaction is only where the row is written:
each brings its own `place`. What is the same stands here: which moment is meant, whether it can be, which function
and arguments, and what to do about keys.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict

from evertick.app.functions.function import Function, FunctionCall, check_args_size
from evertick.app.functions.options import OnConflict, Retry
from evertick.app.scheduling.inactive_workflows import inactive_among, runs_among
from evertick.app.scheduling.quotas import Quotas
from evertick.base.clock import Clock
from evertick.base.errors import (
    AlreadyExists,
    InvalidArguments,
    InvalidDelay,
    Misuse,
    WorkflowInactive,
)
from evertick.base.ids import JOB_PREFIX, IdMaker, JobId, TenantId, app_of, check_pool, full_pool
from evertick.base.instants import HORIZON_MS, Instant, duration_ms, from_datetime, not_aware, to_iso, warn_of_gaps
from evertick.base.job_options import KEY, PRIORITY, check_key
from evertick.base.options import Rule, check_options, one_of, one_of_type, shown, some
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
from evertick.engine.jobs.completion import cancel
from evertick.engine.runtime.tracing import Tracing
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.run.run import Budget

Target = Function[..., Any] | str
ENDS: Final = tuple(state.value for state in JobState if state not in UNFINISHED)


class Functions(Protocol):
    """The registered functions."""

    def resolve(self, target: Target, /) -> Function[..., Any]:
        """The function itself, or by name. Raises FunctionNotFound."""
        ...

    def __iter__(self) -> Iterator[Function[..., Any]]: ...


def known_as(functions: Functions, name: str) -> Function[..., Any] | None:
    """The function of a name or of a former one; None if none is at hand."""
    # They are looked through: to resolve a name without the code reads the database, and this is inside a transaction.
    return next((each for each in functions if name in (each.name, *each.aliases)), None)


def served_as(functions: Functions, name: str, app: str | None = None) -> ServedFunction | None:
    """What a worker with these functions runs under a name, in an app if one is given; None if none is at hand."""
    function = known_as(functions, name)
    if function is None or app not in (None, function.app_name) or function.kind is FunctionKind.QUERY:
        return None
    return function.served._replace(name=name)


class JobOptions(TypedDict, total=False):
    """What `scheduler.using(...)` takes."""

    key: str | None
    on_conflict: OnConflict | str | None
    retry: Retry | None
    on_complete: Function[..., Any] | str | None
    on_complete_for: str | Iterable[str] | None
    context: Any
    priority: int | None
    limit_key: str | None
    pool: str | None


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
"""What the options of jobs and runs take, beside the key and the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `using(...)` says about the calls that follow."""

    key: str | None = None
    on_conflict: OnConflict = OnConflict.KEEP
    retry: Retry | None = None
    on_complete: Function[..., Any] | str | None = None
    on_complete_for: str | Iterable[str] = ()
    context: Any = None
    priority: int = 0
    limit_key: str | None = None
    pool: str | None = None

    def merged(self, **changes: Any) -> "Options":
        """These options with some replaced. Raises Misuse for what cannot be."""
        found = some(changes)
        check_options(RULES, found)
        if "key" in found:
            check_key(found["key"], what="a key")
        if "pool" in found:
            check_pool(found["pool"])
        if "on_conflict" in found:
            found["on_conflict"] = OnConflict(found["on_conflict"])
        if "on_complete_for" in found:
            found["on_complete_for"] = _ends(found["on_complete_for"])
        return replace(self, **found)


@dataclass(frozen=True, slots=True)
class Request:
    """Calls that are scheduled together: they were requested at `now` to run at `requested_at`."""

    calls: Sequence[FunctionCall]
    requested_at: Instant
    now: Instant


class JobBuilder:
    """Drafts the rows of jobs: checks everything that can be checked before the row is written."""

    def __init__(self, functions: Functions, ids: IdMaker, clock: Clock, tracing: Tracing | None = None) -> None:
        self.functions = functions
        self.ids = ids
        self.clock = clock
        self.tracing = tracing
        self.quotas = Quotas()

    def now(self) -> Instant:
        """The present, for callers whose time does not stand still."""
        return self.clock.now()

    def make_id(self, prefix: str, now: Instant) -> str:
        """A new id for a row that follows from what is done here."""
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
        """Rows for calls that are requested for one time; `budget` counts them for the function that schedules.

        Raises InvalidDelay beyond the horizon, ArgumentsTooLarge, TooManyJobs, FunctionNotFound, Misuse for queries.
        """
        requested_at, now = request.requested_at, request.now
        check_horizon(requested_at, now)
        check_size = check_args_size if budget is None else budget.schedule
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
                pool = function.pool if options.pool is None else _beside(function.pool, options.pool)
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
        """Jobs that are scheduled together, with the trace context of that if the app is traced."""
        if self.tracing is None or not jobs:
            return jobs
        from evertick.engine.runtime.spans import scheduled

        return scheduled(self.tracing, jobs)

    def place(
        self, transaction: Transaction, jobs: list[NewJob], on_conflict: OnConflict, *, now: Instant
    ) -> list[JobId]:
        """Write drafted jobs where the database can be asked about their keys at once.

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


def _beside(pool: str, other: str) -> str:
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
    """Calls to be scheduled in bulk. Raises Misuse for anything else."""
    if isinstance(calls, FunctionCall) or not isinstance(calls, Iterable):
        raise Misuse(f"many calls are a list, [fn.args(1), fn.args(2)], not {calls!r}")
    found = list(calls)
    for call in found:
        if not isinstance(call, FunctionCall):
            raise Misuse(f"scheduling in bulk takes calls, [fn.args(1), fn.args(2)], not {call!r}")
    return found


def after(delay: float | timedelta, now: Instant) -> Instant:
    """The moment `delay` from now. Raises InvalidDelay for a delay that is negative or no duration."""
    return Instant(now + duration_ms(delay, name="delay"))


def moment(at: datetime | float, name: str = "run_at") -> Instant:
    """The moment an aware datetime, or seconds since the epoch, name. Raises InvalidDelay for anything else.

    `name` is the function or the parameter that the message talks about.
    """
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
    """Raise InvalidDelay if the moment is more than five years away, either way."""
    if requested_at - now > HORIZON_MS:
        raise InvalidDelay(f"{_shown(requested_at)} is more than 5 years in the future")
    if now - requested_at > HORIZON_MS:
        raise InvalidDelay(f"{_shown(requested_at)} is more than 5 years in the past")


def _shown(instant: Instant) -> str:
    try:
        return to_iso(instant)
    except OverflowError:
        return "a moment beyond the year 9999"

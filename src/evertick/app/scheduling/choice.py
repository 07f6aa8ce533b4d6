"""Which jobs are meant: the filters that lists and changes of many jobs share."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final, TypedDict, Unpack

from evertick.app.documents.tables import require_job_id, table_named_in
from evertick.app.functions.function import Function
from evertick.app.operations import Parameter
from evertick.app.scheduling.job_builder import moment
from evertick.base.errors import InvalidArguments, Misuse
from evertick.base.ids import JOB_PREFIX, JobId, ScheduleId, TenantId, check_pool
from evertick.base.instants import NEVER, Instant, to_iso
from evertick.base.job_options import check_key
from evertick.base.records.jobs import FunctionKind, Job, JobFilter, JobState
from evertick.base.suggested_commands import no_key
from evertick.engine.jobs.repair import job_found
from evertick.store.transaction.transaction import Transaction

STATES: Final = tuple(state.value for state in JobState)
NO_STATE: Final = "state= names no state; leave it out for jobs in every state"


def state_names(given: JobState | str | Iterable[JobState | str]) -> list[str]:
    """One state or several as a list. Raises Misuse for an empty list, because it would match every state."""
    names = [given] if isinstance(given, str) else [str(each) for each in given]
    if not names:
        raise Misuse(NO_STATE)
    return names


def rfc_3339(at: datetime | float) -> str:
    """A time as RFC 3339 text. Raises InvalidDelay."""
    return to_iso(moment(at))


def name_of(function: Any) -> str | None:
    """The name of a function, given as an object or by name; the name may be unknown. Raises Misuse for anything
    else.
    """
    if isinstance(function, Function):
        return function.name
    if function is None or isinstance(function, str):
        return function
    raise Misuse(f"{function!r} is not a function of the app, nor the name of one")


def _moment(description: str) -> Parameter:
    """A filter that takes a moment."""
    return Parameter("Time", description=description, encode=rfc_3339)


class JobsWhere(TypedDict, total=False):
    """The filters of lists of jobs; each given filter narrows the list. `app.jobs.list` documents them."""

    state: Annotated[
        JobState | str | Iterable[JobState | str],
        Parameter("States", description="One state or several.", encode=state_names),
    ]
    function: Annotated[Function[..., Any] | str | None, Parameter(str, description="Its name.", encode=name_of)]
    schedule: Annotated[str | None, Parameter(description="The id of the schedule or cron that has started them.")]
    parent: Annotated[JobId | str | None, Parameter(str, description="The id of the job that scheduled them.")]
    id_prefix: Annotated[str | None, Parameter(description="How their ids begin.", min_length=1, max_length=100)]
    key: Annotated[str | None, Parameter(description="The key they were scheduled with.")]
    due_from: Annotated[datetime | float | None, _moment("Due then or later.")]
    due_until: Annotated[datetime | float | None, _moment("Due before.")]
    occurrence_from: Annotated[datetime | float | None, _moment("Runs of schedules for this nominal time or later.")]
    occurrence_until: Annotated[datetime | float | None, _moment("Runs of schedules for nominal times before this.")]
    error: Annotated[str | None, Parameter(description="A part of the error's type and message.")]
    pool: Annotated[str | None, Parameter(description="The name of their pool.")]
    limit_key: Annotated[str | None, Parameter(description="The key by which their pool may limit them.")]
    blocked: Annotated[bool, Parameter(description="Due, and no live worker runs them.")]
    not_retried: Annotated[bool, Parameter(description="Failed jobs that were not run again; no calls of runs.")]
    without_runs: Annotated[bool, Parameter(description="Jobs that are not runs of workflows.")]


def jobs_where(
    tenant: TenantId,
    states: Iterable[JobState | str] = (),
    /,
    *,
    now: Instant | None = None,
    **where: Unpack[JobsWhere],
) -> JobFilter:
    """The filter for the store. `states` are the states if `state=` is not given. `now` is the time for `blocked=`.

    Raises Misuse, InvalidDelay.
    """
    if unknown := sorted(where.keys() - JobsWhere.__annotations__):
        raise Misuse(f"jobs are not chosen by {unknown[0]}=; there are {', '.join(JobsWhere.__annotations__)}")
    due_from, due_until = where.get("due_from"), where.get("due_until")
    given = where.get("state", states)
    chosen = tuple(sorted(map(_state, [given] if isinstance(given, str) else given or ())))
    if "state" in where and not chosen:
        raise Misuse(NO_STATE)
    if where.get("blocked"):
        if chosen and JobState.PENDING not in chosen:
            raise Misuse("only pending jobs can be blocked; leave out state=, or blocked=")
        chosen = (JobState.PENDING,)
    if where.get("not_retried"):
        if chosen and set(chosen) != {JobState.FAILED}:
            raise Misuse("not_retried= chooses failed jobs that were not run again; leave out other states, or it")
        chosen = (JobState.FAILED,)
    return JobFilter(
        tenant=tenant,
        states=chosen,
        name=name_of(where.get("function")),
        schedule_id=schedule_of(where.get("schedule")),
        parent_id=_parent_of(where.get("parent")),
        id_prefix=_text("id_prefix", where.get("id_prefix")),
        key=_text("key", where.get("key")),
        due_from=None if due_from is None else moment(due_from, "due_from"),
        due_until=None if due_until is None else moment(due_until, "due_until"),
        occurrence=occurrence_of(where.get("occurrence_from"), where.get("occurrence_until")),
        error=_text("error", where.get("error")),
        pool=_pool(where.get("pool")),
        limit_key=_text("limit_key", where.get("limit_key")),
        blocked_at=now if where.get("blocked") else None,
        not_retried=bool(where.get("not_retried")),
        without_runs=bool(where.get("without_runs")),
    )


def occurrence_of(start: datetime | float | None, end: datetime | float | None) -> range | None:
    """The span of nominal times from `start` (included) to `end` (not included); None if neither is given.

    Raises InvalidDelay.
    """
    if start is None and end is None:
        return None
    first = -NEVER if start is None else moment(start, "occurrence_from")
    return range(first, NEVER if end is None else moment(end, "occurrence_until"))


def _state(given: JobState | str) -> JobState:
    try:
        return JobState(given)
    except ValueError:
        raise Misuse(f"{given!r} is no state of a job; there are {', '.join(STATES)}") from None


def _text(name: str, given: Any) -> str | None:
    if given is None or (isinstance(given, str) and given):
        return given
    raise Misuse(f"{name}= takes a text, not {given!r}")


def _pool(given: Any) -> str | None:
    if given is not None:
        check_pool(given)
    return given  # type: ignore[no-any-return]


def schedule_of(given: Any) -> ScheduleId | None:
    """The id of a schedule, which may not exist any more. Raises Misuse for an invalid id."""
    if given is None or isinstance(given, str):
        return None if given is None else ScheduleId(given)
    raise Misuse(f"{given!r} is not the id of a schedule")


def _parent_of(given: Any) -> JobId | None:
    """The id of a job that may be gone. Raises InvalidArguments for that of something else."""
    return None if given is None else require_job_id(given)


# -- How a job is named: by its id, or by the key that it was scheduled with.

SIMILAR_KEYS_MAX: Final = 100
"""Keys with the same beginning that are read to find the one that was probably meant."""


def is_key(named: JobId | str) -> bool:
    """Whether this is the key of a job, not its id. Text that is not an id and does not begin like a job's id is a key.

    Raises InvalidArguments for what is neither, such as the id of a document.
    """
    table = table_named_in(named)
    if table is not None and table != JOB_PREFIX:
        raise InvalidArguments(
            f"{named!r} is not the id of a job: it is one of the table {table!r}; to name jobs by a key that holds it, "
            f"put a word before it, such as 'remind:{named}'"
        )
    if not isinstance(named, str) or not named or named.startswith(f"{JOB_PREFIX}_"):
        require_job_id(named)
        return False
    try:
        check_key(named, what="a key")
    except Misuse as error:
        raise InvalidArguments(str(error)) from None
    return True


def unfinished_named(transaction: Transaction, named: JobId | str, tenant: TenantId) -> JobId | None:
    """The job with this id, or the unfinished job with this key; None if no unfinished job has the key.

    Raises InvalidArguments.
    """
    return transaction.find_unfinished_key(named, tenant=tenant) if is_key(named) else JobId(named)


def job_named(transaction: Transaction, named: JobId | str, tenant: TenantId) -> Job:
    """The job with this id or key. A key means the unfinished job that has it, otherwise the newest job that had it.

    Raises JobNotFound, InvalidArguments.
    """
    found = unfinished_named(transaction, named, tenant)
    if found is None:
        ended = transaction.list_jobs(JobFilter(tenant=tenant, key=named), limit=1, newest_first=True)
        if not ended:
            raise no_key(named, tenant, keys_like(transaction, named, tenant))
        found = ended[0].id
    return job_found(transaction, found, tenant)


def keys_like(transaction: Transaction, key: str, tenant: TenantId, *, of_runs: bool = False) -> list[str]:
    """Existing keys that begin like an unknown one, to suggest in an error. With `of_runs` only keys of workflow runs.

    Keys with the longest common beginning are searched first, so the nearest keys are found among any number of keys.
    In a function the list is empty: reading keys could make its transaction conflict with the writes of others.
    """
    if transaction.own is not None or not key.isprintable() or key.startswith(f"{JOB_PREFIX}_"):
        return []
    beginnings = dict.fromkeys(key[: max(1, length)] for length in (len(key) * 3 // 4, len(key) // 2, 1))
    found = [
        each
        for beginning in beginnings
        for each in transaction.found_jobs(tenant, beginning, unfinished=(), scan_max=1, limit=SIMILAR_KEYS_MAX)
    ]
    return [each.key for each in found if each.key and (each.kind == FunctionKind.WORKFLOW or not of_runs)]

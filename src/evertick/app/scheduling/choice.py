"""Which jobs are meant: the filters that lists and changes of many jobs share."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from evertick.app.functions.function import Function
from evertick.app.scheduling.job_builder import moment
from evertick.base.errors import Misuse
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.records.jobs import JobFilter, JobState

STATES: Final = tuple(state.value for state in JobState)


class JobsWhere(TypedDict, total=False):
    """The filters; each that is given narrows the choice."""

    state: JobState | str | Iterable[JobState | str]
    function: Function[..., Any] | str | None
    schedule: str | None
    due_from: datetime | float | None
    due_until: datetime | float | None


def jobs_where(tenant: TenantId, states: Iterable[JobState | str] = (), /, **where: Unpack[JobsWhere]) -> JobFilter:
    """The filter for the store; `states` unless `state=` is given. Raises Misuse, InvalidDelay."""
    if unknown := sorted(where.keys() - JobsWhere.__annotations__):
        raise Misuse(f"jobs are not chosen by {unknown[0]}=; there are {', '.join(JobsWhere.__annotations__)}")
    due_from, due_until = where.get("due_from"), where.get("due_until")
    given = where.get("state", states)
    chosen = tuple(sorted(map(_state, [given] if isinstance(given, str) else given or ())))
    if "state" in where and not chosen:
        raise Misuse("state= names no state; leave it out for jobs in every state")
    return JobFilter(
        tenant=tenant,
        states=chosen,
        name=_name_of(where.get("function")),
        schedule_id=_schedule_of(where.get("schedule")),
        due_from=None if due_from is None else moment(due_from),
        due_until=None if due_until is None else moment(due_until),
    )


def _state(given: JobState | str) -> JobState:
    try:
        return JobState(given)
    except ValueError:
        raise Misuse(f"{given!r} is no state of a job; there are {', '.join(STATES)}") from None


def _schedule_of(given: Any) -> ScheduleId | None:
    """The id of a schedule that may be gone. Raises Misuse for what is none."""
    if given is None or isinstance(given, str):
        return None if given is None else ScheduleId(given)
    raise Misuse(f"{given!r} is not the id of a schedule")


def _name_of(function: Any) -> str | None:
    """The name of a function that may be gone. Raises Misuse for what has no name."""
    if isinstance(function, Function):
        return function.name
    if function is None or isinstance(function, str):
        return function
    raise Misuse(f"{function!r} is not a function of the app, nor the name of one")

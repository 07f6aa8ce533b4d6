"""Filters of lists of runs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from evertick.api.workflows import RunView
from evertick.app.scheduling.choice import name_of, occurrence_of, schedule_of
from evertick.app.scheduling.job_builder import moment
from evertick.app.transacting import Work
from evertick.base.errors import Misuse
from evertick.base.ids import JobId, TenantId
from evertick.base.records.jobs import FunctionKind, Job, JobFilter, JobState
from evertick.base.records.workflows import OPEN, RunFilter, RunState, Value, changed, checked, value_text
from evertick.store.transaction.transaction import Transaction

STATES: Final = tuple(state.value for state in RunState)


class RunsWhere(TypedDict, total=False):
    """The filters of lists of runs; each given filter narrows the list. `app.workflows.list` documents them."""

    state: str | Iterable[str]
    prefix: str | None
    schedule: str | None
    attributes: Mapping[str, Value] | None
    started_from: datetime | float | None
    started_until: datetime | float | None
    occurrence_from: datetime | float | None
    occurrence_until: datetime | float | None
    error: str | None
    roots: bool
    not_retried: bool


def runs_where(tenant: TenantId, workflow: Any = None, **where: Unpack[RunsWhere]) -> JobFilter:
    """The filter for the store. Raises Misuse, InvalidDelay."""
    if unknown := sorted(where.keys() - RunsWhere.__annotations__):
        raise Misuse(f"unknown filter {unknown[0]}= of runs; known are {', '.join(RunsWhere.__annotations__)}")
    given = where.get("state", ())
    states = {_state(each) for each in ([given] if isinstance(given, str) else given)}
    if "state" in where and not states:
        raise Misuse("state= is empty; omit it for runs in every state")
    started_from, started_until = where.get("started_from"), where.get("started_until")
    prefix = where.get("prefix")
    if prefix is not None and (not isinstance(prefix, str) or not prefix):
        raise Misuse(f"prefix= takes a text, not {prefix!r}")
    error = where.get("error")
    if error is not None and (not isinstance(error, str) or not error):
        raise Misuse(f"error= takes a text, not {error!r}")
    roots = where.get("roots", False)
    if type(roots) is not bool:
        raise Misuse(f"roots= must be True or False, not {roots!r}")
    if where.get("not_retried"):
        if states - {RunState.FAILED}:
            raise Misuse("not_retried= matches only failed runs; omit it or the other states")
        states = {RunState.FAILED}
    asked = tuple(state for state in OPEN if state in states)
    return JobFilter(
        tenant=tenant,
        states=tuple(sorted({JobState.PENDING if state in OPEN else JobState(state) for state in states})),
        name=name_of(workflow),
        error=error,
        schedule_id=schedule_of(where.get("schedule")),
        occurrence=occurrence_of(where.get("occurrence_from"), where.get("occurrence_until")),
        not_retried=bool(where.get("not_retried")),
        runs=RunFilter(
            open_states=() if asked == OPEN else asked,
            prefix=prefix,
            attributes=_attributes(where.get("attributes")),
            started_from=None if started_from is None else moment(started_from, "started_from"),
            started_until=None if started_until is None else moment(started_until, "started_until"),
            roots=roots,
        ),
    )


def _attributes(given: Mapping[str, Value] | None) -> tuple[tuple[str, str], ...]:
    attributes = checked({} if given is None else given)
    if removed := [name for name, value in attributes.items() if value is None]:
        raise Misuse(f"attributes= takes the value that {removed[0]!r} has, not None")
    # The first one is looked up in the index, the others are checked on its rows. true and false narrow least.
    narrowing = sorted(changed({}, attributes).items(), key=lambda pair: isinstance(pair[1], bool))
    return tuple((name, value_text(value)) for name, value in narrowing)


def _state(given: str) -> RunState:
    try:
        return RunState(given)
    except ValueError:
        raise Misuse(f"{given!r} is not a state of a run; use one of {', '.join(STATES)}") from None


# -- Views of runs of workflows, from their jobs.


def run_views(transaction: Transaction, jobs: Sequence[Job]) -> tuple[RunView, ...]:
    """The views of the jobs' runs, in their order."""
    records, paused = transaction.shown_runs([job.id for job in jobs])
    return tuple(RunView.of(job, records.get(job.id), is_paused=job.id in paused) for job in jobs)


def runs_by_id(tenant: TenantId, ids: Sequence[str]) -> Work[Mapping[str, RunView]]:
    """The tenant's runs with these ids, by id; unknown ids and other jobs are left out."""

    def work(transaction: Transaction) -> Mapping[str, RunView]:
        jobs = transaction.get_jobs([JobId(each) for each in ids], tenant=tenant)
        runs = [each for each in jobs if each.kind is FunctionKind.WORKFLOW]
        return {run.id: run for run in run_views(transaction, runs)}

    return work

"""Lists of jobs over SQL. A page reads a limited number of rows, whatever the number of other jobs.

A list reads one index for each requested state, in the order of its ids, and merges these pages; one statement reads
all of them. It uses the most selective index. The other filters are applied to the rows of a scan: at most SCAN_MAX in
each index. The end of each scan is found first, and the nearest of these ends is the *horizon* of the page: up to there
each index was read; the next page continues after it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from evertick.base.ids import DEFAULT_POOL, JOB_PREFIX, POOL_SEPARATOR, JobId, TenantId, first_id_from
from evertick.base.instants import Instant
from evertick.base.records.history import FailedJob, JobGroup, JobPosition
from evertick.base.records.jobs import FunctionKind, JobFilter, JobState, JobSummary
from evertick.base.records.workflows import RunFilter
from evertick.rules.jobs.coverage import served
from evertick.store.records.pages import JobsFound, WaitingFound
from evertick.store.transaction.jobs import FINISHED, summary_of
from evertick.store.transaction.statement_runner import Row
from evertick.store.transaction.statements import OF_EACH, of_each, together
from evertick.store.transaction.workers import Workers

SCAN_MAX: Final = 2_000
"""Rows of an index that one page scans to apply filters that the index does not serve."""
DUE_SCAN_MAX: Final = 1_000
"""Due jobs that are not made ready yet, and suspects, of all tenants, that are scanned for their queues."""
_HIGHEST_ID: Final = "\x7f"
_FIRST: Final = Instant(-(2**62))
_LAST: Final = Instant(2**62)


class _Source(NamedTuple):
    """One index that a list reads: the ends of its statements' names, and its own parameters."""

    name: str
    params: Mapping[str, Any]
    scan_max: int
    """How many of its rows are scanned; 0 for an index that is short."""


class Lists(Workers):
    """The lists of the contract `History`."""

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> list[JobSummary]:
        """Jobs in the order of their creation, after the id `after`. Reads no arguments, results and errors.

        Reads on until it has found `limit` of them, or none are left.
        """
        jobs: list[JobSummary] = []
        while len(jobs) < limit:
            found = self.find_jobs(where, limit=limit - len(jobs), after=after, newest_first=newest_first)
            jobs += found.jobs
            after = found.after
            if after is None:
                break
        return jobs

    def find_jobs(
        self,
        where: JobFilter,
        *,
        limit: int,
        after: str | None = None,
        newest_first: bool = False,
        unfinished: Sequence[str] | None = None,
    ) -> JobsFound:
        """A page of jobs as in `list_jobs`, but it scans two thousand rows of each index at most, and returns where to
        continue.

        `unfinished`: the tenant's functions that have unfinished jobs, if they are known already.
        """
        order = "desc" if newest_first else "asc"
        low, high = _bounds(where)
        beyond = min(after or high, high) if newest_first else max(after or low, low)
        params = _params(where) | {"beyond": beyond, "limit": limit + 1}
        sources = list(self._sources(where, unfinished))
        horizon = None
        if _is_narrowed(where):
            by_attribute = where.runs is not None and where.runs.attributes
            scans = sources[:1] if by_attribute else [source for source in sources if source.scan_max]
            ends = [
                end
                for (end,) in self._fetch_of(order, [(_edge_of(source), source) for source in scans], params)
                if end is not None
            ]
            horizon = (max if newest_first else min)(ends, default=None)
            if horizon is not None and not low < horizon < high:
                horizon = None  # the scan reaches the end of the page
        params["horizon"] = horizon or (low if newest_first else high)
        found = self._fetch_of(order, [(f"list_{source.name}", source) for source in sources], params)
        rows = sorted(found, key=_id_of, reverse=newest_first)
        jobs = [summary_of(row) for row in rows[:limit]]
        return JobsFound(jobs, jobs[-1].id if len(rows) > limit else horizon)

    def find_waiting(self, where: JobFilter, *, limit: int, after: JobPosition | None = None) -> WaitingFound:
        """Jobs that wait for their time, the soonest first; it scans two thousand of all tenants at most.

        Without jobs that are ready, held or of a paused run, and without suspects; `states`, `blocked_at` and `runs`
        are ignored.
        """
        low, high = _bounds(where)
        start = JobPosition(where.due_from or _FIRST, JobId(""))
        end = JobPosition(_LAST if where.due_until is None else where.due_until, JobId(""))
        params = _params(where) | {"low": low, "high": high, "limit": limit + 1, "skip": SCAN_MAX - 1}
        params |= _at("beyond", start if after is None else max(start, after)) | _at("horizon", end)
        edges = self._fetch("edge_waiting", params)
        horizon = JobPosition(*edges[0]) if edges else None
        rows = self._fetch("list_waiting", params | _at("horizon", horizon or end))
        jobs = [summary_of(row) for row in rows[:limit]]
        return WaitingFound(jobs, JobPosition(jobs[-1].due_at, jobs[-1].id) if len(rows) > limit else horizon)

    def errors_of(self, ids: Sequence[JobId], *, tenant: TenantId) -> dict[JobId, str]:
        """The beginnings of finished jobs' errors, by their ids: type and message, as JSON has them in a text."""
        return dict(self._fetch("errors_of", {"ids": json.dumps(list(ids)), "tenant": tenant}))

    def job_groups(self, tenants: Sequence[TenantId], *, now: Instant, limit: int) -> list[JobGroup]:
        """The unfinished jobs of tenants, in groups; only the first `limit` jobs are read."""
        params = {"tenants": json.dumps(list(tenants)), "now": now, "limit": limit}
        return [JobGroup(r[0], r[1], r[2] or DEFAULT_POOL, *r[3:]) for r in self._fetch("job_groups", params)]

    def failed_since(self, tenants: Sequence[TenantId], *, since: Instant, limit: int) -> list[FailedJob]:
        """Jobs of tenants that failed at `since` or later, at most `limit`, unordered."""
        params = {"tenants": json.dumps(list(tenants)), "since": since, "limit": limit}
        return [FailedJob(*(*place, again is not None)) for *place, again in self._fetch("failed_since", params)]

    def _fetch_of(self, order: str, named: Sequence[tuple[str, _Source]], params: Mapping[str, Any]) -> list[Row]:
        """The rows of statements, each of a source, unordered: in one round trip."""
        if not named:
            return []
        every = dict(params)
        for number, (_, source) in enumerate(named):
            own = {**source.params, "skip": source.scan_max - 1}
            if len(named) > 1:
                own = {of_each(name, number) if name in OF_EACH else name: value for name, value in own.items()}
            every |= own
        return self._fetch(together([f"{name} {order}" for name, _ in named]), every)

    def _sources(self, where: JobFilter, unfinished: Sequence[str] | None) -> Iterator[_Source]:
        states = where.states or tuple(JobState)
        if where.runs is not None and where.runs.attributes:
            yield from _by_attribute(states)
            return
        by = "" if where.blocked_at is not None else _index_for(where)
        with_running = JobState.IN_PROGRESS in states
        if JobState.PENDING in states and by:
            yield _Source(f"unfinished{by}", {"with_running": int(with_running)}, SCAN_MAX)
        elif JobState.PENDING in states:
            names, queues = self._names(where, unfinished)
            params = {"with_running": int(with_running), "names": json.dumps(list(names)), "queues": queues}
            yield _Source("unfinished_of_all", params, -(-SCAN_MAX // max(1, len(names))))
        elif with_running:
            yield _Source("running", {}, 0)
        if where.not_retried:
            yield _Source("finished unretried", {"state": JobState.FAILED.value}, SCAN_MAX)
        elif where.blocked_at is None:
            by = by or ("" if where.runs is None else " of runs")
            yield from (
                _Source(f"finished{by}", {"state": state.value}, SCAN_MAX) for state in FINISHED if state in states
            )

    def _names(self, where: JobFilter, unfinished: Sequence[str] | None) -> tuple[Sequence[str], str | None]:
        """The functions whose unfinished jobs are listed; and for blocked ones, queues as the statement reads them."""
        if where.blocked_at is None and where.runs is None and unfinished is not None:
            return unfinished, None
        if where.blocked_at is None:
            which = "unfinished_names" if where.runs is None else "unfinished_workflows"
            names = [row[0] for row in self._fetch(which, {"tenant": where.tenant})]
            return self._without_workflows(where, names), None
        serves = served(self.workers_alive(where.blocked_at))
        params = {"tenant": where.tenant, "now": where.blocked_at, "scan_max": DUE_SCAN_MAX}
        rows = self._fetch("due_queues", params) if serves else []
        found = [
            (name, queue)
            for name, pool, queue in set(rows)
            if where.name in (None, name) and not any(each.runs(name, pool or DEFAULT_POOL) for each in serves)
        ]
        return sorted({name for name, _ in found}), "".join(f" {queue} " for _, queue in found)

    def _without_workflows(self, where: JobFilter, names: Sequence[str]) -> Sequence[str]:
        """The names without those of workflows if no runs are wanted: thousands of these may wait."""
        if not where.without_runs:
            return names
        workflows = {row[0] for row in self._fetch("unfinished_workflows", {"tenant": where.tenant})}
        return [name for name in names if name not in workflows]


def _edge_of(source: _Source) -> str:
    """The statement that finds the end of a scan, if there are more rows. That of attributes ignores states."""
    return "edge_by_attribute" if source.name.endswith("by_attribute") else f"edge_{source.name}"


def _by_attribute(states: Sequence[JobState]) -> Iterator[_Source]:
    """The sources of jobs with an attribute, which are scanned once for all states."""
    if JobState.PENDING in states or JobState.IN_PROGRESS in states:
        running = int(JobState.IN_PROGRESS in states)
        yield _Source("unfinished_by_attribute", {"with_running": running}, SCAN_MAX)
    for state in FINISHED:
        if state in states:
            yield _Source("finished_by_attribute", {"state": state.value}, SCAN_MAX)


def _params(where: JobFilter) -> dict[str, Any]:
    ends = [end for end in (where.due_until, where.blocked_at and where.blocked_at + 1) if end is not None]
    runs = where.runs or RunFilter()
    (first_name, first_value), *others = runs.attributes or ((None, None),)
    return {
        "kind": None if where.runs is None else FunctionKind.WORKFLOW.value,
        "prefix": None if _is_of_ids(runs.prefix) else runs.prefix,
        "roots": int(runs.roots or where.not_retried),
        "attribute": first_name,
        "attribute_value": first_value,
        "others": json.dumps([f"{name}={value}" for name, value in others]),
        "open_states": " ".join(runs.open_states) or None,
        "tenant": where.tenant,
        "unretried": int(where.not_retried),
        "without_runs": int(where.without_runs),
        "name": where.name,
        "schedule_id": where.schedule_id,
        "parent_id": where.parent_id,
        "key": where.key,
        "in_pool": None if where.pool is None else f"{POOL_SEPARATOR}{where.pool}",
        "limit_key": where.limit_key,
        "due_from": where.due_from,
        "due_until": min(ends, default=None),
        "occurrence_from": None if where.occurrence is None else where.occurrence.start,
        "occurrence_until": None if where.occurrence is None else where.occurrence.stop,
        # As in the JSON text of an error, in lower case: both databases change only the letters of ASCII.
        "error": None if where.error is None else json.dumps(where.error)[1:-1].lower(),
    }


def _is_narrowed(where: JobFilter) -> bool:
    """Whether filters are applied to the rows of an index."""
    indexed = (where.name, where.schedule_id, where.parent_id, where.key)
    runs = where.runs or RunFilter()
    prefix = None if _is_of_ids(runs.prefix) else runs.prefix
    asked = (
        where.pool,
        where.limit_key,
        where.due_from,
        where.due_until,
        where.occurrence,
        where.error,
        where.blocked_at,
        # The unfinished jobs of all functions are listed by name, and those of workflows are omitted there.
        (where.without_runs and (_index_for(where) or set(where.states) != {JobState.PENDING})) or None,
        prefix,
        runs.open_states or None,
        runs.attributes or None,
        (runs.roots and _index_for(where) != " of roots") or None,
    )
    if where.not_retried:  # its index does not have the caller of a job
        return True
    return sum(each is not None for each in indexed) > 1 or any(each is not None for each in asked)


def _bounds(where: JobFilter) -> tuple[str, str]:
    """The lower and upper bound of a list's ids: ids begin with the time at which they were made."""
    low, high = _ends_of(where.id_prefix)
    runs = where.runs
    if runs is None:
        return low, high
    if runs.started_from is not None:
        low = first_id_from(JOB_PREFIX, runs.started_from)
    if runs.started_until is not None:
        high = first_id_from(JOB_PREFIX, runs.started_until)
    if _is_of_ids(runs.prefix):
        just_below, just_above = _ends_of(runs.prefix)
        low, high = max(low, just_below), min(high, just_above)
    return low, high


def _ends_of(prefix: str | None) -> tuple[str, str]:
    """The lower and upper bound of all ids that begin with a prefix."""
    if not prefix:
        return "", _HIGHEST_ID
    if not (prefix.isascii() and prefix.isprintable()):  # no id begins so, and there is no character before NUL
        return _HIGHEST_ID, ""
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + _HIGHEST_ID, prefix + _HIGHEST_ID


def _is_of_ids(prefix: str | None) -> bool:
    """Whether a prefix begins ids of jobs, and no keys."""
    return prefix is not None and prefix.startswith(f"{JOB_PREFIX}_")


def _index_for(where: JobFilter) -> str:
    """The most selective index of a list."""
    if where.key is not None:
        return " by key"
    if where.parent_id is not None:
        return " by parent"
    if where.schedule_id is not None:
        return " by schedule"
    if where.name is not None:
        return " by name"
    return " of roots" if where.runs is not None and where.runs.roots else ""


def _at(name: str, place: JobPosition) -> dict[str, object]:
    return {f"{name}_at": place.due_at, f"{name}_id": place.job_id}


def _id_of(row: Row) -> str:
    return str(row[0])

"""Lists of jobs over SQL. A page costs no more than a bounded look, however many jobs lie beside those that are wanted.

A list reads one index for each state that is asked for, in the order of its ids, and puts these pages together. The
index that narrows most is taken. What it does not narrow is asked of the rows that a look through it meets: of at most
LOOK_MAX in each index. How far the looks get is found first, and the nearest of these ends is the *horizon* of the
page: up to there each index was read, beyond it the next page goes on.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, NamedTuple

from evertick.base.ids import DEFAULT_POOL, TenantId
from evertick.base.instants import Instant
from evertick.base.records.history import FailedJob, JobGroup
from evertick.base.records.jobs import JobFilter, JobState, JobSummary
from evertick.store.contract.history import JobsFound
from evertick.store.transaction.driver import Row
from evertick.store.transaction.jobs import FINISHED, summary_of
from evertick.store.transaction.workers import SqlWorkers

LOOK_MAX: Final = 2_000
"""Rows of an index that one page looks through for what the index does not narrow."""
_HIGHEST_ID: Final = "\x7f"


class _Source(NamedTuple):
    """One index that a list reads: the ends of its statements' names, and parameters of its own."""

    name: str
    params: Mapping[str, Any]
    look: int
    """How many of its rows are looked through; 0 for an index that is short."""


class SqlLists(SqlWorkers):
    """The lists of the contract `History`."""

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> list[JobSummary]:
        jobs: list[JobSummary] = []
        while len(jobs) < limit:
            found = self.look_for_jobs(where, limit=limit - len(jobs), after=after, newest_first=newest_first)
            jobs += found.jobs
            after = found.after
            if after is None:
                break
        return jobs

    def look_for_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> JobsFound:
        order = "desc" if newest_first else "asc"
        first, last = (_HIGHEST_ID, "") if newest_first else ("", _HIGHEST_ID)
        params = _params(where) | {"beyond": after or first, "limit": limit + 1}
        sources = list(self._sources(where))
        horizon = None
        if _is_narrowed(where):
            ends = [end for source in sources if source.look for end in self._edge(source, order, params)]
            horizon = (max if newest_first else min)(ends, default=None)
        params["horizon"] = horizon or last
        pages = [self._fetch(f"list_{source.name} {order}", {**params, **source.params}) for source in sources]
        rows = list(islice(merge(*pages, key=_id_of, reverse=newest_first), limit + 1))
        jobs = [summary_of(row) for row in rows[:limit]]
        return JobsFound(jobs, jobs[-1].id if len(rows) > limit else horizon)

    def job_groups(self, tenants: Sequence[TenantId], *, now: Instant, limit: int) -> list[JobGroup]:
        params = {"tenants": json.dumps(list(tenants)), "now": now, "limit": limit}
        return [JobGroup(r[0], r[1], r[2] or DEFAULT_POOL, *r[3:]) for r in self._fetch("job_groups", params)]

    def failed_since(self, tenants: Sequence[TenantId], *, since: Instant, limit: int) -> list[FailedJob]:
        params = {"tenants": json.dumps(list(tenants)), "since": since, "limit": limit}
        return [FailedJob(*row) for row in self._fetch("failed_since", params)]

    def _edge(self, source: _Source, order: str, params: Mapping[str, Any]) -> Iterator[str]:
        """Where a look through an index ends, if there are more rows."""
        rows = self._fetch(f"edge_{source.name} {order}", {**params, **source.params, "skip": source.look - 1})
        return (row[0] for row in rows if row[0] is not None)

    def _sources(self, where: JobFilter) -> Iterator[_Source]:
        states = where.states or tuple(JobState)
        by = "" if where.blocked_at is not None else _index_for(where)
        with_running = JobState.IN_PROGRESS in states
        if JobState.PENDING in states and by:
            yield _Source(f"unfinished{by}", {"with_running": int(with_running)}, LOOK_MAX)
        elif JobState.PENDING in states:
            names, queues = self._names(where)
            params = {"with_running": int(with_running), "names": json.dumps(names), "queues": queues}
            yield _Source("unfinished_of_all", params, -(-LOOK_MAX // max(1, len(names))))
        elif with_running:
            yield _Source("running", {}, 0)
        if where.blocked_at is None:
            yield from (
                _Source(f"finished{by}", {"state": state.value}, LOOK_MAX) for state in FINISHED if state in states
            )

    def _names(self, where: JobFilter) -> tuple[list[str], str | None]:
        """The functions whose unfinished jobs are listed; and queues, for blocked ones, as the statement reads them."""
        if where.blocked_at is None:
            return [row[0] for row in self._fetch("unfinished_names", {"tenant": where.tenant})], None
        serves = [each.serves.value for each in self.workers_alive(where.blocked_at) if each.serves is not None]
        rows = self._fetch("due_queues", {"tenant": where.tenant, "now": where.blocked_at}) if serves else []
        found = [
            (name, queue)
            for name, pool, queue in set(rows)
            if where.name in (None, name) and not any(each.runs(name, pool or DEFAULT_POOL) for each in serves)
        ]
        return sorted({name for name, _ in found}), "".join(f" {queue} " for _, queue in found)


def _params(where: JobFilter) -> dict[str, Any]:
    ends = [end for end in (where.due_until, where.blocked_at and where.blocked_at + 1) if end is not None]
    return {
        "tenant": where.tenant,
        "name": where.name,
        "schedule_id": where.schedule_id,
        "parent_id": where.parent_id,
        "key": where.key,
        "due_from": where.due_from,
        "due_until": min(ends, default=None),
        # As it stands in the JSON text of an error, in lower case: both databases change the letters of ASCII alone.
        "error": None if where.error is None else json.dumps(where.error)[1:-1].lower(),
    }


def _is_narrowed(where: JobFilter) -> bool:
    """Whether a filter is asked of the rows that an index leads to."""
    indexed = (where.name, where.schedule_id, where.parent_id, where.key)
    asked = (where.due_from, where.due_until, where.error, where.blocked_at)
    return sum(each is not None for each in indexed) > 1 or any(each is not None for each in asked)


def _index_for(where: JobFilter) -> str:
    """The index that narrows a list most."""
    if where.key is not None:
        return " by key"
    if where.parent_id is not None:
        return " by parent"
    if where.schedule_id is not None:
        return " by schedule"
    return "" if where.name is None else " by name"


def _id_of(row: Row) -> str:
    return str(row[0])

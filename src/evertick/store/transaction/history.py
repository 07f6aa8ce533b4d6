"""The history of jobs over SQL: lists, kept counts, attempts and logs; and what is old is removed."""

import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from heapq import merge
from typing import Final

from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.history import JobAttempt, JobCounts, JobLine
from evertick.base.records.jobs import JOB_ERROR, JobFilter, JobState, JobSummary
from evertick.base.records.logs import LogLine
from evertick.store.transaction.driver import Driver, Row
from evertick.store.transaction.jobs import FINISHED, summary_of

_HIGHEST_ID: Final = "\x7f"

LOG_COLUMNS: Final = ("job_id", "attempt", "number", "at", "level", "text", "is_cut")
LINES_PRUNED_MAX: Final = 5_000
"""Lines of logs removed in one transaction."""


class SqlHistory(Driver):
    """The contract `History`."""

    @abstractmethod
    def _delete_history(self, ids: str) -> None:
        """Remove finished jobs, a JSON list of ids, but for their logs."""

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> list[JobSummary]:
        """One page of each state that is asked for, put together: each is read in the order of an index."""
        params = {
            "tenant": where.tenant,
            "name": where.name,
            "schedule_id": where.schedule_id,
            "parent_id": where.parent_id,
            "due_from": where.due_from,
            "due_until": where.due_until,
            "beyond": after or (_HIGHEST_ID if newest_first else ""),
            "limit": limit,
        }
        by, order = _index_for(where), " desc" if newest_first else " asc"
        states = where.states or tuple(JobState)
        with_running = JobState.IN_PROGRESS in states
        pages = []
        if JobState.PENDING in states:
            name = f"list_unfinished{by}{order}" if by else f"list_unfinished_of_all{order}"
            pages.append(self._fetch(name, params | {"with_running": int(with_running)}))
        elif with_running:
            pages.append(self._fetch(f"list_running{order}", params))
        pages += [
            self._fetch(f"list_finished{by}{order}", params | {"state": state.value})
            for state in FINISHED
            if state in states
        ]
        rows = merge(*pages, key=_id_of, reverse=newest_first)
        return [summary_of(row) for row, _ in zip(rows, range(limit), strict=False)]

    def count_jobs(self, tenant: TenantId) -> dict[str, JobCounts]:
        running = {row[0]: row[1] for row in self._fetch("count_running", {"tenant": tenant})}
        counts = {}
        for name, unfinished, *ended in self._fetch("count_jobs", {"tenant": tenant}):
            if unfinished or any(ended):
                runs = running.get(name, 0)
                counts[name] = JobCounts(unfinished - runs, runs, *ended)
        return dict(sorted(counts.items()))

    def sum_counts(self, *, limit: int) -> int:
        return 0

    def list_attempts(self, job_id: JobId) -> list[JobAttempt]:
        rows = sorted(self._fetch("list_attempts", {"id": job_id}))
        return [JobAttempt(r[0], r[1], r[2], r[3], r[4], JOB_ERROR.optional(r[5])) for r in rows]

    def list_logs(self, job_id: JobId) -> list[JobLine]:
        rows = self._fetch("list_logs", {"id": job_id})
        return [JobLine(r[0], LogLine(r[1], r[2], r[3], r[4], bool(r[5]))) for r in rows]

    def add_logs(self, lines: Iterable[tuple[JobId, int, Sequence[LogLine]]]) -> None:
        rows = [(job_id, attempt, *line[:4], int(line.is_cut)) for job_id, attempt, log in lines for line in log]
        if rows:
            self._run_many("add_logs", LOG_COLUMNS, rows)

    def prune_jobs(self, *, before: Instant, limit: int) -> int:
        expired = [row[0] for row in self._fetch("expired_jobs", {"before": before, "limit": limit})]
        if not expired:
            return 0
        ids = json.dumps(expired)
        lines = self._run("delete_logs", {"ids": ids, "limit": LINES_PRUNED_MAX})
        if lines == LINES_PRUNED_MAX:
            return max(lines, limit)  # a function may log much: its lines go first, and its row when they have gone
        self._delete_history(ids)
        self._run("drop_empty_counts", {})
        return len(expired)


def _index_for(where: JobFilter) -> str:
    """The index that narrows a list most."""
    if where.parent_id is not None:
        return " by parent"
    if where.schedule_id is not None:
        return " by schedule"
    return "" if where.name is None else " by name"


def _id_of(row: Row) -> str:
    return str(row[0])

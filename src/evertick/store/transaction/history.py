"""The history of jobs over SQL: kept counts, attempts and logs; and what is old is removed."""

import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Final

from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.history import JobAttempt, JobCounts, JobLine
from evertick.base.records.jobs import JOB_ERROR
from evertick.base.records.logs import LogLine
from evertick.store.transaction.lists import SqlLists

LOG_COLUMNS: Final = ("job_id", "attempt", "number", "at", "level", "text", "is_cut")
LINES_PRUNED_MAX: Final = 5_000
"""Lines of logs removed in one transaction."""


class SqlHistory(SqlLists):
    """The contract `History`."""

    @abstractmethod
    def _delete_history(self, ids: str) -> None:
        """Remove finished jobs, a JSON list of ids, but for their logs."""

    def count_jobs(self, tenant: TenantId, *, name: str | None = None) -> dict[str, JobCounts]:
        which = {"tenant": tenant, "name": name}
        running = {row[0]: row[1] for row in self._fetch("count_running", which)}
        counts = {}
        for function, unfinished, *ended in self._fetch("count_jobs", which):
            if unfinished or any(ended):
                runs = running.get(function, 0)
                counts[function] = JobCounts(unfinished - runs, runs, *ended)
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
        for statement in ("delete_messages", "delete_attributes", "delete_journals", "delete_run_records"):
            self._run(statement, {"runs": ids})
        self._delete_history(ids)
        self._run("drop_empty_counts", {})
        return len(expired)

"""The history of jobs over SQL: kept counts, attempts and logs, and their removal."""

import json
from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.history import (
    AttemptLines,
    ChangeMarks,
    JobAttempt,
    JobCounts,
    JobLine,
    LineFilter,
    LinePosition,
    LogLine,
    StoredLine,
)
from evertick.base.records.jobs import JOB_ERROR
from evertick.store.records.pages import LinesFound
from evertick.store.transaction.lists import Lists

LOG_COLUMNS: Final = ("job_id", "attempt", "number", "at", "level", "text", "is_cut", "tenant", "name", "stored_at")
SCAN_MAX: Final = 10_000
"""Lines that one page reads, at most, to apply filters that no index serves."""
FIRST: Final = Instant(-(2**62))
LAST: Final = Instant(2**62)
LINES_PRUNED_MAX: Final = 5_000
"""Lines of logs removed in one transaction."""


class History(Lists):
    """Lists of jobs, their attempts and logs, and removing what is old."""

    @abstractmethod
    def _delete_history(self, ids: str) -> None:
        """Remove finished jobs, a JSON list of ids, except their logs."""

    def count_jobs(self, tenant: TenantId, *, name: str | None = None) -> dict[str, JobCounts]:
        """The counts of jobs of each function of a tenant, by name, or of one function. The counts are kept."""
        counts = {}
        for function, unfinished, running, *ended, retried in self._fetch(
            "count_jobs", {"tenant": tenant, "name": name}
        ):
            if unfinished or any(ended):
                counts[function] = JobCounts(unfinished - running, running, *(*ended, ended[1] - retried))
        return dict(sorted(counts.items()))

    def pulse(self, tenant: TenantId) -> ChangeMarks:
        """Marks that change when a tenant's jobs, schedules or logs have changed, except for details such as the time
        at which a job is due.
        """
        [(*schedules, logs)] = self._fetch("pulse", {"tenant": tenant})
        return ChangeMarks(str(self.count_jobs(tenant)), str(schedules), str(logs))

    def sum_counts(self, *, limit: int) -> int:
        """Add at most `limit` changes to the kept counts. Return how many; 0 where counts are changed in place."""
        return 0

    def list_attempts(self, ids: Sequence[JobId]) -> dict[JobId, list[JobAttempt]]:
        """The attempts of jobs, the first one first; jobs without any are omitted."""
        rows = sorted(self._fetch("list_attempts", {"jobs": json.dumps(list(ids))})) if ids else []
        found: dict[JobId, list[JobAttempt]] = {}
        for job_id, *r in rows:
            found.setdefault(job_id, []).append(JobAttempt(r[0], r[1], r[2], r[3], r[4], JOB_ERROR.optional(r[5])))
        return found

    def list_logs(self, job_id: JobId) -> list[JobLine]:
        """The log lines of a job's attempts, in order. Lines of a running action follow soon."""
        rows = self._fetch("list_logs", {"id": job_id})
        return [JobLine(r[0], LogLine(r[1], r[2], r[3], r[4], bool(r[5]))) for r in rows]

    def job_family(self, job_id: JobId, *, tenant: TenantId, limit: int) -> list[JobId]:
        """A job and, by id, the jobs that follow from it: those it scheduled, those they scheduled, and so on."""
        rows = self._fetch("job_family", {"id": job_id, "tenant": tenant, "limit": limit})
        return [job_id, *sorted(row[0] for row in rows if row[0] != job_id)]

    def beginnings(
        self, ids: Collection[JobId], *, tenant: TenantId, limit: int
    ) -> dict[JobId, tuple[JobId, str | None]]:
        """The job that began the request of each of these jobs, at most `limit` steps up, and its key.

        A removed job has no key, and its predecessor is not known any more.
        """
        rows = self._fetch("beginnings", {"ids": json.dumps(sorted(ids)), "tenant": tenant, "limit": limit})
        farthest = sorted(rows, key=lambda row: int(row[1]))
        return {row[0]: (row[2], row[3]) for row in farthest}

    def find_lines(
        self, where: LineFilter, *, limit: int, after: LinePosition | None = None, newest_first: bool = False
    ) -> LinesFound:
        """Lines of a tenant's jobs in the order in which they were stored, after the position `after`.

        Without `where.jobs` it reads ten thousand lines at most, and returns where to continue.
        """
        low, high = _before(where.since or FIRST), _before(where.until or LAST)
        start, end, nearer = (high, low, min) if newest_first else (low, high, max)
        params = {
            "tenant": where.tenant,
            "name": where.name,
            "levels": None if where.levels is None else json.dumps(where.levels),
            # Both databases change the letters of ASCII alone, and so does this.
            "text": None if where.text is None else where.text.encode().lower().decode(),
            "limit": limit + 1,
            **_named("beyond", start if after is None else nearer(start, after)),
            **_named("horizon", end),
        }
        order, horizon = "desc" if newest_first else "asc", None
        if where.jobs is not None:
            rows = self._fetch(f"list_lines_of_jobs {order}", {**params, "jobs": json.dumps(where.jobs)})
        else:
            if where.name is not None or where.levels is not None or where.text is not None:
                edges = self._fetch(f"edge_lines {order}", {**params, "skip": SCAN_MAX - 1})
                horizon = LinePosition(*edges[0]) if edges else None
            rows = self._fetch(f"list_lines {order}", {**params, **_named("horizon", horizon or end)})
        lines = [
            StoredLine(LinePosition(*r[:4]), r[4], LogLine(r[3], r[5], r[6], r[7], bool(r[8]))) for r in rows[:limit]
        ]
        return LinesFound(lines, lines[-1].place if len(rows) > limit else horizon)

    def add_logs(self, lines: Iterable[AttemptLines], *, now: Instant) -> None:
        """Store lines of attempts, as stored at `now`. A stored line stays as it is."""
        rows = [
            (log.job_id, log.attempt, *line[:4], int(line.is_cut), log.tenant, log.name, now)
            for log in lines
            for line in log.lines
        ]
        if rows:
            self._run_many("add_logs", LOG_COLUMNS, rows)

    def prune_jobs(self, *, before: Instant, limit: int) -> int:
        """Remove jobs that ended before `before`, with all that belongs to them. Return how many rows were removed: at
        least `limit` if there may be more.
        """
        expired = [row[0] for row in self._fetch("expired_jobs", {"before": before, "limit": limit})]
        if not expired:
            return 0
        ids = json.dumps(expired)
        lines = self._run("delete_logs", {"ids": ids, "limit": LINES_PRUNED_MAX})
        if lines == LINES_PRUNED_MAX:
            return max(lines, limit)  # a function may log much: the job's row is removed after all its lines
        for statement in ("delete_messages", "delete_attributes", "delete_journals", "delete_run_records"):
            self._run(statement, {"runs": ids})
        self._delete_history(ids)
        self._run("drop_empty_counts", {})
        return len(expired)


def _before(at: Instant) -> LinePosition:
    """The position before all lines that were stored at a time."""
    return LinePosition(at, JobId(""), 0, 0)


def _named(name: str, place: LinePosition) -> dict[str, object]:
    return {f"{name}_at": place.stored_at, f"{name}_job": place.job_id, f"{name}_attempt": place.attempt,
            f"{name}_number": place.number}  # fmt: skip

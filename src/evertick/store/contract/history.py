"""The contract for looking at jobs: lists, counts, attempts and logs; and for removing what is old."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.history import JobAttempt, JobCounts, JobLine
from evertick.base.records.jobs import JobFilter, JobSummary
from evertick.base.records.logs import LogLine


class History(Protocol):
    """What a transaction can do with the history of jobs."""

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> list[JobSummary]:
        """Jobs in the order of their creation, beyond the id `after`. Reads no arguments, results and errors."""
        ...

    def count_jobs(self, tenant: TenantId) -> dict[str, JobCounts]:
        """How many jobs each function of a tenant has, by name. The counts are kept: nothing is counted."""
        ...

    def sum_counts(self, *, limit: int) -> int:
        """Add at most `limit` changes to the kept counts; returns how many. 0 where counts are changed in place."""
        ...

    def list_attempts(self, job_id: JobId) -> list[JobAttempt]:
        """The attempts of a job, the first one first."""
        ...

    def list_logs(self, job_id: JobId) -> list[JobLine]:
        """What the attempts of a job have logged, in order. The lines of a running action are there soon."""
        ...

    def add_logs(self, lines: Iterable[tuple[JobId, int, Sequence[LogLine]]]) -> None:
        """Keep lines of attempts: of a job, under an attempt. What is kept already stays as it is."""
        ...

    def prune_jobs(self, *, before: Instant, limit: int) -> int:
        """Remove jobs that ended before `before`, with all that belongs to them. Returns how many rows were removed:
        at least `limit` if there may be more.
        """
        ...

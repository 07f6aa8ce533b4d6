"""The contract for looking at jobs: lists, counts, attempts and logs; and for removing what is old."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.history import (
    AttemptLines,
    FailedJob,
    JobAttempt,
    JobCounts,
    JobGroup,
    JobLine,
    JobPlace,
    LineFilter,
    LinePlace,
    Pulse,
    StoredLine,
)
from evertick.base.records.jobs import JobFilter, JobSummary


class JobsFound(NamedTuple):
    """A page of jobs. `after` is where the next one begins, None if nothing is left.

    A page of a list with filters that no index serves may have few jobs, or none, and go on all the same.
    """

    jobs: list[JobSummary]
    after: str | None


class WaitingFound(NamedTuple):
    """A page of jobs that wait for their time. `after` is where the next one begins; as `JobsFound`."""

    jobs: list[JobSummary]
    after: JobPlace | None


class LinesFound(NamedTuple):
    """A page of lines. `after` is where the next one begins, None if nothing is left; as `JobsFound`."""

    lines: list[StoredLine]
    after: LinePlace | None


class History(Protocol):
    """What a transaction can do with the history of jobs."""

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: str | None = None, newest_first: bool = False
    ) -> list[JobSummary]:
        """Jobs in the order of their creation, beyond the id `after`. Reads no arguments, results and errors.

        Looks until it has found `limit` of them, or none are left.
        """
        ...

    def look_for_jobs(
        self,
        where: JobFilter,
        *,
        limit: int,
        after: str | None = None,
        newest_first: bool = False,
        unfinished: Sequence[str] | None = None,
    ) -> JobsFound:
        """As `list_jobs`, but it looks through two thousand rows of each index at most, and says where to go on.

        `unfinished`: the tenant's functions that have unfinished jobs, where they are known already.
        """
        ...

    def errors_of(self, ids: Sequence[JobId], *, tenant: TenantId) -> dict[JobId, str]:
        """How the errors of finished jobs begin, by their ids: type and message, as JSON has them in a text."""
        ...

    def look_for_waiting(self, where: JobFilter, *, limit: int, after: JobPlace | None = None) -> WaitingFound:
        """Jobs that wait for their time, the soonest first; it looks through two thousand of all tenants at most.

        Without jobs that are ready, held or of a paused run, and without suspects; `states`, `blocked_at` and `runs` do
        not narrow.
        """
        ...

    def job_groups(self, tenants: Sequence[TenantId], *, now: Instant, limit: int) -> list[JobGroup]:
        """The unfinished jobs of tenants, in groups; of the first `limit` jobs."""
        ...

    def failed_since(self, tenants: Sequence[TenantId], *, since: Instant, limit: int) -> list[FailedJob]:
        """Jobs of tenants that failed at `since` or later, at most `limit`, in no order."""
        ...

    def count_jobs(self, tenant: TenantId, *, name: str | None = None) -> dict[str, JobCounts]:
        """How many jobs each function of a tenant has, by name; or one of them. The counts are kept."""
        ...

    def pulse(self, tenant: TenantId) -> Pulse:
        """A glance at a tenant: another one when jobs, schedules or logs have changed, but for details such as the time
        at which a job is due.
        """
        ...

    def sum_counts(self, *, limit: int) -> int:
        """Add at most `limit` changes to the kept counts; returns how many. 0 where counts are changed in place."""
        ...

    def list_attempts(self, ids: Sequence[JobId]) -> dict[JobId, list[JobAttempt]]:
        """The attempts of jobs, the first one first; jobs without any are left out."""
        ...

    def list_logs(self, job_id: JobId) -> list[JobLine]:
        """What the attempts of a job have logged, in order. The lines of a running action are there soon."""
        ...

    def job_family(self, job_id: JobId, *, tenant: TenantId, limit: int) -> list[JobId]:
        """A job and, by id, those that follow from it: what it scheduled, what those did ...; at most `limit`."""
        ...

    def beginnings(
        self, ids: Collection[JobId], *, tenant: TenantId, limit: int
    ) -> dict[JobId, tuple[JobId, str | None]]:
        """Of each of some jobs the one that began its request, at most `limit` steps up, and that one's key.

        A job that is no longer kept has no key, and what it followed from is not known any more.
        """
        ...

    def look_for_lines(
        self, where: LineFilter, *, limit: int, after: LinePlace | None = None, newest_first: bool = False
    ) -> LinesFound:
        """Lines of a tenant's jobs in the order in which they were stored, beyond the place `after`.

        Without `where.jobs` it looks through ten thousand lines at most, and says where to go on.
        """
        ...

    def add_logs(self, lines: Iterable[AttemptLines], *, now: Instant) -> None:
        """Keep lines of attempts, as stored at `now`. What is kept already stays as it is."""
        ...

    def prune_jobs(self, *, before: Instant, limit: int) -> int:
        """Remove jobs that ended before `before`, with all that belongs to them. Returns how many rows were removed:
        at least `limit` if there may be more.
        """
        ...

"""The contract for jobs: to write, to read, and to stop them."""

from collections.abc import Collection, Sequence
from typing import Protocol

from evertick.base.ids import JobId, TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import CanceledJob, Job, NewJob, Stop


class Jobs(Protocol):
    """What a transaction can do with jobs: to write, to read, and to stop them."""

    def insert_jobs(self, jobs: Sequence[NewJob]) -> None:
        """Write scheduled calls. Raises WriteConflict if another unfinished job holds one of their keys."""
        ...

    def get_job(self, job_id: JobId, *, tenant: TenantId) -> Job | None:
        """One job, or None."""
        ...

    def get_jobs(self, ids: Sequence[JobId], *, tenant: TenantId) -> list[Job]:
        """Jobs, whole, in the order of their ids. Those that do not exist are left out."""
        ...

    def find_unfinished_key(self, key: str, *, tenant: TenantId) -> JobId | None:
        """The unfinished job that holds `key`."""
        ...

    def unfinished_keys(self, keys: Collection[str], *, tenant: TenantId) -> set[str]:
        """Which of these keys unfinished jobs hold."""
        ...

    def cancel_job(
        self, job_id: JobId, *, tenant: TenantId, now: Instant, stop: Stop = Stop.CANCEL
    ) -> CanceledJob | None:
        """End an unfinished job, or ask the action that runs as it to stop: only the end of its function ends it.

        Returns what follows from its end, or None if it was not unfinished.
        """
        ...

    def cancel_jobs(
        self, ids: Sequence[JobId], *, tenant: TenantId, now: Instant, stop: Stop = Stop.CANCEL
    ) -> dict[JobId, CanceledJob]:
        """As `cancel_job` for each of many; those that were unfinished, by id."""
        ...

    def reschedule_job(self, job_id: JobId, *, tenant: TenantId, due_at: Instant, now: Instant) -> bool:
        """Let a pending job be due at `due_at`; returns False if it is not pending. `requested_at` stays."""
        ...

    def mark_retried(self, job_id: JobId, again: JobId, *, tenant: TenantId, replaces: JobId | None = None) -> bool:
        """Write down that a finished job runs again as the job `again`; returns whether that was written.

        It is not where the job has not ended, or runs again already as another one than `replaces`.
        """
        ...

    def mark_steps_retried(self, run_id: JobId, again: JobId, *, tenant: TenantId) -> None:
        """Write down that the failed calls of a run, and those of its failed child runs, run again in the run `again`.

        What runs again already as another job is left as it is.
        """
        ...

    def stops_asked(self, ids: Sequence[JobId]) -> dict[JobId, Stop]:
        """Which of these jobs were asked to stop while they ran."""
        ...

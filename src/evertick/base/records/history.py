"""Records of what is known of jobs beside their rows: attempts, lines of their logs, counts."""

from typing import Any, NamedTuple

from evertick.base.ids import JobId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.logs import LogLine
from evertick.base.records.stored import Stored


class JobAttempt(NamedTuple):
    """An attempt at a job. `outcome` is None while it runs, else `success`, `failed`, `canceled` or `lost`."""

    attempt: int
    worker_id: WorkerId
    started_at: Instant | None
    ended_at: Instant | None
    outcome: str | None
    error: Stored[Any] | None
    """The `JobError` of an attempt that failed."""


class JobLine(NamedTuple):
    """A line of a job's log, and the attempt that wrote it."""

    attempt: int
    line: LogLine


class JobCounts(NamedTuple):
    """How many jobs there are, by visible state."""

    pending: int = 0
    in_progress: int = 0
    success: int = 0
    failed: int = 0
    canceled: int = 0


class JobGroup(NamedTuple):
    """Unfinished jobs of a function in a pool. `doing` is running (an action), claimed, due or later."""

    tenant: TenantId
    name: str
    pool: str
    doing: str
    jobs: int
    """How many there are."""
    oldest: Instant
    """The earliest time at which one of them is due."""


class FailedJob(NamedTuple):
    """A job that failed."""

    tenant: TenantId
    name: str
    completed_at: Instant
    id: JobId

"""Records: what the store's rows look like to everybody above it. Frozen, and nothing but data."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from evertick.base.ids import DEFAULT_TENANT, JobId, TenantId, WorkerId
from evertick.base.instants import Instant


class FunctionKind(StrEnum):
    """What a function may do: read, change the truth in one transaction, or have side effects."""

    QUERY = "query"
    MUTATION = "mutation"
    ACTION = "action"


class JobState(StrEnum):
    """Where a job is in its life. A retry is pending with an attempt behind it."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"


UNFINISHED = frozenset({JobState.PENDING, JobState.IN_PROGRESS})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job as it is written: one scheduled call of a function.

    `requested_at` is the time that was asked for and never changes; `due_at` is when it may run. `args` is a JSON
    object by parameter name. `retry` and `on_complete` are JSON texts of their policies, `schedule` of the occurrence
    this job runs, if it runs one. `state` is `pending`, or `canceled` where a canceled job scheduled it.
    """

    id: JobId
    tenant: TenantId = DEFAULT_TENANT
    kind: FunctionKind
    name: str
    args: str
    requested_at: Instant
    due_at: Instant
    created_at: Instant
    parent_id: JobId | None = None
    key: str | None = None
    retry: str | None = None
    on_complete: str | None = None
    schedule: str | None = None
    state: JobState = JobState.PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it is read back, with everything that is known of it."""

    id: JobId
    tenant: TenantId
    kind: FunctionKind
    name: str
    args: str
    state: JobState
    requested_at: Instant
    due_at: Instant
    created_at: Instant
    completed_at: Instant | None
    attempt: int
    failures: int
    crashes: int
    worker_id: WorkerId | None
    parent_id: JobId | None
    key: str | None
    retry: str | None
    on_complete: str | None
    result: str | None
    error: str | None
    logs: str | None
    blocked: bool
    schedule: str | None = None

    @property
    def visible_state(self) -> JobState:
        """The state others see: a claimed mutation still reads as pending, since nothing of it has happened yet."""
        if self.state is JobState.IN_PROGRESS and self.kind is FunctionKind.MUTATION:
            return JobState.PENDING
        return self.state


class Claim(NamedTuple):
    """A job that a worker holds. (worker, attempt) is the fence: every later write repeats the pair.

    A named tuple, as JobEnd: there is one of each for every job, and a frozen dataclass takes five times as long.
    """

    id: JobId
    tenant: TenantId
    kind: FunctionKind
    name: str
    args: str
    due_at: Instant
    attempt: int
    failures: int
    crashes: int
    key: str | None
    retry: str | None
    on_complete: str | None
    schedule: str | None = None


class JobEnd(NamedTuple):
    """How an attempt ended, as it is written: a final state, or `pending` again with a new `due_at`."""

    id: JobId
    attempt: int
    state: JobState
    completed_at: Instant | None
    due_at: Instant
    failures: int
    crashes: int
    result: str | None
    error: str | None
    logs: str | None


@dataclass(frozen=True, slots=True)
class CanceledJob:
    """What follows from a job that was canceled: whom to tell, and of which occurrence it was the run."""

    on_complete: str | None
    schedule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list. Every field that is set narrows the choice.

    `states` are visible states; `due_from` is inside the range of moments, `due_until` is not.
    """

    tenant: TenantId = DEFAULT_TENANT
    states: tuple[JobState, ...] = ()
    name: str | None = None
    due_from: Instant | None = None
    due_until: Instant | None = None


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that runs jobs, alive until `leased_until` unless it renews."""

    id: WorkerId
    started_at: Instant
    leased_until: Instant
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Call:
    """A mutation called from outside with an idempotency key, and what it answered."""

    name: str
    fingerprint: str
    result: str


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it lies in the store: its id and its JSON text, without the fields derived from the id."""

    id: str
    body: str

"""The contract for claims: a worker takes jobs, holds them and ends them.

A pending job waits for its time, or is ready, or is a suspect (`SUSPECT_CRASHES` or more of its workers did not survive
it). A job that is due when it is written is ready at once; the others are made ready by the workers, when they claim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from evertick.base.ids import JobId, QueueId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim, FunctionKind, JobEnd, JobError
from evertick.base.records.stored import Stored


class Head(NamedTuple):
    """A tenant with ready jobs in a queue, and the rank of the first: jobs of a lower rank need not be looked for."""

    queue: QueueId
    tenant: TenantId
    rank: int


START: Final = Head(QueueId(0), TenantId(""), 0)
"""Comes before every head."""


class Share(NamedTuple):
    """How many jobs to claim behind a head, at most."""

    head: Head
    limit: int


class Suspect(NamedTuple):
    """A pending suspect."""

    id: JobId
    tenant: TenantId
    queue: QueueId
    due_at: Instant
    pool: str
    name: str
    limit_key: str | None = None


@dataclass(slots=True)
class OwnJob:
    """The job whose function works in a transaction."""

    claim: Claim
    worker_id: WorkerId
    was_ended: bool = False
    """Whether its function has ended it by force; that may have been undone with a part of the transaction."""
    was_canceled: bool = False
    """The same of a request to cancel, if it is a run."""


class Claims(Protocol):
    """What a transaction can do with claims: a worker takes jobs, holds them and ends them."""

    own: OwnJob | None
    """The job whose function works in the transaction now; None where that is no job's."""

    def next_waiting_at(self) -> Instant | None:
        """When the earliest of the jobs that wait for their time is due."""
        ...

    def promote_jobs(self, *, now: Instant, limit: int) -> int:
        """Make up to `limit` jobs ready whose time has come; returns how many. What others are promoting is skipped."""
        ...

    def ready_heads(
        self, *, others: Sequence[QueueId] = (), after: Head = START, limit: int, steps: int = 1_000
    ) -> list[Head]:
        """Tenants with ready jobs in queues that are not among `others`, with the rank of the first job of each.

        In the order of queue and tenant, beyond those of `after`, at most `limit`. Each of `others` that has ready jobs
        costs a step, as each head does; after `steps` the search ends.
        """
        ...

    def new_heads(self, known: Sequence[Head], *, others: Sequence[QueueId]) -> list[Head]:
        """Heads of tenants and queues that are not among `known` and `others`: not all, but one at least if there are
        any. Cheap for a few known ones, however many of their jobs were claimed before.
        """
        ...

    def queue_name(self, queue: QueueId) -> tuple[str, str] | None:
        """Pool and function of a queue; None if no job is ready there any more."""
        ...

    def claim_jobs(
        self, shares: Sequence[Share], *, kind: FunctionKind, worker_id: WorkerId, now: Instant, bytes_max: int
    ) -> list[Claim]:
        """Lease ready jobs to `worker_id`, as functions of that kind: behind each head up to its share, by rank.

        At most `bytes_max` bytes of arguments, unless the first job alone has more; the shares take turns. What others
        are claiming is skipped.
        """
        ...

    def suspects(self, *, limit: int) -> list[Suspect]:
        """The pending suspects that are due first."""
        ...

    def claim_suspect(self, job_id: JobId, *, kind: FunctionKind, worker_id: WorkerId, now: Instant) -> Claim | None:
        """Lease a suspect to `worker_id`; None if it is not pending any more."""
        ...

    def finish_jobs(self, ends: Sequence[JobEnd], *, worker_id: WorkerId, now: Instant) -> set[JobId]:
        """Write how attempts ended, but for their logs. Returns the jobs that `worker_id` still held; the others are
        unchanged. A job that has ended moves from `jobs` to `history`; one that is tried again stays, and the attempt
        that ended is kept.

        A job that was asked to stop ends only as canceled: with any other end it is unchanged, too.
        A job stands in `ends` once. A success repeats its claim's `due_at`, `failures` and `crashes`, and has no error.
        """
        ...

    def note_error(self, job_id: JobId, error: Stored[JobError], *, worker_id: WorkerId, attempt: int) -> None:
        """Say of a job that runs what is wrong with it, if it is held; its end replaces that."""
        ...

    def is_held(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> bool:
        """Whether the job is in progress under (worker, attempt). Waits for a COMMIT that is still under way.

        For `write` only. Ask at READ_COMMITTED: a SERIALIZABLE transaction that had to wait ends in a WriteConflict.
        """
        ...

    def held_jobs(self, worker_id: WorkerId, *, limit: int) -> list[Claim]:
        """What a worker holds."""
        ...

    def release_job(self, job_id: JobId, *, worker_id: WorkerId, attempt: int) -> None:
        """Hand back a claimed job that was not begun: it is ready again, but for the attempt."""
        ...

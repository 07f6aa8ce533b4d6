"""Claims: the records of claiming jobs, and the limits that hold jobs back.

A pending job waits for its time, or is ready, or is a suspect (`SUSPECT_CRASHES` or more of its workers did not survive
it). A job that is due when it is written is ready at once; workers make the others ready when they claim.

Limits by key: a pool may run a limited number of jobs of one key at a time. If a claim meets a ready job while its key
is full, the job becomes *held*: claims do not read it, whatever its rank, until its key has free capacity. The running
jobs of a key are counted; no counter is stored.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from evertick.base.ids import JobId, QueueId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim


class OldestJob(NamedTuple):
    """The first ready job of a tenant in a queue, by its rank: the tenant has no ready job of a lower rank there."""

    queue: QueueId
    tenant: TenantId
    rank: int


START: Final = OldestJob(QueueId(0), TenantId(""), 0)
"""Comes before every job."""


class Share(NamedTuple):
    """How many jobs to claim from a first one on, at most."""

    first: OldestJob
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
    """The job whose function runs in a transaction."""

    claim: Claim
    worker_id: WorkerId
    was_ended: bool = False
    """Whether its function has ended it by force; that may have been undone with a part of the transaction."""
    was_canceled: bool = False
    """Whether its function has sent it a request to cancel, if it is a run."""


class LimitKey(NamedTuple):
    """Jobs that are counted together: those of a tenant with one key in a pool (its name without the app)."""

    pool: str
    tenant: TenantId
    key: str


class HeldKey(NamedTuple):
    """Held jobs of one function: `pool` is the full name of their pool."""

    queue: QueueId
    tenant: TenantId
    key: str
    pool: str
    name: str


class ReadyJob(NamedTuple):
    """A ready job; a claim decides by its key whether it starts."""

    id: JobId
    rank: int
    size: int
    key: str | None


class AnyLimits(NamedTuple):
    """The limits of a database that may hold jobs back."""

    tenants: bool
    """Whether any tenant has limits."""
    pools: bool
    """Whether any pool has limits."""
    held: bool
    """Whether any job is held because of its key."""

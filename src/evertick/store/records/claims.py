"""Claims: what a worker takes, and the limits that hold jobs back.

A pending job waits for its time, or is ready, or is a suspect (`SUSPECT_CRASHES` or more of its workers did not survive
it). A job that is due when it is written is ready at once; the others are made ready by the workers, when they claim.

Limits by key: a pool may run some jobs of one key at a time.

A ready job that a claim meets while its key is full is *held*: it leaves the way of claims, whatever its rank, until
its key has room. What a key runs is counted, and not kept.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from evertick.base.ids import JobId, QueueId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim


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


class LimitKey(NamedTuple):
    """What is counted together: the jobs of a tenant with one key in a pool, which is named without its app."""

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
    """A ready job, of which a claim decides by its key whether it starts."""

    id: JobId
    rank: int
    size: int
    key: str | None


class AnyLimits(NamedTuple):
    """What a database has that may hold jobs back."""

    tenants: bool
    """Whether any tenant has limits."""
    pools: bool
    """Whether any pool has limits."""
    held: bool
    """Whether any job is held because of its key."""

"""The contract for limits by key: a pool may run some jobs of one key at a time.

A ready job that a claim meets while its key is full is *held*: it leaves the way of claims, whatever its rank, until
its key has room. What a key runs is counted, and not kept.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from evertick.base.ids import JobId, QueueId, TenantId, WorkerId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim, FunctionKind


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


class LimitKeys(Protocol):
    """What a transaction can do with jobs whose pool limits what a key may run."""

    def running_by_key(self) -> Mapping[LimitKey, int]:
        """How many jobs of each key run on all workers. Apps' pools of one name count together."""
        ...

    def ready_jobs(self, queue: QueueId, tenant: TenantId, *, after: tuple[int, str], limit: int) -> list[ReadyJob]:
        """Ready jobs of a queue and a tenant beyond (rank, id), by rank."""
        ...

    def claim_ready(
        self, ids: Sequence[JobId], *, kind: FunctionKind, worker_id: WorkerId, now: Instant
    ) -> list[Claim]:
        """Lease jobs to `worker_id` that this transaction has read as ready; returns them by rank. What others are
        changing, or have changed, is left out.
        """
        ...

    def hold_jobs(self, ids: Sequence[JobId]) -> None:
        """Hold ready jobs, whose keys are full."""
        ...

    def held_keys(self, *, after: HeldKey | None, limit: int) -> list[HeldKey]:
        """Functions with held jobs, for each tenant and key, in the order of queue, tenant and key beyond `after`."""
        ...

    def release_held(self, rooms: Sequence[tuple[HeldKey, int]]) -> None:
        """Make the first held jobs ready again, by rank, until as many of a key and a function are ready as there is
        room for.
        """
        ...

"""Tenant fairness: how the free places of a claim are divided among the tenants with ready jobs.

Every tenant gets an equal share of its running and newly claimed jobs; places that one does not use go to the others in
the next pass. If there are fewer places than tenants, those with the fewest running jobs come first, then those that
were served longest ago. The places of a tenant are divided among its queues, the longest-waiting first job first.

A job that has just been scheduled waits for the batch that runs, and then for its own. So batches of mutations are
smaller while tenants with few jobs are served together with one that has many. A single tenant gets full batches,
because smaller ones would only cost it more commits. Within a batch the tenants take turns.

Pure: running and served jobs are arguments of `divide`; claimed jobs are arguments of `left_behind` and `in_turns`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Final

from evertick.base.ids import TenantId
from evertick.base.instants import SECOND_MS, Instant
from evertick.base.records.jobs import BY_RANK, Claim
from evertick.store.records.claims import OldestJob, Share

SHARE: Final = 4
"""The factor by which a batch is smaller while other tenants have jobs."""
SHARE_CONCURRENT: Final = 8
"""The same factor where new jobs run concurrently with a batch: they wait for its claim, shorter for a small batch."""
LARGE: Final = 8
"""A tenant with at least this fraction (an eighth) of a full batch has many due jobs."""
KEPT_MS: Final = SECOND_MS
"""How long batches stay small after the last one that tenants with few jobs shared."""


def divide(
    oldest: Sequence[OldestJob],
    capacity: int,
    *,
    running: Mapping[TenantId, int],
    served: Mapping[TenantId, int],
) -> list[Share]:
    """Divide up to `capacity` places among the queues of the oldest jobs.

    `running` is the number of each tenant's running jobs. `served` is a number that grows with the time at which a
    tenant was last served.
    """
    by_tenant: dict[TenantId, list[OldestJob]] = {}
    for first in sorted(oldest, key=_by_rank):
        by_tenant.setdefault(first.tenant, []).append(first)
    tenants = sorted(by_tenant, key=lambda tenant: served.get(tenant, 0))
    shares: list[Share] = []
    for tenant, places in zip(tenants, levelled(capacity, [running.get(each, 0) for each in tenants]), strict=True):
        queues = by_tenant[tenant]
        each, more = divmod(places, len(queues))
        shares += [Share(first, limit) for i, first in enumerate(queues) if (limit := each + (i < more))]
    return shares


def left_behind(oldest: list[OldestJob], shares: list[Share], taken: list[Claim]) -> list[OldestJob]:
    """The queues that may have more jobs, with the position to continue from.

    These are queues without a place, and queues whose share was used up.
    """
    places = [(claim.queue, claim.tenant) for claim in taken]
    counts = Counter(places)
    reached = dict(zip(places, [claim.rank for claim in taken], strict=True))  # ordered by rank, so the last one stays
    limits = {share.first[:2]: share.limit for share in shares}
    left = []
    for first in oldest:
        place = first[:2]
        if place not in limits:
            left.append(first)
        elif counts[place] == limits[place]:
            left.append(OldestJob(*place, reached[place]))
    return left


def in_turns(claims: Sequence[Claim]) -> list[Claim]:
    """The claims of a batch in the order in which they run: each tenant's first, by rank, then each tenant's second."""
    by_rank = sorted(claims, key=BY_RANK)
    if len({claim.tenant for claim in claims}) < 2:
        return by_rank
    turns = Counter[TenantId]()

    def turn(claim: Claim) -> int:
        turns[claim.tenant] += 1
        return turns[claim.tenant]

    return sorted(by_rank, key=turn)


def levelled(capacity: int, running: Sequence[int]) -> list[int]:
    """The places of each tenant: one by one they go to the tenant with the fewest, the first among equals.

    `running` are the places that tenants use already; `capacity` is the number of new places.
    """
    if not running:
        return []
    if len(set(running)) == 1:
        each, more = divmod(capacity, len(running))
        return [each + (i < more) for i in range(len(running))]
    places = [0] * len(running)
    least = [(count, i) for i, count in enumerate(running)]
    heapify(least)
    for _ in range(capacity):
        count, i = least[0]
        places[i] += 1
        heapreplace(least, (count + 1, i))
    return places


def _by_rank(first: OldestJob) -> tuple[int, int]:
    return (first.rank, first.queue)


class BatchSize:
    """The size of a worker's next batch. `full` is the setting `batch`; a small one is a `share`-th of it."""

    def __init__(self, full: int, *, share: int = SHARE) -> None:
        self._full = full
        self._share = share
        self._small_until = Instant(0)

    def jobs(self, now: Instant) -> int:
        """How many jobs to claim."""
        return max(1, self._full // self._share) if self.is_small(now) else self._full

    def is_filled(self, claims: Sequence[Claim], now: Instant) -> bool:
        """Whether more jobs may be due than those of a large batch, so that claiming ahead pays.

        For a small batch it does not: jobs that are claimed ahead would delay new ones.
        """
        return len(claims) == self._full and not self.is_small(now)

    def note(self, claims: Sequence[Claim], now: Instant) -> None:
        """Update the batch size after a claim: it is small while one tenant has many due jobs and others have few.

        If all have few, a new job is in the next batch with all of them.
        """
        shares = Counter(claim.tenant for claim in claims).values()
        if len(shares) > 1 and max(shares) >= max(2, self._full // LARGE) and min(shares) * 2 < max(shares):
            self._small_until = Instant(now + KEPT_MS)

    def is_small(self, now: Instant) -> bool:
        """Whether tenants with few jobs were recently served together with one that has many."""
        return self._small_until - KEPT_MS <= now < self._small_until

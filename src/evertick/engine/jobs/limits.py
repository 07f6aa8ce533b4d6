"""Limits of tenants and pools on the jobs that start, as one claiming loop sees them.

A database without limits is only asked whether it still has none (PostgreSQL once a second). If there are limits, a
poll queries which of its tenants and pools have any. Each claim for those locks their limits and counts the running
jobs. No counter is stored, so a worker that dies leaves no wrong count.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from evertick.base.ids import DEFAULT_POOL, JobId, QueueId, TenantId, pool_name
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records.jobs import Claim
from evertick.base.records.limits import PoolLimits, StartLimit
from evertick.base.records.stored import size_of
from evertick.engine.jobs.tenant_fairness import levelled
from evertick.rules.jobs.start_limits import after_starts, next_start_at, starts_allowed
from evertick.store.records.claims import HeldKey, LimitKey, OldestJob, Share, Suspect
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

QUERY_EVERY_MS: Final = 1_000
"""Time between two checks whether there are limits. A first limit takes effect after this time at the latest."""
POLL_AGAIN_MS: Final = 100
"""Time until the next poll checks whether jobs are still held back, while some are."""

H = TypeVar("H", OldestJob, Suspect)
Scope = tuple[str, str]
"""The subject of a limit: a pool ("mail", ""), a tenant ("", "acme"), or a tenant's jobs in a pool ("mail", "acme")."""


class StartLimits:
    """Tenants and pools that are limited, and how many of their jobs may start now."""

    def __init__(self, pools: Mapping[QueueId, str], *, is_shared: bool) -> None:
        self._pool_of_queue = pools
        self._query_every_ms = QUERY_EVERY_MS if is_shared else 0
        self._any = False
        self._holds_locks = False
        self._queried_at = LONG_AGO
        self._tenants: set[TenantId] = set()
        self._pools: Mapping[str, PoolLimits] = {}
        self.may_hold_keys = False
        """Whether a pool limits the running jobs per key, or jobs are still held because one did."""
        self._limits: dict[Scope, StartLimit] = {}
        self._open: dict[Scope, int] = {}
        self._running: Mapping[tuple[str, TenantId], int] = {}
        self.per_key: dict[str, int] = {}
        """How many jobs of one key may run, by pool of this claim."""

    def isolation(self, wanted: Isolation) -> Isolation:
        """The isolation of a claim: the whole transaction where limits must stay locked. Ask before each claim."""
        by_statement = wanted in (Isolation.EACH, Isolation.RELAXED)
        isolation = Isolation.READ_COMMITTED if self._any and by_statement else wanted
        self._holds_locks = isolation is not wanted or not by_statement
        return isolation

    def refresh(self, transaction: Transaction, *, now: Instant) -> None:
        """Before a poll: query whether there are limits, if the last check is old enough."""
        if not 0 <= now - self._queried_at < self._query_every_ms:
            found = transaction.any_limits()
            pools = transaction.pool_limits() if found.pools else {}  # if this fails, the check must count as not made
            self._any, self._pools, self._queried_at = found.tenants or found.pools, pools, now
            self.may_hold_keys = found.held or any(each.per_key is not None for each in self._pools.values())

    def query_tenants(self, transaction: Transaction, oldest: Sequence[OldestJob]) -> None:
        """During a poll: query which of the tenants of these jobs are limited."""
        self._tenants = self._limited_of(transaction, oldest)

    def most_of_a_key(self, pool: str) -> int | None:
        """How many jobs with the same limit key a pool may run, by the last query. None means no limit."""
        limits = self._pools.get(pool_name(pool))
        return None if limits is None else limits.per_key

    def begin(self, transaction: Transaction, oldest: Sequence[OldestJob], *, now: Instant) -> None:
        """Before a claim from jobs passed to `query_tenants`: lock the limits that apply, and count running jobs."""
        self._lock(transaction, oldest, self._tenants, now)

    def begin_suspects(self, transaction: Transaction, suspects: Sequence[Suspect], *, now: Instant) -> None:
        """Do the same as `begin` for suspects, which no poll reads and a new worker claims before its first poll."""
        if suspects:
            self.refresh(transaction, now=now)
        self._lock(transaction, suspects, self._limited_of(transaction, suspects), now)

    def startable(self, found: Sequence[H]) -> list[H]:
        """The elements of which at least one job may start."""
        return [each for each in found if self._capacity(each) != 0] if self._open else list(found)

    def within(self, shares: list[Share]) -> list[Share]:
        """The shares that the limits allow. Tenants get equal shares of a pool's places, counting what runs there."""
        if not self._open:
            return shares
        of_pools: dict[str, list[Share]] = {}
        for share in shares:
            of_pools.setdefault(self.pool_of(share.first), []).append(share)
        left, kept = dict(self._open), []
        for pool, places in of_pools.items():
            capacity = left.get((pool, ""))
            running = [self._running.get((pool, share.first.tenant), 0) for share in places]
            equal = [share.limit for share in places] if capacity is None else levelled(capacity, running)
            for share, most in zip(places, equal, strict=True):
                scopes = [scope for scope in _scopes(pool, share.first.tenant) if scope in left]
                limit = min([share.limit, most, *(left[scope] for scope in scopes)])
                for scope in scopes:
                    left[scope] -= limit
                if limit > 0:
                    kept.append(Share(share.first, limit))
        return kept

    def take(self, claims: Sequence[Claim]) -> None:
        """Count claimed jobs, which start now."""
        for claim in claims if self._open else ():
            for scope in self._open_scopes(claim):
                self._open[scope] -= 1

    def end(self, transaction: Transaction, claims: Sequence[Claim], *, now: Instant) -> None:
        """After a claim: store the part of the rates that the claimed jobs use."""
        if not self._limits:
            return
        used = Counter(scope for claim in claims for scope in _scopes(self.pool_of(claim), claim.tenant))
        for scope, limit in self._limits.items():
            if limit.per_minute is None or not used[scope]:
                continue
            until_us, (pool, tenant) = after_starts(limit, used[scope], now=now), scope
            if pool:
                transaction.use_pool_starts(pool, used_until_us=until_us)
            else:
                transaction.use_starts(TenantId(tenant), used_until_us=until_us)

    def hold_back(self, oldest: Sequence[OldestJob]) -> bool:
        """Whether only limits keep these jobs, and those behind them, from starting."""
        return bool(oldest) and not self.startable(oldest)

    def poll_again_at(self, *, now: Instant) -> Instant:
        """The time at which a job that was held back may start, as far as is known."""
        rates = [next_start_at(limit, now=now) for limit in self._limits.values() if limit.per_minute is not None]
        return min([at for at in rates if at is not None], default=Instant(now + POLL_AGAIN_MS))

    # -- helpers

    def _limited_of(self, transaction: Transaction, found: Sequence[H]) -> set[TenantId]:
        return transaction.held_back_tenants({each.tenant for each in found}) if self._any and found else set()

    def pool_of(self, each: OldestJob | Suspect | Claim) -> str:
        """The name, inside its app, of the pool of a job, suspect or claim."""
        pool = each.pool if isinstance(each, Suspect) else self._pool_of_queue.get(each.queue, DEFAULT_POOL)
        return pool_name(pool)

    def _open_scopes(self, each: OldestJob | Suspect | Claim) -> Iterator[Scope]:
        return (scope for scope in _scopes(self.pool_of(each), each.tenant) if scope in self._open)

    def _capacity(self, each: OldestJob | Suspect) -> int | None:
        """How many jobs may start. None if no limit applies."""
        return min((max(0, self._open[scope]) for scope in self._open_scopes(each)), default=None)

    def _lock(self, transaction: Transaction, found: Sequence[H], tenants: set[TenantId], now: Instant) -> None:
        """Lock the limits that apply, and store how many jobs each of them allows to start."""
        self._limits, self._open, self._running, self.per_key = {}, {}, {}, {}
        if limited := tenants.intersection(each.tenant for each in found) if tenants else set():
            self._lock_tenants(transaction, limited, now)
        if self._pools:
            places = {(pool, each.tenant) for each in found if (pool := self.pool_of(each)) in self._pools}
            if places:
                self._lock_pools(transaction, places, now)

    def _lock_tenants(self, transaction: Transaction, tenants: Collection[TenantId], now: Instant) -> None:
        # Another worker is claiming for tenants without a row. Where no lock holds, the next claim will hold one.
        limits = transaction.start_limits(tenants) if self._holds_locks else {}
        running = transaction.running_jobs(limits) if limits else {}
        self._open.update({("", tenant): 0 for tenant in tenants - limits.keys()})
        for tenant, limit in limits.items():
            self._allow(("", tenant), limit, running.get(tenant, 0), now)

    def _lock_pools(self, transaction: Transaction, places: set[tuple[str, TenantId]], now: Instant) -> None:
        pools = {pool for pool, _ in places}
        if not self._holds_locks:
            self._open.update({(pool, ""): 0 for pool in pools})
            return
        holds = transaction.pool_holds(pools)
        self._running = transaction.running_in_pools() if holds else {}
        totals: Counter[str] = Counter()
        for (pool, _), count in self._running.items():
            totals[pool] += count
        for pool, hold in holds.items():
            if hold.per_key is not None:
                self.per_key[pool] = hold.per_key
            self._allow((pool, ""), hold.start, totals[pool], now)
        for pool, tenant in places:
            if pool in holds and (most := holds[pool].per_tenant) is not None:
                self._open[pool, tenant] = max(0, most - self._running.get((pool, tenant), 0))

    def _allow(self, scope: Scope, limit: StartLimit, running: int, now: Instant) -> None:
        self._limits[scope] = limit
        count = starts_allowed(limit, running=running, now=now)
        if count is not None:
            self._open[scope] = count


def _scopes(pool: str, tenant: TenantId) -> tuple[Scope, Scope, Scope]:
    """Every limit that may apply to the jobs of a tenant in a pool."""
    return ("", tenant), (pool, ""), (pool, tenant)


# -- Limits by key: a pool may limit the running jobs of one key, for example of a customer.
#
# A claim in such a pool reads the next ready jobs by rank, with their keys, and counts the running jobs of each key,
# while it holds the lock of the pool's limits. Jobs that may start are claimed. Jobs that a full key keeps from
# starting are *held*: they leave the index that claims read. So neither jobs of other keys nor later claims wait behind
# them, however many there are.
#
# Before a poll, held jobs become ready again, up to the capacity of their keys. So no other code needs to handle keys:
# whatever ends an attempt (its end, a retry, a cancellation, a lost worker), the next poll finds that the key has
# capacity. Held jobs of a pool whose limit was removed can start, too. If a poll releases a job too many, the cost is
# one update: the claim holds the job again.

KEYS_MAX: Final = 1_000
"""Functions and keys with held jobs that one poll reads at most. The next one continues from there."""
WINDOW: Final = 500
"""Ready jobs that a claim reads at a time after it has found a full key."""
HELD_MAX: Final = 2_000
"""Jobs that one claim holds in a queue of a tenant at most; the next claim continues."""
RELEASED_MAX: Final = 1_000
"""Held jobs of a function and a key that are made ready at a time, at most."""


class KeyLimits:
    """Which keys are full, as one claiming loop sees them."""

    def __init__(self, limits: StartLimits) -> None:
        self._limits = limits
        self._after: HeldKey | None = None
        self._running: Mapping[LimitKey, int] = {}
        self._started: dict[LimitKey, int] = {}
        self.hold_back = False
        """Whether jobs that could run here were held at the last poll, or in a claim since then."""

    def release(self, transaction: Transaction, serves: Callable[[QueueId, str, str], bool]) -> None:
        """Before a poll: make held jobs ready whose keys have capacity."""
        self.hold_back = False
        if not self._limits.may_hold_keys:
            return
        held = transaction.held_keys(after=self._after, limit=KEYS_MAX)
        if len(held) < KEYS_MAX and self._after is not None:
            held = list(dict.fromkeys(held + transaction.held_keys(after=None, limit=KEYS_MAX - len(held))))
        self._after = held[-1] if len(held) == KEYS_MAX else None
        if not held:
            return
        running = transaction.running_by_key()
        transaction.release_held([(each, self._capacity(each, running)) for each in held])
        self.hold_back = any(serves(each.queue, each.pool, each.name) for each in held)

    def begin(self, transaction: Transaction) -> None:
        """Before a claim, after the limits that apply are locked: count running jobs."""
        self._started = {}
        self._running = transaction.running_by_key()

    def claim(self, transaction: Transaction, shares: Sequence[Share], *, bytes_max: int, **taker: Any) -> list[Claim]:
        """Claim jobs, as `claim_jobs` does, and hold those whose keys are full."""
        by_key = [share for share in shares if self._limits.pool_of(share.first) in self._limits.per_key]
        others = [share for share in shares if share not in by_key]
        claims: list[Claim] = []
        if others:
            claims = transaction.claim_jobs(others, bytes_max=bytes_max, **taker)
        ids: list[JobId] = []
        capacity = bytes_max - sum(size_of(claim.args) for claim in claims)
        for share in by_key:
            chosen, size = self._choose(transaction, share, capacity, is_first=not (claims or ids))
            ids += chosen
            capacity -= size
        return claims + transaction.claim_ready(ids, **taker) if ids else claims

    def with_capacity(self, transaction: Transaction, suspects: list[Suspect]) -> list[Suspect]:
        """The suspects whose keys are not full. Their limits are locked."""
        self.begin(transaction)
        return [each for each in suspects if self._left(each, each.limit_key) > 0]

    # -- helpers

    def _capacity(self, held: HeldKey, running: Mapping[LimitKey, int]) -> int:
        most = self._limits.most_of_a_key(held.pool)
        if most is None:
            return RELEASED_MAX
        return min(RELEASED_MAX, most - running.get(LimitKey(pool_name(held.pool), held.tenant, held.key), 0))

    def _choose(
        self, transaction: Transaction, share: Share, capacity: int, *, is_first: bool
    ) -> tuple[list[JobId], int]:
        """The first jobs that may start, up to the share and `capacity` bytes, and the sum of their bytes."""
        first, most = share
        chosen: list[JobId] = []
        full: list[JobId] = []
        size, after, window = 0, (first.rank, ""), most
        while len(full) < HELD_MAX:
            found = transaction.ready_jobs(first.queue, first.tenant, after=after, limit=window)
            for job in found:
                if len(chosen) == most or (size + job.size > capacity and not (is_first and not chosen)):
                    break
                if not self._starts(share, job.key):
                    full.append(job.id)
                    continue
                chosen.append(job.id)
                size += job.size
            else:
                if len(found) == window and len(chosen) < most:
                    after, window = (found[-1].rank, found[-1].id), WINDOW
                    continue
            break
        transaction.hold_jobs(full)
        self.hold_back = self.hold_back or bool(full)
        return chosen, size

    def _starts(self, share: Share, key: str | None) -> bool:
        """Return whether one more job with this key may start, and count it if so."""
        if self._left(share, key) <= 0:
            return False
        if key is not None:
            counted = LimitKey(self._limits.pool_of(share.first), share.first.tenant, key)
            self._started[counted] = self._started.get(counted, 0) + 1
        return True

    def _left(self, each: Share | Suspect, key: str | None) -> int:
        """How many more jobs with a key may start; 1 if no limit applies."""
        place = each.first if isinstance(each, Share) else each
        pool = self._limits.pool_of(place)
        most = self._limits.per_key.get(pool)
        if key is None or most is None:
            return 1
        counted = LimitKey(pool, place.tenant, key)
        return most - self._running.get(counted, 0) - self._started.get(counted, 0)

"""Limits by key: of one key, such as a customer, a pool may run some jobs at a time.

A claim in such a pool reads the next ready jobs by rank, with their keys, and counts what each key runs, while it
holds the lock of the pool's limits. What may start is claimed. What a full key keeps from starting is *held*: it leaves
the index that claims read, so neither jobs of other keys nor later claims wait behind it, however many there are.

Before a look, held jobs become ready again, up to what their keys have room for. So nothing else need know of keys:
whatever ends an attempt (its end, a retry, a cancel, a worker that was lost), the next look finds that the key has
room. Where a pool's limit was removed, its held jobs have room, too. A look that releases a job too many costs an
update: the claim holds it again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from evertick.base.ids import JobId, QueueId, pool_name
from evertick.base.records.jobs import Claim
from evertick.base.records.stored import size_of
from evertick.engine.jobs.start_limits import StartLimits
from evertick.store.records.claims import HeldKey, LimitKey, Share, Suspect
from evertick.store.transaction.transaction import Transaction

KEYS_MAX: Final = 1_000
"""Functions and keys with held jobs that one look reads. The next one goes on from there."""
WINDOW: Final = 500
"""Ready jobs that a claim reads at a time, once it has met a full key."""
HELD_MAX: Final = 2_000
"""Jobs that one claim holds behind a head, before it leaves the rest to the next one."""
RELEASED_MAX: Final = 1_000
"""Held jobs of a function and a key that are made ready at a time."""


class KeyLimits:
    """Which keys are full, as one claiming loop meets them."""

    def __init__(self, limits: StartLimits) -> None:
        self._limits = limits
        self._after: HeldKey | None = None
        self._running: Mapping[LimitKey, int] = {}
        self._started: dict[LimitKey, int] = {}
        self.hold_back = False
        """Whether jobs that could run here were held at the last look, or in a claim since then."""

    def release(self, transaction: Transaction, serves: Callable[[QueueId, str, str], bool]) -> None:
        """Before a look: make held jobs ready whose keys have room."""
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
        transaction.release_held([(each, self._room(each, running)) for each in held])
        self.hold_back = any(serves(each.queue, each.pool, each.name) for each in held)

    def begin(self, transaction: Transaction) -> None:
        """Before a claim, once the limits that concern it are locked: count what runs."""
        self._started = {}
        self._running = transaction.running_by_key()

    def claim(self, transaction: Transaction, shares: Sequence[Share], *, bytes_max: int, **taker: Any) -> list[Claim]:
        """Claim behind heads, as `claim_jobs` does; and hold the jobs of full keys that are met."""
        by_key = [share for share in shares if self._limits.pool_of(share.head) in self._limits.per_key]
        others = [share for share in shares if share not in by_key]
        claims: list[Claim] = []
        if others:
            claims = transaction.claim_jobs(others, bytes_max=bytes_max, **taker)
        ids: list[JobId] = []
        room = bytes_max - sum(size_of(claim.args) for claim in claims)
        for share in by_key:
            chosen, size = self._choose(transaction, share, room, is_first=not (claims or ids))
            ids += chosen
            room -= size
        return claims + transaction.claim_ready(ids, **taker) if ids else claims

    def with_room(self, transaction: Transaction, suspects: list[Suspect]) -> list[Suspect]:
        """The suspects whose keys are not full; their limits are locked."""
        self.begin(transaction)
        return [each for each in suspects if self._left(each, each.limit_key) > 0]

    # -- helpers

    def _room(self, held: HeldKey, running: Mapping[LimitKey, int]) -> int:
        most = self._limits.most_of_a_key(held.pool)
        if most is None:
            return RELEASED_MAX
        return min(RELEASED_MAX, most - running.get(LimitKey(pool_name(held.pool), held.tenant, held.key), 0))

    def _choose(self, transaction: Transaction, share: Share, room: int, *, is_first: bool) -> tuple[list[JobId], int]:
        """The first jobs behind a head that may start, up to its share and `room` bytes, with their bytes in all."""
        head, most = share
        chosen: list[JobId] = []
        full: list[JobId] = []
        size, after, window = 0, (head.rank, ""), most
        while len(full) < HELD_MAX:
            found = transaction.ready_jobs(head.queue, head.tenant, after=after, limit=window)
            for job in found:
                if len(chosen) == most or (size + job.size > room and not (is_first and not chosen)):
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
        """Whether one more job with this key may start; then it is counted."""
        if self._left(share, key) <= 0:
            return False
        if key is not None:
            counted = LimitKey(self._limits.pool_of(share.head), share.head.tenant, key)
            self._started[counted] = self._started.get(counted, 0) + 1
        return True

    def _left(self, each: Share | Suspect, key: str | None) -> int:
        """How many more jobs with a key may start; 1 if no limit concerns them."""
        place = each.head if isinstance(each, Share) else each
        pool = self._limits.pool_of(place)
        most = self._limits.per_key.get(pool)
        if key is None or most is None:
            return 1
        counted = LimitKey(pool, place.tenant, key)
        return most - self._running.get(counted, 0) - self._started.get(counted, 0)

"""Claiming: which ready jobs a worker takes next, fairly among tenants.

A look reads, for each queue that this worker serves and each tenant with ready jobs there, the rank of the first (its
*head*): one step of an index a head, however many jobs wait, run or have ended. It goes round: the next one begins
where this one ended. The free places are divided among the tenants (`tenant_fairness`), and claimed by rank behind each
head. Before a look, or when it finds nothing, jobs whose time has come are made ready.

On PostgreSQL a look is used for `LOOK_KEPT_MS`, so most claims are one statement: each head goes on from its last rank,
because the entries of claimed jobs stay in the index until the next VACUUM. When something was scheduled meanwhile and
the heads are few, a claim looks beside them for *newcomers*: other tenants and queues, which are claimed alone where
they start sooner so. A more urgent job behind a head is seen later.

Suspects, which `SUSPECT_CRASHES` or more of their workers did not survive, are claimed apart, one at a time, by a loop
that runs them apart from others.

The reply to a claim can get lost although the claim was committed. Then the jobs belong to a worker that does not know
of them, and its lease keeps them from all others. So each claiming loop compares, after a claim that failed and from
time to time, what it runs with what it holds according to the database.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from evertick.base.ids import DEFAULT_POOL, JobId, QueueId, TenantId, WorkerId, queue_of
from evertick.base.instants import LONG_AGO, MILLISECOND, SECOND_MS, Instant
from evertick.base.records.jobs import Claim, FunctionKind, ServedFunction, belongs_to
from evertick.base.records.stored import size_of
from evertick.engine.jobs.completion import cancel
from evertick.engine.jobs.limits import LOOK_AGAIN_MS, KeyLimits, StartLimits
from evertick.engine.jobs.tenant_fairness import divide, in_turns, left_behind
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import Executors
from evertick.store.records.claims import START, Head, Share, Suspect
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

# -- Newcomers: tenants and queues that the last look of a loop did not find, where looks are kept.
#
# Here is what a loop knows of them: whether something was scheduled since it searched for some, who came last, and
# whether its last claim took some. `claims` searches and claims.

EVERY_MS: Final = 25
"""The least time from a search that found none to the next: a statement can take several milliseconds."""
KEPT_MS: Final = SECOND_MS
"""How long those that came last are tried before others are searched for: a try in vain is a statement."""


class Newcomers:
    """What one loop knows of newcomers."""

    def __init__(self) -> None:
        self.heard = False
        """Whether something was scheduled since the last search. It is set in any thread."""
        self.came = False
        """Whether the last claim took newcomers."""
        self.last: list[Head] = []
        """Heads of those that came last, if they were few, and left no job ready."""
        self._came_at = LONG_AGO
        self._found_none_at = LONG_AGO

    def came_last(self, now: Instant, known: Sequence[Head]) -> list[Head]:
        """Heads of those that came just now, to be tried without a search; without what a look has found since."""
        if not self.last or not 0 <= now - self._came_at < KEPT_MS:
            return []
        places = {head[:2] for head in known}
        return [head for head in self.last if head[:2] not in places]

    def note(self, heads: Sequence[Head], left: Sequence[Head], now: Instant) -> None:
        """Remember who came (`heads`, if they were few), but for those of which jobs are `left`."""
        places = {head[:2] for head in left}
        self.last = [head for head in heads if head[:2] not in places]
        self._came_at = now

    def see(self, claims: Sequence[Claim], now: Instant) -> int:
        """Note which of the claims are of those that came last; returns how many."""
        ranks = {head[:2]: head.rank for head in self.last}
        came = [claim for claim in claims if (claim.queue, claim.tenant) in ranks] if ranks else []
        if came:
            ranks.update({(claim.queue, claim.tenant): claim.rank for claim in came})
            self.last, self._came_at = [Head(*place, rank) for place, rank in ranks.items()], now
        return len(came)

    def begin_search(self, now: Instant) -> bool:
        """Whether to search: something was heard of, and no search was in vain just now. Then this one begins."""
        if not self.heard or 0 <= now - self._found_none_at < EVERY_MS:
            return False
        self.heard, self._found_none_at = False, now
        return True

    def found_some(self) -> None:
        """The search was not in vain."""
        self._found_none_at = LONG_AGO


# -- Lost claims: what a worker holds although the reply to its claim said otherwise.

_logger: Final = logging.getLogger("evertick.engine")

Attempt = tuple[JobId, int]
"""A job under one of its claims."""


async def find_lost(
    executors: Executors, worker_id: WorkerId, kind: FunctionKind, known: Collection[Attempt], *, limit: int
) -> list[Claim]:
    """Jobs of a kind that a worker holds, but for those that are known; of up to `limit` that it holds."""

    def unknown(transaction: Transaction) -> list[Claim]:
        held = transaction.held_jobs(worker_id, limit=limit)
        return [c for c in held if c.kind is kind and (c.id, c.attempt) not in known]

    def confirmed(transaction: Transaction) -> list[Claim]:
        transaction.confirm()
        return unknown(transaction)

    found = await executors.read(unknown)
    if found:  # what a read says of an old primary is no reason to call a function
        found = await executors.write(confirmed, isolation=Isolation.READ_COMMITTED)
    if found:
        _logger.warning("%d jobs were claimed here although the reply said otherwise; they run now", len(found))
    return found


# -- What a claim has room for, and what it returns.

BYTES_MAX: Final = 64 * 1024 * 1024
"""Arguments that one loop of a worker holds at most, in bytes."""
JOB_BYTES_MAX: Final = 4 * 1024 * 1024
"""Arguments of one job, in bytes: with room for less, nothing is claimed."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was claimed, and when the next job is due, whosever it is (None: there is none).

    A suspect may have to wait although it is due, so it is no reason to look again at once: `suspect_is_due` tells of
    it. It is None if the claim did not look; then the next round comes at once and looks.
    """

    claims: list[Claim]
    next_due_at: Instant | None
    suspect_is_due: bool | None = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a loop has room for, in jobs and in bytes of arguments; and how many jobs of each tenant it runs already."""

    jobs: int
    bytes: int = BYTES_MAX
    running: Mapping[TenantId, int] = field(default_factory=dict)
    beside: Sequence[Head] = ()
    """Heads behind which there is seldom a job: one place is kept for each of them, in the first statement."""


HEADS_MAX: Final = 256
"""Heads read in one look, unless more jobs than that are wanted."""
LOOK_KEPT_MS: Final = 200
"""How long the heads of a look are used, where looks are kept."""
KNOWN_HEADS_MAX: Final = 64
"""Where looks are kept: heads, and queues of others, beside which a claim looks for new ones."""
BESIDE_SHARE: Final = 4
"""Of the places of a claim of actions at most one in so many is kept for tenants that came last."""
GUESSED_HEADS_MAX: Final = 4
"""After a look that found nothing: heads of the last claim that the next one may try before it looks again."""
PROMOTED_MAX: Final = 1_000
"""Jobs made ready in one transaction."""
ASK_EVERY_MS: Final = 100
"""While looks find ready jobs: time between two questions whether others have become due."""
TAKEN_MS: Final = 10
"""After all that was due had been taken, or is being made ready, by others: time until the next look."""
SUSPECTS_MAX: Final = 100
"""Suspects looked at when one is wanted."""
SERVED_MAX: Final = 10_000
"""Tenants of which a loop remembers when it last claimed from them."""


class ServedQueues:
    """The queues of one loop: those for which `runs(pool, function)` is true; `functions` are the worker's.

    A loop looks at every queue with ready jobs but those that it knows to be of others. The name of a queue that it
    meets for the first time is read from one of its jobs. What was learned is forgotten from time to time, because
    functions may be registered after the worker's start. `pools` is where it notes the pool of each served queue.
    """

    def __init__(
        self,
        functions: Callable[[], Sequence[ServedFunction]],
        runs: Callable[[str, str], bool],
        pools: dict[QueueId, str],
        *,
        learn_every_ms: int,
    ) -> None:
        self._functions = functions
        self._runs = runs
        self._learn_every_ms = learn_every_ms
        self._served: dict[QueueId, bool] = {}
        self._learned_at = LONG_AGO
        self._pools = pools
        self.others: list[QueueId] = []
        """Queues of other apps, or of functions that are unknown here, of another kind, or in pools of others. A look
        passes them by."""

    def forget(self, now: Instant) -> None:
        """Before a look: after a while, learn anew."""
        if 0 <= now - self._learned_at < self._learn_every_ms:
            return
        self._learned_at = now
        self._served.clear()
        self.others.clear()
        for function in self._functions():
            for pool in {function.pool, DEFAULT_POOL}:
                self._learn(queue_of(pool, function.name), pool, function.name)

    def among(self, transaction: Transaction, heads: list[Head]) -> list[Head]:
        """The heads of served queues. Those of others that were not known are among `others` from now on."""
        for queue in {head.queue for head in heads} - self._served.keys():
            named = transaction.queue_name(queue)
            if named is not None:
                self._learn(queue, *named)
        return [head for head in heads if self._served.get(head.queue, False)]

    def serves(self, queue: QueueId, pool: str, name: str) -> bool:
        """Whether a queue is served, which may be known to have no ready job."""
        if queue not in self._served:
            self._learn(queue, pool, name)
        return self._served[queue]

    def _learn(self, queue: QueueId, pool: str, name: str) -> None:
        # A queue that is not that of its names holds jobs in a newer format, for code that computes it so.
        self._served[queue] = queue == queue_of(pool, name) and self._runs(pool, name)
        if self._served[queue]:
            self._pools[queue] = pool
        else:
            self.others.append(queue)


class Claims:
    """The claims of one loop: what it takes next, and what it took although the reply said otherwise."""

    def __init__(self, deps: EngineDeps, kind: FunctionKind) -> None:
        self._deps = deps
        self._kind = kind
        runner, every_ms = deps.runner, deps.settings.poll // MILLISECOND
        self._served = ServedQueues(runner.functions, self._runs, deps.pool_of_queue, learn_every_ms=every_ms)
        self._keeps_looks = not deps.store.single_engine
        self._after = START
        self._left: list[Head] = []
        """Heads of the last look that may have more jobs, each from the rank to which it was claimed."""
        self.news = Newcomers()
        self._looked_at = LONG_AGO
        self._last: list[Head] = []
        """Heads of the last claim, if they were few."""
        self._may_guess = False
        self._waiting_at: Instant | None = None
        """When the first job that waits for its time is due, as far as is known."""
        self._asked_at = LONG_AGO
        self._claims_made = 0
        self._served_at: dict[TenantId, int] = {}
        self._limits = StartLimits(deps.pool_of_queue, is_shared=not deps.store.single_engine)
        self._keys = KeyLimits(self._limits)
        self.holds_back = False
        """Whether limits kept ready jobs from starting in the last claim: an end may let one start."""
        self._compared_at = deps.clock.now()

    def isolation(self, wanted: Isolation) -> Isolation:
        """How isolated the next claim must be, which does with `wanted` unless there are limits."""
        return self._limits.isolation(wanted)

    # -- what to take next

    def newcomers(self, transaction: Transaction, worker_id: WorkerId, *, now: Instant, room: Room) -> Claimed:
        """Claim ready jobs of tenants and queues that the last look did not find; call it again for those left.

        Those that came last are tried first, which saves the search.
        """
        known, claims = self._left, list[Claim]()
        if known and self.news.heard and self._keeps_looks and not self._keys.hold_back:
            self.news.heard = False
            claims = self._take(transaction, worker_id, self.news.came_last(now, known), room, now)
            if not claims:
                self.news.heard, self._left = True, known
                claims = self._take(transaction, worker_id, self._new_heads(transaction, now), room, now)
            if claims:
                self._deps.counters.add("newcomers_claimed", len(claims))
                self.news.note(self._last, self._left, now)
            self._left = [*known, *self._left]
        return Claimed(claims, now, suspect_is_due=None)

    def newcomers_first(self, transaction: Transaction, worker_id: WorkerId, *, now: Instant, room: Room) -> Claimed:
        """Claim newcomers alone, so that they start sooner; if there are none, or the last were such, what is due."""
        found = None if self.news.came else self.newcomers(transaction, worker_id, now=now, room=room)
        self.news.came = found is not None and bool(found.claims)
        if found is None or not found.claims:
            return self.due(transaction, worker_id, now=now, room=room)
        self.news.heard = True  # there may be more
        return found

    def newcomers_since(self, transaction: Transaction, worker_id: WorkerId, *, now: Instant, room: Room) -> Claimed:
        """Straight after `newcomers_first`: claim those that came while it claimed what is due. So they need not wait
        until the event loop has heard of that claim and a thread begins the next one.
        """
        if self.news.came:
            return Claimed([], now)
        found = self.newcomers(transaction, worker_id, now=now, room=room)
        if found.claims:
            self.news.came = self.news.heard = True
        return found

    def due(self, transaction: Transaction, worker_id: WorkerId, *, now: Instant, room: Room) -> Claimed:
        """Claim ready jobs, as many as there is room for."""
        if claims := self._without_look(transaction, worker_id, now, room):
            return Claimed(claims, now, suspect_is_due=None)
        if self._waiting_at is not None and self._waiting_at <= now:
            self._promote(transaction, now)
        heads = self._look(transaction, now, room)
        if not heads or not 0 <= now - self._asked_at < ASK_EVERY_MS:
            self._waiting_at, self._asked_at = transaction.next_waiting_at(), now
            if self._waiting_at is not None and self._waiting_at <= now and self._promote(transaction, now):
                heads = heads or self._look(transaction, now, room)
        claims = self._take(transaction, worker_id, heads, room, now)
        self._may_guess = not claims
        soon = Instant(now + TAKEN_MS)
        later = [self._when_to_look(heads, soon, now)] if heads else []
        if self._keys.hold_back:
            later.append(Instant(now + LOOK_AGAIN_MS))
        suspect_at = min((each.due_at for each in self._suspects(transaction, now)), default=None)
        suspect_is_due = suspect_at is not None and suspect_at <= now
        if claims:  # look again at once: only a look that finds nothing knows what is due next
            return Claimed(claims, now, suspect_is_due)
        if self._waiting_at is not None:
            later.append(self._waiting_at if self._waiting_at > now else soon)  # others may be making it ready
        if suspect_at is not None and not suspect_is_due:
            later.append(suspect_at)
        return Claimed([], min(later, default=None), suspect_is_due)

    def _without_look(self, transaction: Transaction, worker_id: WorkerId, now: Instant, room: Room) -> list[Claim]:
        """Claim behind the heads of the last look while it is kept; or, once, behind those that had jobs last."""
        if not self._keeps_looks or self._keys.hold_back:
            return []
        are_many = len(self._left) + len(self._served.others) > KNOWN_HEADS_MAX  # so that only a look finds newcomers
        is_stale = are_many and self.news.heard and self._kind is FunctionKind.ACTION  # too much for each batch
        if 0 <= now - self._looked_at < LOOK_KEPT_MS and self._left and not is_stale:
            heads = [*self._left, *self._new_heads(transaction, now)]
            came_last = self.news.came_last(now, heads) if self._kind is FunctionKind.ACTION else []
            if not (beside := came_last[: room.jobs // BESIDE_SHARE]):
                return self._take(transaction, worker_id, heads, room, now)
            claims = self._take(transaction, worker_id, heads, replace(room, beside=beside), now)
            if count := self.news.see(claims, now):
                self._deps.counters.add("newcomers_claimed", count)
            return claims
        if self._may_guess and self._last:
            self._may_guess = False
            return self._take(transaction, worker_id, self._last, room, now)
        return []

    def _new_heads(self, transaction: Transaction, now: Instant) -> list[Head]:
        """Heads beside those of the last look: a tenant with few jobs must not wait for one with many."""
        known = len(self._left) + len(self._served.others)
        if known > KNOWN_HEADS_MAX or not self.news.begin_search(now):
            return []
        found = transaction.new_heads(self._left, others=self._served.others)
        heads = self._served.among(transaction, found)
        if heads:
            self.news.found_some()
            self._limits.look(transaction, [*self._left, *heads, *self.news.last])
        return heads

    def _look(self, transaction: Transaction, now: Instant, room: Room) -> list[Head]:
        """Heads of served queues, from where the last look ended, once round."""
        self.news.heard = False
        self._served.forget(now)
        self._limits.ask(transaction, now=now)
        if self._limits.may_hold_keys or self._keys.hold_back:
            self._keys.release(transaction, self._served.serves)
        wanted = max(room.jobs, HEADS_MAX)
        start = self._after
        heads = self._read(transaction, start, wanted)
        if len(heads) < wanted and start != START:
            again = self._read(transaction, START, wanted - len(heads))
            heads += [head for head in again if head[:2] <= start[:2]]
        self._after = heads[-1] if len(heads) == wanted else START
        self._looked_at = now
        # A guess may claim behind the last ones, and newcomers are tried behind theirs.
        self._limits.look(transaction, [*heads, *self._last, *self.news.last])
        return heads

    def _read(self, transaction: Transaction, after: Head, limit: int) -> list[Head]:
        served, steps = self._served, max(self._deps.settings.tenants, limit)
        while True:
            others = len(served.others)
            found = transaction.ready_heads(others=served.others, after=after, limit=limit, steps=steps + others)
            heads = served.among(transaction, found)
            if len(served.others) == others:
                return heads

    def _when_to_look(self, heads: list[Head], soon: Instant, now: Instant) -> Instant:
        """When to look again after nothing was claimed behind the heads."""
        if not self._limits.hold_back(heads):
            return soon  # others were faster, or lock it
        return now if self._after != START else self._limits.look_again_at(now=now)  # beyond these may be others

    def _take(
        self, transaction: Transaction, worker_id: WorkerId, heads: list[Head], room: Room, now: Instant
    ) -> list[Claim]:
        """Claim behind the heads, in passes: what one tenant leaves goes to the others."""
        claims: list[Claim] = []
        limits = self._limits
        limits.begin(transaction, [*heads, *room.beside], now=now)
        unheld = limits.unheld(heads)
        if limits.per_key:
            self._keys.begin(transaction)
        was_held, heads = len(unheld) < len(heads), unheld
        running = dict(room.running)
        places = [Share(head, 1) for head in limits.unheld(room.beside)]
        jobs, size = room.jobs - len(places), room.bytes
        while heads and jobs > 0 and size >= JOB_BYTES_MAX:
            shares = limits.within([*divide(heads, jobs, running=running, served=self._served_at), *places])
            places = []
            claim_jobs = partial(self._keys.claim, transaction) if limits.per_key else transaction.claim_jobs
            taken = claim_jobs(shares, kind=self._kind, worker_id=worker_id, now=self._deps.clock.now(), bytes_max=size)
            self._claims_made += 1
            limits.take(taken)
            heads = limits.unheld(left_behind(heads, shares, taken))
            if not taken:
                break
            claims += taken
            jobs -= len(taken)
            size -= sum([size_of(claim.args) for claim in taken])
            for tenant, count in Counter([claim.tenant for claim in taken]).items():
                running[tenant] = running.get(tenant, 0) + count
                self._served_at[tenant] = self._claims_made
        limits.end(transaction, claims, now=now)
        self.holds_back = was_held or self._keys.hold_back
        self._left = heads
        if claims:
            last = {(claim.queue, claim.tenant): claim.rank for claim in claims}
            few = len(last) <= GUESSED_HEADS_MAX
            self._last = [Head(*place, rank) for place, rank in last.items()] if few else []
            if len(self._served_at) > SERVED_MAX:
                self._served_at = {claim.tenant: self._claims_made for claim in claims}
        return in_turns(claims)

    def _promote(self, transaction: Transaction, now: Instant) -> int:
        """Make jobs ready whose time has come; returns how many. When the next are due is asked afterwards."""
        self._asked_at = LONG_AGO
        return transaction.promote_jobs(now=now, limit=PROMOTED_MAX)

    def _runs(self, pool: str, name: str) -> bool:
        """Whether jobs of a function in a pool are claimed here; as `Serves.runs` says of a whole worker."""
        function, pools = self._deps.runner.function(name), self._deps.pools
        if function is None or function.kind is not self._kind:
            return False
        return belongs_to(pool, self._deps.apps) and (pools is None or pool in pools or function.pool in pools)

    # -- suspects

    def suspect(self, transaction: Transaction, worker_id: WorkerId, *, now: Instant) -> Claimed:
        """Claim the suspect that is due first."""
        for each in self._suspects(transaction, now):
            if each.due_at > now:
                break
            claim = transaction.claim_suspect(each.id, kind=self._kind, worker_id=worker_id, now=now)
            if claim is not None:
                self._limits.end(transaction, [claim], now=now)
                return Claimed([claim], now)
        return Claimed([], None)

    def _suspects(self, transaction: Transaction, now: Instant) -> list[Suspect]:
        """The pending suspects that may start here, those that are due first."""
        found = transaction.suspects(limit=SUSPECTS_MAX)
        served = [e for e in found if e.queue == queue_of(e.pool, e.name) and self._runs(e.pool, e.name)]
        self._limits.begin_suspects(transaction, served, now=now)
        unheld = self._limits.unheld(served)
        return self._keys.with_room(transaction, unheld) if self._limits.per_key else unheld

    # -- what was taken although the reply said otherwise

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around a claim: if it fails, the next `lost` looks at once."""
        try:
            yield
        except Exception:
            self._compared_at = LONG_AGO
            self._left = []
            raise

    async def lost(self, worker_id: WorkerId, known: Collection[Attempt] = ()) -> list[Claim]:
        """What `worker_id` holds without running it, if it is time to look; call it while no claim is under way.

        `known` must be what ran before the look began: a job that ends meanwhile is still among it.
        """
        now, settings = self._deps.clock.now(), self._deps.settings
        # A COMMIT whose reply was lost may still be under way when we look at once, so look later as well.
        if 0 <= now - self._compared_at < settings.lease // MILLISECOND:
            return []
        limit = settings.batch + settings.action_slots + len(known)
        found = await find_lost(self._deps.executors, worker_id, self._kind, known, limit=limit)
        self._compared_at = now
        if found:
            self._deps.counters.add("claims_found", len(found))
        return found


# -- Giving back what a worker has claimed and not begun.


async def give_back(deps: EngineDeps, claims: list[Claim], worker_id: WorkerId) -> None:
    """Make claimed jobs ready again, as if they had not been claimed: their functions were not begun."""

    def work(transaction: Transaction) -> None:
        for claim in claims:
            transaction.release_job(claim.id, worker_id=worker_id, attempt=claim.attempt)
        for job_id in transaction.stops_asked([claim.id for claim in claims]):  # while it was claimed
            tenant = next(claim.tenant for claim in claims if claim.id == job_id)
            cancel(transaction, job_id, tenant=tenant, now=deps.clock.now(), make_id=deps.ids.make)

    await deps.executors.write(work, isolation=Isolation.READ_COMMITTED)

"""Claiming: which ready jobs a worker takes next, fairly among tenants.

A poll reads the oldest ready job (the one of the lowest rank) of each tenant in each queue that this worker serves. It
costs one index step per tenant and queue, however many jobs wait, run or have ended. Polls are circular: each begins
where the last one ended. The free places are divided among the tenants (`tenant_fairness`), and each tenant's jobs are
claimed by rank from its oldest job on. Jobs that have become due are made ready before a poll, or when it finds
nothing.

On PostgreSQL the result of a poll is used for `POLL_KEPT_MS`, so most claims are one statement. Each claim continues
after the last claimed rank, because the index keeps entries of claimed jobs until the next VACUUM. If something was
scheduled meanwhile and few queues are known, a claim also searches for *newcomers*: other tenants and queues. Newcomers
are claimed separately where they start sooner that way. A job of a lower rank than the claimed ones is found by the
next poll.

Suspects are jobs during which `SUSPECT_CRASHES` or more workers have died. They are claimed separately, one at a time,
by a loop that runs them separately.

The reply to a claim can get lost although the claim was committed. Then the jobs belong to a worker that does not know
them, and its lease prevents all others from running them. So each claiming loop compares its running jobs with those
that it holds according to the database: after a failed claim, and from time to time.
"""

import logging
from abc import abstractmethod
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
from evertick.engine.jobs.limits import POLL_AGAIN_MS, KeyLimits, StartLimits
from evertick.engine.jobs.tenant_fairness import divide, in_turns, left_behind
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import Executors
from evertick.engine.runtime.loop import Loop
from evertick.store.records.claims import START, OldestJob, Share, Suspect
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

# -- Newcomers: tenants and queues that the last poll of a loop did not find, where poll results are reused.
#
# This class stores what a loop knows of them: whether something was scheduled since the last search, which came last,
# and whether the last claim took some. `Claims` searches for them and claims them.

EVERY_MS: Final = 25
"""The least time from a search without result to the next one: a statement can take several milliseconds."""
KEPT_MS: Final = SECOND_MS
"""How long the last newcomers are tried before a search for others: a try without result costs a statement."""


class Newcomers:
    """What one loop remembers about newcomers: jobs of tenants and queues that its last poll did not find."""

    def __init__(self) -> None:
        self.notified = False
        """Whether something was scheduled since the last search. Set in any thread."""
        self.were_claimed = False
        """Whether the last claim took newcomers."""
        self.last: list[OldestJob] = []
        """The oldest jobs of the last newcomers, if they were few and left no job ready."""
        self._came_at = LONG_AGO
        self._found_none_at = LONG_AGO

    def recent(self, now: Instant, known: Sequence[OldestJob]) -> list[OldestJob]:
        """Oldest jobs of recent newcomers, to be tried without a search, except those that a poll has found since."""
        if not self.last or not 0 <= now - self._came_at < KEPT_MS:
            return []
        places = {first[:2] for first in known}
        return [first for first in self.last if first[:2] not in places]

    def note(self, oldest: Sequence[OldestJob], left: Sequence[OldestJob], now: Instant) -> None:
        """Remember the newcomers (`oldest`, if they were few), except those that have jobs `left`."""
        places = {first[:2] for first in left}
        self.last = [first for first in oldest if first[:2] not in places]
        self._came_at = now

    def note_claims(self, claims: Sequence[Claim], now: Instant) -> int:
        """Note which of the claims belong to the last newcomers. Return their number."""
        ranks = {first[:2]: first.rank for first in self.last}
        came = [claim for claim in claims if (claim.queue, claim.tenant) in ranks] if ranks else []
        if came:
            ranks.update({(claim.queue, claim.tenant): claim.rank for claim in came})
            self.last, self._came_at = [OldestJob(*place, rank) for place, rank in ranks.items()], now
        return len(came)

    def begin_search(self, now: Instant) -> bool:
        """Whether to search now: something was scheduled, and no recent search found nothing.

        If it returns True, the search counts as begun.
        """
        if not self.notified or 0 <= now - self._found_none_at < EVERY_MS:
            return False
        self.notified, self._found_none_at = False, now
        return True

    def note_found(self) -> None:
        """Note that the search had a result."""
        self._found_none_at = LONG_AGO


# -- Lost claims: jobs that a worker holds although the reply to its claim was lost.

_logger: Final = logging.getLogger("evertick.engine")

Attempt = tuple[JobId, int]
"""A job under one of its claims."""


async def find_lost(
    executors: Executors, worker_id: WorkerId, kind: FunctionKind, known: Collection[Attempt], *, limit: int
) -> list[Claim]:
    """Find jobs of a kind that a worker holds and that are not `known`, among up to `limit` that it holds."""

    def unknown(transaction: Transaction) -> list[Claim]:
        held = transaction.held_jobs(worker_id, limit=limit)
        return [c for c in held if c.kind is kind and (c.id, c.attempt) not in known]

    def confirmed(transaction: Transaction) -> list[Claim]:
        transaction.confirm()
        return unknown(transaction)

    found = await executors.read(unknown)
    if found:  # a read may come from an old primary, which must not call a function
        found = await executors.write(confirmed, isolation=Isolation.READ_COMMITTED)
    if found:
        _logger.warning("%d jobs were claimed here although the reply said otherwise; they run now", len(found))
    return found


# -- The capacity of a claim, and its result.

BYTES_MAX: Final = 64 * 1024 * 1024
"""Arguments that one loop of a worker holds in memory at most, in bytes."""
JOB_BYTES_MAX: Final = 4 * 1024 * 1024
"""Arguments of one job at most, in bytes. With less capacity, nothing is claimed."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """Claimed jobs, and when the next job of any tenant is due; None if there is no next job.

    A suspect may have to wait although it is due, so it does not cause another poll at once: `suspect_is_due` reports
    it. It is None if the claim did not poll; then the next round begins at once and polls.
    """

    claims: list[Claim]
    next_due_at: Instant | None
    suspect_is_due: bool | None = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """A loop's capacity in jobs and in bytes of arguments, and how many jobs of each tenant it runs already."""

    jobs: int
    bytes: int = BYTES_MAX
    running: Mapping[TenantId, int] = field(default_factory=dict)
    newcomers: Sequence[OldestJob] = ()
    """Oldest jobs of tenants that seldom have one: the first statement reserves one place for each of them."""


OLDEST_MAX: Final = 256
"""Oldest jobs read in one poll, unless more jobs than that are wanted."""
POLL_KEPT_MS: Final = 200
"""How long the result of a poll is used, where poll results are reused."""
KNOWN_QUEUES_MAX: Final = 64
"""Where poll results are reused: up to this many known queues, also of others, a claim also searches for newcomers."""
NEWCOMER_SHARE: Final = 4
"""At most one in so many places of a claim of actions is reserved for tenants that came last."""
GUESSED_MAX: Final = 4
"""Oldest jobs of the last claim that the next one may try before it polls again, after a poll that found nothing."""
PROMOTED_MAX: Final = 1_000
"""Jobs made ready in one transaction."""
QUERY_EVERY_MS: Final = 100
"""Time between two checks whether other jobs have become due, while polls find ready jobs."""
TAKEN_MS: Final = 10
"""Time until the next poll after others took all due jobs, or while others make them ready."""
SUSPECTS_MAX: Final = 100
"""Suspects read when one is wanted."""
SERVED_MAX: Final = 10_000
"""Tenants for which a loop remembers when it last claimed from them."""


class ServedQueues:
    """The queues of one loop: those for which `runs(pool, function)` is true; `functions` are the worker's.

    A loop polls every queue with ready jobs except those that it knows to belong to others. The name of a new queue is
    read from one of its jobs. Results are forgotten from time to time, because functions may be registered after the
    worker's start. The pool of each served queue is stored in `pools`.
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
        """Queues of other apps, or of functions that are unknown, of another kind, or in others' pools. Polls skip
        them."""

    def forget(self, now: Instant) -> None:
        """Before a poll: discard the results after a while, so that they are determined again."""
        if 0 <= now - self._learned_at < self._learn_every_ms:
            return
        self._learned_at = now
        self._served.clear()
        self.others.clear()
        for function in self._functions():
            for pool in {function.pool, DEFAULT_POOL}:
                self._learn(queue_of(pool, function.name), pool, function.name)

    def among(self, transaction: Transaction, oldest: list[OldestJob]) -> list[OldestJob]:
        """The oldest jobs of served queues. Adds unknown queues of others to `others`."""
        for queue in {first.queue for first in oldest} - self._served.keys():
            named = transaction.queue_name(queue)
            if named is not None:
                self._learn(queue, *named)
        return [first for first in oldest if self._served.get(first.queue, False)]

    def serves(self, queue: QueueId, pool: str, name: str) -> bool:
        """Whether a queue is served. The queue may have no ready job."""
        if queue not in self._served:
            self._learn(queue, pool, name)
        return self._served[queue]

    def _learn(self, queue: QueueId, pool: str, name: str) -> None:
        # An id that does not match the names marks a queue with jobs in a newer format, for newer code.
        self._served[queue] = queue == queue_of(pool, name) and self._runs(pool, name)
        if self._served[queue]:
            self._pools[queue] = pool
        else:
            self.others.append(queue)


class Claims:
    """The claims of one loop: which jobs it takes next, and which it holds although the reply was lost."""

    def __init__(self, deps: EngineDeps, kind: FunctionKind) -> None:
        self._deps = deps
        self._kind = kind
        runner, every_ms = deps.runner, deps.settings.poll // MILLISECOND
        self._served = ServedQueues(runner.functions, self._runs, deps.pool_of_queue, learn_every_ms=every_ms)
        self._keeps_polls = not deps.store.single_engine
        self._after = START
        self._left: list[OldestJob] = []
        """Oldest jobs of the last poll whose queues may have more, each from the last claimed rank on."""
        self.newcomers = Newcomers()
        self._polled_at = LONG_AGO
        self._last: list[OldestJob] = []
        """The oldest jobs of the last claim, if they were few."""
        self._may_guess = False
        self._waiting_at: Instant | None = None
        """When the first job that is not due yet becomes due, as far as is known."""
        self._queried_at = LONG_AGO
        self._claims_made = 0
        self._served_at: dict[TenantId, int] = {}
        self._limits = StartLimits(deps.pool_of_queue, is_shared=not deps.store.single_engine)
        self._keys = KeyLimits(self._limits)
        self.holds_back = False
        """Whether limits kept ready jobs from starting in the last claim: the end of a job may allow one to start."""
        self._compared_at = deps.clock.now()

    def isolation(self, wanted: Isolation) -> Isolation:
        """The isolation of the next claim: `wanted`, unless there are limits."""
        return self._limits.isolation(wanted)

    # -- which jobs to take next

    def claim_newcomers(
        self, transaction: Transaction, worker_id: WorkerId, *, now: Instant, capacity: Capacity
    ) -> Claimed:
        """Claim ready jobs of tenants and queues that the last poll did not find; call it again for the remaining ones.

        The last newcomers are tried first, which saves the search.
        """
        known, claims = self._left, list[Claim]()
        if known and self.newcomers.notified and self._keeps_polls and not self._keys.hold_back:
            self.newcomers.notified = False
            claims = self._take(transaction, worker_id, self.newcomers.recent(now, known), capacity, now)
            if not claims:
                self.newcomers.notified, self._left = True, known
                claims = self._take(transaction, worker_id, self._oldest_new_jobs(transaction, now), capacity, now)
            if claims:
                self._deps.counters.add("newcomers_claimed", len(claims))
                self.newcomers.note(self._last, self._left, now)
            self._left = [*known, *self._left]
        return Claimed(claims, now, suspect_is_due=None)

    def claim_newcomers_first(
        self, transaction: Transaction, worker_id: WorkerId, *, now: Instant, capacity: Capacity
    ) -> Claimed:
        """Claim only newcomers, so that they start sooner. If none, or if the last claim took some, claim due jobs."""
        found = (
            None
            if self.newcomers.were_claimed
            else self.claim_newcomers(transaction, worker_id, now=now, capacity=capacity)
        )
        self.newcomers.were_claimed = found is not None and bool(found.claims)
        if found is None or not found.claims:
            return self.claim_due(transaction, worker_id, now=now, capacity=capacity)
        self.newcomers.notified = True  # there may be more
        return found

    def claim_newcomers_since(
        self, transaction: Transaction, worker_id: WorkerId, *, now: Instant, capacity: Capacity
    ) -> Claimed:
        """Claim newcomers that arrived during the claim of due jobs; call it after `claim_newcomers_first`.

        So they need not wait until the event loop has received that claim and a thread begins the next one.
        """
        if self.newcomers.were_claimed:
            return Claimed([], now)
        found = self.claim_newcomers(transaction, worker_id, now=now, capacity=capacity)
        if found.claims:
            self.newcomers.were_claimed = self.newcomers.notified = True
        return found

    def claim_due(self, transaction: Transaction, worker_id: WorkerId, *, now: Instant, capacity: Capacity) -> Claimed:
        """Claim ready jobs up to the capacity."""
        if claims := self._without_poll(transaction, worker_id, now, capacity):
            return Claimed(claims, now, suspect_is_due=None)
        if self._waiting_at is not None and self._waiting_at <= now:
            self._promote(transaction, now)
        oldest = self._poll(transaction, now, capacity)
        if not oldest or not 0 <= now - self._queried_at < QUERY_EVERY_MS:
            self._waiting_at, self._queried_at = transaction.next_waiting_at(), now
            if self._waiting_at is not None and self._waiting_at <= now and self._promote(transaction, now):
                oldest = oldest or self._poll(transaction, now, capacity)
        claims = self._take(transaction, worker_id, oldest, capacity, now)
        self._may_guess = not claims
        soon = Instant(now + TAKEN_MS)
        later = [self._poll_at(oldest, soon, now)] if oldest else []
        if self._keys.hold_back:
            later.append(Instant(now + POLL_AGAIN_MS))
        suspect_at = min((each.due_at for each in self._suspects(transaction, now)), default=None)
        suspect_is_due = suspect_at is not None and suspect_at <= now
        if claims:  # poll again at once: only a poll that finds nothing knows when the next job is due
            return Claimed(claims, now, suspect_is_due)
        if self._waiting_at is not None:
            later.append(self._waiting_at if self._waiting_at > now else soon)  # others may be making it ready
        if suspect_at is not None and not suspect_is_due:
            later.append(suspect_at)
        return Claimed([], min(later, default=None), suspect_is_due)

    def _without_poll(
        self, transaction: Transaction, worker_id: WorkerId, now: Instant, capacity: Capacity
    ) -> list[Claim]:
        """Claim from the queues of the last poll while it is valid; otherwise, once, from those of the last claim."""
        if not self._keeps_polls or self._keys.hold_back:
            return []
        are_many = len(self._left) + len(self._served.others) > KNOWN_QUEUES_MAX  # only a poll finds newcomers then
        # Mutations do not poll for each batch, which would be too expensive.
        is_stale = are_many and self.newcomers.notified and self._kind is FunctionKind.ACTION
        if 0 <= now - self._polled_at < POLL_KEPT_MS and self._left and not is_stale:
            oldest = [*self._left, *self._oldest_new_jobs(transaction, now)]
            recent = self.newcomers.recent(now, oldest) if self._kind is FunctionKind.ACTION else []
            if not (newcomers := recent[: capacity.jobs // NEWCOMER_SHARE]):
                return self._take(transaction, worker_id, oldest, capacity, now)
            claims = self._take(transaction, worker_id, oldest, replace(capacity, newcomers=newcomers), now)
            if count := self.newcomers.note_claims(claims, now):
                self._deps.counters.add("newcomers_claimed", count)
            return claims
        if self._may_guess and self._last:
            self._may_guess = False
            return self._take(transaction, worker_id, self._last, capacity, now)
        return []

    def _oldest_new_jobs(self, transaction: Transaction, now: Instant) -> list[OldestJob]:
        """Oldest jobs of newcomers: a tenant with few jobs must not wait for one with many."""
        known = len(self._left) + len(self._served.others)
        if known > KNOWN_QUEUES_MAX or not self.newcomers.begin_search(now):
            return []
        found = transaction.oldest_new_jobs(self._left, others=self._served.others)
        oldest = self._served.among(transaction, found)
        if oldest:
            self.newcomers.note_found()
            self._limits.query_tenants(transaction, [*self._left, *oldest, *self.newcomers.last])
        return oldest

    def _poll(self, transaction: Transaction, now: Instant, capacity: Capacity) -> list[OldestJob]:
        """The oldest jobs of served queues, from where the last poll ended, at most one full circle."""
        self.newcomers.notified = False
        self._served.forget(now)
        self._limits.refresh(transaction, now=now)
        if self._limits.may_hold_keys or self._keys.hold_back:
            self._keys.release(transaction, self._served.serves)
        wanted = max(capacity.jobs, OLDEST_MAX)
        start = self._after
        oldest = self._read(transaction, start, wanted)
        if len(oldest) < wanted and start != START:
            again = self._read(transaction, START, wanted - len(oldest))
            oldest += [first for first in again if first[:2] <= start[:2]]
        self._after = oldest[-1] if len(oldest) == wanted else START
        self._polled_at = now
        # A claim without a poll may use the oldest jobs of the last claim, and newcomers are tried at theirs.
        self._limits.query_tenants(transaction, [*oldest, *self._last, *self.newcomers.last])
        return oldest

    def _read(self, transaction: Transaction, after: OldestJob, limit: int) -> list[OldestJob]:
        served, steps = self._served, max(self._deps.settings.tenants, limit)
        while True:
            others = len(served.others)
            found = transaction.oldest_ready_jobs(others=served.others, after=after, limit=limit, steps=steps + others)
            oldest = served.among(transaction, found)
            if len(served.others) == others:
                return oldest

    def _poll_at(self, oldest: list[OldestJob], soon: Instant, now: Instant) -> Instant:
        """When to poll again after nothing was claimed from the oldest jobs on."""
        if not self._limits.hold_back(oldest):
            return soon  # other workers were faster, or lock it
        return now if self._after != START else self._limits.poll_again_at(now=now)  # there may be more queues

    def _take(
        self, transaction: Transaction, worker_id: WorkerId, oldest: list[OldestJob], capacity: Capacity, now: Instant
    ) -> list[Claim]:
        """Claim from the oldest jobs on, in passes: places that one tenant does not use go to the others."""
        claims: list[Claim] = []
        limits = self._limits
        limits.begin(transaction, [*oldest, *capacity.newcomers], now=now)
        startable = limits.startable(oldest)
        if limits.per_key:
            self._keys.begin(transaction)
        was_held, oldest = len(startable) < len(oldest), startable
        running = dict(capacity.running)
        places = [Share(first, 1) for first in limits.startable(capacity.newcomers)]
        jobs, size = capacity.jobs - len(places), capacity.bytes
        while oldest and jobs > 0 and size >= JOB_BYTES_MAX:
            shares = limits.within([*divide(oldest, jobs, running=running, served=self._served_at), *places])
            places = []
            claim_jobs = partial(self._keys.claim, transaction) if limits.per_key else transaction.claim_jobs
            taken = claim_jobs(shares, kind=self._kind, worker_id=worker_id, now=self._deps.clock.now(), bytes_max=size)
            self._claims_made += 1
            limits.take(taken)
            oldest = limits.startable(left_behind(oldest, shares, taken))
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
        self._left = oldest
        if claims:
            last = {(claim.queue, claim.tenant): claim.rank for claim in claims}
            few = len(last) <= GUESSED_MAX
            self._last = [OldestJob(*place, rank) for place, rank in last.items()] if few else []
            if len(self._served_at) > SERVED_MAX:
                self._served_at = {claim.tenant: self._claims_made for claim in claims}
        return in_turns(claims)

    def _promote(self, transaction: Transaction, now: Instant) -> int:
        """Make jobs ready that have become due. Return their number. Query the next due time only afterwards."""
        self._queried_at = LONG_AGO
        return transaction.promote_jobs(now=now, limit=PROMOTED_MAX)

    def _runs(self, pool: str, name: str) -> bool:
        """Whether this loop claims jobs of a function in a pool; `Serves.runs` is the same for a whole worker."""
        function, pools = self._deps.runner.function(name), self._deps.pools
        if function is None or function.kind is not self._kind:
            return False
        return belongs_to(pool, self._deps.apps) and (pools is None or pool in pools or function.pool in pools)

    # -- suspects

    def suspect(self, transaction: Transaction, worker_id: WorkerId, *, now: Instant) -> Claimed:
        """Claim the suspect with the earliest due time."""
        for each in self._suspects(transaction, now):
            if each.due_at > now:
                break
            claim = transaction.claim_suspect(each.id, kind=self._kind, worker_id=worker_id, now=now)
            if claim is not None:
                self._limits.end(transaction, [claim], now=now)
                return Claimed([claim], now)
        return Claimed([], None)

    def _suspects(self, transaction: Transaction, now: Instant) -> list[Suspect]:
        """The pending suspects that may start here, earliest due time first."""
        found = transaction.suspects(limit=SUSPECTS_MAX)
        served = [e for e in found if e.queue == queue_of(e.pool, e.name) and self._runs(e.pool, e.name)]
        self._limits.begin_suspects(transaction, served, now=now)
        startable = self._limits.startable(served)
        return self._keys.with_capacity(transaction, startable) if self._limits.per_key else startable

    # -- jobs that are held although the reply was lost

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Context of a claim: if the claim fails, the next call of `lost` compares at once."""
        try:
            yield
        except Exception:
            self._compared_at = LONG_AGO
            self._left = []
            raise

    async def lost(self, worker_id: WorkerId, known: Collection[Attempt] = ()) -> list[Claim]:
        """Find jobs that `worker_id` holds without running them, if it is time. Call it while no claim is in progress.

        `known` must be what ran before the query began: a job that ends meanwhile is still part of it.
        """
        now, settings = self._deps.clock.now(), self._deps.settings
        # A COMMIT whose reply was lost may still be in progress when we compare at once, so compare later as well.
        if 0 <= now - self._compared_at < settings.lease // MILLISECOND:
            return []
        limit = settings.batch + settings.action_slots + len(known)
        found = await find_lost(self._deps.executors, worker_id, self._kind, known, limit=limit)
        self._compared_at = now
        if found:
            self._deps.counters.add("claims_found", len(found))
        return found


# -- Giving back jobs that a worker has claimed and not begun.


async def give_back(deps: EngineDeps, claims: list[Claim], worker_id: WorkerId) -> None:
    """Make claimed jobs ready again, as if they had not been claimed. Their functions were not begun."""

    def work(transaction: Transaction) -> None:
        for claim in claims:
            transaction.release_job(claim.id, worker_id=worker_id, attempt=claim.attempt)
        for job_id in transaction.stops_asked([claim.id for claim in claims]):  # while it was claimed
            tenant = next(claim.tenant for claim in claims if claim.id == job_id)
            cancel(transaction, job_id, tenant=tenant, now=deps.clock.now(), make_id=deps.ids.make)

    await deps.executors.write(work, isolation=Isolation.READ_COMMITTED)


# -- Loops that claim.


class ClaimingLoop(Loop):
    """A loop that claims jobs of one kind. Another loop pauses it while that one runs a suspect."""

    kind: FunctionKind

    def __init__(self, deps: EngineDeps, *, worker_id: Callable[[], WorkerId | None]) -> None:
        super().__init__(deps, poll_ms=deps.settings.poll // MILLISECOND)
        self._worker_id = worker_id
        self._claims = Claims(deps, self.kind)
        self._paused_by: set[str] = set()
        self.on_idle: list[Callable[[], object]] = []
        """Called when a pause was requested and the loop has become idle."""

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether the loop holds no claimed job and claims none at the moment."""

    def notify(self) -> None:
        self._claims.newcomers.notified = True

    def poke(self) -> None:
        """Poll again at once, also for new tenants."""
        self.notify()
        super().poke()

    def pause(self, by: str) -> bool:
        """Claim nothing until the same caller calls `resume`. Return whether the loop is idle. If it is not, `on_idle`
        is called later.
        """
        self._paused_by.add(by)
        return self.is_idle

    def resume(self, by: str) -> None:
        """End the pause of this caller."""
        if by in self._paused_by:
            self._paused_by.remove(by)
            self.poke()

    def _notify_if_idle(self) -> None:
        if self._paused_by and self.is_idle:
            for callback in self.on_idle:
                callback()

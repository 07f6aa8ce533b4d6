"""Claiming: which due jobs a worker takes next, fairly among tenants.

Each tenant with due jobs gets an equal share of the free places; what one leaves goes to the others. Where there are
too few places for all, they take turns (`tenant_fairness`).
Suspects, which `SUSPECT_CRASHES` or more of their workers did not survive, are claimed apart, one at a time, by a loop
that runs them apart from others.

A job whose function this worker does not know is handed back and marked as blocked, so it burdens no later claim
until a worker comes that knows it.

The reply to a claim can get lost although the claim was committed. Then the jobs belong to a worker that does not know
of them, and its lease keeps them from all others. So each claiming loop compares, after a claim that failed and from
time to time, what it runs with what it holds according to the database.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from evertick.base.errors import Conflict, Unavailable
from evertick.base.ids import JobId, TenantId, WorkerId
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records.jobs import Claim, FunctionKind
from evertick.engine.jobs.completion import cancel
from evertick.engine.jobs.tenant_fairness import RoundRobin, look
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.runner import Runner, known_kind
from evertick.store.contract.store import Isolation, Transaction

_logger: Final = logging.getLogger("evertick.engine")

TAKEN_MS: Final = 50
"""After all that was due had been taken by others: time until the next look."""
Attempt = tuple[JobId, int]
"""A job under one of its claims."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who claims: the loop of one worker that runs one kind of function."""

    kind: FunctionKind
    worker_id: WorkerId
    runner: Runner


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was claimed, and when the next job of this kind is due (None: there is none).

    A suspect may have to wait although it is due, so it is no reason to look again at once: `suspect_is_due` tells of
    it. It is None if the claim did not look; then the next round comes at once and looks.
    """

    claims: list[Claim]
    next_due_at: Instant | None
    blocked: int = 0
    suspect_is_due: bool | None = False


def claim_due(
    transaction: Transaction, claimant: Claimant, turns: RoundRobin, *, now: Instant, limit: int
) -> tuple[Claimed, RoundRobin]:
    """Claim up to `limit` due jobs; also returns whose turn it is next."""

    def claim(tenant: TenantId, due_from: Instant, limit: int) -> list[Claim]:
        return transaction.claim_jobs(
            kind=claimant.kind, tenant=tenant, worker_id=claimant.worker_id, now=now, limit=limit, due_from=due_from
        )

    if turns.shortcut is not None:
        claims = claim(turns.shortcut.tenant, turns.shortcut.due_from, limit)
        if claims:
            known = _known(transaction, claims, claimant)
            turns = turns.after_shortcut(claims, now=now, limit=limit)
            return Claimed(known, now, len(claims) - len(known), suspect_is_due=None), turns
    due, look_at, turns = look(
        turns,
        lambda after: transaction.waiting_tenants(claimant.kind, after=after, limit=turns.page_size),
        now=now,
        limit=limit,
    )
    later = [] if look_at is None else [look_at]
    claims = []
    more_is_due = False
    for position, (due_from, tenant) in enumerate(due):
        share = -(-(limit - len(claims)) // (len(due) - position))
        taken = claim(tenant, due_from, share)
        claims += taken
        # A full share may have left due jobs behind; a short one leaves later ones, which the next round will see.
        more_is_due = more_is_due or len(taken) == share
    known = _known(transaction, claims, claimant)
    suspect_due_at = transaction.suspect_due_at(claimant.kind)
    suspect_is_due = suspect_due_at is not None and suspect_due_at <= now
    if suspect_due_at is not None and not suspect_is_due:
        later.append(suspect_due_at)
    if due and not claims:  # other workers were faster, or lock it; what is due after it, this look has not seen
        later.append(Instant(now + TAKEN_MS))
    # Having claimed anything, look again at once: only an empty look knows what is due next.
    next_due_at = now if claims or more_is_due else min(later, default=None)
    return Claimed(known, next_due_at, len(claims) - len(known), suspect_is_due), turns


def claim_suspect(transaction: Transaction, claimant: Claimant, *, now: Instant) -> Claimed:
    """Claim the suspect that is due first."""
    claim = transaction.claim_suspect(claimant.kind, worker_id=claimant.worker_id, now=now)
    if claim is None:
        return Claimed([], None)
    known = _known(transaction, [claim], claimant)
    return Claimed(known, now, 1 - len(known))


async def give_back(deps: EngineDeps, claims: list[Claim], worker_id: WorkerId) -> None:
    """Make claimed jobs pending again, as if they had not been claimed: their functions were not begun."""

    def work(transaction: Transaction) -> None:
        for claim in claims:
            transaction.release_job(claim.id, worker_id=worker_id, attempt=claim.attempt)
        for job_id in transaction.stops_asked([claim.id for claim in claims]):  # while it was claimed
            tenant = next(claim.tenant for claim in claims if claim.id == job_id)
            cancel(transaction, job_id, tenant=tenant, now=deps.clock.now(), make_id=deps.ids.make)

    await deps.executors.write(work, isolation=Isolation.READ_COMMITTED)


def _known(transaction: Transaction, claims: list[Claim], claimant: Claimant) -> list[Claim]:
    """The claims whose functions this worker knows; the others are handed back as blocked.

    A function known as another kind goes to the loop that runs that kind: the job was scheduled without the code at
    hand, or the function has changed since.
    """
    unknown = [claim for claim in claims if not claimant.runner.knows(claim.name, claimant.kind)]
    if not unknown:
        return claims
    for claim in unknown:
        transaction.block_job(claim.id, worker_id=claimant.worker_id, attempt=claim.attempt)
    for name in sorted({claim.name for claim in unknown}):
        kind = known_kind(claimant.runner, name)
        if kind is not None:
            transaction.unblock_jobs(name, kind)
    handed_back = {claim.id for claim in unknown}
    return [claim for claim in claims if claim.id not in handed_back]


class Claims:
    """The claims of one loop: what it takes next, and what it took although the reply said otherwise."""

    def __init__(self, deps: EngineDeps, kind: FunctionKind) -> None:
        self._deps = deps
        self._kind = kind
        self._turns = RoundRobin(deps.settings.tenants)
        self._looked_at = deps.clock.now()

    def due(self, transaction: Transaction, worker_id: WorkerId, *, now: Instant, limit: int) -> Claimed:
        """Claim up to `limit` due jobs."""
        claimed, self._turns = claim_due(transaction, self._claimant(worker_id), self._turns, now=now, limit=limit)
        return claimed

    def suspect(self, transaction: Transaction, worker_id: WorkerId, *, now: Instant) -> Claimed:
        """Claim the suspect that is due first."""
        return claim_suspect(transaction, self._claimant(worker_id), now=now)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around a claim: if it fails, the next `lost` looks at once."""
        try:
            yield
        except (Unavailable, Conflict):
            self._looked_at = LONG_AGO
            raise

    async def lost(self, worker_id: WorkerId, known: Collection[Attempt] = ()) -> list[Claim]:
        """What `worker_id` holds without running it, if it is time to look; call it while no claim is under way.

        `known` must be what ran before the look began: a job that ends meanwhile is still among it.
        """
        now = self._deps.clock.now()
        settings = self._deps.settings
        # A COMMIT whose reply was lost may still be under way when we look at once, so look later as well.
        if 0 <= now - self._looked_at < settings.lease_ms:
            return []
        limit = settings.batch + settings.action_slots
        held = await self._deps.executors.read(lambda transaction: transaction.held_jobs(worker_id, limit=limit))
        self._looked_at = now
        found = [c for c in held if c.kind is self._kind and (c.id, c.attempt) not in known]
        if found:
            self._deps.counters.add("claims_found", len(found))
            _logger.warning("%d jobs were claimed here although the reply said otherwise; they run now", len(found))
        return await self._hand_back_unknown(found, worker_id)

    async def _hand_back_unknown(self, found: list[Claim], worker_id: WorkerId) -> list[Claim]:
        """Hand back what a claim did not: it and the handing back are statements of their own."""
        if all(self._deps.runner.knows(claim.name, self._kind) for claim in found):
            return found
        return await self._deps.executors.write(
            lambda transaction: _known(transaction, found, self._claimant(worker_id)), isolation=Isolation.EACH
        )

    def _claimant(self, worker_id: WorkerId) -> Claimant:
        return Claimant(self._kind, worker_id, self._deps.runner)

"""Claiming: which due jobs a worker takes next, fairly among tenants.

Each tenant that has due jobs gets an equal share of what there is room for; what one leaves over goes to the others.
Where there is no room for all, they take turns (`rotation`).
Suspects, which have seen too many workers die (`SUSPECT_CRASHES`), are no part of that: they are claimed one at a time,
by a loop that sees to it that they run apart from others.

A job whose function this worker does not know is handed back and marked as blocked, so it burdens no later claim
until a worker comes that knows it.

The reply to a claim can get lost although the claim was committed. Then the jobs belong to a worker that does not know
of them, and its lease keeps them from everybody else. So each claiming loop looks, after a claim that failed and now
and then anyway, what it holds according to the database.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from evertick.base.clock import Clock
from evertick.base.errors import Conflict, Unavailable
from evertick.base.ids import JobId, WorkerId
from evertick.base.instants import LONG_AGO, Instant
from evertick.base.records import Claim, FunctionKind
from evertick.engine.events import Counters
from evertick.engine.lanes import Lanes
from evertick.engine.rotation import Rotation
from evertick.engine.runner import Runner
from evertick.engine.settings import Settings
from evertick.store.contract import Isolation, Transaction

_logger: Final = logging.getLogger("evertick.engine")

TAKEN_MS: Final = 50
"""After all that was due had been taken by others: time until the next look."""
Attempt = tuple[JobId, int]
"""A job under one of its claims."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was taken, and when the next job of this kind is due (None: there is none).

    A suspect that is due already is no reason to look again, since it may have to wait: `suspect_is_due` tells of it.
    It is None where nobody looked, because the next round looks, and comes at once.
    """

    claims: list[Claim]
    next_due_at: Instant | None
    blocked: int = 0
    suspect_is_due: bool | None = False


def claim_due(
    transaction: Transaction,
    *,
    kind: FunctionKind,
    worker_id: WorkerId,
    runner: Runner,
    now: Instant,
    limit: int,
    rotation: Rotation,
) -> Claimed:
    """Take up to `limit` due jobs of `kind` for `worker_id`."""
    guess = rotation.guess()
    if guess is not None:
        tenant, due_from = guess
        claims = transaction.claim_jobs(
            kind=kind, tenant=tenant, worker_id=worker_id, now=now, limit=limit, due_from=due_from
        )
        if claims:
            rotation.claimed(claims, now=now, limit=limit)
            known = _known(transaction, claims, kind, runner, worker_id)
            return Claimed(known, now, len(claims) - len(known), suspect_is_due=None)
    due, look_at = rotation.look(transaction, now=now, limit=limit)
    later = [] if look_at is None else [look_at]
    claims = []
    more_is_due = False
    for position, (due_from, tenant) in enumerate(due):
        share = -(-(limit - len(claims)) // (len(due) - position))
        taken = transaction.claim_jobs(
            kind=kind, tenant=tenant, worker_id=worker_id, now=now, limit=share, due_from=due_from
        )
        claims += taken
        # A full share may have left due jobs behind; a short one leaves later ones, which the next round will see.
        more_is_due = more_is_due or len(taken) == share
    known = _known(transaction, claims, kind, runner, worker_id)
    suspect_due_at = transaction.suspect_due_at(kind)
    suspect_is_due = suspect_due_at is not None and suspect_due_at <= now
    if suspect_due_at is not None and not suspect_is_due:
        later.append(suspect_due_at)
    if due and not claims:  # other workers were faster, or lock it; what is due after it, this look has not seen
        later.append(Instant(now + TAKEN_MS))
    # Having claimed anything, look again at once: only an empty look knows what is due next.
    next_due_at = now if claims or more_is_due else min(later, default=None)
    return Claimed(known, next_due_at, len(claims) - len(known), suspect_is_due)


def claim_suspect(
    transaction: Transaction, *, kind: FunctionKind, worker_id: WorkerId, runner: Runner, now: Instant
) -> Claimed:
    """Take the earliest due suspect of `kind` for `worker_id`."""
    claim = transaction.claim_suspect(kind, worker_id=worker_id, now=now)
    if claim is None:
        return Claimed([], None)
    known = _known(transaction, [claim], kind, runner, worker_id)
    return Claimed(known, now, 1 - len(known))


def kind_known(runner: Runner, name: str) -> FunctionKind | None:
    """What kind of function this process has under that name; None if it has none that jobs can call."""
    return next((kind for kind in (FunctionKind.MUTATION, FunctionKind.ACTION) if runner.knows(name, kind)), None)


def _known(
    transaction: Transaction, claims: list[Claim], kind: FunctionKind, runner: Runner, worker_id: WorkerId
) -> list[Claim]:
    """Which claims are of functions this worker knows; the others are handed back."""
    known = [claim for claim in claims if runner.knows(claim.name, kind)]
    if len(known) < len(claims):
        unknown = [claim for claim in claims if not runner.knows(claim.name, kind)]
        _hand_back(transaction, unknown, runner, worker_id)
    return known


def _hand_back(transaction: Transaction, claims: list[Claim], runner: Runner, worker_id: WorkerId) -> None:
    """Block what this worker does not know. What it knows as another kind goes to the loop that runs that kind.

    A job may be of the wrong kind when it was scheduled without the code at hand, or the function has changed since.
    """
    for claim in claims:
        transaction.block_job(claim.id, worker_id=worker_id, attempt=claim.attempt)
    for name in sorted({claim.name for claim in claims}):
        right = kind_known(runner, name)
        if right is not None:
            transaction.unblock_jobs(name, right)


class Abandoned:
    """Finds the claims of one loop that were committed and never heard of."""

    def __init__(
        self, lanes: Lanes, clock: Clock, settings: Settings, counters: Counters, runner: Runner, kind: FunctionKind
    ) -> None:
        self._lanes = lanes
        self._clock = clock
        self._every_ms = settings.lease_ms
        self._limit = settings.batch + settings.action_slots
        self._counters = counters
        self._runner = runner
        self._kind = kind
        self._looked_at = clock.now()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around a claim: if it fails, look at once what became of it."""
        try:
            yield
        except (Unavailable, Conflict):
            self._looked_at = LONG_AGO
            raise

    async def look(self, worker_id: WorkerId, known: Collection[Attempt] = ()) -> list[Claim]:
        """What `worker_id` holds and nobody works on, if it is time to look; call it while no claim is under way.

        `known` must be what was worked on before the look began: a job that ends meanwhile is still among it.
        """
        now = self._clock.now()
        # A COMMIT whose reply was lost may still be under way when we look at once, so look later as well.
        if 0 <= now - self._looked_at < self._every_ms:
            return []
        held = await self._lanes.read(lambda transaction: transaction.held_jobs(worker_id, limit=self._limit))
        self._looked_at = now
        found = [c for c in held if c.kind is self._kind and (c.id, c.attempt) not in known]
        if found:
            self._counters.add("claims_found", len(found))
            _logger.warning("%d jobs were claimed here although the reply said otherwise; they run now", len(found))
        return await self._hand_back_unknown(found, worker_id)

    async def _hand_back_unknown(self, found: list[Claim], worker_id: WorkerId) -> list[Claim]:
        """A claim and what follows from it are statements of their own: so what was not handed back is, now."""
        if all(self._runner.knows(claim.name, self._kind) for claim in found):
            return found
        return await self._lanes.write(
            lambda transaction: _known(transaction, found, self._kind, self._runner, worker_id),
            isolation=Isolation.EACH,
        )

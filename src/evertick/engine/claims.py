"""Claiming: which due jobs a worker takes next, fairly among tenants.

Each tenant that has due jobs gets an equal share of what there is room for; what one leaves over goes to the others.
A job whose function this worker does not know is handed back and marked as blocked, so it burdens no later claim
until a worker comes that knows it.
"""

from dataclasses import dataclass

from evertick.base.ids import WorkerId
from evertick.base.instants import Instant
from evertick.base.records import Claim, FunctionKind
from evertick.engine.runner import Runner
from evertick.store.contract import Transaction


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was taken, and when the next job of this kind is due (None: there is none)."""

    claims: list[Claim]
    next_due_at: Instant | None
    blocked: int = 0


def claim_due(
    transaction: Transaction,
    *,
    kind: FunctionKind,
    worker_id: WorkerId,
    runner: Runner,
    now: Instant,
    limit: int,
    tenants_max: int,
) -> Claimed:
    """Take up to `limit` due jobs of `kind` for `worker_id`."""
    waiting = transaction.waiting_tenants(kind, limit=tenants_max)
    due = sorted((due_at, tenant) for tenant, due_at in waiting if due_at <= now)
    later = [due_at for _, due_at in waiting if due_at > now]
    claims: list[Claim] = []
    more_is_due = False
    for position, (_, tenant) in enumerate(due):
        share = -(-(limit - len(claims)) // (len(due) - position))
        if share <= 0:
            more_is_due = True
            break
        taken = transaction.claim_jobs(kind=kind, tenant=tenant, worker_id=worker_id, now=now, limit=share)
        claims += taken
        # A full share may have left due jobs behind; a short one leaves later ones, which the next round will see.
        more_is_due = more_is_due or len(taken) == share
    known = [claim for claim in claims if runner.knows(claim.name, kind)]
    if len(known) < len(claims):
        for claim in claims:
            if not runner.knows(claim.name, kind):
                transaction.block_job(claim.id, worker_id=worker_id, attempt=claim.attempt)
    # Having claimed anything, look again at once: only an empty look knows what is due next.
    next_due_at = now if claims or more_is_due else min(later, default=None)
    return Claimed(known, next_due_at, len(claims) - len(known))

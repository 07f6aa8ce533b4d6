"""Lost claims: what a worker holds although the reply to its claim said otherwise."""

import logging
from collections.abc import Collection
from typing import Final

from evertick.base.ids import JobId, WorkerId
from evertick.base.records.jobs import Claim, FunctionKind
from evertick.engine.runtime.executors import Executors
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

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

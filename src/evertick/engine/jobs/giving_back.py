"""Giving back what a worker has claimed and not begun."""

from evertick.base.ids import WorkerId
from evertick.base.records.jobs import Claim
from evertick.engine.jobs.completion import cancel
from evertick.engine.runtime.deps import EngineDeps
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction


async def give_back(deps: EngineDeps, claims: list[Claim], worker_id: WorkerId) -> None:
    """Make claimed jobs ready again, as if they had not been claimed: their functions were not begun."""

    def work(transaction: Transaction) -> None:
        for claim in claims:
            transaction.release_job(claim.id, worker_id=worker_id, attempt=claim.attempt)
        for job_id in transaction.stops_asked([claim.id for claim in claims]):  # while it was claimed
            tenant = next(claim.tenant for claim in claims if claim.id == job_id)
            cancel(transaction, job_id, tenant=tenant, now=deps.clock.now(), make_id=deps.ids.make)

    await deps.executors.write(work, isolation=Isolation.READ_COMMITTED)

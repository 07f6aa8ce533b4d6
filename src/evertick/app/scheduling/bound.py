"""Schedulers on a connection of the user's: jobs belong to what that connection commits."""

from evertick.app.scheduling.job_builder import JobBuilder, Request
from evertick.app.scheduling.schedulers import AwaitedScheduler, BlockingScheduler
from evertick.app.transacting import Transact, TransactAsync
from evertick.base.ids import JobId, TenantId
from evertick.base.records.jobs import Stop


class BoundScheduler(BlockingScheduler):
    """`app.bind(connection)`: jobs belong to the transaction that is open on that connection, or begins there."""

    def __init__(self, job_builder: JobBuilder, tenant: TenantId, transact: Transact) -> None:
        super().__init__(job_builder, tenant)
        self._transact = transact

    def cancel(self, job_id: JobId | str) -> None:
        """Cancel a job when the connection's transaction commits, like `Scheduler.cancel`."""
        self._transact(self._cancel_work(job_id))

    def stop(self, job_id: JobId | str) -> None:
        """Stop a job when the connection's transaction commits, like `Scheduler.stop`."""
        self._transact(self._cancel_work(job_id, Stop.FORCE))

    def _schedule(self, request: Request) -> list[JobId]:
        return self._transact(self._place_work(self._draft(request), None, request.now))


class AsyncBoundScheduler(AwaitedScheduler):
    """`app.bind(async_session)`: as `BoundScheduler`, and every call is awaited."""

    def __init__(self, job_builder: JobBuilder, tenant: TenantId, transact: TransactAsync) -> None:
        super().__init__(job_builder, tenant)
        self._transact = transact

    async def cancel(self, job_id: JobId | str) -> None:
        """As `BoundScheduler.cancel`, awaited."""
        await self._transact(self._cancel_work(job_id))

    async def stop(self, job_id: JobId | str) -> None:
        """As `BoundScheduler.stop`, awaited."""
        await self._transact(self._cancel_work(job_id, Stop.FORCE))

    async def _schedule(self, request: Request) -> list[JobId]:
        return await self._transact(self._place_work(self._draft(request), None, request.now))

"""Schedulers on the user's own connection: their jobs are committed with that connection's transaction."""

from typing import TYPE_CHECKING

from evertick.app.scheduling.job_builder import JobBuilder, Request
from evertick.app.scheduling.schedulers import AwaitedScheduler, BlockingScheduler
from evertick.app.transacting import Transact, TransactAsync
from evertick.base.ids import JobId
from evertick.base.records.jobs import Stop

if TYPE_CHECKING:
    from evertick.app.jobs.api import AsyncJobs, Jobs
    from evertick.app.schedules.api import AsyncSchedules, Schedules
    from evertick.app.schedules.commands import ScheduleOperations
    from evertick.app.workflows.api import AsyncWorkflows, Workflows


class BoundScheduler(BlockingScheduler):
    """`app.bind(connection)`: writes jobs in the transaction that is open on that connection, or begins one there."""

    def __init__(self, job_builder: JobBuilder, operations: "ScheduleOperations", transact: Transact) -> None:
        super().__init__(job_builder, operations.tenant)
        self._operations = operations
        self._transact = transact

    @property
    def schedules(self) -> "Schedules":
        """Schedules that are created, changed and read in the connection's transaction, like `app.schedules`."""
        from evertick.app.schedules.api import Schedules

        return Schedules(self._operations, self._transact, self._transact)

    @property
    def jobs(self) -> "Jobs":
        """Jobs that are read and changed in the connection's transaction, including its own, like `app.jobs`."""
        from evertick.app.jobs.api import Jobs, operations_with

        return Jobs(operations_with(self._job_builder, self._tenant), self._transact, self._transact)

    @property
    def workflows(self) -> "Workflows":
        """Runs that are started, signaled, changed and read in the connection's transaction, like `ctx.workflows`."""
        from evertick.app.workflows.api import Workflows
        from evertick.app.workflows.operations import WorkflowOperations

        return Workflows(WorkflowOperations(self._tenant, self._job_builder), self._transact, self._transact)

    def cancel(self, job_id: JobId | str) -> None:
        """Cancel a job when the connection's transaction commits, like `Scheduler.cancel`."""
        self._transact(self._cancel_work(job_id))

    def stop(self, job_id: JobId | str) -> None:
        """Stop a job when the connection's transaction commits, like `Scheduler.stop`."""
        self._transact(self._cancel_work(job_id, Stop.FORCE))

    def _schedule(self, request: Request) -> list[JobId]:
        return self._transact(self._place_work(self._draft(request), None, request.now))


class AsyncBoundScheduler(AwaitedScheduler):
    """`app.bind(async_session)`: like `BoundScheduler`, but every call is awaited."""

    def __init__(self, job_builder: JobBuilder, operations: "ScheduleOperations", transact: TransactAsync) -> None:
        super().__init__(job_builder, operations.tenant)
        self._operations = operations
        self._transact = transact

    @property
    def schedules(self) -> "AsyncSchedules":
        """Schedules that are created, changed and read in the connection's transaction; every call is awaited."""
        from evertick.app.schedules.api import AsyncSchedules

        return AsyncSchedules(self._operations, self._transact, self._transact)

    @property
    def jobs(self) -> "AsyncJobs":
        """Jobs that are read and changed in the connection's transaction, including its own; every call is awaited."""
        from evertick.app.jobs.api import AsyncJobs, operations_with

        return AsyncJobs(operations_with(self._job_builder, self._tenant), self._transact, self._transact)

    @property
    def workflows(self) -> "AsyncWorkflows":
        """Runs that are started, signaled, changed and read in the connection's transaction; every call is awaited.

        Results are available from `app.aio.workflows` after the commit.
        """
        from evertick.app.workflows.api import AsyncWorkflows
        from evertick.app.workflows.operations import WorkflowOperations

        return AsyncWorkflows(WorkflowOperations(self._tenant, self._job_builder), self._transact, self._transact)

    async def cancel(self, job_id: JobId | str) -> None:
        """Cancel a job when the connection's transaction commits, like `AsyncScheduler.cancel`."""
        await self._transact(self._cancel_work(job_id))

    async def stop(self, job_id: JobId | str) -> None:
        """Stop a job when the connection's transaction commits, like `AsyncScheduler.stop`."""
        await self._transact(self._cancel_work(job_id, Stop.FORCE))

    async def _schedule(self, request: Request) -> list[JobId]:
        return await self._transact(self._place_work(self._draft(request), None, request.now))

"""What clients offer: operations over requests, blocking and awaited."""

import time
from datetime import datetime, timedelta
from typing import Any, Final, ParamSpec, Self, cast, overload

from evertick.api.workflows import RunView
from evertick.app.documents.browsing import AnyAsyncData, AnyData
from evertick.app.functions.function import Function, Workflow
from evertick.app.jobs.api import AnyAsyncJobs, AnyJobs
from evertick.app.limits.pools import AnyAsyncPools, AnyPools
from evertick.app.operations import Awaited, Blocking, OperationGroup
from evertick.app.scheduling.job_builder import SentJobOptions, SentRunOptions
from evertick.app.workflows.api import result_of
from evertick.base.ids import JobId
from evertick.base.instants import duration_ms
from evertick.base.options import takes
from evertick.client.calls import Call, RemoteOperations, Requests, new_key
from evertick.client.fleet import (
    AuditRequests,
    TenantRequests,
    TokenRequests,
)
from evertick.client.gateways import GatewayRequests
from evertick.client.insight import InsightRequests
from evertick.client.scheduler import ScheduleJobs
from evertick.client.schedules import ScheduleRequests
from evertick.client.scripts import ScriptRequests
from evertick.client.views import ViewRequests
from evertick.client.workflows import RunRequests, TypeRequests, WorkflowRequests

P = ParamSpec("P")

WAIT_S: Final = 30.0
"""How long one request waits for the end of a run."""


class Jobs(RemoteOperations, AnyJobs[Requests]):
    """Reads, counts, cancels, moves and retries jobs, as `app.jobs` does."""


class AsyncJobs(RemoteOperations, AnyAsyncJobs[Requests]):
    """Reads, counts, cancels, moves and retries jobs, as `app.jobs` does; every call is awaited."""


class Insight(Blocking[InsightRequests], InsightRequests):
    """Reports how jobs and schedules are doing, as `app.insight` does."""


class AsyncInsight(Awaited[InsightRequests], InsightRequests):
    """Reports how jobs and schedules are doing, as `app.insight` does; every call is awaited."""


class Data(RemoteOperations, AnyData[Requests]):
    """Reads tables and documents, as `app.data` does."""


class AsyncData(RemoteOperations, AnyAsyncData[Requests]):
    """Reads tables and documents, as `app.data` does; every call is awaited."""


class Views(Blocking[ViewRequests], ViewRequests):
    """Saves filtered lists for people, as `app.views` does."""


class AsyncViews(Awaited[ViewRequests], ViewRequests):
    """Saves filtered lists for people, as `app.views` does; every call is awaited."""


class Schedules(Blocking[ScheduleRequests], ScheduleRequests):
    """Creates, changes, explains and runs schedules, as `app.schedules` does."""


class AsyncSchedules(Awaited[ScheduleRequests], ScheduleRequests):
    """Creates, changes, explains and runs schedules, as `app.schedules` does; every call is awaited."""


class Scripts(Blocking[ScriptRequests], ScriptRequests):
    """Publishes, tests and runs scripts of the tenant, as `app.scripts` does."""


class AsyncScripts(Awaited[ScriptRequests], ScriptRequests):
    """Publishes, tests and runs scripts of the tenant, as `app.scripts` does; every call is awaited."""


class Gateways(Blocking[GatewayRequests], GatewayRequests):
    """Manages the tenant's gateways and their crons, as `app.gateways` does."""


class AsyncGateways(Awaited[GatewayRequests], GatewayRequests):
    """Manages the tenant's gateways and their crons, as `app.gateways` does; every call is awaited."""


class Pools(RemoteOperations, AnyPools[Requests]):
    """Reads and changes the limits of pools; needs a token of all tenants."""


class AsyncPools(RemoteOperations, AnyAsyncPools[Requests]):
    """Reads and changes the limits of pools; needs a token of all tenants; every call is awaited."""


class Tenants(Blocking[TenantRequests], TenantRequests):
    """Reads and changes the limits of tenants; all but `get` need a token of all tenants."""


class AsyncTenants(Awaited[TenantRequests], TenantRequests):
    """Reads and changes the limits of tenants; all but `get` need a token of all tenants; every call is awaited."""


class Tokens(Blocking[TokenRequests], TokenRequests):
    """Creates, lists, rotates and revokes tokens of the tenant."""


class AsyncTokens(Awaited[TokenRequests], TokenRequests):
    """Creates, lists, rotates and revokes tokens of the tenant; every call is awaited."""


class AuditLog(Blocking[AuditRequests], AuditRequests):
    """Lists the changes to the tenant's data that were made over HTTP."""


class AsyncAuditLog(Awaited[AuditRequests], AuditRequests):
    """Lists the changes to the tenant's data that were made over HTTP; every call is awaited."""


class _Sending:
    """Operations that are not listed: their requests are made here."""

    write: Any

    def _sent(self, call: Call[Any]) -> Any:
        return self.write(call)


class _Jobs(_Sending, OperationGroup[ScheduleJobs]):
    @takes(SentJobOptions, "scheduler.using()")
    def using(self, options: SentJobOptions) -> Self:
        """A copy with options for the jobs that it schedules; see `app.scheduler.using`."""
        return self.with_operations(self.operations.using(options))


class _Runs(_Sending, OperationGroup[WorkflowRequests]):
    @takes(SentRunOptions, "workflows.using()")
    def using(self, options: SentRunOptions) -> Self:
        """A copy with options for the runs that it starts; see `app.workflows.using`."""
        return self.with_operations(self.operations.using(options))


class Scheduler(_Jobs, Blocking[ScheduleJobs]):
    """Schedules functions to run later, as `app.scheduler` does."""

    @overload
    def run_after(
        self, delay: float | timedelta, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId: ...
    @overload
    def run_after(self, delay: float | timedelta, function: str, /, **kwargs: Any) -> JobId: ...
    def run_after(
        self, delay: float | timedelta, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> JobId:
        """Run a function `delay` (seconds, or a timedelta) from now; returns the job's id.

        `function` is the function itself, or its name. With a name, arguments must be given by name. One job is
        created, even if the connection breaks and the request is sent again.

        Raises InvalidDelay, InvalidArguments, FunctionNotFound, QuotaExceeded, Unavailable.
        """
        return cast("JobId", self._sent(self.operations.run_after(delay, function, *args, **kwargs)))

    @overload
    def enqueue(self, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> JobId: ...
    @overload
    def enqueue(self, function: str, /, **kwargs: Any) -> JobId: ...
    def enqueue(self, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any) -> JobId:
        """Run a function now: like `run_after` with a delay of 0."""
        return cast("JobId", self._sent(self.operations.enqueue(function, *args, **kwargs)))

    @overload
    def run_at(self, at: datetime, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> JobId: ...
    @overload
    def run_at(self, at: datetime, function: str, /, **kwargs: Any) -> JobId: ...
    def run_at(self, at: datetime, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any) -> JobId:
        """Run a function at `at`, an aware datetime; otherwise like `run_after`."""
        return cast("JobId", self._sent(self.operations.run_at(at, function, *args, **kwargs)))


class AsyncScheduler(_Jobs, Awaited[ScheduleJobs]):
    """Schedules functions to run later, as `app.scheduler` does; every call is awaited."""

    @overload
    async def run_after(
        self, delay: float | timedelta, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId: ...
    @overload
    async def run_after(self, delay: float | timedelta, function: str, /, **kwargs: Any) -> JobId: ...
    async def run_after(
        self, delay: float | timedelta, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> JobId:
        """Run a function `delay` from now; returns the job's id. See `Scheduler.run_after`."""
        return cast("JobId", await self._sent(self.operations.run_after(delay, function, *args, **kwargs)))

    @overload
    async def enqueue(self, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> JobId: ...
    @overload
    async def enqueue(self, function: str, /, **kwargs: Any) -> JobId: ...
    async def enqueue(self, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any) -> JobId:
        """Run a function now; returns the job's id. See `Scheduler.enqueue`."""
        return cast("JobId", await self._sent(self.operations.enqueue(function, *args, **kwargs)))

    @overload
    async def run_at(self, at: datetime, function: Function[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> JobId: ...
    @overload
    async def run_at(self, at: datetime, function: str, /, **kwargs: Any) -> JobId: ...
    async def run_at(self, at: datetime, function: Function[..., Any] | str, /, *args: Any, **kwargs: Any) -> JobId:
        """Run a function at an aware datetime; returns the job's id. See `Scheduler.run_at`."""
        return cast("JobId", await self._sent(self.operations.run_at(at, function, *args, **kwargs)))


class WorkflowTypes(Blocking[TypeRequests], TypeRequests):
    """Lists workflows, and pauses, resumes, deprecates and deletes them."""


class AsyncWorkflowTypes(Awaited[TypeRequests], TypeRequests):
    """Lists workflows, and pauses, resumes, deprecates and deletes them; every call is awaited."""


class Workflows(_Runs, Blocking[WorkflowRequests], RunRequests):
    """Starts, reads, signals and ends runs of workflows, as `app.workflows` does."""

    @property
    def types(self) -> WorkflowTypes:
        """The workflows themselves: which ones exist, and whether runs of them start. Needs a token of all tenants."""
        return WorkflowTypes(TypeRequests(), self.read, self.write)

    @overload
    def start(self, workflow: Workflow[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> JobId: ...
    @overload
    def start(self, workflow: str, /, **kwargs: Any) -> JobId: ...
    def start(self, workflow: Workflow[..., Any] | str, /, *args: Any, **kwargs: Any) -> JobId:
        """Start a run of a workflow, given as an object or by name; returns the run's id.

        One run is started, even if the connection breaks and the request is sent again.

        Raises FunctionNotFound, InvalidArguments, AlreadyExists, WorkflowInactive, Unavailable.
        """
        return cast("JobId", self._sent(self.operations.start(workflow, args, kwargs, new_key())))

    def result(self, run_id: JobId | str, *, timeout: float | timedelta | None = None) -> Any:
        """Wait until a run has ended and return its result.

        Raises TimeoutError if it has not ended within `timeout` (seconds or a timedelta), WorkflowFailed, JobNotFound.
        """
        ends_at = _ends_at(timeout)
        while True:
            run: RunView = self._sent(self.operations.wait(run_id, _wait_s(ends_at)))
            if run.has_ended:
                return result_of(run)
            _check_time(run, ends_at)


class AsyncWorkflows(_Runs, Awaited[WorkflowRequests], RunRequests):
    """Starts, reads, signals and ends runs of workflows, as `app.workflows` does; every call is awaited."""

    @property
    def types(self) -> AsyncWorkflowTypes:
        """The workflows themselves: which ones exist, and whether runs of them start. Needs a token of all tenants."""
        return AsyncWorkflowTypes(TypeRequests(), self.read, self.write)

    @overload
    async def start(self, workflow: Workflow[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> JobId: ...
    @overload
    async def start(self, workflow: str, /, **kwargs: Any) -> JobId: ...
    async def start(self, workflow: Workflow[..., Any] | str, /, *args: Any, **kwargs: Any) -> JobId:
        """Start a run of a workflow; returns the run's id. See `Workflows.start`."""
        return cast("JobId", await self._sent(self.operations.start(workflow, args, kwargs, new_key())))

    async def result(self, run_id: JobId | str, *, timeout: float | timedelta | None = None) -> Any:  # noqa: ASYNC109
        """Wait until a run has ended and return its result; see `Workflows.result`."""
        ends_at = _ends_at(timeout)
        while True:
            run: RunView = await self._sent(self.operations.wait(run_id, _wait_s(ends_at)))
            if run.has_ended:
                return result_of(run)
            _check_time(run, ends_at)


def _ends_at(timeout: float | timedelta | None) -> float | None:
    return None if timeout is None else time.monotonic() + duration_ms(timeout, name="timeout") / 1000


def _wait_s(ends_at: float | None) -> float:
    return WAIT_S if ends_at is None else max(0.0, min(WAIT_S, ends_at - time.monotonic()))


def _check_time(run: RunView, ends_at: float | None) -> None:
    if ends_at is not None and time.monotonic() >= ends_at:
        raise TimeoutError(f"run {run.id} of {run.function} has not ended in time; it goes on")

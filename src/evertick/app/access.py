"""Access: everything that a program can do with the data of one tenant.

`App` is the access to the default tenant, `app.tenant("acme")` the access to another one; both have the same methods.
`aio` has the same methods for programs that run on an event loop.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from evertick.app.functions.function import Action, Function, Mutation, Query
from evertick.app.scheduling.schedulers import AsyncScheduler, Scheduler
from evertick.base.errors import Misuse
from evertick.base.ids import TenantId

if TYPE_CHECKING:
    from evertick.app.access_control.audit_log import AsyncAuditLog
    from evertick.app.access_control.saved_views import AsyncSavedViews, SavedViewOperations, SavedViews
    from evertick.app.access_control.tokens import AsyncTokens
    from evertick.app.documents.browsing import AsyncData, Data
    from evertick.app.environment import Environment
    from evertick.app.execution.runner import Execution
    from evertick.app.gateways.api import AsyncGateways, TenantGateways
    from evertick.app.insight.api import AsyncInsight, Insight
    from evertick.app.jobs.api import AsyncJobs, Jobs
    from evertick.app.limits.pools import AsyncPools
    from evertick.app.limits.tenants import AsyncTenants
    from evertick.app.outside_documents import AsyncDocuments, Documents
    from evertick.app.registry import Registry
    from evertick.app.schedules.api import AsyncSchedules, Schedules
    from evertick.app.scripts.api import AsyncScripts, TenantScripts
    from evertick.app.transacting import Transact, TransactAsync
    from evertick.app.workflows.api import AsyncWorkflows, AwaitableWorkflows

P = ParamSpec("P")
R = TypeVar("R")


class Access(ABC):
    """All operations on the data of one tenant: `App` and `Tenant` have its methods."""

    functions: "Registry"
    tenant_id: TenantId
    """The tenant whose data it accesses."""

    actor: str
    """The author of changes to schedules and the sender of events, shown in histories."""
    _environment: "Environment | None" = None

    @property
    def environment(self) -> "Environment":
        """What all calls share, such as the store and the clock; the database is opened on first use.

        Raises Unavailable, SchemaMismatch or InvalidDatabaseUrl.
        """
        return self._environment or self._opened()

    @property
    def aio(self) -> "AsyncAccess":
        """The same methods on an event loop: `await app.aio.scheduler.run_after(5, send)`."""
        return AsyncAccess(self)

    @overload
    def call(self, function: Query[P, R] | Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, function: Action[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any: ...
    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, given as an object or by name, and return its result. Its errors are raised here.

        A mutation runs in a transaction that is committed when this returns. If it conflicts with others it is run
        again, a few times. An action runs in this process, outside any transaction.

        Raises FunctionNotFound, InvalidArguments; WriteConflict after the last attempt; TimeoutError if the function
        took longer than its timeout; OutcomeUnknown if the connection broke during the commit; Misuse for an
        `async def` action while an event loop runs in this thread (use `call_async`).
        """
        return self._execution.call_now(self.functions.resolve(function), args, kwargs)

    async def call_async(self, function: Function[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Like `call`, without blocking the event loop."""
        return cast("R", await self._execution.call(self.functions.resolve(function), args, kwargs))

    def call_once(self, key: str, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a mutation under an idempotency key: another call with that key returns the result of the first one.

        The key, of 1 to 512 characters, is stored with the result in the mutation's transaction. So a program may
        repeat a call whose reply it did not get. Each tenant has its own keys.

        Raises IdempotencyConflict if the key was used with another function or other arguments, and errors of `call`.
        """
        return cast("R", self._execution.call_once(self._mutation(function), args, kwargs, key=key))

    def _mutation(self, function: Mutation[P, R]) -> Mutation[..., Any]:
        """The mutation for `call_once`. Raises Misuse for any other function."""
        resolved = self.functions.resolve(function)
        if not isinstance(resolved, Mutation):
            raise Misuse(f"{resolved.name} is not a mutation; only mutations take an idempotency key")
        return resolved

    @property
    def scheduler(self) -> Scheduler:
        """Schedules functions from outside: `app.scheduler.run_after(5, send, "hello")`. Each call is a transaction."""
        return Scheduler(self.environment.job_builder, self.tenant_id, self._execution)

    @property
    def schedules(self) -> "Schedules":
        """Creates, lists and changes schedules from outside. Each call is its own transaction."""
        return self._execution.schedules(self.tenant_id, self.actor)

    @property
    def jobs(self) -> "Jobs":
        """Reads, counts, cancels, moves and retries jobs from outside. Each call is its own transaction."""
        from evertick.app.jobs.api import Jobs, job_operations

        return Jobs(job_operations(self.environment, self.tenant_id), *self._ways)

    @property
    def insight(self) -> "Insight":
        """Shows how jobs and schedules are doing: what is late, failed, missed and queued, and what needs attention."""
        from evertick.app.insight.api import Insight, insight_operations

        return Insight(insight_operations(self.environment, self.tenant_id), *self._ways)

    @property
    def views(self) -> "SavedViews":
        """Saves filtered lists of schedules, jobs and runs for people. Each call is its own transaction."""
        return self.views_of("")

    def views_of(self, owner: str) -> "SavedViews":
        """The saved views that are visible to the token with the id `owner`."""
        from evertick.app.access_control.saved_views import SavedViews

        return SavedViews(self._view_operations(owner), *self._ways)

    def _view_operations(self, owner: str) -> "SavedViewOperations":
        from evertick.app.access_control.saved_views import SavedViewOperations

        e = self.environment
        return SavedViewOperations(self.tenant_id, owner, self.actor, e.clock.now, e.ids.make)

    @property
    def workflows(self) -> "AwaitableWorkflows":
        """Starts, reads, signals and ends runs of workflows from outside. Each call is its own transaction."""
        from evertick.app.workflows.api import blocking_workflows, workflow_operations

        e = self.environment
        return blocking_workflows(e, workflow_operations(e, self.tenant_id, self.actor), *self._ways)

    @property
    def db(self) -> "Documents":
        """Reads and writes documents from outside, as `ctx.db` does inside. Each call is its own transaction."""
        from evertick.app.outside_documents import DocumentOperations, Documents

        e = self.environment
        return Documents(DocumentOperations(e, self.tenant_id), e.store.read, self._execution.transact)

    @property
    def data(self) -> "Data":
        """Lists tables and their documents, also of tables that are not declared. It only reads."""
        from evertick.app.documents.browsing import Data, DataOperations

        return Data(DataOperations(self.tenant_id, self.environment.clock.now), *self._ways)

    @property
    @abstractmethod
    def scripts(self) -> "TenantScripts":
        """Writes, tests and publishes scripts of the tenant, and shows their runs."""

    @property
    @abstractmethod
    def gateways(self) -> "TenantGateways":
        """Shows gateways and their crons, changes them, and lets schedules run their commands."""

    @property
    def _ways(self) -> "tuple[Transact, Transact]":
        """The functions that read and change the database."""
        return self.environment.store.view, self._execution.transact

    @property
    def _execution(self) -> "Execution":
        e = self.environment
        if e.tracing is not None:
            from evertick.app.execution.traced import TracedExecution

            return TracedExecution(e, self.tenant_id, e.tracing)
        from evertick.app.execution.runner import Execution

        return Execution(e, self.tenant_id)

    @abstractmethod
    def _opened(self) -> "Environment":
        """The environment; opens it if necessary."""


class AsyncAccess:
    """`app.aio`, `app.tenant("acme").aio`: like `Access`, but every call is awaited."""

    def __init__(self, access: Access) -> None:
        self._access = access

    @property
    def _ways(self) -> "tuple[TransactAsync, TransactAsync]":
        access = self._access
        return access.environment.executors.view, access._execution.transact_async

    async def call(self, function: Function[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function without blocking the event loop, and return its result; see `App.call`."""
        return await self._access.call_async(function, *args, **kwargs)

    async def call_once(self, key: str, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a mutation under an idempotency key, without blocking the event loop; see `App.call_once`."""
        access = self._access
        return cast("R", await access._execution.call_once_async(access._mutation(function), args, kwargs, key=key))

    @property
    def scheduler(self) -> AsyncScheduler:
        """Schedules functions: `await app.aio.scheduler.run_after(5, send, "hello")`. Each call is a transaction."""
        access = self._access
        return AsyncScheduler(access.environment.job_builder, access.tenant_id, access._execution)

    @property
    def schedules(self) -> "AsyncSchedules":
        """Creates, lists and changes schedules. Every call is awaited and is its own transaction."""
        return self._access._execution.awaited_schedules(self._access.tenant_id, self._access.actor)

    @property
    def jobs(self) -> "AsyncJobs":
        """Reads, counts, cancels, moves and retries jobs. Every call is awaited and is its own transaction."""
        from evertick.app.jobs.api import AsyncJobs, job_operations

        access = self._access
        return AsyncJobs(job_operations(access.environment, access.tenant_id), *self._ways)

    @property
    def insight(self) -> "AsyncInsight":
        """Shows how jobs and schedules are doing: what is late, failed, missed and queued. Every call is awaited."""
        from evertick.app.insight.api import AsyncInsight, insight_operations

        access = self._access
        return AsyncInsight(insight_operations(access.environment, access.tenant_id), *self._ways)

    @property
    def views(self) -> "AsyncSavedViews":
        """Saves filtered lists of schedules, jobs and runs for people. Every call is awaited."""
        return self.views_of("")

    def views_of(self, owner: str) -> "AsyncSavedViews":
        """The saved views that are visible to the token with the id `owner`."""
        from evertick.app.access_control.saved_views import AsyncSavedViews

        return AsyncSavedViews(self._access._view_operations(owner), *self._ways)

    @property
    def workflows(self) -> "AsyncWorkflows":
        """Starts, reads, signals and ends runs of workflows. Every call is awaited and is its own transaction."""
        from evertick.app.workflows.api import AsyncWorkflows, workflow_operations

        access = self._access
        operations = workflow_operations(access.environment, access.tenant_id, access.actor)
        return AsyncWorkflows(operations, *self._ways)

    @property
    def db(self) -> "AsyncDocuments":
        """Reads and writes documents: `await app.aio.db.get(id)`. Every call is its own transaction."""
        from evertick.app.outside_documents import AsyncDocuments, DocumentOperations

        access, e = self._access, self._access.environment
        operations = DocumentOperations(e, access.tenant_id)
        return AsyncDocuments(operations, e.executors.read, access._execution.transact_async)

    @property
    def data(self) -> "AsyncData":
        """Lists tables and their documents, also of tables that are not declared. It only reads. Every call is
        awaited.
        """
        from evertick.app.documents.browsing import AsyncData, DataOperations

        return AsyncData(DataOperations(self._access.tenant_id, self._access.environment.clock.now), *self._ways)

    @property
    def scripts(self) -> "AsyncScripts":
        """Writes, tests and publishes scripts of the tenant, and shows their runs. Every call is awaited."""
        return self._access.scripts.aio

    @property
    def gateways(self) -> "AsyncGateways":
        """Shows gateways and their crons, changes them, and lets schedules run their commands. Every call is
        awaited.
        """
        return self._access.gateways.aio


class AsyncApp(AsyncAccess):
    """`app.aio`: like `App`, but every call is awaited."""

    @property
    def tenants(self) -> "AsyncTenants":
        """The limits of each tenant: `await app.aio.tenants.set("acme", running=5)`."""
        from evertick.app.limits.tenants import AsyncTenants, TenantOperations

        quotas = self._access.environment.job_builder.quotas
        return AsyncTenants(TenantOperations(quotas.forget), *self._ways)

    @property
    def pools(self) -> "AsyncPools":
        """The limits of each pool: `await app.aio.pools.set("mail", running=5)`."""
        from evertick.app.limits.pools import AsyncPools, PoolOperations

        return AsyncPools(PoolOperations(self._access.environment.clock.now), *self._ways)

    @property
    def tokens(self) -> "AsyncTokens":
        """Tokens of the HTTP API: `await app.aio.tokens.create("billing service", scope="edit")`."""
        from evertick.app.access_control.tokens import AsyncTokens, TokenOperations

        e = self._access.environment
        return AsyncTokens(TokenOperations(self._access.actor, e.clock.now, e.ids.make), *self._ways)

    @property
    def audit_log(self) -> "AsyncAuditLog":
        """The log of who changed what over HTTP: `await app.aio.audit_log.list(tenant="acme")`."""
        from evertick.app.access_control.audit_log import AsyncAuditLog, AuditOperations

        return AsyncAuditLog(AuditOperations(), *self._ways)

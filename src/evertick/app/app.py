"""`App`: registers functions, and lets programs call and schedule them.

Registering loads few modules. What runs functions (engine, stores, crons, schedules) is imported on first use, because
every start of a program, of a command and of `evertick dev` after a change waits for the imports.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from evertick.app.access import Access, AsyncApp
from evertick.app.binding.bound import AsyncBoundScheduler, BoundScheduler
from evertick.app.decorators import Decorators
from evertick.app.documents.tables import declare_table
from evertick.app.opening import DATA_FOLDER, Opening
from evertick.app.registry import TableRegistry
from evertick.app.scheduling.job_builder import JobBuilder
from evertick.base.clock import Clock
from evertick.base.errors import DatabaseLocked, Misuse
from evertick.base.ids import DEFAULT_TENANT, Entropy, TenantId, pool_name, system_entropy, tenant_named
from evertick.base.options import Rule, check_options, one_of_type, shown, some, text
from evertick.engine.runtime.metrics import Counters, JobLog
from evertick.engine.runtime.settings import Settings
from evertick.engine.runtime.tracing import Tracing
from evertick.engine.schedules.eligibility import WORKFLOWS, Targets

if TYPE_CHECKING:
    from evertick.app.access_control.audit_log import AuditLog
    from evertick.app.access_control.tokens import Tokens
    from evertick.app.binding.binding import Awaited
    from evertick.app.crons import CronChanges, Crons
    from evertick.app.embedded_worker import Running
    from evertick.app.environment import Environment
    from evertick.app.failure_hooks import Failure, FailureHooks
    from evertick.app.gateways.api import Gateways, TenantGateways
    from evertick.app.limits.pools import Pools
    from evertick.app.limits.tenants import Tenants
    from evertick.app.scripts.api import Scripts, TenantScripts
    from evertick.engine.worker import Worker

T = TypeVar("T")

NAME_CHARS_MAX: Final = 200
RULES: Final[Mapping[str, Rule]] = {
    "aliases": Rule(
        "a list of names", lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes)
    ),
    "database_url": Rule(
        "an address, such as sqlite:///FILE, or a function that returns it",
        lambda value: isinstance(value, str) or callable(value),
    ),
    "settings": one_of_type(Settings, "Settings(...)"),
}
"""The rules for the options of an app, except the clock and the entropy of simulations."""


def is_app_name(name: Any) -> bool:
    """Whether this is a valid name for an app."""
    return text(NAME_CHARS_MAX).fits(name) and not name.startswith(".") and not set(name) & set("/\\")


class App(Decorators, Opening):
    """An application: its functions, tables and crons, on one database.

        app = App("shop")

        @app.mutation
        def send(ctx: MutationCtx, body: str) -> str: ...

        app.call(send, "hello")                    # now
        app.scheduler.run_after(60, send, "later")  # in a minute, by a worker

    The database is the argument `database_url` (`sqlite:///FILE` or `postgresql://...`), else the environment variable
    EVERTICK_DATABASE_URL, else a SQLite file named after the app in the folder `.evertick` of the working directory.
    A relative path refers to the working directory at the time when the app is created, even if a function changes it
    later. The database is opened on first use; a function as `database_url` is called then. `settings` has the limits
    and intervals of workers. `clock` and `entropy` replace the machine's clock and random numbers, for simulations.

    Several apps may share a database: each worker runs the jobs of its own app. After renaming an app, give its former
    names as `aliases`: their jobs, schedules and crons then belong to this app.

    Raises Misuse for a name that cannot be the name of a file.
    """

    def __init__(
        self,
        name: str,
        *,
        aliases: Iterable[str] | None = None,
        database_url: str | Callable[[], str] | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        given = {"aliases": aliases, "database_url": database_url, "settings": settings}
        check_options(RULES, some(given), "App: ")
        names = (name, *(aliases or ()))
        for each in names:
            if not is_app_name(each):
                raise Misuse(f"{shown(each)} cannot be an app's name: its database is the file {DATA_FOLDER}/<name>.db")
        Decorators.__init__(self, name, names[1:])
        Opening.__init__(self, database_url=database_url, clock=clock, entropy=entropy or system_entropy())
        self.actor = f"app {name}"
        self.settings = settings or Settings()
        self.tables = TableRegistry()
        self.targets: Targets = WORKFLOWS
        self.counters = Counters()
        self.counters.batch_observers.append(JobLog())
        self.failures: FailureHooks | None = None
        self.tracing: Tracing | None = None
        self._crons: Crons | None = None
        self._scripts: Scripts | None = None
        self._gateways: Gateways | None = None
        self._worker_lock = threading.Lock()
        self._last_worker: Callable[[], Worker | None] = lambda: None

    tenant_id = DEFAULT_TENANT

    def __repr__(self) -> str:
        return f"<App {self.name}>"

    # -- registering

    def table(self, name: str, *, indexes: Mapping[str, Sequence[str]] | None = None) -> None:
        """Declare a table's indexes: `app.table("messages", indexes={"by_author": ["author"]})`.

        A table without indexes needs no declaration. Raises RegistrationError for invalid names and fields.
        """
        self.tables.add(declare_table(name, indexes or {}))
        if self._environment is not None:  # the other indexes were built when it was opened
            try:
                self.prepare(self._environment.store)
            except BaseException:
                self.tables.remove(name)
                raise

    @property
    def crons(self) -> "Crons":
        """Schedules declared in code: `app.crons.add("clear messages", every(minutes=1), clear_all)`.

        A worker writes them to the database when it starts.
        """
        if self._crons is None:
            from evertick.app.crons import Crons

            with self._opening:
                if self._crons is None:
                    self._crons = Crons(self.name, self.aliases, has_worker=self._has_worker)
        return self._crons

    def on_failure(self, hook: "Callable[[Failure], T]", /) -> "Callable[[Failure], T]":
        """Call `hook` with a `Failure` after each failed attempt of a job, if this process recorded the attempt's end.

            @app.on_failure
            def report(failure: Failure) -> None:
                if not failure.will_retry:
                    sentry_sdk.capture_exception(failure.exception)

        Hooks run in their own thread, one failure after another, after the end is committed. Their errors are logged.
        When the program ends, it waits two seconds for them. Raises Misuse for an `async def`.
        """
        if self.failures is None:
            from evertick.app.failure_hooks import FailureHooks

            self.failures = FailureHooks()
            self.counters.observers.append(self.failures)
            if self._environment is not None:
                self._environment.failures = self.failures
        self.failures.add(hook)
        return hook

    def trace(self, tracing: Tracing, /) -> None:
        """Record spans of what the app does; `evertick.integrations.otel.instrument` calls this.

        Raises Misuse if the app is already traced, or if its database is open, since calls in progress are not traced.
        """
        if self.tracing is not None:
            raise Misuse(f"the app {self.name} is already instrumented; instrument it once")
        if self._environment is not None:
            raise Misuse(f"instrument the app {self.name} before its first use: its database is already open")
        self.tracing = tracing

    @property
    def scripts(self) -> "Scripts":
        """Scripts of the app's customers, in a sandbox. Its first use, in the app's module, makes the app run them.

        See `evertick.app.scripts.api`. Raises RegistrationError if a function of the app is called "evertick.script".
        """
        if self._scripts is None:
            from evertick.app.scripts.api import Scripts

            with self._opening:
                if self._scripts is None:
                    self._scripts = Scripts(self)
        return self._scripts

    @property
    def gateways(self) -> "Gateways":
        """Gateways of the default tenant: processes that own crons. Its first use makes the app run their commands.

        See `evertick.app.gateways.api`. Raises RegistrationError if a function is called "evertick.gateway".
        """
        if self._gateways is None:
            from evertick.app.gateways.api import Gateways

            with self._opening:
                if self._gateways is None:
                    self._gateways = Gateways(self)
        return self._gateways

    @property
    def uses_scripts(self) -> bool:
        """Whether the app runs scripts. It does once `app.scripts` was used."""
        return self._scripts is not None

    @property
    def aio(self) -> AsyncApp:
        """The same methods on an event loop: `await app.aio.scheduler.run_after(5, send)`."""
        return AsyncApp(self)

    # -- tenants

    def tenant(self, name: str) -> "Tenant":
        """The same methods on the data of a tenant: `app.tenant("acme").scheduler.run_after(5, send, "hello")`.

        Jobs, schedules, documents and idempotency keys are visible only to their tenant; inside functions `ctx` belongs
        to the job's tenant. Functions, declared indexes and crons belong to the app. Tenants need not be created. The
        methods of the app itself act for the tenant "default".

        Raises InvalidTenant for a name that is not printable text of 1 to 128 characters.
        """
        return Tenant(self, name)

    @property
    def tenants(self) -> "Tenants":
        """The limits of each tenant: `app.tenants.set("acme", running=5, jobs=10_000)`."""
        from evertick.app.limits.tenants import TenantOperations, Tenants

        return Tenants(TenantOperations(self.environment.job_builder.quotas.forget), *self._ways)

    @property
    def pools(self) -> "Pools":
        """The limits of each pool: `app.pools.set("mail", running=5)`, `app.pools.pause("mail")`."""
        from evertick.app.limits.pools import PoolOperations, Pools

        return Pools(PoolOperations(self.environment.clock.now), *self._ways)

    @property
    def tokens(self) -> "Tokens":
        """Tokens of the HTTP API: `app.tokens.create("billing service", scope="edit", tenant="acme")`."""
        from evertick.app.access_control.tokens import TokenOperations, Tokens

        e = self.environment
        return Tokens(TokenOperations(self.actor, e.clock.now, e.ids.make), *self._ways)

    @property
    def audit_log(self) -> "AuditLog":
        """The log of who changed what over HTTP: `app.audit_log.list(tenant="acme")`."""
        from evertick.app.access_control.audit_log import AuditLog, AuditOperations

        return AuditLog(AuditOperations(), *self._ways)

    @overload
    def bind(self, connection: "Awaited", *, tenant: TenantId = DEFAULT_TENANT) -> AsyncBoundScheduler: ...
    @overload
    def bind(self, connection: Any, *, tenant: TenantId = DEFAULT_TENANT) -> BoundScheduler: ...
    def bind(self, connection: Any, *, tenant: TenantId = DEFAULT_TENANT) -> BoundScheduler | AsyncBoundScheduler:
        """A scheduler inside the transaction of your own connection: the jobs exist exactly if you commit.

            with Session(engine) as session, session.begin():
                app.bind(session).run_after(60, ship, 7)

        `connection` is a sqlite3 or psycopg connection, a SQLAlchemy Connection or Session, or Django's
        `django.db.connection`, to the app's database. In autocommit mode, outside of a transaction, each call commits
        by itself. With an AsyncSession or AsyncConnection (of aiosqlite, asyncpg or psycopg) its methods are awaited:
        `await app.bind(session).run_after(60, ship, 7)`.

        Raises Misuse for anything else, and if that database has no Evertick tables; InvalidTenant.
        """
        return self._bound(connection, tenant_named(tenant))

    def _bound(self, connection: Any, tenant: TenantId) -> BoundScheduler | AsyncBoundScheduler:
        from evertick.app.binding.binding import bound
        from evertick.app.schedules.commands import ScheduleOperations
        from evertick.store.location import place_of

        e = self._environment
        if hasattr(connection, "ensure_connection"):
            from evertick.app.binding.binding import place_on

            place = place_on(lambda: self.database_url)
        else:
            place = place_of(self.database_url) or None if e is None else e.store.place
        clock, ids = (self._clock, self._ids) if e is None else (e.clock, e.ids)
        job_builder = JobBuilder(self.functions, ids, clock, self.tracing) if e is None else e.job_builder
        operations = ScheduleOperations(
            tenant=tenant, now=clock.now, functions=self.functions, settings=self.settings, make_id=ids.make,
            actor=self.actor, targets=self.targets, tracing=self.tracing,
        )  # fmt: skip
        return bound(connection, job_builder, operations, place)

    # -- running

    def worker(self, *, pools: Iterable[str] = ()) -> "Worker":
        """A worker for this app's jobs: `asyncio.run(app.worker().run())`. Also updates the crons in the database.

        It runs the jobs of `pools`, or of every pool if none is given.

        Raises DatabaseLocked if another worker runs on the SQLite file, RegistrationError if a function or cron cannot
        work, Misuse for a pool that is not a name.
        """
        from evertick.app.functions.options import check_pools
        from evertick.engine.worker import Worker

        served = check_pools(pools, self.name)
        self.check()
        e = self.environment
        with self._worker_lock:
            last = self._last_worker()
            if e.store.single_engine and last is not None and not last.has_ended:
                raise DatabaseLocked(
                    f"this app already has a worker, and {e.store.url} allows only one; stop that one first"
                )
            e.store.lock_engine()
            try:
                self.sync_pools()
                self.declared_pools.warn_of_empty(
                    map(pool_name, served or ()), (pool_name(each.pool) for each in self.functions)
                )
                self.sync_crons()
            except BaseException:
                e.store.unlock_engine()
                raise
            worker = Worker(e.engine_deps(self._execution, self.counters, pools=served), targets=self.targets)
            self._last_worker = weakref.ref(worker)
        return worker

    def _has_worker(self) -> bool:
        last = self._last_worker()
        return self._is_lent or (last is not None and not last.has_ended)

    def _forked(self) -> None:
        super()._forked()
        self._worker_lock = threading.Lock()
        self._last_worker = lambda: None

    def run(self, *, pools: Iterable[str] = ()) -> None:
        """Run this app's jobs in this program until SIGTERM or Ctrl-C, then drain and return.

        Running actions have `Settings.drain` to end; a second signal ends at once. It does the same as
        `evertick worker`, for a program that is a worker: `if __name__ == "__main__": app.run()`. It runs the jobs of
        `pools`, or of every pool if none is given.

        Raises Misuse in another thread than the main one or if an event loop runs in it, and the errors of `worker`.
        """
        from evertick.app.embedded_worker import run_until_stopped

        run_until_stopped(self, pools=pools)

    def running(self, *, pools: Iterable[str] = ()) -> "Running":
        """A worker inside this program: `with app.running():` in a thread, `async with app.running():` on the loop.

        It runs the jobs of `pools`, or of every pool if none is given. In a test's world, which has a worker, it
        starts none.
        """
        from evertick.app.embedded_worker import Running

        return Running(lambda: None if self._is_lent else self.worker(pools=pools))

    def check(self) -> None:
        """Raise RegistrationError if a registered function cannot work."""
        for function in self.functions:
            function.check()

    def sync_pools(self) -> None:
        """Write the limits of pools whose declaration has changed, and log them; a worker does this at its start.

        Also logs functions whose pool may be misspelled: it is not declared, and its name is similar to that of a
        declared pool.
        """
        if self._scripts is not None:
            self._scripts.declare_pool()
        self.declared_pools.warn({each.name: pool_name(each.pool) for each in self.functions})
        if work := self.declared_pools.sync():
            self.declared_pools.log(self.pools.write(work))

    def sync_crons(self) -> "CronChanges":
        """Update the crons in the database to match the code, and log the changes; a worker does this at its start.

        Raises RegistrationError if a cron cannot work, or another schedule has its name.
        """
        schedules = self.schedules
        changes = schedules.write(self.crons.sync(schedules.operations))
        self.crons.log(changes)
        return changes


class Tenant(Access):
    """`app.tenant("acme")`: the methods of `App` that act on one tenant's data, for that tenant."""

    def __init__(self, app: App, name: str) -> None:
        self.tenant_id = tenant_named(name)
        self.functions = app.functions
        self.actor = app.actor
        self._app = app

    def __repr__(self) -> str:
        return f"<Tenant {self.tenant_id} of the app {self._app.name}>"

    def _opened(self) -> "Environment":
        return self._app.environment

    @property
    def scripts(self) -> "TenantScripts":
        """Writes, tests and publishes the scripts of this tenant, and shows their runs."""
        from evertick.app.scripts.api import TenantScripts

        return TenantScripts(self, self._app.scripts.settings)

    @property
    def gateways(self) -> "TenantGateways":
        """Shows the gateways of this tenant and their crons, and changes them."""
        from evertick.app.gateways.api import TenantGateways

        return TenantGateways(self, lambda: self._app.gateways.function)

    @overload
    def bind(self, connection: "Awaited") -> AsyncBoundScheduler: ...
    @overload
    def bind(self, connection: Any) -> BoundScheduler: ...
    def bind(self, connection: Any) -> BoundScheduler | AsyncBoundScheduler:
        """A scheduler inside the transaction of your own connection; see `App.bind`."""
        return self._app._bound(connection, self.tenant_id)

"""`App`: where functions are registered, and from where programs call and schedule them.

Registering loads little; what runs functions (engine, stores, crons and schedules) is imported where it is first used,
because every start of a program, of a command and of `evertick dev` after a change waits for the imports.
"""

import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from evertick.app.contexts import ActionCtx, MutationCtx, QueryCtx, SyncActionCtx
from evertick.app.functions import Action, Function, Mutation, Query
from evertick.app.registry import Registry, TableRegistry
from evertick.app.schedulers import BoundScheduler, Scheduler
from evertick.app.scheduling import Drafter
from evertick.app.tables import declare_table
from evertick.app.targets import GuardedTargets
from evertick.base.clock import Clock, SystemClock
from evertick.base.errors import DatabaseLocked, InvalidDelay, Misuse, RegistrationError, WriteConflict
from evertick.base.ids import DEFAULT_TENANT, Entropy, IdMaker, TenantId, system_entropy
from evertick.base.instants import duration_ms
from evertick.engine.events import Counters
from evertick.engine.settings import Settings

if TYPE_CHECKING:
    from evertick.app.crons import CronChanges, Crons
    from evertick.app.environment import Environment
    from evertick.app.execution import Execution
    from evertick.app.running import Running
    from evertick.app.schedules import Schedules
    from evertick.engine.lanes import Lanes
    from evertick.engine.worker import Worker
    from evertick.store.contract import Store

P = ParamSpec("P")
R = TypeVar("R")

DATABASE_URL_VARIABLE = "EVERTICK_DATABASE_URL"
DATA_FOLDER = ".evertick"


class App:
    """Registered functions and tables, on one database.

    The database is the argument `database_url`, else the environment variable EVERTICK_DATABASE_URL, else a SQLite
    file named after the app in the folder `.evertick` of the working directory. It is opened on first use.

    Raises Misuse for a name that no file can have.
    """

    def __init__(
        self,
        name: str,
        *,
        database_url: str | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        if not name or name.startswith(".") or any(each in name for each in "/\\\0"):
            raise Misuse(f"{name!r} cannot be an app's name: its database is the file {DATA_FOLDER}/<name>.db")
        if database_url is not None and not isinstance(database_url, str):
            raise Misuse(f"database_url is text, such as sqlite:///FILE, not {database_url!r}")
        self.name = name
        self.settings = settings or Settings()
        self.functions = Registry()
        self.tables = TableRegistry()
        self.targets = GuardedTargets()
        self.counters = Counters()
        self._database_url = database_url
        self._clock = clock or SystemClock()
        self._entropy = entropy or system_entropy()
        self._opening = threading.Lock()
        self._crons: Crons | None = None
        self._environment: Environment | None = None
        self._hiring = threading.Lock()
        self._last_worker: Callable[[], Worker | None] = lambda: None

    def __repr__(self) -> str:
        return f"<App {self.name}>"

    # -- registering

    @overload
    def query(self, handler: Callable[Concatenate[QueryCtx, P], R], /) -> Query[P, R]: ...
    @overload
    def query(
        self, /, *, name: str | None = None, internal: bool = False, timeout: float | timedelta | None = None
    ) -> Callable[[Callable[Concatenate[QueryCtx, P], R]], Query[P, R]]: ...
    def query(
        self,
        handler: Any = None,
        /,
        *,
        name: str | None = None,
        internal: bool = False,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Register a function that reads. It must be a plain `def`: a transaction never waits for anything else."""
        return self._decorate(Query, handler, name=name, internal=internal, timeout=timeout)

    @overload
    def mutation(self, handler: Callable[Concatenate[MutationCtx, P], R], /) -> Mutation[P, R]: ...
    @overload
    def mutation(
        self, /, *, name: str | None = None, internal: bool = False, timeout: float | timedelta | None = None
    ) -> Callable[[Callable[Concatenate[MutationCtx, P], R]], Mutation[P, R]]: ...
    def mutation(
        self,
        handler: Any = None,
        /,
        *,
        name: str | None = None,
        internal: bool = False,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Register a function that changes the truth in one transaction. It must be a plain `def`."""
        return self._decorate(Mutation, handler, name=name, internal=internal, timeout=timeout)

    @overload
    def action(self, handler: Callable[Concatenate[ActionCtx, P], Awaitable[R]], /) -> Action[P, R]: ...
    @overload
    def action(self, handler: Callable[Concatenate[SyncActionCtx, P], R], /) -> Action[P, R]: ...
    @overload
    def action(
        self, /, *, name: str | None = None, internal: bool = False, timeout: float | timedelta | None = None
    ) -> "_ActionDecorator": ...
    def action(
        self,
        handler: Any = None,
        /,
        *,
        name: str | None = None,
        internal: bool = False,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Register a function with side effects: `async def` on the event loop, or `def` in a thread."""
        return self._decorate(Action, handler, name=name, internal=internal, timeout=timeout)

    def table(self, name: str, *, indexes: Mapping[str, Sequence[str]] | None = None) -> None:
        """Declare a table's indexes: `app.table("messages", indexes={"by_author": ["author"]})`.

        Tables need no declaration otherwise. Raises RegistrationError.
        """
        self.tables.add(declare_table(name, indexes or {}))
        if self._environment is not None:  # too late to be built with the others
            try:
                self.prepare(self._environment.store)
            except BaseException:
                self.tables.remove(name)
                raise

    @property
    def crons(self) -> "Crons":
        """Schedules declared in code: `app.crons.add("clear messages", every(minutes=1), clear_all)`."""
        if self._crons is None:
            from evertick.app.crons import Crons

            with self._opening:
                if self._crons is None:
                    self._crons = Crons(self.name)
        return self._crons

    # -- calling and scheduling

    @overload
    def call(self, function: Query[P, R] | Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, function: Action[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any: ...
    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function and wait for what it returns. What it raises is raised here.

        A mutation that meets conflicts is run again a few times; then WriteConflict is raised.
        """
        return self._execution.call_now(self.functions.resolve(function), args, kwargs)

    async def call_async(self, function: Function[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """As `call`, without blocking the event loop."""
        return cast("R", await self._execution.call(self.functions.resolve(function), args, kwargs))

    def call_once(self, key: str, function: Mutation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a mutation under an idempotency key: called again with it, it answers what it answered the first time.

        Raises IdempotencyConflict if the key was used with another function or other arguments.
        """
        resolved = self.functions.resolve(function)
        if not isinstance(resolved, Mutation):
            raise Misuse(f"{resolved.name} is no mutation; only mutations take an idempotency key")
        return cast("R", self._execution.call_once(resolved, args, kwargs, key=key, tenant=DEFAULT_TENANT))

    @property
    def scheduler(self) -> Scheduler:
        """Schedules functions from outside, each call in a transaction of its own."""
        return Scheduler(self.environment.drafter, DEFAULT_TENANT, self._execution.transact)

    @property
    def schedules(self) -> "Schedules":
        """Schedules, from outside: each call is a transaction of its own."""
        return self._execution.schedules(DEFAULT_TENANT, f"app {self.name}")

    def bind(self, connection: Any, *, tenant: TenantId = DEFAULT_TENANT) -> BoundScheduler:
        """Schedules functions inside the transaction of a connection of yours.

        `connection` is a sqlite3 or psycopg connection, or a SQLAlchemy Connection or Session, to the app's database.
        Jobs are there exactly if you commit.
        """
        from evertick.app.binding import bound

        environment = self._environment
        drafter = Drafter(self.functions, self._ids, self._clock) if environment is None else environment.drafter
        return BoundScheduler(drafter, tenant, bound(connection))

    # -- running

    def worker(self, *, lanes: "Lanes | None" = None) -> "Worker":
        """An engine for this app's jobs, ready to `run`; the crons in the database are made what the code declares.

        Raises DatabaseLocked where another one runs on the file, RegistrationError for what cannot work.
        """
        from evertick.engine.worker import Worker

        self.check()
        e = self.environment
        with self._hiring:
            last = self._last_worker()
            if e.store.single_engine and last is not None and not last.has_ended:
                raise DatabaseLocked(
                    f"this app has a worker already, and {e.store.url} takes one: let that one end first"
                )
            e.store.lock_engine()
            try:
                self.sync_crons()
            except BaseException:
                e.store.unlock_engine()
                raise
            worker = Worker(
                e.store,
                lanes or e.lanes,
                e.clock,
                self._execution,
                e.ids,
                e.entropy,
                e.settings,
                self.counters,
                targets=self.targets,
            )
            self._last_worker = weakref.ref(worker)
        return worker

    def running(self) -> "Running":
        """A worker inside this program: `with app.running():` in a thread, `async with app.running():` on the loop."""
        from evertick.app.running import Running

        return Running(self.worker)

    def check(self) -> None:
        """Raise RegistrationError if a registered function cannot work."""
        for function in self.functions:
            function.check()

    def sync_crons(self) -> "CronChanges":
        """Make the crons in the database what the code declares, and log what changed; a worker does so at its start.

        Raises RegistrationError if a cron cannot work, or another schedule has its name.
        """
        schedules = self.schedules
        changes = schedules.do(self.crons.sync(schedules.operations))
        self.crons.log(changes)
        return changes

    def migrate(self) -> list[str]:
        """Bring the database's schema up to this version; answers the names of the steps taken."""
        from evertick.store.open import open_store

        store = open_store(self.database_url)
        try:
            return store.migrate()
        finally:
            store.close()

    def close(self) -> None:
        """Close the database. It is opened again on the next use."""
        with self._opening:
            if self._environment is not None:
                self._environment.lanes.close()
                self._environment.store.close()
                self._environment = None

    @property
    def database_url(self) -> str:
        """The database's address."""
        return (
            self._database_url
            or os.environ.get(DATABASE_URL_VARIABLE)
            or f"sqlite:///{Path(DATA_FOLDER) / self.name}.db"
        )

    @property
    def environment(self) -> "Environment":
        """What calls share; opens the database on first use.

        Raises Unavailable, SchemaMismatch or InvalidDatabaseUrl.
        """
        if self._environment is None:
            with self._opening:
                if self._environment is None:
                    self._environment = self._open()
        return self._environment

    def enter(self, environment: "Environment") -> Callable[[], None]:
        """Run on an environment made elsewhere, such as a test's world, until the answered function is called."""
        self.prepare(environment.store)
        with self._opening:
            previous, self._environment = self._environment, environment

        def leave() -> None:
            with self._opening:
                self._environment = previous

        return leave

    def prepare(self, store: "Store") -> None:
        """Make a store fit for this app's tables. Raises SchemaMismatch."""
        from evertick.app.execution import CALL_CONFLICTS
        from evertick.app.indexing import build_indexes
        from evertick.rules.retry import retry_delay_ms

        store.check_schema()
        tables = list(self.tables)
        failures = 0
        while tables:
            try:
                store.write(lambda transaction: build_indexes(transaction, DEFAULT_TENANT, tables))
                return
            except WriteConflict:  # others start at the same time, or write documents
                failures += 1
                if failures >= CALL_CONFLICTS.attempts_max:
                    raise
                time.sleep(retry_delay_ms(failures, CALL_CONFLICTS, self._entropy) / 1000)

    def open_on(self, store: "Store", *, inline: bool = False) -> "Environment":
        """Use an open store, instead of the one behind `database_url`; `inline` uses no threads."""
        from evertick.app.clock_file import simulation_of
        from evertick.app.environment import Environment
        from evertick.engine.lanes import InlineLanes, ThreadLanes

        self.prepare(store)
        simulation = simulation_of(store.url) if isinstance(self._clock, SystemClock) else None
        clock = self._clock if simulation is None else simulation.clock
        lanes: Lanes
        if inline:
            lanes = InlineLanes(store)
        else:
            writers = 1 if store.single_engine else 4
            lanes = ThreadLanes(store, writers=writers, callers=self.settings.action_threads)
        self._environment = Environment(
            functions=self.functions,
            tables=self.tables,
            store=store,
            lanes=lanes,
            clock=clock,
            ids=self._ids,
            entropy=self._entropy,
            drafter=Drafter(self.functions, self._ids, clock),
            settings=self.settings,
            targets=self.targets,
        )
        return self._environment

    # -- helpers

    @property
    def _execution(self) -> "Execution":
        from evertick.app.execution import Execution

        return Execution(self.environment)

    @property
    def _ids(self) -> IdMaker:
        if not hasattr(self, "_id_maker"):
            self._id_maker = IdMaker(self._entropy)
        return self._id_maker

    def _open(self) -> "Environment":
        from evertick.store.open import open_store

        store = open_store(self.database_url)
        try:
            if store.single_engine:
                store.migrate()  # an embedded database belongs to the program; a fleet's is migrated on purpose
            return self.open_on(store)
        except BaseException:
            store.close()
            raise

    def _decorate(
        self,
        kind: type[Function[..., Any]],
        handler: Any,
        *,
        name: str | None,
        internal: bool,
        timeout: float | timedelta | None,
    ) -> Any:
        timeout_ms = None if timeout is None else duration_ms(timeout, name="timeout")
        if timeout_ms == 0:
            raise InvalidDelay(f"timeout must be at least a millisecond, not {timeout}; leave it out for the usual one")

        def register(handler: Any) -> Function[..., Any]:
            if isinstance(handler, Function):
                raise RegistrationError(f"{handler.name} is registered already, as a {handler.kind.value}")
            if not callable(handler):
                raise RegistrationError(f"@app.{kind.kind.value} decorates a function, not {handler!r}")
            function = kind(handler, name=name, internal=internal, timeout_ms=timeout_ms, app_name=self.name)
            if function.is_async and not isinstance(function, Action):
                raise RegistrationError(
                    f"{function.name} is an `async def` {kind.kind.value}: a transaction must not wait for the "
                    "network, so write it as a plain `def`, or make it an action"
                )
            self.functions.add(function)
            return function

        return register if handler is None else register(handler)


class _ActionDecorator(Protocol):
    """What `@app.action(...)` with options answers: it takes both kinds of actions."""

    @overload
    def __call__(self, handler: Callable[Concatenate[ActionCtx, P], Awaitable[R]], /) -> Action[P, R]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[SyncActionCtx, P], R], /) -> Action[P, R]: ...

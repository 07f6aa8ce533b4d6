"""Opening: opens and closes an app's database.

It is opened on first use, or explicitly (`open`, `with app:`). A test's world lends the app its environment instead;
meanwhile opening and closing do nothing.
"""

import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from evertick.app.access import Access
from evertick.app.registry import TableRegistry
from evertick.app.scheduling.job_builder import JobBuilder
from evertick.app.transacting import Work
from evertick.base.clock import Clock, SystemClock, synchronize
from evertick.base.ids import Entropy, IdMaker
from evertick.engine.runtime.settings import Settings
from evertick.engine.runtime.tracing import Tracing
from evertick.engine.schedules.eligibility import Targets

if TYPE_CHECKING:
    from evertick.app.environment import Environment
    from evertick.app.failure_hooks import FailureHooks
    from evertick.engine.runtime.executors import Executors
    from evertick.store.store import Store

T = TypeVar("T")

DATABASE_URL_VARIABLE: Final = "EVERTICK_DATABASE_URL"
DATA_FOLDER: Final = ".evertick"
WRITERS: Final = 8
"""Concurrent transactions of a worker on PostgreSQL: batches of mutations, a claim, ends, schedules."""


class Opening(Access):
    """The part of an app that manages its database: the address, the schema, and whether it is open."""

    name: str
    aliases: tuple[str, ...]
    settings: Settings
    tables: TableRegistry
    targets: Targets
    failures: "FailureHooks | None"
    tracing: Tracing | None
    _folder: Path | None = None
    """The working directory when the app was created, because functions may change it."""

    def __init__(self, *, database_url: str | Callable[[], str] | None, clock: Clock | None, entropy: Entropy) -> None:
        self._database_url = database_url
        with contextlib.suppress(OSError):  # the directory was deleted; opening a relative address reports that
            self._folder = Path.cwd()
        self._clock = clock or SystemClock()
        self._entropy = entropy
        self._ids = IdMaker(entropy)
        self._opening = threading.Lock()
        self._is_lent = False
        """Whether the environment belongs to another object, such as a test's world."""

    def open(self) -> None:
        """Open the database now instead of on first use: at the start of a program that schedules but runs no jobs.

            app.open()    # in wsgi.py, or in the `ready` of a Django AppConfig

        A SQLite file is created in an existing folder, and migrated to this version; PostgreSQL's tables are checked.
        Does nothing if it is open. Raises Unavailable, SchemaMismatch (run `evertick migrate`) or
        InvalidDatabaseUrl.
        """
        _ = self.environment

    def __enter__(self) -> Self:
        """Open the database as `open` does; it is closed when the block ends.

        @asynccontextmanager
        async def lifespan(api: FastAPI) -> AsyncIterator[None]:
            async with app:
                yield
        """
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        """Like `with`, without blocking the event loop."""
        import asyncio  # imported by programs that await; others need not load it

        await asyncio.to_thread(self.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def migrate(self) -> list[str]:
        """Migrate the database's schema to this version. Returns the names of the applied migrations."""
        from evertick.store.open import open_settled
        from evertick.store.sqlite.address import make_folder_of

        make_folder_of(self.database_url)
        store = open_settled(self.database_url)
        try:
            return store.migrate()
        finally:
            store.close()

    def close(self) -> None:
        """Close the database. It is opened again on the next use."""
        with self._opening:
            if self._environment is not None and not self._is_lent:
                self._environment.close()
                self._environment = None

    @property
    def database_url(self) -> str:
        """The database's address. A relative path refers to the working directory when the app was created."""
        from evertick.store.sqlite.address import absolute

        return absolute(self._named_url() or f"sqlite:///{Path(DATA_FOLDER) / self.name}.db", self._folder)

    def enter(self, environment: "Environment") -> Callable[[], None]:
        """Use another environment, such as a test's world, until the returned function is called."""
        self.prepare(environment.store)
        with self._opening:
            previous = self._environment, self._is_lent
            self._environment, self._is_lent = environment, True

        def leave() -> None:
            with self._opening:
                self._environment, self._is_lent = previous

        return leave

    def prepare(self, store: "Store") -> None:
        """Check the schema of a store and build the indexes of this app's tables. Raises SchemaMismatch."""
        from evertick.app.documents.indexing import build_indexes
        from evertick.engine.runtime.executors import retry_conflicts

        store.check_schema()
        tables = list(self.tables)
        if tables:

            def write(work: Work[T]) -> T:
                return retry_conflicts(lambda: store.write(work), self._entropy)

            build_indexes(tables, store.read, write)

    def open_on(self, store: "Store", *, inline: bool = False) -> "Environment":
        """Use an open store instead of the one behind `database_url`; `inline` uses no threads."""
        from evertick.app.database_clock import simulation_of
        from evertick.engine.runtime.executors import InlineExecutors, ThreadExecutors

        self.prepare(store)
        if "sqlalchemy" in sys.modules:  # otherwise no function uses sessions, and their modules need not be loaded
            from evertick.app.execution.user_sql import prepare_sessions

            prepare_sessions(store)
        simulation = simulation_of(store.url) if isinstance(self._clock, SystemClock) else None
        clock = self._clock if simulation is None else simulation.clock
        if isinstance(clock, SystemClock):
            synchronize(clock, store.database_now)  # before it is used for times and ids
        executors: Executors
        if inline:
            executors = InlineExecutors(store)
        else:
            writers = 1 if store.single_engine else WRITERS
            executors = ThreadExecutors(store, writers=writers, callers=self.settings.action_threads)
        _reopen_after_forks()
        _apps.add(self)
        self._environment = self._environment_on(store, executors, clock, self._ids, self._entropy)
        return self._environment

    def _environment_on(
        self, store: "Store", executors: "Executors", clock: Clock, ids: IdMaker, entropy: Entropy
    ) -> "Environment":
        """The environment of the app on a database; a world passes its own clock, ids and entropy."""
        from evertick.app.environment import Environment

        return Environment(
            app=self.name,
            apps=(self.name, *self.aliases),
            functions=self.functions,
            tables=self.tables,
            store=store,
            executors=executors,
            clock=clock,
            ids=ids,
            entropy=entropy,
            job_builder=JobBuilder(self.functions, ids, clock, self.tracing),
            settings=self.settings,
            tracing=self.tracing,
            targets=self.targets,
            failures=self.failures,
        )

    # -- helpers

    def _forked(self) -> None:
        """Reset after a fork: connections to a server belong to the parent, so this process opens its own on first use.

        A SQLite file is not closed here, because a thread of the parent may have held a lock inside SQLite.
        """
        self._opening = threading.Lock()
        e = self._environment
        if e is not None and not self._is_lent and not e.store.single_engine:
            e.store.close()
            self._environment = None

    def _opened(self) -> "Environment":
        with self._opening:
            return self._environment or self._open()

    def _named_url(self) -> str | None:
        """The address given by the program or the environment; None if there is none."""
        given = self._database_url() if callable(self._database_url) else self._database_url
        return given or os.environ.get(DATABASE_URL_VARIABLE)

    def _open(self) -> "Environment":
        from evertick.store.open import open_settled
        from evertick.store.sqlite.address import make_folder_of

        if not self._named_url():  # a folder in a given address may be misspelled, so it is not created
            make_folder_of(self.database_url)
        store = open_settled(self.database_url)
        try:
            if store.single_engine:
                store.migrate()  # an embedded database belongs to the program; a shared one is migrated explicitly
            return self.open_on(store)
        except BaseException:
            store.close()
            raise


_apps: "Final[weakref.WeakSet[Opening]]" = weakref.WeakSet()
"""The apps that were opened."""


@cache
def _reopen_after_forks() -> None:
    """Make forked children open their own databases."""
    os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    for app in list(_apps):
        app._forked()

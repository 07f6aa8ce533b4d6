"""The world's store: SQLite in memory, which notifies of every change immediately and can make commits fail.

The real store notifies only of jobs that are due within seconds, because workers poll every few seconds. A world's
workers poll rarely, so that months pass quickly; so here every commit with a change is a notification.
"""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from evertick.base.instants import Instant
from evertick.store.notifications import EVERYTHING, Listener
from evertick.store.sqlite.store import SqliteStore
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from evertick.store.write_health import WriteFailure
from evertick.testing.faults import Faults

T = TypeVar("T")

COMMITS: Final = "pragma data_version"


class WorldStore:
    """A `Store` around a SQLite database in memory."""

    dialect = "sqlite"
    place = ""
    single_engine = True

    def __init__(self, inner: Store, faults: Faults) -> None:
        self.url = inner.url
        self._inner = inner
        self._commits_seen = 0
        self._faults = faults
        self._listeners: list[Listener] = []

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Store.write`. Also raises injected faults."""

        def watched(transaction: Transaction) -> tuple[T, bool]:
            self._faults.before_work()
            before = transaction.connection.total_changes
            result = work(transaction)
            self._faults.before_commit()
            return result, transaction.connection.total_changes != before

        result, changed = self._inner.write(watched, isolation=isolation)
        if changed:
            self._notify_listeners()
        return result

    def write_failure(self, *, thorough: bool = False) -> WriteFailure | None:
        return self._inner.write_failure(thorough=thorough)

    def read(self, work: Callable[[Transaction], T]) -> T:
        self._faults.before_work()
        return self._inner.read(work)

    def view(self, work: Callable[[Transaction], T]) -> T:
        self._faults.before_work()
        return self._inner.view(work)

    def settle(self) -> None:
        """See `Store.settle`: only Evertick uses a world's database."""

    def migrate(self) -> list[str]:
        return self._inner.migrate()

    def check_schema(self) -> None:
        self._inner.check_schema()

    def listen(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def move_to(self, path: Path) -> None:
        """Move to a file, which other connections can open. `poll` detects their commits."""
        with contextlib.closing(sqlite3.connect(path)) as target:
            self._inner.read(lambda transaction: transaction.connection.backup(target))
        self._inner.close()
        self._inner = SqliteStore(f"sqlite:///{path}", synchronous="off")
        self._inner.lock_engine()
        self.url = self._inner.url
        self.poll()

    def poll(self) -> bool:
        """Notify the listeners if another connection has committed since the last poll; return whether it has."""
        seen: int = self._inner.read(lambda transaction: transaction.connection.execute(COMMITS).fetchone()[0])
        is_new, self._commits_seen = seen != self._commits_seen, seen
        if is_new:
            self._notify_listeners()
        return is_new

    def forget_listeners(self) -> None:
        """Remove all listeners, because their process is dead."""
        self._listeners.clear()

    def end_leases(self, now: Instant) -> None:
        """End the leases of dead workers. Injected faults do not apply."""

        def work(transaction: Transaction) -> None:
            for worker in transaction.list_workers():
                transaction.renew_lease(worker.id, leased_until=now)

        self._inner.write(work)

    def database_now(self) -> Instant | None:
        return None

    def lock_engine(self) -> None:
        """See `Store.lock_engine`: no other process can open a database in memory."""

    def unlock_engine(self) -> None:
        """See `Store.unlock_engine`."""

    def close(self) -> None:
        self._inner.close()

    def _notify_listeners(self) -> None:
        for listener in tuple(self._listeners):
            listener(EVERYTHING)

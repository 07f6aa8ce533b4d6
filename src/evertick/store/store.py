"""The contract of every store: what the layers above may call, and what they may rely on.

A `Store` runs *work*: a plain function over a `Transaction`. Either everything that the work did is committed when it
returns, or nothing of it. `write` makes one attempt; it raises

* `WriteConflict` when the transaction could not be serialized: nothing was written, running it again is safe;
* `DatabaseUnavailable` when the database did not reply: nothing was written;
* `OutcomeUnknown` when the connection broke during COMMIT: query the outcome (`is_held`, `find_call`), never repeat;
* `SchemaMismatch` when a table is missing, `Misuse` for a value that the database cannot store: nothing was written;
* any error that the work itself raised: nothing was written.

A statement that fails spoils its transaction until `rollback_to` a savepoint made before it. A spoiled transaction
does not commit: `write` raises that failure again even if the work hid it.

Every transition repeats the state from which it starts in its `where`, and returns what it found. So a late write of a
dead worker changes nothing, and its caller learns that.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from evertick.base.errors import DatabaseUnavailable, LimitExceeded
from evertick.base.instants import Instant
from evertick.store.notifications import Listener
from evertick.store.transaction.transaction import Transaction
from evertick.store.write_health import WriteFailure

T = TypeVar("T")


class LostInFunction(DatabaseUnavailable):
    """The connection was lost in a function's own statement, or the server lacked what that statement needed or could
    not commit its writes: the statement may be the cause. Nothing is committed.
    """


class Isolation(StrEnum):
    """How transactions see each other. On SQLite all writers are serializable."""

    SERIALIZABLE = "serializable"
    READ_COMMITTED = "read committed"
    """For claims and leases: they lock the rows they change."""
    EACH = "each"
    """Each statement is a transaction by itself, which saves round trips. For work that is usually one statement, and
    whose parts are useful alone: a claim, a job scheduled by a program.
    """
    RELAXED = "relaxed"
    """EACH, and no commit waits for the disk. A power cut may forget it, together with all later commits. For claims of
    mutations: a forgotten claim leaves the job pending.
    """


VIEW_MAX_MS: Final = 10_000
"""Milliseconds that a read for people may take. A page over millions of rows that uses its index takes a few."""


def took_too_long() -> LimitExceeded:
    """The error of a read for people that was ended."""
    return LimitExceeded(f"this read took longer than {VIEW_MAX_MS / 1000:g} s and was ended; ask for fewer rows")


class Store(Protocol):
    """A database: runs work in transactions, and notifies listeners of changes."""

    url: str
    dialect: str
    place: str
    """The schema or the prefix of its tables; empty where they have their plain names."""
    single_engine: bool
    """Whether at most one engine runs on this database: then no leases are needed, `lock_engine` is enough."""

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """Run `work` in one writing transaction, once, and commit."""
        ...

    def write_failure(self, *, thorough: bool = False) -> WriteFailure | None:
        """Why the database can be read but not written; None if it can be written, as far as known.

        It writes a few bytes to find out, at most every two seconds, and never waits for other writers. On a full disk
        these may fit; `thorough` is for a process that has written nothing itself: on PostgreSQL it also writes a
        megabyte, which is not kept.
        """
        ...

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in one transaction that sees a single state and changes nothing.

        Raises Misuse if the work writes, and WriteConflict (rarely: then read again) if what it saw is no state that
        serializable transactions agree on.
        """
        ...

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` as `read` does, for people: no writer fails because of it, and it ends after VIEW_MAX_MS.

        Raises LimitExceeded if it takes longer, Misuse if the work writes.
        """
        ...

    def settle(self) -> None:
        """Use the usual place of Evertick's tables if the address has none and the database does not have them with
        their plain names. Call it before anything else.
        """
        ...

    def migrate(self) -> list[str]:
        """Bring the schema up to this code's version. Return the names of the steps taken."""
        ...

    def check_schema(self) -> None:
        """Raise SchemaMismatch if the schema is older or newer than this code."""
        ...

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` (from any thread) with the hints of commits after which a loop should poll. They may be late,
        lost, repeated or too many. Return a function that ends it.
        """
        ...

    def database_now(self) -> Instant | None:
        """The time of the database's clock; None if that is this machine's, or the users of the store have their
        own."""
        ...

    def lock_engine(self) -> None:
        """Claim the right to run an engine on this database, where only one may. Raises DatabaseLocked."""
        ...

    def unlock_engine(self) -> None:
        """Release that right; does nothing without it."""
        ...

    def close(self) -> None:
        """Close every connection; further calls raise DatabaseUnavailable."""
        ...

"""The contract every store keeps: what the floors above may ask, and what they may rely on.

A `Store` runs *work*: a plain function over a `Transaction`. Everything the work did is there after it returned, or
nothing of it is. `write` makes one attempt; it raises

* `WriteConflict` when the transaction could not be serialized: nothing was written, running it again is safe;
* `DatabaseUnavailable` when the database did not answer: nothing was written;
* `OutcomeUnknown` when the connection broke during COMMIT: look the fact up (`is_held`, `find_call`), never repeat;
* `SchemaMismatch` when a table is missing, `Misuse` for a value that the database cannot keep: nothing was written;
* whatever the work itself raised: nothing was written.

A statement that fails spoils its transaction until `rollback_to` a savepoint made before it. A spoiled transaction
does not commit: `write` raises that failure again even if the work hid it.

Every transition repeats, in its `where`, the state it moves from, and returns what it found; so a zombie's write
changes nothing and is told so.
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
    """A statement of a function's own may be the cause: the connection was lost in one, or the server lacked what it
    needs or could not commit what it did. Nothing is committed.
    """


class Isolation(StrEnum):
    """How transactions see each other. SQLite's writers are always alone and whole, so there all are serializable."""

    SERIALIZABLE = "serializable"
    READ_COMMITTED = "read committed"
    """For claims and leases: they lock the rows they change."""
    EACH = "each"
    """Each statement is a transaction by itself, so that a server is asked as seldom as can be. For what is one
    statement mostly, and of use in parts: a claim, a job scheduled by a program.
    """
    RELAXED = "relaxed"
    """EACH, and no commit waits for the disk. A power cut may forget it, but not without what came after it. For claims
    of mutations: a forgotten one is a job that is still pending.
    """


VIEW_MAX_MS: Final = 10_000
"""How long a read for people may take. A page over millions of rows that uses its index takes a few milliseconds."""


def took_too_long() -> LimitExceeded:
    """The error of a read for people that was ended."""
    return LimitExceeded(f"this read took longer than {VIEW_MAX_MS / 1000:g} s and was ended; ask for fewer rows")


class Store(Protocol):
    """A database: runs work in transactions, and tells who else changed something."""

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
        """Why the database cannot be written although it can be reached; None if it can, as far as is known.

        It writes a few bytes to find out, at most every two seconds, and never waits for others that write. On a full
        disk these may fit; `thorough` is for a process that has written nothing itself: PostgreSQL then also writes a
        megabyte, which nothing keeps.
        """
        ...

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in one transaction that sees a single state and changes nothing.

        Raises Misuse if the work writes, and WriteConflict (rarely: then read again) if what it saw is no state that
        serializable transactions agree on.
        """
        ...

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Like `read`, for what people look at: it makes no writer fail, and ends after VIEW_MAX_MS.

        Raises LimitExceeded if it takes longer, Misuse if the work writes.
        """
        ...

    def settle(self) -> None:
        """Go to the usual place of Evertick's tables, if the address names none and they are not there under their
        plain names. Call it before anything else.
        """
        ...

    def migrate(self) -> list[str]:
        """Bring the schema up to this code's version; returns the names of the steps taken."""
        ...

    def check_schema(self) -> None:
        """Raise SchemaMismatch if the schema is older or newer than this code."""
        ...

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` (from any thread) with the hints of commits after which a loop should look. They may be
        late, lost, repeated or too many. Returns a function that ends it.
        """
        ...

    def database_now(self) -> Instant | None:
        """The time by the database's clock; None where that is this machine's, or the store's users bring their own."""
        ...

    def lock_engine(self) -> None:
        """Claim the right to run an engine on this database, where only one may. Raises DatabaseLocked."""
        ...

    def unlock_engine(self) -> None:
        """Give that right back; nothing where it is not held."""
        ...

    def close(self) -> None:
        """Close every connection; further calls raise DatabaseUnavailable."""
        ...

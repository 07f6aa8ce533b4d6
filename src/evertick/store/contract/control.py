"""The contract for the transaction itself."""

from typing import Any, Protocol

from evertick.base.errors import EvertickError


class Control(Protocol):
    """What a transaction can do with the transaction itself."""

    is_shared: bool
    """Whether several functions run in it: it holds the locks of all, so it waits for others' for a moment only."""

    def savepoint(self, name: str) -> None:
        """Mark a place to come back to."""
        ...

    def rollback_to(self, name: str) -> None:
        """Undo everything since the savepoint, and forget it."""
        ...

    def release(self, name: str) -> None:
        """Forget the savepoint and keep what was done."""
        ...

    def limit_lock_waits(self) -> None:
        """From now on a statement that waits for a lock for too long ends as a conflict, before the function that runs
        in this thread is out of time. Not undone with a savepoint that is made afterwards.
        """
        ...

    def explain(self, error: BaseException) -> EvertickError | None:
        """What an error of the driver means that no statement of a user caused: a conflict, an unavailable database."""
        ...

    def reset_session(self) -> None:
        """At the end of a function that was given the connection: undo what it has left in the session.

        Raises TransactionEnded if it has ended the transaction.
        """
        ...

    def check_usable(self) -> None:
        """After statements of the user's own: raise if one of them failed so that nothing can follow it.

        Raises the error of ours where the database was at fault, Misuse where the function hid an error.
        """
        ...

    def confirm(self) -> None:
        """Let the commit wait as that of a write does, although nothing may have been written.

        For what was read, and decides what happens outside: an old primary, which does not know that a standby has
        been promoted, lets everything be read as it was, but its commits wait in vain.
        """
        ...

    def waits_for_copies(self) -> bool:
        """Whether a commit of a worker waits until a standby has it, as the server is set; True where there is none."""
        ...

    @property
    def connection(self) -> Any:
        """The driver's connection, for statements of the user's own in the same commit."""
        ...

"""The part of a transaction that differs between databases: running one statement."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from evertick.base.errors import InvalidText, Misuse

Row = tuple[Any, ...]


def nested_write() -> Misuse:
    """The error of a thread that begins a write inside a write."""
    return Misuse(
        "this thread is already inside a transaction of this database; "
        "inside a mutation call others with ctx.run_mutation or ctx.run_query, and schedule with ctx.scheduler; "
        "in the code of a workflow make it a step"
    )


def of_the_driver(error: BaseException) -> BaseException:
    """The driver's error that SQLAlchemy has wrapped. Other classes are not read: they are the user's."""
    wraps = type(error).__module__.startswith("sqlalchemy.")
    return getattr(error, "orig", None) or error if wraps else error


def unstorable(params: Mapping[str, Any], error: UnicodeEncodeError) -> InvalidText:
    """The error of a statement's value with a lone surrogate, or a character that the connection's encoding lacks."""
    where = next((name for name, value in params.items() if value == error.object), "a value")
    if not error.encoding.startswith("utf"):
        return InvalidText(
            f"{where} holds {error.object[error.start : error.end]!a}, which the encoding of this connection "
            f"({error.encoding}) does not have: let it be UTF8 (client_encoding)"
        )
    return InvalidText(
        f"{where} contains a lone surrogate at position {error.start}, which no database can store: "
        f"{ascii(error.object)[:200]}"
    )


class Driver(ABC):
    """Runs statements by their names."""

    @abstractmethod
    def _fetch(self, name: str, params: Mapping[str, Any]) -> list[Row]:
        """Run a statement and return its rows."""

    @abstractmethod
    def _run(self, name: str, params: Mapping[str, Any]) -> int:
        """Run a statement. Return how many rows it changed."""

    @abstractmethod
    def _run_many(self, name: str, columns: Sequence[str], rows: Sequence[Row]) -> int:
        """Run a statement for many rows. Return how many rows it changed."""

    @abstractmethod
    def _command(self, text: str) -> None:
        """Run a statement about the transaction itself."""

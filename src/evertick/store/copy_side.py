"""One side of a copy: what `evertick.store.copying` needs from a database of either kind."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

PAGE: Final = 1_000
"""Rows that are in memory at a time."""


class Side(Protocol):
    """A database whose tables are locked: no other process writes to them."""

    def columns(self, table: str) -> dict[str, bool]:
        """The names of a table's columns, each with whether it is boolean; empty if there is no such table."""
        ...

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """All rows, read a page at a time."""
        ...

    def write(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add rows."""
        ...

    def is_empty(self, table: str) -> bool:
        """Whether a table has no rows."""
        ...

    def commit(self) -> None:
        """Keep what was written."""
        ...

"""The cursor for statements of the user's own: no statement ends the transaction unnoticed, or hides an error."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Protocol, Self

import psycopg

from evertick.store.postgres.connections import in_statement
from evertick.store.transaction.endings import names_temporary, refuse_ending, refuse_hiding

TEMPORARY: Final = "select relname from pg_class where relnamespace = pg_my_temp_schema()"
DISCARD: Final = "discard temp"


class Watch(Protocol):
    """The transaction that wants to know what the user's own statements do."""

    def see(self, statement: object) -> None:
        """A statement is about to run."""

    def note(self, error: psycopg.Error) -> None:
        """A statement has failed, which the function may hide."""

    def check_open(self) -> None:
        """Raise TransactionEnded if a statement has ended the transaction."""


class WatchedCursor(psycopg.Cursor[Any]):
    """A cursor that tells the transaction what its statements do."""

    def __init__(self, *args: Any, watch: Watch, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._watch = watch
        self.require_open: Callable[[], object] = bool
        """Raises once the function has ended that asked for this cursor."""

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Self:
        self._run(query, partial(super().execute, query, *args, **kwargs))
        if names_temporary(query):
            found = psycopg.Cursor(self.connection).execute(TEMPORARY).fetchall()
            refuse_hiding([name for (name,) in found], lambda: psycopg.Cursor(self.connection).execute(DISCARD))
        return self

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> None:
        self._run(query, partial(super().executemany, query, *args, **kwargs))

    def stream(self, query: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        self._check(query)
        return super().stream(query, *args, **kwargs)

    def copy(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        self._check(statement)
        return super().copy(statement, *args, **kwargs)

    def _run(self, query: Any, work: Callable[[], object]) -> None:
        self._check(query)
        try:
            work()
        except psycopg.Error as error:
            self._watch.note(in_statement(error, query))
            self._watch.check_open()
            raise
        self._watch.check_open()  # whatever the words were

    def _check(self, query: Any) -> None:
        self.require_open()
        refuse_ending(query, is_standard=self.connection.info.parameter_status("standard_conforming_strings") != "off")
        self._watch.see(query)

"""The drivers of SQLAlchemy's async engines, as Evertick's transactions use a driver.

Inside `run_sync` SQLAlchemy's own view of such a connection has calls that look as if they blocked; it awaits them.
What is left to do is the form: sqlite3's methods for aiosqlite, psycopg's parameters and errors for asyncpg.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Self

_PARAMETER: Final = re.compile(r"%(?:%|\((\w+)\)s)")


class AwaitedSqlite:
    """aiosqlite's connection, with those of sqlite3's methods that a transaction needs."""

    def __init__(self, adapted: Any) -> None:
        object.__setattr__(self, "_adapted", adapted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapted.driver_connection, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._adapted.driver_connection, name, value)

    def execute(self, statement: str, parameters: Any = ()) -> "_Result":
        """As sqlite3's."""
        return self._run("execute", statement, parameters)

    def executemany(self, statement: str, parameters: Any) -> "_Result":
        """As sqlite3's."""
        return self._run("executemany", statement, parameters)

    def _run(self, method: str, statement: str, parameters: Any) -> "_Result":
        cursor = self._adapted.cursor()
        try:
            getattr(cursor, method)(statement, parameters)
            return _Result(cursor.fetchall(), cursor.rowcount)
        finally:
            cursor.close()


class _Result:
    """What a statement has returned."""

    def __init__(self, rows: Sequence[Any], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def fetchall(self) -> Sequence[Any]:
        """All rows."""
        return self._rows

    def fetchone(self) -> Any:
        """The first row, or None."""
        return next(iter(self._rows), None)


class AwaitedCursor:
    """psycopg's cursor on a connection of asyncpg, or on an asynchronous one of psycopg."""

    def __init__(self, adapted: Any) -> None:
        self._adapted = adapted
        self._is_asyncpg = not hasattr(adapted.driver_connection, "pgconn")
        self._rows: Sequence[Any] = ()
        self.rowcount = -1

    def execute(self, query: bytes, params: Mapping[str, Any] | None = None, *, prepare: bool | None = None) -> Self:
        """As psycopg's, but what is prepared is the driver's choice. Raises psycopg's errors, also for asyncpg's."""
        cursor = self._adapted.cursor()
        try:
            if self._is_asyncpg:
                text, names = _numbered(query)
                cursor.execute(text, tuple((params or {})[name] for name in names))
            else:
                cursor.execute(query, params)
            self._rows, self.rowcount = cursor.fetchall(), cursor.rowcount
        except self._adapted.dbapi.Error as error:
            if self._is_asyncpg:
                raise _psycopgs(error) from error
            raise
        finally:
            cursor.close()
        return self

    def fetchall(self) -> Sequence[Any]:
        """All rows of the last statement."""
        return self._rows


@cache
def _numbered(query: bytes) -> tuple[str, tuple[str, ...]]:
    """A statement with `$1` instead of `%(name)s`, and the name of each number."""
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        name = found.group(1)
        return "%" if name is None else f"${names.setdefault(name, len(names) + 1)}"

    text = _PARAMETER.sub(number, query.decode())
    return text, tuple(names)


def _psycopgs(error: Exception) -> Exception:
    """psycopg's error of the same meaning as one of asyncpg's."""
    import psycopg

    state = getattr(error, "sqlstate", None)
    try:
        return psycopg.errors.lookup(state or "")(str(error))
    except KeyError:
        return psycopg.OperationalError(str(error))

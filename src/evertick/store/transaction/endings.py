"""Endings: statements that the user's own SQL must not contain, because the connection is shared.

Evertick commits when the function has returned, and rolls back when it raised: no statement of a function begins or
ends a transaction. And what a function leaves in the session would meet the functions after it, and Evertick's own
statements. What cannot be undone at the function's end is refused here; PostgreSQL's settings and temporary tables can
be (`reset_session`).
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from evertick.base.errors import Misuse
from evertick.store.place import own_tables

_BLANK: Final = r"(?:[\s\ufeff]|--[^\n]*\n|/\*.*?\*/)*"
_ENDING: Final = re.compile(
    rf"(?:\A|;){_BLANK}"
    r"(begin|start\s+transaction|commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:\w+\s+)?to\b))\b",
    re.IGNORECASE | re.DOTALL,
)
"""At the start of a text or behind a semicolon, blanks and comments."""
_QUOTED: Final = re.compile(
    r"\$(\w*)\$.*?\$\1\$|\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", re.DOTALL
)
"""Literals, names, comments and bodies of functions, in which these words are none of the statement's own."""
_TRIGGER: Final = re.compile(rf"{_BLANK}create\s+(temp\w*\s+)?trigger\b", re.IGNORECASE)
"""On SQLite the body of a trigger stands between `begin` and `end`."""
_LEAVING: Final = re.compile(
    rf"(?:\A|;){_BLANK}(prepare|deallocate|discard|listen|unlisten|load|attach|detach)\b", re.IGNORECASE | re.DOTALL
)
_PRAGMA: Final = re.compile(rf"(?:\A|;){_BLANK}pragma\s+(?:\w+\s*\.\s*)?(\w+)\s*([=(])?", re.IGNORECASE | re.DOTALL)
READING_PRAGMAS: Final = frozenset({
    "collation_list", "compile_options", "data_version", "database_list", "foreign_key_check", "foreign_key_list",
    "function_list", "index_info", "index_list", "index_xinfo", "integrity_check", "module_list", "pragma_list",
    "quick_check", "table_info", "table_list", "table_xinfo",
})  # fmt: skip
"""Pragmas of SQLite that only tell something also with a value. Without one, all do but these:"""
ACTING_PRAGMAS: Final = frozenset({"incremental_vacuum", "optimize", "shrink_memory", "wal_checkpoint"})
_TEMPORARY: Final = re.compile(r"\btemp(?:orary)?\b", re.IGNORECASE)


def refuse_ending(query: Any) -> None:
    """Raise Misuse if a statement of the user's begins or ends a transaction."""
    text = _text_of(query)
    if _TRIGGER.match(text):
        return
    if ";" in text:
        text = _QUOTED.sub(" ", text)
    found = _ENDING.search(text)
    if found is not None:
        raise Misuse(
            f"ctx.connection.execute({found[1]!r}): the transaction belongs to the mutation; "
            "return, raise to undo it, or use a savepoint"
        )
    left = _LEAVING.search(text)
    if left is not None:
        raise Misuse(
            f"ctx.connection.execute({left[1]!r}): the connection is shared with other functions, and would keep this"
        )
    for pragma in _PRAGMA.finditer(text):
        name, has_value = pragma[1].lower(), pragma[2] is not None
        if (has_value and name not in READING_PRAGMAS) or name in ACTING_PRAGMAS:
            raise Misuse(
                f"ctx.connection.execute('pragma {pragma[1]}'): the connection is shared with other functions, which "
                f"this would change; with a value allowed are {', '.join(sorted(READING_PRAGMAS))}"
            )


def names_temporary(query: Any) -> bool:
    """Whether a statement of the user's may make a temporary table, view, index or trigger."""
    return _TEMPORARY.search(_text_of(query)) is not None


def refuse_hiding(names: Iterable[str], discard: Callable[[], object], prefixes: Iterable[str] = ("",)) -> None:
    """Raise Misuse if temporary tables have names of Evertick's own, whose statements would find them instead.

    `discard` removes temporary tables: the function may catch the error and go on. `prefixes` are what may stand before
    Evertick's names.
    """
    ours = {f"{prefix}{name}" for prefix in prefixes for name in own_tables()}
    hidden = sorted(ours.intersection(names))
    if hidden:
        discard()
        raise Misuse(f"a temporary table cannot be called {hidden[0]}: that is a table of Evertick's own")


def _text_of(query: Any) -> str:
    if isinstance(query, str):
        return query
    if isinstance(query, bytes):
        return query.decode("utf-8", "replace")
    as_string = getattr(query, "as_string", None)  # psycopg.sql composes statements
    return "" if as_string is None else str(as_string(None))

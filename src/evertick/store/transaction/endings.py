"""Endings: statements that begin or end a transaction, which the user's own SQL must not contain.

Evertick commits when the function has returned, and rolls back when it raised.
"""

import re
from typing import Any, Final

from evertick.base.errors import Misuse

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


def refuse_ending(query: Any) -> None:
    """Raise Misuse if a statement of the user's begins or ends a transaction."""
    text = query.decode("utf-8", "replace") if isinstance(query, bytes) else query
    if not isinstance(text, str):
        as_string = getattr(query, "as_string", None)  # psycopg.sql composes statements
        text = "" if as_string is None else as_string(None)
    if _TRIGGER.match(text):
        return
    found = _ENDING.search(_QUOTED.sub(" ", text) if ";" in text else text)
    if found is not None:
        raise Misuse(
            f"ctx.connection.execute({found[1]!r}): the transaction belongs to the mutation; "
            "return, raise to undo it, or use a savepoint"
        )

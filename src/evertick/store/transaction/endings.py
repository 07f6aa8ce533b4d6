"""Endings: statements that the user's own SQL must not contain, because the connection is shared.

Evertick commits when the function has returned, and rolls back when it raised: no statement of a function may begin or
end a transaction. What a function leaves in the session would affect later functions and Evertick's own statements.
Changes that cannot be undone at the function's end are refused here; PostgreSQL's settings and temporary tables can be
undone (`reset_session`).
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from evertick.base.errors import Misuse
from evertick.store.location import own_tables

_BLANK: Final = r"(?:[\s\ufeff]|--[^\n]*\n|/\*.*?\*/)*"
"""Blanks as SQLite reads them; PostgreSQL's comments are removed before."""
_ENDING: Final = re.compile(
    rf"(?:\A|;){_BLANK}"
    r"(begin|start\s+transaction|commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:\w+\s+)?to\b))\b",
    re.IGNORECASE | re.DOTALL,
)
"""At the start of a text or after a semicolon, blanks and comments."""
_LETTER: Final = r"(?:[a-zA-Z_]|[^\x00-\x7f])"
_PLAIN: Final = r"'(?:[^']|'')*+(?:'|\Z)"
_ESCAPED: Final = r"'(?:[^'\\]|\\.|'')*+(?:'|\Z)"
_GOES_ON: Final = r"(?:[ \t\f\v]|--[^\n\r]*+)*+[\n\r](?:\s|--[^\n\r]*+[\n\r])*+(?=')"
"""Literals with only blanks and a new line between them are one literal."""
_WORD: Final = rf"{_LETTER}(?:[\w$]|[^\x00-\x7f])*+"
_COMMENT_MARK: Final = re.compile(r"/\*|\*/")


def _tokens(literal: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<quoted>[eE](?=')(?:{_ESCAPED}(?:{_GOES_ON}{_ESCAPED})*+)|{literal}(?:{_GOES_ON}{literal})*+"
        rf'|"[^"]*+(?:"|\Z)|\$((?:{_LETTER}(?:\w|[^\x00-\x7f])*+)?)\$.*?(?:\$\2\$|\Z)|--[^\n\r]*+)'
        rf"|(?P<comment>/\*)|{_WORD}",
        re.DOTALL,
    )


_TOKENS: Final = {True: _tokens(_PLAIN), False: _tokens(_ESCAPED)}
"""Tokens as PostgreSQL reads them, with `standard_conforming_strings` and without. A `$` in a name begins no
literal."""
_TRIGGER: Final = re.compile(rf"{_BLANK}create\s+(temp\w*\s+)?trigger\b", re.IGNORECASE)
"""On SQLite the body of a trigger is between `begin` and `end`."""
_LEAVING: Final = re.compile(
    rf"(?:\A|;){_BLANK}(prepare|deallocate|discard|listen|unlisten|load|attach|detach)\b", re.IGNORECASE | re.DOTALL
)
_PRAGMA: Final = re.compile(rf"(?:\A|;){_BLANK}pragma\s+(?:\w+\s*\.\s*)?(\w+)\s*([=(])?", re.IGNORECASE | re.DOTALL)
READING_PRAGMAS: Final = frozenset({
    "collation_list", "compile_options", "data_version", "database_list", "foreign_key_check", "foreign_key_list",
    "function_list", "index_info", "index_list", "index_xinfo", "integrity_check", "module_list", "pragma_list",
    "quick_check", "table_info", "table_list", "table_xinfo",
})  # fmt: skip
"""Pragmas of SQLite that only read, also with a value. Without one, all do except these:"""
ACTING_PRAGMAS: Final = frozenset({"incremental_vacuum", "optimize", "shrink_memory", "wal_checkpoint"})
_CHECKING: Final = re.compile(r"\bset\s+constraints\b.*\bimmediate\b", re.IGNORECASE | re.DOTALL)
_LOCK_WAIT: Final = re.compile(r"\block_timeout\b", re.IGNORECASE)
_TEMPORARY: Final = re.compile(r"\btemp(?:orary)?\b", re.IGNORECASE)


def refuse_ending(query: Any, *, is_standard: bool = True) -> None:
    """Raise Misuse if a statement of the user's begins or ends a transaction.

    `is_standard` is PostgreSQL's `standard_conforming_strings`: whether backslashes in literals have no meaning.
    """
    text = _text_of(query)
    if _TRIGGER.match(text):
        return
    if ";" in text or "--" in text or "/*" in text:
        _refuse(text.replace(";", " "))  # as SQLite reads it: one statement, and comments do not nest
        text = _without_quoted(text, is_standard=is_standard)
    _refuse(text)


def _without_quoted(text: str, *, is_standard: bool) -> str:
    """A text without literals, quoted names, comments and bodies of functions: none of their words is a command."""
    parts, at = [], 0
    while (token := _TOKENS[is_standard].search(text, at)) is not None:
        end = token.end()
        if token["comment"]:
            end = _end_of_comment(text, end)
        is_word = not token["comment"] and not token["quoted"]
        parts.append(text[at : end if is_word else token.start()] + ("" if is_word else " "))
        at = end
    return "".join(parts) + text[at:]


def _end_of_comment(text: str, at: int) -> int:
    """The end of a comment that begins before `at`: PostgreSQL's comments nest."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _refuse(text: str) -> None:
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


def checks_deferred(query: Any) -> bool:
    """Whether a statement of the user may check constraints now that others of the transaction have deferred."""
    return _CHECKING.search(_text_of(query)) is not None


def limits_lock_waits(query: Any) -> bool:
    """Whether a statement may set PostgreSQL's lock timeout."""
    return _LOCK_WAIT.search(_text_of(query)) is not None


def names_temporary(query: Any) -> bool:
    """Whether a statement of the user may make a temporary table, view, index or trigger."""
    return _TEMPORARY.search(_text_of(query)) is not None


def refuse_hiding(names: Iterable[str], discard: Callable[[], object], prefixes: Iterable[str] = ("",)) -> None:
    """Raise Misuse if temporary tables hide Evertick's own, so that its statements would use them instead.

    `discard` removes temporary tables: the function may catch the error and continue. `prefixes` may come before
    Evertick's names.
    """
    own_names = {f"{prefix}{name}" for prefix in prefixes for name in own_tables()}
    hidden = sorted(own_names.intersection(names))
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

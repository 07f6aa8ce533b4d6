"""The text of a migration, statement by statement."""

import sqlite3
from collections.abc import Iterator


def statements_of(text: str) -> Iterator[str]:
    """The statements of a migration, one by one (`executescript` would commit in between)."""
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        yield pending  # a comment, or a statement whose semicolon was forgotten

"""Statements: the SQL files, read once.

A statement's name is its file's name. A database has its own twin in `sql/<dialect>/` only where it must differ; the
twin's first line says why. Parameters are written `:name`; PostgreSQL's driver wants `%(name)s`, so they are turned
into that here, in the one place that knows.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

_COMMENT: Final = re.compile(r"^\s*--.*\n", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")


@cache
def load_statements(dialect: str) -> Mapping[str, str]:
    """Every statement as `dialect` ("sqlite" or "postgres") speaks it, by name."""
    root = files("evertick.store") / "sql"
    texts: dict[str, str] = {}
    for folder in (root, root / dialect):
        for entry in folder.iterdir():
            if entry.name.endswith(".sql"):
                texts[entry.name.removesuffix(".sql")] = entry.read_text(encoding="utf-8")
    return {name: _for_driver(text, dialect) for name, text in texts.items()}


def _for_driver(text: str, dialect: str) -> str:
    bare = _COMMENT.sub("", text).strip()
    if dialect == "postgres":
        return _PARAMETER.sub(r"%(\1)s", bare.replace("%", "%%"))
    return bare

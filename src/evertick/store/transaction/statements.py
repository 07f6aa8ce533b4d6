"""Statements: the SQL files, read once.

A statement's name is its file's name: `sql/<room>/<name>.sql`. A database has a version of its own beside it,
`<name>.<dialect>.sql`, only where it must differ; that version's first line says why. Parameters are
written `:name`; PostgreSQL's driver wants `%(name)s`, so they are turned into that here.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from evertick.store.place import placed

_COMMENT: Final = re.compile(r"^\s*--.*\n", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")


@cache
def load_statements(dialect: str, place: str = "") -> Mapping[str, str]:
    """Every statement as `dialect` ("sqlite" or "postgres") speaks it, by name, on the tables at a place."""
    texts: dict[str, str] = {}
    for room in (files("evertick.store") / "sql").iterdir():
        for entry in room.iterdir():
            name, _, written_for = entry.name.removesuffix(".sql").partition(".")
            if written_for == dialect or (not written_for and name not in texts):
                texts[name] = entry.read_text(encoding="utf-8")
    return {name: placed(_for_driver(text, dialect), dialect, place) for name, text in texts.items()}


def _for_driver(text: str, dialect: str) -> str:
    bare = _COMMENT.sub("", text).strip()
    if dialect == "postgres":
        return _PARAMETER.sub(r"%(\1)s", bare.replace("%", "%%"))
    return bare

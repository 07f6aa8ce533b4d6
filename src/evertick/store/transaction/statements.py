"""Statements: the SQL files, read once.

A statement's name is its file's name: `sql/<room>/<name>.sql`. A database has a version of its own beside it,
`<name>.<dialect>.sql`, only where it must differ; that version's first line says why. Parameters are
written `:name`; PostgreSQL's driver wants `%(name)s`, so they are turned into that here.

A list is one file for both directions, `<name> asc` and `<name> desc`; and where `{by}` stands in it, for each column
that an index begins with: `<name> by name asc`. `{id}` is the last column of such an index. On PostgreSQL that is an
expression: it would otherwise often read the primary key backwards and hope to meet what a list wants.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from evertick.store.place import placed

_COMMENT: Final = re.compile(r"^\s*--.*\n", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")
_DIRECTIONS: Final = {"asc": ">", "desc": "<"}
_BY: Final = {
    "": "",
    " by name": "and name = :name",
    " by schedule": "and schedule_id = :schedule_id",
    " by parent": "and parent_id = :parent_id",
}


@cache
def load_statements(dialect: str, place: str = "") -> Mapping[str, str]:
    """Every statement as `dialect` ("sqlite" or "postgres") speaks it, by name, on the tables at a place."""
    texts: dict[str, str] = {}
    for room in (files("evertick.store") / "sql").iterdir():
        for entry in room.iterdir():
            name, _, written_for = entry.name.removesuffix(".sql").partition(".")
            if written_for == dialect or (not written_for and name not in texts):
                texts[name] = entry.read_text(encoding="utf-8")
    list_id = "(id || '')" if dialect == "postgres" else "id"
    texts = {name: text.replace("{id}", list_id) for name, text in texts.items()}
    return {
        name: placed(_for_driver(text, dialect), dialect, place)
        for plain in texts.items()
        for name, text in _filled_in(*plain)
    }


def _filled_in(name: str, text: str) -> Iterator[tuple[str, str]]:
    """A statement, or all those that a list stands for."""
    if "{order}" not in text:
        yield name, text
        return
    for by, condition in _BY.items() if "{by}" in text else [("", "")]:
        for order, beyond in _DIRECTIONS.items():
            filled = text.replace("{by}", condition).replace("{beyond}", beyond).replace("{order}", order)
            yield f"{name}{by} {order}", filled


def _for_driver(text: str, dialect: str) -> str:
    bare = _COMMENT.sub("", text).strip()
    if dialect == "postgres":
        return _PARAMETER.sub(r"%(\1)s", bare.replace("%", "%%"))
    return bare

"""Statements: the SQL files, read once.

A statement's name is its file's name: `sql/<room>/<name>.sql`. A database has a version of its own beside it,
`<name>.<dialect>.sql`, only where it must differ; that version's first line says why. Parameters are
written `:name`; PostgreSQL's driver wants `%(name)s`, so they are turned into that here.

A list is one file for both directions, `<name> asc` and `<name> desc`; and where `{by}` stands in it, for each column
that an index begins with: `<name> by name asc`. `{id}` is the last column of such an index. On PostgreSQL that is an
expression: it would otherwise often read the primary key backwards and hope to meet what a list wants. `{narrowed}` is
the text of `_narrowed.sql`, the filters that all lists share. `{running}` is the table of jobs, read by what runs.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from evertick.store.place import placed

_COMMENT: Final = re.compile(r"^\s*--.*\n", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")
_DIRECTIONS: Final = {"asc": (">", "<="), "desc": ("<", ">=")}
_HEAD: Final = ('"type": "', '", "message": "', '", "traceback": "')
"""What stands before an error's type, its message and its traceback. Quotes inside of these are escaped, so the text
can be cut here, which works also where PostgreSQL cannot decode it."""
_OWN: Final = {
    "sqlite": {
        "{id}": "id",
        "{running}": "jobs indexed by jobs_running",
        "{says}": "instr(lower(replace(substr(error, instr(error, '{0}') + {3}, instr(error || '{2}', '{2}') - "
        "instr(error, '{0}') - {3}), '{1}', ': ')), :error) > 0".format(*_HEAD, len(_HEAD[0])),
    },
    "postgres": {
        "{id}": "(id || '')",
        "{running}": "jobs",
        "{says}": "position(:error in lower(replace(split_part(split_part(error, '{2}', 1), '{0}', 2), '{1}', ': ') "
        'collate "C")) > 0'.format(*_HEAD),
    },
}
"""Parts of lists that each database has in its own words."""
_BY: Final = {
    "": "",
    " by name": "and name = :name",
    " by schedule": "and schedule_id = :schedule_id",
    " by parent": "and parent_id = :parent_id",
    " by key": "and key = :key",
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
    own = {"{narrowed}": _COMMENT.sub("", texts.pop("_narrowed")).rstrip()} | _OWN[dialect]
    for part, words in own.items():
        texts = {name: text.replace(part, words) for name, text in texts.items()}
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
        for order, (beyond, within) in _DIRECTIONS.items():
            filled = text.replace("{beyond}", beyond).replace("{within}", within).replace("{order}", order)
            yield f"{name}{by} {order}", filled.replace("{by}", condition)


def _for_driver(text: str, dialect: str) -> str:
    bare = _COMMENT.sub("", text).strip()
    if dialect == "postgres":
        return _PARAMETER.sub(r"%(\1)s", bare.replace("%", "%%"))
    return bare

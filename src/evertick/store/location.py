"""Location: where Evertick's tables are in a database that it shares with others.

`postgresql://.../shop?schema=evertick` puts them into a schema, `sqlite:///shop.db?prefix=evertick_` puts the prefix
before their names and those of their indexes. If an address has neither, they are at the usual place, the schema
`evertick` or the prefix `evertick_`. But if a database has them with plain names, which only `open_store` gives them,
they stay there (`Store.settle`).

Statements and migrations are written with plain names. `placed` changes their texts once, when they are loaded. A
migration on PostgreSQL instead runs with the schema as its search path.
"""

import re
from functools import cache
from typing import Final
from urllib.parse import parse_qsl

from evertick.base.errors import InvalidDatabaseUrl
from evertick.store import schema
from evertick.store.addresses import postgres_parts

DIALECTS: Final = ("sqlite", "postgres")
USUAL_PLACES: Final = {"sqlite": "evertick_", "postgres": "evertick"}
PREFIX: Final = "?prefix="
"""The separator of the file and the prefix in an address of SQLite."""
PLAIN_META: Final = "evertick_meta"
"""The name of the table `meta` in a SQLite file in which the other tables have plain names."""
NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,30}")
"""A name that needs no quotes, and together with those of tables and indexes is short enough for PostgreSQL."""


def place_of(url: str) -> str:
    """The schema or the prefix of an address; empty if it has none.

    Raises InvalidDatabaseUrl for one that is not 1 to 31 lower-case letters, digits and `_`.
    """
    if url.startswith("sqlite:"):
        _, separator, place = url.partition(PREFIX)
        is_named = separator != ""
    else:
        query = dict(parse_qsl(postgres_parts(url).query, keep_blank_values=True))
        place, is_named = query.get("schema", ""), "schema" in query
    if is_named and not NAME.fullmatch(place):
        raise InvalidDatabaseUrl(
            f"{place!r} is no name for the place of Evertick's tables; take small letters, digits and _, for example "
            "?schema=evertick for PostgreSQL and ?prefix=evertick_ for SQLite"
        )
    return place


def placed(text: str, dialect: str, place: str) -> str:
    """A statement, or several, with Evertick's tables and indexes at a place."""
    if not place:
        return text
    tables, columns, indexes = _patterns()
    if dialect == "postgres":
        return tables.sub(rf'\1"{place}".\2', text)
    return indexes.sub(rf"\1{place}\2", columns.sub(rf"{place}\1", tables.sub(rf"\1{place}\2", text)))


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """The patterns of a table's name, of a table before a column, and of an index."""
    names = "|".join(sorted(own_tables(), key=len, reverse=True))
    before = r"from|into|join|update|copy|using|table|index \w+\s+on"
    return (
        re.compile(rf"\b((?:{before})\s+)({names})\b(?!\.)", re.IGNORECASE),
        re.compile(rf"(?<![.\w'])({names})(?=\.[a-z])"),
        re.compile(r"\b((?:indexed\s+by|index)\s+)(\w+)(?=\s|;|\))", re.IGNORECASE),
    )


@cache
def own_tables() -> frozenset[str]:
    """The plain names of Evertick's tables."""
    return frozenset().union(*(tables_at(dialect, schema.code_version(dialect)) for dialect in DIALECTS), {"meta"})


def tables_at(dialect: str, version: int) -> frozenset[str]:
    """The plain names of the tables, without `meta`, that a database has had up to a version of its schema."""
    texts = [step.text for step in schema.steps(dialect) if step.number <= version]
    return frozenset(re.findall(r"create table (\w+)", " ".join(texts)))

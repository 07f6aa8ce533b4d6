"""Tables: their names, the ids of their documents, and the indexes that an app declares."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evertick.base.errors import InvalidArguments, RegistrationError
from evertick.base.ids import JOB_PREFIX, JobId, table_of
from evertick.store.transaction.index_keys import MISSING, encode_key

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
SYSTEM_JOBS: Final = "_scheduled_functions"
"""The system table that shows jobs."""
INDEXES_MAX: Final = 32
FIELDS_MAX: Final = 16
BUILT_IN: Final[Mapping[str, str]] = {"by_creation_time": "_creation_time", "by_id": "_id"}
"""Indexes that every table has, and their field. An id holds its document's creation time, so both are one order."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index: documents in the order of these fields, then of their creation.

    A field inside an object is named by its path: `author.name`.
    """

    name: str
    fields: tuple[str, ...]

    def key(self, document: Mapping[str, Any]) -> bytes:
        """Where a document stands in this index."""
        return encode_key([_value(document, field) for field in self.fields])

    @property
    def built_in(self) -> bool:
        """Whether it is there without a declaration, and kept by the documents' ids alone."""
        return self.fields[0].startswith("_")

    @property
    def fields_json(self) -> str:
        """The fields as the store keeps them, to see when a declaration changed."""
        return json.dumps(self.fields)


@dataclass(frozen=True, slots=True)
class Table:
    """A declared table."""

    name: str
    indexes: Mapping[str, Index]


def declare_table(name: str, indexes: Mapping[str, Sequence[str]]) -> Table:
    """A table from its declaration.

    Raises RegistrationError for names and fields that cannot be.
    """
    check_name(name)
    if len(indexes) > INDEXES_MAX:
        raise RegistrationError(f"table {name!r} has {len(indexes)} indexes; the limit is {INDEXES_MAX}")
    declared = {}
    for index_name, fields in indexes.items():
        if not _NAME.fullmatch(index_name):
            raise RegistrationError(f"table {name!r}: {index_name!r} is not a valid name for an index: {_RULE}")
        if index_name in BUILT_IN:
            raise RegistrationError(f"table {name!r}: the index {index_name!r} is built in; choose another name")
        if isinstance(fields, str) or not isinstance(fields, Sequence) or not 1 <= len(fields) <= FIELDS_MAX:
            raise RegistrationError(f"index {name}.{index_name} takes a list of 1 to {FIELDS_MAX} fields")
        if not all(isinstance(field, str) and field for field in fields):
            raise RegistrationError(f"index {name}.{index_name}: fields are names, not {list(fields)!r}")
        if len(set(fields)) < len(fields) or any(field.startswith(("_", "$")) for field in fields):
            raise RegistrationError(
                f"index {name}.{index_name}: fields must be different and must not begin with _ or $; "
                "creation time stands at the end of every index by itself"
            )
        declared[index_name] = Index(f"{name}.{index_name}", tuple(fields))
    return Table(name, declared)


def check_name(name: str) -> None:
    """Raise RegistrationError unless `name` can be a table's."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "job":
        raise RegistrationError(f"{name!r} is not a valid name for a table: {_RULE}, and not 'job'")


def built_in_index(table: str, name: str) -> Index | None:
    """The index of that name that every table has by itself."""
    field = BUILT_IN.get(name)
    return None if field is None else Index(f"{table}.{name}", (field,))


def require_job_id(value: str) -> JobId:
    """`value` as the id of a job.

    Raises InvalidArguments if it is none.
    """
    table = table_named_in(value)
    if table != JOB_PREFIX:
        found = f"it is one of the table {table!r}" if table else "one is job_ and 28 characters of 0-9 and a-f"
        raise InvalidArguments(f"{value!r} is not the id of a job: {found}")
    return JobId(value)


def table_named_in(value: Any) -> str | None:
    """The table whose document has the id `value`, or None if that is not an id."""
    return table_of(value) if isinstance(value, str) else None


def _value(document: Mapping[str, Any], field: str) -> Any:
    """What a document has in a field, or at the end of a path of fields; MISSING where it ends earlier."""
    if field in document or "." not in field:
        return document.get(field, MISSING)
    value: Any = document
    for step in field.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return MISSING
        value = value[step]
    return value


_RULE: Final = "letters, digits and _, beginning with a letter, at most 64"

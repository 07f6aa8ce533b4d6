"""Tables: their names, the ids of their documents, and the indexes that an app declares."""

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from evertick.base.errors import InvalidArguments, RegistrationError, ValueTooLarge
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


# -- Values: documents as JSON text, and back, without loss.
#
# JSON has no bytes, instants, decimals or UUIDs, so these are written as an object with one reserved key, such as
# `{"$bytes": "aGVsbG8="}`. Keys that begin with `$` are therefore reserved in documents. Integers of any size and all
# floats keep their value. The text is plain ASCII, because neither NUL nor a lone surrogate fits into a text column.

DOCUMENT_BYTES_MAX: Final = 1024 * 1024
DEPTH_MAX: Final = 64

_TAGS: Final[Mapping[str, Callable[[str], Any]]] = {
    "$bytes": base64.b64decode,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$decimal": Decimal,
    "$uuid": UUID,
    "$float": float,
}


def encode_document(fields: Mapping[str, Any]) -> str:
    """The JSON text of a document's own fields.

    Raises InvalidArguments for a value or key that cannot be stored, ValueTooLarge above DOCUMENT_BYTES_MAX (of UTF-8).
    """
    for key in fields:
        if not isinstance(key, str):
            raise InvalidArguments(f"keys of documents are text, not {type(key).__name__}: {key!r}")
        if not key:
            raise InvalidArguments("a field of a document has a name; this one's is empty")
        if key.startswith(("_", "$")):
            raise InvalidArguments(f"the field {key!r} is reserved: names that begin with _ or $ are Evertick's own")
    for value in fields.values():
        if isinstance(value, dict | list | tuple):
            _check_items(value, 2)  # the document itself is the first level
    try:
        text = json.dumps(dict(fields), default=_tagged, separators=(",", ":"), allow_nan=False)
    except ValueError:  # NaN or infinity, or an integer that Python itself does not write
        text = _written(_plain(fields))
    if len(text) > DOCUMENT_BYTES_MAX and (size := _utf8_size(text)) > DOCUMENT_BYTES_MAX:
        raise ValueTooLarge(f"a document of {size} bytes; the limit is {DOCUMENT_BYTES_MAX}")
    return text


def decode_document(text: str) -> dict[str, Any]:
    """The fields of a stored document."""
    if '"$' in text:
        return json.loads(text, object_hook=_untagged)  # type: ignore[no-any-return]
    return json.loads(text)  # type: ignore[no-any-return]


def _utf8_size(text: str) -> int:
    """The size of JSON text as others write it: `é` is two bytes, not the six of `\\u00e9`."""
    plain = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    return len(plain.encode("utf-8", "surrogatepass"))


def _tagged(value: Any) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidArguments(f"{value} has no time zone; add one, for example tzinfo=UTC")
        return {"$datetime": value.isoformat()}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, UUID):
        return {"$uuid": str(value)}
    raise InvalidArguments(
        f"a document cannot hold a {type(value).__name__}; it holds None, bool, int, float, str, bytes, datetime, "
        "date, Decimal, UUID, lists and dicts of these"
    )


def _written(plain: Any) -> str:
    try:
        return json.dumps(plain, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise InvalidArguments(f"a document cannot hold this: {error}") from error


def _check_items(value: dict[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> None:
    """What is inside a document: `json` would write numbers that are keys as text and tuples as lists, and a key of the
    user's could read as one of ours.
    """
    if isinstance(value, tuple):
        raise InvalidArguments(
            f"a document cannot hold a tuple, which would read back as a list; write list({value!r:.100})"
        )
    if depth > DEPTH_MAX:
        raise ValueTooLarge(f"a document nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InvalidArguments(f"keys of documents are text, not {type(key).__name__}: {key!r}")
            if key.startswith("$"):
                raise InvalidArguments(f"the key {key!r} is reserved: names that begin with $ are Evertick's own")
        items: Iterable[Any] = value.values()
    else:
        items = value
    for item in items:
        if isinstance(item, dict | list | tuple):
            _check_items(item, depth + 1)


def _plain(value: Any) -> Any:
    """A value as JSON can hold it, floats that are no numbers included."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if value is None or isinstance(value, str | int | float):
        return value
    return _tagged(value)


def _untagged(item: dict[str, Any]) -> Any:
    if len(item) == 1:
        key = next(iter(item))
        read = _TAGS.get(key)
        if read is not None:
            return read(item[key])
    return item

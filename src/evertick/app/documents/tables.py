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
"""Indexes that every table has, and their field. Both have the same order: an id holds the creation time."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index: documents in the order of these fields, then of their creation.

    A field inside an object is named by its path: `author.name`.
    """

    name: str
    fields: tuple[str, ...]

    def key(self, document: Mapping[str, Any]) -> bytes:
        """The key of a document in this index."""
        return encode_key([_value(document, field) for field in self.fields])

    @property
    def built_in(self) -> bool:
        """Whether the index is built in. Every table has these indexes. They need no entries, because they have the
        order of the documents' ids.
        """
        return self.fields[0].startswith("_")

    @property
    def fields_json(self) -> str:
        """The fields as JSON text, as they are stored. If the stored text differs, the declaration was changed."""
        return json.dumps(self.fields)


@dataclass(frozen=True, slots=True)
class Table:
    """A declared table."""

    name: str
    indexes: Mapping[str, Index]


def declare_table(name: str, indexes: Mapping[str, Sequence[str]]) -> Table:
    """A table from its declaration.

    Raises RegistrationError for invalid names and fields.
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
                "every index ends with the creation time automatically"
            )
        declared[index_name] = Index(f"{name}.{index_name}", tuple(fields))
    return Table(name, declared)


def check_name(name: str) -> None:
    """Raise RegistrationError if `name` is not a valid table name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "job":
        raise RegistrationError(f"{name!r} is not a valid name for a table: {_RULE}, and not 'job'")


def built_in_index(table: str, name: str) -> Index | None:
    """The built-in index with this name, or None if there is none."""
    field = BUILT_IN.get(name)
    return None if field is None else Index(f"{table}.{name}", (field,))


def require_job_id(value: str) -> JobId:
    """`value` as the id of a job.

    Raises InvalidArguments if it is not one.
    """
    table = table_named_in(value)
    if table != JOB_PREFIX:
        found = f"it is an id of the table {table!r}" if table else "expected job_ and 28 characters 0-9, a-f"
        raise InvalidArguments(f"{value!r} is not the id of a job: {found}")
    return JobId(value)


def table_named_in(value: Any) -> str | None:
    """The table whose document has the id `value`, or None if that is not an id."""
    return table_of(value) if isinstance(value, str) else None


def _value(document: Mapping[str, Any], field: str) -> Any:
    """The value of a field or of a path of fields in a document; MISSING if there is none."""
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
            raise InvalidArguments(f"keys of documents must be text, not {type(key).__name__}: {key!r}")
        if not key:
            raise InvalidArguments("the name of a document's field must not be empty")
        if key.startswith(("_", "$")):
            raise InvalidArguments(f"the field {key!r} is reserved: names must not begin with _ or $")
    for value in fields.values():
        if isinstance(value, dict | list | tuple):
            _check_items(value, 2)  # the document itself is the first level
    try:
        text = json.dumps(dict(fields), default=_tagged, separators=(",", ":"), allow_nan=False)
    except ValueError:  # NaN or infinity, or an integer that Python itself does not write
        text = _written(_plain(fields))
    if len(text) > DOCUMENT_BYTES_MAX and (size := _utf8_size(text)) > DOCUMENT_BYTES_MAX:
        raise ValueTooLarge(f"the document has {size} bytes; the limit is {DOCUMENT_BYTES_MAX}")
    return text


def decode_document(text: str) -> dict[str, Any]:
    """The fields of a stored document."""
    if '"$' in text:
        return json.loads(text, object_hook=_untagged)  # type: ignore[no-any-return]
    return json.loads(text)  # type: ignore[no-any-return]


def _utf8_size(text: str) -> int:
    """The size of JSON text in UTF-8 without escapes: `é` is two bytes, not the six of `\\u00e9`."""
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
        raise InvalidArguments(f"a document cannot hold this value: {error}") from error


def _check_items(value: dict[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> None:
    """Check what is inside a document. `json` would write numeric keys as text and tuples as lists, and a user's key
    that begins with `$` could read as a reserved one.
    """
    if isinstance(value, tuple):
        raise InvalidArguments(
            f"a document cannot hold a tuple, which would read back as a list; write list({value!r:.100})"
        )
    if depth > DEPTH_MAX:
        raise ValueTooLarge(f"the document is nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InvalidArguments(f"keys of documents must be text, not {type(key).__name__}: {key!r}")
            if key.startswith("$"):
                raise InvalidArguments(f"the key {key!r} is reserved: names must not begin with $")
        items: Iterable[Any] = value.values()
    else:
        items = value
    for item in items:
        if isinstance(item, dict | list | tuple):
            _check_items(item, depth + 1)


def _plain(value: Any) -> Any:
    """A value as JSON can hold it, including NaN and infinity."""
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

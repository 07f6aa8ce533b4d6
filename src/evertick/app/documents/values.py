"""Values: documents as JSON text, and back, without loss.

JSON has no bytes, instants, decimals or UUIDs, so these are written as an object with one reserved key, such as
`{"$bytes": "aGVsbG8="}`. Keys that begin with `$` are therefore reserved in documents. Integers of any size and all
floats keep their value. The text is plain ASCII, because neither NUL nor a lone surrogate fits into a text column.
"""

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from evertick.base.errors import InvalidArguments, ValueTooLarge

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
            raise InvalidArguments(f"{value} has no time zone; documents hold moments, so give it one")
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

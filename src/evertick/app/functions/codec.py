"""Codecs: a type as JSON text, there and back, by pydantic.

Pydantic reads an object of typed fields by that object's configuration, but writes it by the outermost one; so the
writer is built here, in addition to pydantic's adapter, so that bytes (base64) and floats (NaN and infinities too)
come back as they went. Models that carry a configuration of their own keep it.

This module and pydantic are loaded when the first codec is built: they take as long as all that registering loads.
"""

import re
from typing import Any, Final, Protocol, cast

from pydantic_core import CoreConfig, SchemaSerializer, from_json

from evertick.base.records.stored import difference

_BOTH_WAYS: Final = {"ser_json_bytes": "base64", "val_json_bytes": "base64", "ser_json_inf_nan": "constants"}
_WRITTEN: Final = CoreConfig(ser_json_bytes="base64", ser_json_inf_nan="constants")

# What pydantic writes and no longer reads.
DIGITS_MAX: Final = 4_300
DEPTH_MAX: Final = 200
_OF_ITEMS: Final[dict[str, set[str]]] = {
    "list": {"items_schema"},
    "set": {"items_schema"},
    "frozenset": {"items_schema"},
    "dict": {"keys_schema", "values_schema"},
}
"""Containers in the schemas of pydantic, and what says which values are in them."""
_LONG_NUMBER: Final = re.compile(rf"(?<!\d)\d{{{DIGITS_MAX + 1}}}")


class _Adapter(Protocol):
    """The part of pydantic's TypeAdapter that is used here."""

    core_schema: Any
    validator: Any

    def json_schema(self, *, schema_generator: Any) -> dict[str, Any]: ...


class Codec:
    """Reads and writes values of one type."""

    __slots__ = ("_may_lose", "_writer", "adapter", "check", "read")

    def __init__(self, adapter: _Adapter) -> None:
        self.adapter = adapter
        self.check = adapter.validator.validate_python
        """A value as the type has it. Raises pydantic's ValidationError."""
        self.read = adapter.validator.validate_json
        """A value from JSON text. Raises pydantic's ValidationError."""
        self._writer = SchemaSerializer(adapter.core_schema, _WRITTEN)
        self._may_lose = _may_lose(adapter.core_schema)

    def write(self, value: Any) -> str:
        """The JSON text of a value.

        Raises ValueError if the value cannot be written (PydanticSerializationError, UnicodeEncodeError) or could not
        be read back: it has a number of more than DIGITS_MAX digits or is nested DEPTH_MAX levels deep, or its type
        allows any value and JSON cannot express it.
        """
        text = self._writer.to_json(value, warnings=False).decode()
        if len(text) > 2 * DEPTH_MAX and _may_be_unreadable(text):
            try:
                from_json(text)
            except ValueError as error:
                raise ValueError(f"it cannot be read back from JSON: {error}") from None
        if self._may_lose and (lost := self._difference(value, self.read(text))) is not None:
            raise ValueError(lost)
        return text

    def _difference(self, value: Any, back: Any) -> str | None:
        return difference(value, back)


def _may_lose(schema: Any) -> bool:
    """Whether values of a type may read back as something else: where anything is allowed, or one of several types."""
    if isinstance(schema, list | tuple):
        return any(map(_may_lose, schema))
    if not isinstance(schema, dict):
        return False
    if (kind := schema.get("type")) in ("any", "union", "is-instance"):
        return True
    if not schema.keys() >= _OF_ITEMS.get(kind if isinstance(kind, str) else "", set()):
        return True
    return any(_may_lose(each) for name, each in schema.items() if name != "serialization")


def _may_be_unreadable(text: str) -> bool:
    return text.count("[") + text.count("{") >= DEPTH_MAX or _LONG_NUMBER.search(text) is not None


class ListCodec(Codec):
    """Reads and writes single values. Each is wrapped in a list, because pydantic accepts a configuration for lists of
    any type, but not for models and dataclasses themselves.
    """

    def write_one(self, value: Any) -> str:
        """The JSON text of a value. Raises the errors of `write`."""
        return self.write([value])[1:-1]

    def _difference(self, value: Any, back: Any) -> str | None:
        return difference(value[0], back[0])

    def read_one(self, text: str) -> Any:
        """A value from JSON text."""
        return self.read(f"[{text}]")[0]


def codec_of_type(hint: Any) -> ListCodec:
    """The codec for a function's result type."""
    from pydantic import TypeAdapter

    return ListCodec(TypeAdapter(cast("Any", list.__class_getitem__(hint)), config=cast("Any", _BOTH_WAYS)))


def codec_of_signature(fields: dict[str, Any]) -> Codec:
    """The codec for the arguments of a call: an object with exactly these fields."""
    from pydantic import TypeAdapter
    from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

    shape = TypedDict("Arguments", fields)  # type: ignore[misc]
    shape.__pydantic_config__ = {"extra": "forbid", **_BOTH_WAYS}  # type: ignore[attr-defined]
    return Codec(TypeAdapter(shape))

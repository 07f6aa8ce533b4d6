"""The arguments of a function, or the value of an event, as a JSON schema: what a form for them is made from."""

import inspect
from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue, JsonSchemaWarningKind

VALUE: Final = "value"
"""The name of what is only one value."""


class _Lenient(GenerateJsonSchema):
    """Says nothing about a type that JSON schema has no words for, instead of failing."""

    ignored_warning_kinds: "set[JsonSchemaWarningKind]" = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> "JsonSchemaValue":
        return {}


def schema_of(adapter: Any, parameters: list[inspect.Parameter]) -> dict[str, Any]:
    """The JSON schema of a call's arguments: an object with a property for each parameter, in their order.

    A parameter's `default` is included if it can be written as JSON. Parts of a type that JSON schema cannot express
    are left out.
    """
    try:
        found: dict[str, Any] = adapter.json_schema(schema_generator=_Lenient)
    except Exception:  # a type's own code describes it
        found = {"type": "object", "properties": {}, "required": []}
    properties = found.get("properties", {})
    shown: dict[str, Any] = {}
    for parameter in parameters:
        shown[parameter.name] = dict(properties.get(parameter.name, {}))
        if parameter.default is not parameter.empty:
            try:
                shown[parameter.name]["default"] = to_jsonable_python(parameter.default)
            except (PydanticSerializationError, ValueError):
                continue
    required = [each.name for each in parameters if each.default is each.empty and each.kind not in _OPEN]
    return found | {"properties": shown, "required": required}


def schema_of_value(adapter: Any) -> dict[str, Any]:
    """The JSON schema of an object whose property VALUE is the value; `adapter` is the type adapter of a list of it."""
    try:
        found: dict[str, Any] = adapter.json_schema(schema_generator=_Lenient)
    except Exception:  # a type's own code describes it
        found = {}
    items = found.pop("items", {})
    return found | {"type": "object", "properties": {VALUE: items}, "required": [VALUE]}


_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

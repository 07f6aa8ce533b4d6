"""Parameters of scripts: a subset of JSON schema that checks the input of a script.

A schema is written by a customer. So only keywords that are cheap to check are supported: no patterns, no references.
Unknown keywords are refused when the script is saved, because they would be ignored when it runs.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from evertick.base.errors import InvalidArguments
from evertick.base.records.stored import json_of

SCHEMA_BYTES_MAX: Final = 64 << 10
DEPTH_MAX: Final = 20
PROBLEMS_MAX: Final = 5

TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) or (isinstance(value, float) and value.is_integer())) and not isinstance(value, bool)
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _is_type(value: Any) -> bool:
    words = value if isinstance(value, list) else [value]
    return bool(words) and all(isinstance(each, str) and each in TYPES for each in words)


_IS_NUMBER: Final = TYPES["number"]
KEYWORDS: Final[dict[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "const": lambda value: True,
    "properties": lambda value: isinstance(value, dict) and all(isinstance(each, dict) for each in value.values()),
    "required": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    "additionalProperties": lambda value: isinstance(value, bool),
    "items": lambda value: isinstance(value, dict),
    "minItems": _IS_NUMBER,
    "maxItems": _IS_NUMBER,
    "minLength": _IS_NUMBER,
    "maxLength": _IS_NUMBER,
    "minimum": _IS_NUMBER,
    "maximum": _IS_NUMBER,
    "exclusiveMinimum": _IS_NUMBER,
    "exclusiveMaximum": _IS_NUMBER,
    "title": lambda value: isinstance(value, str),
    "description": lambda value: isinstance(value, str),
    "default": lambda value: True,
    "examples": lambda value: isinstance(value, list),
    "$schema": lambda value: isinstance(value, str),
}
BOUNDS: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (lambda value, bound: value >= bound, "at least"),
    "maximum": (lambda value, bound: value <= bound, "at most"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "more than"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "less than"),
}
SIZES: Final[dict[str, tuple[type[list[Any]] | type[str], Callable[[Any, Any], Any], str]]] = {
    "minItems": (list, min, "items"), "maxItems": (list, max, "items"),
    "minLength": (str, min, "characters"), "maxLength": (str, max, "characters"),
}  # fmt: skip


def schema_text(schema: dict[str, Any] | None) -> str | None:
    """The schema as stored text; None if there is none. Raises InvalidArguments if it is unsupported or too large."""
    if schema is None:
        return None
    text = json_of(schema, "the parameters of a script")
    if len(text) > SCHEMA_BYTES_MAX:
        raise InvalidArguments(f"the parameters of a script have {len(text)} bytes; the limit is {SCHEMA_BYTES_MAX}")
    _check(schema, "parameters", 0)
    return text


def _check(schema: Any, place: str, depth: int) -> None:
    if not isinstance(schema, dict):
        raise InvalidArguments(f"{place} must be an object of JSON schema, not {type(schema).__name__}")
    if depth > DEPTH_MAX:
        raise InvalidArguments(f"{place} is more than {DEPTH_MAX} levels deep")
    for name, value in schema.items():
        if name not in KEYWORDS:
            known = ", ".join(sorted(KEYWORDS))
            raise InvalidArguments(f"{place} has the unsupported keyword {name!r}; supported are: {known}")
        if not KEYWORDS[name](value):
            raise InvalidArguments(f"{place}.{name} has a value that JSON schema does not allow: {value!r:.100}")
    for name, inner in schema.get("properties", {}).items():
        _check(inner, f"{place}.properties.{name}", depth + 1)
    if "items" in schema:
        _check(schema["items"], f"{place}.items", depth + 1)


def check_input(schema: dict[str, Any] | None, value: Any) -> None:
    """Raise InvalidArguments, with the first problems, if the input of a script does not match its parameters."""
    if schema is None:
        return
    found = [problem for problem, _ in zip(_problems(schema, value, "input"), range(PROBLEMS_MAX), strict=False)]
    if found:
        raise InvalidArguments(f"the input does not fit the parameters of the script: {'; '.join(found)}")


def _problems(schema: dict[str, Any], value: Any, place: str) -> Iterator[str]:
    if (kinds := schema.get("type")) is not None:
        words = kinds if isinstance(kinds, list) else [kinds]
        if not any(TYPES[word](value) for word in words):
            yield f"{place} must be of type {' or '.join(words)}"
            return
    for options in ([schema["const"]] if "const" in schema else None, schema.get("enum")):
        if options is not None and not any(_same(value, each) for each in options):
            yield f"{place} must be one of {options!r:.200}"
    if _IS_NUMBER(value):
        for name, (holds, relation) in BOUNDS.items():
            if name in schema and not holds(value, schema[name]):
                yield f"{place} must be {relation} {schema[name]}"
    for name, (sized, side, unit) in SIZES.items():
        if name in schema and isinstance(value, sized) and side(len(value), schema[name]) != schema[name]:
            yield f"{place} must have at {'least' if side is min else 'most'} {schema[name]} {unit}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{place}.{name} is missing"
        for name, inner in value.items():
            if name in properties:
                yield from _problems(properties[name], inner, f"{place}.{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{place}.{name:.60} is not known"
    if isinstance(value, list) and "items" in schema:
        for number, inner in enumerate(value):
            yield from _problems(schema["items"], inner, f"{place}[{number}]")


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)

"""The fields of a form for the arguments of a function, from their JSON schema."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evertick.base.escaping import begins_as_json

FIELDS_MAX: Final = 60
"""A signature with more is typed as JSON."""
DEPTH_MAX: Final = 3
"""Models within models beyond this are typed as JSON."""
FORMATS: Final = {
    "date": "date",
    "time": "time",
    "date-time": "datetime",
    "duration": "duration",
    "password": "secret",
}
TYPES: Final = {"string": "text", "integer": "integer", "number": "number", "boolean": "bool"}
WORDS: Final = {
    "text": "text",
    "secret": "text",
    "integer": "whole number",
    "number": "number",
    "bool": "true or false",
    "choice": "one of these",
    "date": "date",
    "time": "time of day",
    "datetime": "moment",
    "duration": "duration, such as 90 s, 1h30m or PT1H",
    "value": "JSON, or else text",
    "list": "a list, as JSON",
    "json": "an object, as JSON",
}
LIMITS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "as {}",
    "multipleOf": "a multiple of {}",
}
"""What else a schema may ask of a value, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field, or with the kind `group` the fields of a model. `path` leads to its value in the arguments.

    A nullable group has a choice, too: the model with these fields, or none.
    """

    path: tuple[str, ...]
    kind: str
    required: bool
    nullable: bool = False
    default: str | None = None
    """What applies when it is left empty, in words."""
    hint: str = ""
    choices: tuple[str, ...] = ()
    """The values to choose from, as JSON."""
    fields: tuple["Field", ...] = ()

    @property
    def name(self) -> str:
        """The parameter, or the member of a model."""
        return self.path[-1]

    @property
    def id(self) -> str:
        """Its name in the form."""
        return "a." + ".".join(self.path)

    @property
    def choice_id(self) -> str:
        """The name of a nullable group's choice in the form."""
        return f"{self.id}?"

    def text_of(self, value: Any) -> str:
        """A value of an argument as it would be typed."""
        is_json = self.kind in ("choice", "bool", "json", "list")
        if isinstance(value, str) and not is_json and not (self.kind == "value" and _means_json(value)):
            return value
        return json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, dict | list) else None)


def fields_of(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields for an object with this schema."""
    definitions = schema.get("$defs", {})
    for opens_nullable in (True, False):
        made = _Maker(definitions, opens_nullable).group(schema, ())
        if sum(1 for _ in leaves(made)) <= FIELDS_MAX:
            return made
    return ()


def leaves(fields: Sequence[Field]) -> Iterator[Field]:
    """The fields that are typed into, those of groups included."""
    for field in fields:
        if field.kind == "group":
            yield from leaves(field.fields)
        else:
            yield field


@dataclass(frozen=True, slots=True)
class _Maker:
    definitions: Mapping[str, Any]
    opens_nullable: bool
    """Whether a model that may be missing has its fields; else it is typed as JSON."""

    def group(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> tuple[Field, ...]:
        required = schema.get("required", ())
        properties = schema.get("properties", {})
        return tuple(self.field(each, (*path, name), name in required) for name, each in properties.items())

    def field(self, given: Mapping[str, Any], path: tuple[str, ...], required: bool) -> Field:
        schema, nullable = self._resolved(given)
        hint = _hint(schema, given)
        default = None
        if "default" in given:
            default = "nothing" if given["default"] is None else json.dumps(given["default"], ensure_ascii=False)
        kind, choices = _kind(schema), tuple(json.dumps(each, ensure_ascii=False) for each in schema.get("enum", ()))
        if "const" in schema:
            kind, choices = "choice", (json.dumps(schema["const"], ensure_ascii=False),)
        if kind == "group" and ((nullable and not self.opens_nullable) or len(path) >= DEPTH_MAX):
            kind = "json"
        return Field(
            path=path,
            kind=kind,
            required=required,
            nullable=nullable,
            default=default,
            hint=hint,
            choices=choices,
            fields=self.group(schema, path) if kind == "group" else (),
        )

    def _resolved(self, schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
        """A schema without references and without its null; and whether it had one."""
        nullable = False
        for _ in range(10):
            if "$ref" in schema:
                schema = self.definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
            elif len(schema.get("allOf", ())) == 1:
                schema = schema["allOf"][0]
            elif any(each.get("type") == "null" for each in schema.get("anyOf", ())):
                others = [each for each in schema["anyOf"] if each.get("type") != "null"]
                nullable = True
                schema = others[0] if len(others) == 1 else {**schema, "anyOf": others}
            else:
                break
        return schema, nullable


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "choice"
    which = schema.get("type")
    if which == "object":
        return "group" if schema.get("properties") and not schema.get("additionalProperties") else "json"
    if which == "array":
        return "list"
    if which == "string":
        return FORMATS.get(schema.get("format", ""), "text")
    if {each.get("type") for each in schema.get("anyOf", ())} == {"number", "string"}:
        return "number"  # Decimal: the model reads both
    return TYPES.get(which or "", "value")


def _hint(schema: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    limits = [words.format(schema[name]) for name, words in LIMITS.items() if name in schema]
    description = given.get("description") or ("" if schema.get("type") == "object" else schema.get("description"))
    return "; ".join(filter(None, (", ".join(limits), str(description or "").strip())))


def _means_json(text: str) -> bool:
    """Whether a text, typed as it is, would be read as JSON."""
    if begins_as_json(text):
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True

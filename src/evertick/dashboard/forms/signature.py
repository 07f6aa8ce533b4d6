"""Forms made from declared types: a field for each parameter of a function, or for the value of an event.

    signature = signature_of(function)
    form = await page.form()
    if signature.switch(form):           # "as JSON", "as fields": shown again, with what was typed
        return page.render(...)
    args = signature.read(form, page.times)    # None if there are errors, which are stored at the fields

    {% from "_signature.html" import arguments with context %}{{ arguments(form, signature) }}

`signature.form(args)` is a form with these arguments. Only the function's own model decides whether arguments are valid
(`Function.encode_args`), and that of the event whether a value is (`EventTypes.write`). A field that is left empty is
omitted: a default applies, or the model reports that it is missing. A model that may be None has a choice between both.
Values that fields cannot express (an empty text, `null` in place of a default) need the other mode, in which all
arguments are one JSON object, or the value is JSON.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_core import ValidationError

from evertick.app.functions.events import EventTypes
from evertick.app.functions.function import Function
from evertick.app.functions.schema import VALUE
from evertick.base.errors import InvalidArguments, InvalidSpec
from evertick.base.escaping import begins_as_json, json_text
from evertick.dashboard.forms.form import Form, moment_of
from evertick.dashboard.markup.times import Times
from evertick.recurrence.parse.duration import parse_milliseconds
from evertick.server.bodies import strict_json
from evertick.server.problems import Problem

# -- The fields of a form for the arguments of a function, from their JSON schema.

FIELDS_MAX: Final = 60
"""A signature with more fields is typed as JSON."""
DEPTH_MAX: Final = 3
"""Models nested deeper than this are typed as JSON."""
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
    "decimal": "decimal number",
    "bool": "true or false",
    "choice": "one of these",
    "date": "date",
    "time": "time of day",
    "datetime": "date and time",
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
"""Further constraints of a schema, in English."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field, or with the kind `group` the fields of a model. `path` leads to its value in the arguments.

    A nullable group also has a choice: the model with these fields, or none.
    """

    path: tuple[str, ...]
    kind: str
    required: bool
    nullable: bool = False
    default: str | None = None
    """The default that applies if it is left empty, as text."""
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
    """The fields that people type into, including those of groups."""
    for field in fields:
        if field.kind == "group":
            yield from leaves(field.fields)
        else:
            yield field


@dataclass(frozen=True, slots=True)
class _Maker:
    definitions: Mapping[str, Any]
    opens_nullable: bool
    """Whether a model that may be None has its own fields; otherwise it is typed as JSON."""

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
        """A schema without references and without null, and whether it allowed null."""
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
        return "decimal"  # the model reads numbers and texts; texts keep all digits
    return TYPES.get(which or "", "value")


def _hint(schema: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    limits = [words.format(schema[name]) for name, words in LIMITS.items() if name in schema]
    description = given.get("description") or ("" if schema.get("type") == "object" else schema.get("description"))
    return "; ".join(filter(None, (", ".join(limits), str(description or "").strip())))


def _means_json(text: str) -> bool:
    """Whether a text, typed unchanged, would be read as JSON."""
    if begins_as_json(text):
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


NONE: Final = "none"
MODEL: Final = "model"
"""The values of a nullable group's choice: None, or the model, even if all its fields are empty."""
JSON_FIELD: Final = "args"
MODE_FIELD: Final = "args_as"
SWITCH_FIELD: Final = "args_switch"
_ABSENT: Final = object()
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
"""The format that browsers accept in a date field."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function, or the value of an event as the only parameter, as fields of a form."""

    fields: tuple[Field, ...]
    check: Callable[[Mapping[str, Any]], object]
    """Raises InvalidArguments for invalid arguments."""
    takes: str
    """The parameters, or the type of the value, as written in the code."""
    is_empty: bool = False
    """Whether there are no parameters."""
    is_value: bool = False

    words = WORDS

    @property
    def shown(self) -> tuple[Field, ...]:
        """The fields as they are laid out: members of a value that is a model are shown without a frame."""
        if self.is_value and self.fields and self.fields[0].kind == "group" and not self.fields[0].nullable:
            return self.fields[0].fields
        return self.fields

    def with_choice(self, name: str, values: Sequence[str]) -> "Signature":
        """The same signature, but a text field becomes a choice between these values."""
        choices = tuple(map(json_text, values))
        fields = [replace(each, kind="choice", choices=choices) if each.name == name else each for each in self.fields]
        return replace(self, fields=tuple(fields))

    def is_json(self, form: Form) -> bool:
        """Whether the arguments are typed as one JSON object."""
        mode = form[MODE_FIELD] or ("json" if form[JSON_FIELD] else "fields")
        return not self.is_empty and (mode == "json" or not self.fields)

    def form(self, args: Mapping[str, Any] | None = None) -> Form:
        """A form with these arguments."""
        return Form(self.fill(args or {}))

    def fill(self, args: Mapping[str, Any], *, as_json: bool = False) -> list[tuple[str, str]]:
        """Arguments as fields, or as one JSON object if fields cannot express them."""
        pairs, expressed = _expressed(self.fields, args)
        if as_json or expressed != dict(args):
            text = json_text(args.get(VALUE) if self.is_value else dict(args), indent=2)
            return [(MODE_FIELD, "json"), (JSON_FIELD, text)]
        return [(MODE_FIELD, "fields"), *pairs]

    def switch(self, form: Form) -> bool:
        """Whether the other mode was requested. The form then has what was typed in that mode, if possible."""
        wanted = form[SWITCH_FIELD]
        if not wanted:
            return False
        given = self._given(form, None)
        if not form.errors:
            others = [(name, text) for name, text in form.pairs if name[:2] != "a." and name not in _OWN]
            form.pairs[:] = others + self.fill(given, as_json=wanted == "json")
            if wanted != "json" and self.is_json(form):
                form.fail(JSON_FIELD, "These arguments cannot be typed as fields, so they are shown as JSON.")
        return True

    def begin(self, form: Form) -> None:
        """Show the arguments of a form with JSON as fields, if fields can express them."""
        probe = Form([(JSON_FIELD, form[JSON_FIELD])])
        given = self._of_json(probe)
        if not probe.errors:
            others = [pair for pair in form.pairs if pair[0] not in _OWN]
            form.pairs[:] = others + self.fill(given)

    def typed(self, form: Form, times: Times) -> dict[str, Any]:
        """The typed arguments, whether they are valid or not."""
        return self._given(form, times)

    def read(self, form: Form, times: Times) -> dict[str, Any] | None:
        """The typed arguments; None if there are errors, which are stored at the fields."""
        errors = len(form.errors)
        given = self._given(form, times)
        if self.is_json(form) and len(form.errors) > errors:
            return None
        try:
            self.check(given)
        except InvalidArguments as error:
            self._complain(form, error, is_given=not self.is_value or VALUE in given)
        return None if len(form.errors) > errors else given

    def is_other(self, form: Form, args: Mapping[str, Any] | None) -> bool:
        """Whether the arguments in a form have changed since it was shown; False for a form without argument fields."""
        if not any(name in _OWN or name.startswith("a.") for name, _ in form.pairs):
            return False
        typed, shown = Form(list(form.pairs)), self.form(args)
        given = [self._given(each, None) for each in (typed, shown)]
        return bool(typed.errors) or len({json.dumps(each, sort_keys=True) for each in given}) > 1

    def _given(self, form: Form, times: Times | None) -> dict[str, Any]:
        return self._of_json(form) if self.is_json(form) else _gathered(form, self.fields, times)[0]

    def _of_json(self, form: Form) -> dict[str, Any]:
        value = _json_in(form, otherwise=None if self.is_value else {})
        if self.is_value:
            return {VALUE: value}
        if not isinstance(value, dict):
            form.fail(JSON_FIELD, 'This is not a JSON object, such as {"name": "value"}.')
            return {}
        return value

    def _complain(self, form: Form, error: InvalidArguments, *, is_given: bool) -> None:
        """Store the errors of the model at the fields that they are about."""
        cause = error.__cause__
        if not isinstance(cause, ValidationError):
            form.fail(JSON_FIELD, str(error))
            return
        fields = () if self.is_json(form) else tuple(leaves(self.fields))
        complaints: dict[str, list[str]] = {}
        for item in cause.errors(include_url=False)[:20]:
            steps = tuple(map(str, item["loc"]))
            if self.is_value:  # it is checked as a list of one
                steps = (VALUE, *steps[1:])
            field = next((each for each in fields if steps[: len(each.path)] == each.path), None)
            name, rest = (JSON_FIELD, steps[self.is_value :]) if field is None else (field.id, steps[len(field.path) :])
            said = item["msg"] if is_given else "Field required"
            words = f"{'.'.join(rest)}: {said}" if rest else said
            complaints.setdefault(name, []).append(words)
        for name, words_of in complaints.items():
            form.fail(name, "; ".join(words_of))


_OWN: Final = (MODE_FIELD, JSON_FIELD, SWITCH_FIELD)


def signature_of(function: Function[..., Any]) -> Signature:
    """The form of a function."""
    return Signature(
        fields_of(function.argument_schema), lambda args: function.encode_args((), args),
        takes=function.served.signature, is_empty=not function.parameter_names,
    )  # fmt: skip


def value_of_event(events: EventTypes, event: str) -> Signature:
    """The form of the value of an event. Raises Misuse for an undeclared event.

    A value whose type does not describe its contents, such as Any, list or dict, is typed as JSON.
    """
    schema = events.schema(event)
    fields = fields_of(schema)
    is_open = not schema["properties"][VALUE] or [each.kind for each in fields] in (["json"], ["list"])
    is_null = schema["properties"][VALUE].get("type") == "null"
    return Signature(
        () if is_open or is_null else fields, lambda given: events.write(event, given.get(VALUE)),
        takes=events.words(event), is_empty=is_null, is_value=True,
    )  # fmt: skip


def _json_in(form: Form, *, otherwise: Any) -> Any:
    text = next(iter(form.all(JSON_FIELD)), "")
    try:
        return strict_json(text.encode()) if text.strip() else otherwise
    except Problem as problem:
        form.fail(JSON_FIELD, str(problem.detail).replace("the body", "this"))
        return otherwise


def _value(form: Form, field: Field, text: str, times: Times | None) -> Any:
    """The value in a field for the model to check: an invalid number remains text."""
    if field.kind in ("text", "secret"):
        return text
    word = text.strip()
    if field.kind == "datetime" and times is not None:
        with contextlib.suppress(InvalidSpec, OverflowError):
            return moment_of(word, times).isoformat()
    if field.kind == "duration":
        with contextlib.suppress(InvalidSpec, OverflowError):
            return parse_milliseconds(word) / 1000
    if field.kind in ("date", "time", "datetime", "duration"):
        return word
    try:
        value = strict_json(word.encode())
    except Problem as problem:
        if field.kind in ("json", "list") or (field.kind == "value" and begins_as_json(word)):
            form.fail(field.id, str(problem.detail).replace("the body", "this"))
        return word
    # 1.10 as a float would be 1.1, so keep the text: the model may be a Decimal.
    return word if isinstance(value, float) and repr(value) != word else value


def _is_typable(field: Field, value: Any) -> bool:
    """Whether a field can express a value: not None, no unknown choice, and no text that a browser would change."""
    if field.kind in ("choice", "bool"):
        return field.text_of(value) in (field.choices or ("true", "false"))
    if field.kind == "date":
        return isinstance(value, str) and bool(_DATE.fullmatch(value))
    if isinstance(value, str):
        return bool(value.strip()) and (value.isprintable() or all(map(str.isprintable, value.split("\n"))))
    return value is not None


def _gathered(form: Form, fields: Sequence[Field], times: Times | None) -> tuple[dict[str, Any], bool]:
    """The values in fields, by name, and whether anything was typed."""
    values: dict[str, Any] = {}
    is_typed = False
    for field in fields:
        if field.kind == "group":
            value, is_given = _of_group(form, field, times)
        else:
            text = next(iter(form.all(field.id)), "").replace("\r\n", "\n")
            is_given = bool(text.strip())
            value = _value(form, field, text, times) if is_given else None if field.kind != "text" else _ABSENT
        if is_given or (field.required and (field.nullable or field.kind == "group") and value is not _ABSENT):
            values[field.name] = value
        is_typed = is_typed or is_given
    return values, is_typed


def _of_group(form: Form, group: Field, times: Times | None) -> tuple[Any, bool]:
    """The model that was typed, or None, and whether it was given. If nothing was typed, a default applies."""
    values, is_typed = _gathered(form, group.fields, times)
    choice = next(iter(form.all(group.choice_id)), "") if group.nullable else ""
    if choice == NONE and is_typed:
        form.fail(group.choice_id, "Its fields are not empty: clear them, or choose the fields.")
    if choice == NONE:
        return None, True
    is_given = is_typed or choice == MODEL
    return None if group.nullable and not is_given else values, is_given


def _expressed(fields: Sequence[Field], args: Mapping[str, Any]) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Arguments as fields, and the arguments that these fields express, which may be fewer."""
    pairs: list[tuple[str, str]] = []
    expressed: dict[str, Any] = {}
    for field in fields:
        value = args.get(field.name, _ABSENT)
        if field.kind != "group":
            if value is not _ABSENT and _is_typable(field, value):
                pairs.append((field.id, field.text_of(value)))
                expressed[field.name] = value
        elif value is None and field.nullable:
            pairs.append((field.choice_id, "" if field.required else NONE))
            expressed[field.name] = None
        elif isinstance(value, dict):
            inner, said = _expressed(field.fields, value)
            pairs += [*([(field.choice_id, MODEL)] if field.nullable else []), *inner]
            if said or field.nullable:
                expressed[field.name] = said
    return pairs, expressed

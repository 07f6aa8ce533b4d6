"""Forms made from the signature of a function: a field for each parameter, and the arguments that were typed.

    signature = signature_of(function)
    form = await page.form()
    if signature.switch(form):           # "as JSON", "as fields": shown again, with what was typed
        return page.render(...)
    args = signature.read(form, page.times)    # None if something is wrong, which then stands beside its field

    {% from "_signature.html" import arguments with context %}{{ arguments(form, signature) }}

`signature.form(args)` is a form that has these arguments already. Whether arguments fit is decided by the function's
own model alone (`Function.encode_args`). A field that is left empty is not given: a default applies, or the model says
that it is missing. Of a model that may be None a choice says which it is. What fields cannot say (an empty text, `null`
in place of a default) is said in the other mode, in which all arguments are one JSON object.
"""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import ValidationError

from evertick.app.functions.function import Function
from evertick.base.errors import InvalidArguments, InvalidSpec
from evertick.base.escaping import json_text
from evertick.base.json_errors import begins_as_json
from evertick.dashboard.forms.form import Form
from evertick.dashboard.forms.moments import moment_of
from evertick.dashboard.forms.parameters import WORDS, Field, fields_of, leaves
from evertick.dashboard.markup.times import Times
from evertick.recurrence.parse.duration import parse_milliseconds
from evertick.server.bodies import strict_json
from evertick.server.problems import Problem

NONE: Final = "none"
MODEL: Final = "model"
"""What the choice of a nullable group says: None, or the model, also if all its fields are empty."""
JSON_FIELD: Final = "args"
MODE_FIELD: Final = "args_as"
SWITCH_FIELD: Final = "args_switch"
_ABSENT: Final = object()
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
"""What a browser takes as the value of a field for dates."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function as fields of a form."""

    function: Function[..., Any]
    fields: tuple[Field, ...]

    words = WORDS

    def is_json(self, form: Form) -> bool:
        """Whether the arguments are typed as one JSON object."""
        mode = form[MODE_FIELD] or ("json" if form[JSON_FIELD] else "fields")
        return mode == "json" or (not self.fields and bool(self.function.parameter_names))

    def form(self, args: Mapping[str, Any] | None = None) -> Form:
        """A form that has these arguments."""
        return Form(self.fill(args or {}))

    def fill(self, args: Mapping[str, Any], *, as_json: bool = False) -> list[tuple[str, str]]:
        """Arguments as fields: as one JSON object where fields cannot say them."""
        pairs, told = _told(self.fields, args)
        if as_json or told != dict(args):
            text = json_text(dict(args), indent=2)
            return [(MODE_FIELD, "json"), (JSON_FIELD, text)]
        return [(MODE_FIELD, "fields"), *pairs]

    def switch(self, form: Form) -> bool:
        """Whether the other way of typing was asked for. The form has what was typed in that way then, if it can."""
        wanted = form[SWITCH_FIELD]
        if not wanted:
            return False
        given = _json_object(form) if self.is_json(form) else self._typed(form, None)
        if not form.errors:
            others = [(name, text) for name, text in form.pairs if name[:2] != "a." and name not in _OWN]
            form.pairs[:] = others + self.fill(given, as_json=wanted == "json")
            if wanted != "json" and self.is_json(form):
                form.fail(JSON_FIELD, "These arguments cannot be typed as fields, so they stay as JSON.")
        return True

    def begin(self, form: Form) -> None:
        """Show the arguments of a form that has them as JSON as fields, if fields can say them."""
        probe = Form([(JSON_FIELD, form[JSON_FIELD])])
        given = _json_object(probe)
        if not probe.errors:
            others = [pair for pair in form.pairs if pair[0] not in _OWN]
            form.pairs[:] = others + self.fill(given)

    def typed(self, form: Form, times: Times) -> dict[str, Any]:
        """The arguments that were typed, whether the function takes them or not."""
        return _json_object(form) if self.is_json(form) else self._typed(form, times)

    def read(self, form: Form, times: Times) -> dict[str, Any] | None:
        """The arguments that were typed; None if something is wrong, which then stands beside its field."""
        errors = len(form.errors)
        given = _json_object(form) if self.is_json(form) else self._typed(form, times)
        if self.is_json(form) and len(form.errors) > errors:
            return None
        try:
            self.function.encode_args((), given)
        except InvalidArguments as error:
            self._complain(form, error)
        return None if len(form.errors) > errors else given

    def is_other(self, form: Form, args: Mapping[str, Any] | None) -> bool:
        """Whether a form that was shown with some arguments says other ones now; one without fields says nothing."""
        if not any(name in _OWN or name.startswith("a.") for name, _ in form.pairs):
            return False
        typed, shown = Form(list(form.pairs)), self.form(args)
        told = [_json_object(each) if self.is_json(each) else self._typed(each, None) for each in (typed, shown)]
        return bool(typed.errors) or len({json.dumps(each, sort_keys=True) for each in told}) > 1

    def _typed(self, form: Form, times: Times | None) -> dict[str, Any]:
        return _gathered(form, self.fields, times)[0]

    def _complain(self, form: Form, error: InvalidArguments) -> None:
        """Put what the model says beside the fields that it is about."""
        cause = error.__cause__
        if not isinstance(cause, ValidationError):
            form.fail(JSON_FIELD, str(error))
            return
        fields = () if self.is_json(form) else tuple(leaves(self.fields))
        complaints: dict[str, list[str]] = {}
        for item in cause.errors(include_url=False)[:20]:
            steps = tuple(map(str, item["loc"]))
            field = next((each for each in fields if steps[: len(each.path)] == each.path), None)
            name, rest = (JSON_FIELD, steps) if field is None else (field.id, steps[len(field.path) :])
            words = f"{'.'.join(rest)}: {item['msg']}" if rest else item["msg"]
            complaints.setdefault(name, []).append(words)
        for name, words_of in complaints.items():
            form.fail(name, "; ".join(words_of))


_OWN: Final = (MODE_FIELD, JSON_FIELD, SWITCH_FIELD)


def signature_of(function: Function[..., Any]) -> Signature:
    """The form of a function."""
    return Signature(function, fields_of(function.argument_schema))


def _json_object(form: Form) -> dict[str, Any]:
    text = next(iter(form.all(JSON_FIELD)), "")
    try:
        value = strict_json(text.encode()) if text.strip() else {}
    except Problem as problem:
        form.fail(JSON_FIELD, str(problem.detail).replace("the body", "this"))
        return {}
    if not isinstance(value, dict):
        form.fail(JSON_FIELD, 'This is not a JSON object, such as {"name": "value"}.')
        return {}
    return value


def _value(form: Form, field: Field, text: str, times: Times | None) -> Any:
    """What was typed into a field, as the model can judge it: a text that is no number stays the text."""
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
    # 1.10 as a float would be 1.1: the model says whether it is a Decimal.
    return word if isinstance(value, float) and repr(value) != word else value


def _is_typable(field: Field, value: Any) -> bool:
    """Whether a field can say a value: not nothing, none that it does not offer, and no text that a browser changes."""
    if field.kind in ("choice", "bool"):
        return field.text_of(value) in (field.choices or ("true", "false"))
    if field.kind == "date":
        return isinstance(value, str) and bool(_DATE.fullmatch(value))
    if isinstance(value, str):
        return bool(value.strip()) and (value.isprintable() or all(map(str.isprintable, value.split("\n"))))
    return value is not None


def _gathered(form: Form, fields: Sequence[Field], times: Times | None) -> tuple[dict[str, Any], bool]:
    """What was typed into fields, by name; and whether anything was."""
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
    """The model that was typed, or None; and whether it was given. One that nothing says is not: a default applies."""
    values, is_typed = _gathered(form, group.fields, times)
    choice = next(iter(form.all(group.choice_id)), "") if group.nullable else ""
    if choice == NONE and is_typed:
        form.fail(group.choice_id, "There is something in its fields: leave them empty, or choose them.")
    if choice == NONE:
        return None, True
    is_given = is_typed or choice == MODEL
    return None if group.nullable and not is_given else values, is_given


def _told(fields: Sequence[Field], args: Mapping[str, Any]) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Arguments as fields; and what these fields say, which is less where they cannot say it."""
    pairs: list[tuple[str, str]] = []
    told: dict[str, Any] = {}
    for field in fields:
        value = args.get(field.name, _ABSENT)
        if field.kind != "group":
            if value is not _ABSENT and _is_typable(field, value):
                pairs.append((field.id, field.text_of(value)))
                told[field.name] = value
        elif value is None and field.nullable:
            pairs.append((field.choice_id, "" if field.required else NONE))
            told[field.name] = None
        elif isinstance(value, dict):
            inner, said = _told(field.fields, value)
            pairs += [*([(field.choice_id, MODEL)] if field.nullable else []), *inner]
            if said or field.nullable:
                told[field.name] = said
    return pairs, told

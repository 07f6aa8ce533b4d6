"""What is wrong with the shape of a wire form, in our words: the place, what stands there, what may stand there.

pydantic finds the errors; its own messages speak of its types.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel

from evertick.recurrence.spec.text import shown

_EXPECTED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
}


def validation_message(errors: Sequence[Mapping[str, Any]], model: type[BaseModel]) -> str:
    """The first error of a validation by `model`, as a sentence."""
    first = errors[0]
    path, last = _walk(first["loc"], model)
    where = shown(path, 200) if path else "a spec"
    match first["type"]:
        case "extra_forbidden":
            keys = [info.alias or name for name, info in last.model_fields.items()]
            near = difflib.get_close_matches(str(first["loc"][-1])[:60], keys, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(keys)}"
            return f"{where}: there is no such key; {hint}"
        case "missing":
            return f"{where} is missing"
        case "value_error":
            return f"{where}: {first['msg'].removeprefix('Value error, ')}"
        case kind if kind in _EXPECTED:
            others = [e["type"] for e in errors if _walk(e["loc"], model)[0] == path and e["type"] in _EXPECTED]
            return f"{where} must be {' or '.join(dict.fromkeys(_EXPECTED[other] for other in others))}"
    return f"{where}: {first['msg'].replace('Input should be', 'it must be')}"


def _walk(loc: Sequence[str | int], model: type[BaseModel]) -> tuple[str, type[BaseModel]]:
    """The place as `intervals[0].every`, without pydantic's names of types, and the model that it lies in."""
    path = ""
    for at, part in enumerate(loc):
        if isinstance(part, int):
            path += f"[{part}]"
            continue
        fields = {key: info for name, info in model.model_fields.items() for key in _names(name, info)}
        if part in fields:
            inner = _model_in(fields[part].annotation)
            path += f".{part}" if path else part
            model = inner or model
        elif at == len(loc) - 1 and not (part.endswith(("Wire", "]")) or part in ("str", "int")):
            path += f".{part}" if path else part
    return path, model


def _names(name: str, info: Any) -> list[str]:
    aliases = getattr(info.validation_alias, "choices", [])
    return [name, *(str(alias) for alias in (info.alias, *aliases) if alias)]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first model in a type such as `list[IntervalWire | str] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)

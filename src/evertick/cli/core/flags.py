"""Flags: options that a command receives as one record. Each is written once, as a field of that record.

    @dataclass(frozen=True, slots=True)
    class ListFlags:
        query: str = flag("--query", "-q", default="", help="...")
        limit: int = flag("--limit", default=100, show_default=True)

    @click.command()
    @flags(ListFlags, "flags")
    def list_schedules(flags: ListFlags) -> None: ...

The field's type says what the option takes: `bool` is a switch, `int` a whole number, a tuple may be repeated.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, field, fields
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]

_OPTION: Final = "option"


class Number(click.FloatRange):
    """A finite number in a range. The range type of click accepts `nan`, and `inf` if the range has no end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert the text to a number. Fails for any other text."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """An option callback that refuses an empty text, which is most likely an unset variable of the shell."""
    if value == "":
        raise click.BadParameter(f"it is empty; give a {parameter.make_metavar(context)}, or leave the option out")
    return value


def flag(*names: str, default: Any = None, **settings: Any) -> Any:
    """A dataclass field that is set by an option with these `names`; `settings` are those of `click.option`."""
    return field(default=default, metadata={_OPTION: (names, settings)})


def shared(option: Callable[[Any], Any], *, default: Any = None) -> Any:
    """A dataclass field that is set by an option which several commands share."""
    return field(default=default, metadata={_OPTION: option})


def flags(
    record: type[Any], name: str, *, only: tuple[str, ...] = (), changed: Mapping[str, Mapping[str, Any]] | None = None
) -> Decorator[Any]:
    """A decorator that adds an option for each field of a dataclass; the command gets the object as the argument
    `name`.

    `only` are the fields that get an option; empty means all. The others keep their defaults. `changed` overrides
    settings of the options, by field.
    """
    known = [each for each in fields(record) if each.metadata and (not only or each.name in only)]

    def give(command: Command) -> Command:
        @wraps(command)
        def gathered(*args: Any, **values: Any) -> Any:
            own = {each.name: values.pop(each.name) for each in known}
            return command(*args, **{name: record(**own)}, **values)

        wrapped: Callable[..., Any] = gathered
        for each in reversed(known):
            wrapped = _option(each, (changed or {}).get(each.name, {}))(wrapped)
        return cast("Command", wrapped)

    return give


def _option(each: Field[Any], changed: Mapping[str, Any]) -> Callable[[Any], Any]:
    option = each.metadata[_OPTION]
    if callable(option):
        return cast("Callable[[Any], Any]", option)
    names, settings = option
    given: dict[str, Any] = {**_usual(each, names), **settings, **changed}
    return click.option(*names, each.name, **given)


def _usual(each: Field[Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The settings of an option that follow from the field's type and default."""
    if each.type is bool and not any("/" in name for name in names):
        return {"is_flag": True, "default": each.default}
    if each.default == ():
        return {"multiple": True}
    usual: dict[str, Any] = {"type": int} if each.type in (int, int | None) else {}
    return usual if each.default is None and "/" not in names[0] else {**usual, "default": each.default}

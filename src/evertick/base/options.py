"""Rules for options, by type and range. Every place that takes options checks them here.

    RULES = {"running": whole(0, 1_000), "paused": FLAG, "retry": one_of_type(RetryPolicy, "a policy such as Retry(5)")}
    check_options(RULES, {"running": 5}, "pools.set: ")

Values that are compared, counted or stored have exactly the type of the rule: "false" is not False, and True is not 1.

A function with many options takes them as a record, a dataclass whose fields are the options with their types and
defaults. `takes` gives the function the signature of the record, so an option is declared once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field
from datetime import timedelta
from enum import StrEnum
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any, ClassVar, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar, get_args, overload

from evertick.base.errors import InvalidDelay, Misuse
from evertick.base.escaping import Verbatim
from evertick.base.instants import duration_ms

K = ParamSpec("K")
O = TypeVar("O")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

SHOWN_MAX: Final = 60
"""The number of characters of a wrong value that a message shows."""


class Unchanged:
    """The type of `UNCHANGED`, which means that a value is not changed."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()
"""The default of an option that stays as it is unless it is given; None removes what was set, or sets the default."""


class Record(Protocol):
    """The type of dataclass instances."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def stated(record: Record) -> dict[str, Any]:
    """The fields of a record that do not have their defaults."""
    values = ((name, getattr(record, name), field) for name, field in record.__dataclass_fields__.items())
    return {name: value for name, value, field in values if value is not field.default}


class _Taking(Protocol[K, R_co]):
    """The type of the decorator that `takes` returns.

    The second overload is for paged operations, which also take the id after which the page begins.
    """

    @overload
    def __call__(self, function: Callable[[O, R_co], T], /) -> Callable[Concatenate[O, K], T]: ...
    @overload
    def __call__(self, function: Callable[[O, str, R_co], T], /) -> Callable[Concatenate[O, str, K], T]: ...


def takes(record: Callable[K, R], what: str) -> _Taking[K, R]:
    """Let a function whose last parameter is a record be called with the fields of the record.

        @takes(JobOptions, "scheduler.using()")
        def using(self, options: JobOptions) -> Self: ...

    Type checkers, editors, `help()` and `inspect.signature` see the fields with their types and defaults. The function
    raises Misuse for an option that the record does not have; `what` begins the message.
    """
    fields = signature(record).parameters
    keywords = [each.name for each in fields.values() if each.kind is Parameter.KEYWORD_ONLY]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        shown = signature(function)
        own = list(shown.parameters.values())[:-1]

        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            try:
                made: Any = record(*args[len(own) :], **options)
            except TypeError as error:
                check_names(keywords, {name: value for name, value in options.items() if name not in fields}, what)
                raise TypeError(str(error).replace(f"{record.__name__}.__init__", function.__name__)) from None
            return function(*args[: len(own)], made)

        call.__signature__ = shown.replace(parameters=[*own, *fields.values()])  # type: ignore[attr-defined]
        call.record = record  # type: ignore[attr-defined]  # its fields have the types of the parameters
        return call

    return decorate


def shows(record: Callable[..., Any]) -> Callable[[Callable[K, T]], Callable[K, T]]:
    """Let `help()` show the fields of a record in place of the `**options` of a function whose overloads list them."""
    return partial(_showing, [*signature(record).parameters.values()])


def shown_options(function: Callable[K, T]) -> Callable[K, T]:
    """Let `help()` show the keys of the TypedDict that is unpacked in a function's `**options`."""
    [options] = [each for each in signature(function).parameters.values() if each.kind is Parameter.VAR_KEYWORD]
    return _showing(spread(options), function)


def spread(parameter: Parameter) -> list[Parameter]:
    """The parameter, in a list. An unpacked TypedDict becomes a list of optional keyword parameters, one per key."""
    if parameter.kind is not Parameter.VAR_KEYWORD:
        return [parameter]
    kinds = get_args(parameter.annotation)[0].__annotations__
    left_out = Verbatim("...")
    return [Parameter(name, Parameter.KEYWORD_ONLY, default=left_out, annotation=kind) for name, kind in kinds.items()]


def _showing(options: Sequence[Parameter], function: Callable[K, T]) -> Callable[K, T]:
    own = [each for each in signature(function).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    function.__signature__ = signature(function).replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function


class Rule(NamedTuple):
    """A rule for an option: words that follow "takes", and a test of a value."""

    words: str
    fits: Callable[[Any], bool]


def whole(least: int, most: int) -> Rule:
    """A whole number from `least` to `most`."""
    words = f"a whole number from {least:,} to {most:,}"
    return Rule(words, lambda value: type(value) is int and least <= value <= most)


def number(least: float, most: float) -> Rule:
    """A number from `least` to `most`."""
    return Rule(
        f"a number from {least:,} to {most:,}",
        lambda value: type(value) in (int, float) and least <= value <= most,
    )


def one_of_type(kind: type | tuple[type, ...], words: str) -> Rule:
    """An instance of a type, in words such as "a policy such as Retry(5)"."""
    return Rule(words, lambda value: isinstance(value, kind))


def one_of(choices: Iterable[str]) -> Rule:
    """One of several words."""
    known = tuple(choices)
    return Rule(f"one of {', '.join(known)}", lambda value: isinstance(value, str) and value in known)


def word_of(words: type[StrEnum]) -> Rule:
    """A member of an enum, not its text."""
    return Rule(f"one of {', '.join(words)}", lambda value: isinstance(value, words))


FLAG: Final = Rule("True or False", lambda value: type(value) is bool)
TEXT: Final = Rule("text", lambda value: isinstance(value, str))


def text(most: int, *, printable: bool = False) -> Rule:
    """Text of 1 to `most` characters that every database can store; printable text if `printable`."""

    def fits(value: Any) -> bool:
        return (
            isinstance(value, str)
            and 1 <= len(value) <= most
            and (value.isprintable() if printable else is_storable(value))
        )

    kind = "printable text" if printable else "text without NUL or lone surrogates"
    return Rule(f"{kind} of 1 to {most:,} characters", fits)


def optional(rule: Rule) -> Rule:
    """A rule that also accepts None."""
    return Rule(f"{rule.words}, or None", lambda value: value is None or rule.fits(value))


def check_options(rules: Mapping[str, Rule], values: Mapping[str, Any], where: str = "") -> None:
    """Raise Misuse for the first value that its rule refuses. `where` begins the message."""
    for name, value in values.items():
        rule = rules.get(name)
        if rule is not None and not rule.fits(value):
            raise Misuse(f"{where}{name}= takes {rule.words}, not {shown(value)}")


def some(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not None; None means that an option is not given."""
    return {name: value for name, value in values.items() if value is not None}


def check_names(known: Iterable[str], values: Mapping[str, Any], where: str) -> None:
    """Raise Misuse for an option that `where` does not have."""
    if unknown := values.keys() - set(known):
        cure = "; arguments of its function are given with do=fn.with_args(...)" if "args" in unknown else ""
        raise Misuse(f"{where} takes no option {', '.join(sorted(unknown))}; the options are {', '.join(known)}{cure}")


def duration_within(value: float | timedelta, name: str, least_ms: int, most_ms: int) -> int:
    """A duration in milliseconds. Raises InvalidDelay if it is invalid, below `least_ms` or above `most_ms`."""
    milliseconds = duration_ms(value, name=name)
    if not least_ms <= milliseconds <= most_ms:
        limits = timedelta(milliseconds=least_ms), timedelta(milliseconds=most_ms)
        raise InvalidDelay(f"{name}= is from {limits[0]} to {limits[1]}, not {shown(value)}")
    return milliseconds


def is_storable(value: str) -> bool:
    """Whether every database can store a text: PostgreSQL stores no NUL, and UTF-8 has no lone surrogates."""
    return not any(each == "\0" or "\ud800" <= each <= "\udfff" for each in value)


def shown(value: object) -> str:
    """A wrong value as text for an error message: shortened, and safe if its `repr` fails."""
    if isinstance(value, str) and len(value) > SHOWN_MAX:
        return f"{value[:SHOWN_MAX]!r}... ({len(value):,} characters)"
    try:
        return repr(value)[:SHOWN_MAX]
    except Exception:
        return f"a value of the type {type(value).__name__}"

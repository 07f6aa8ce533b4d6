"""Rules for options, by type and range. Every place that takes options checks them here.

    RULES = {"running": whole(0, 1_000), "paused": FLAG, "retry": one_of_type(RetryPolicy, "a policy such as Retry(5)")}
    check_options(RULES, {"running": 5}, "pools.set: ")

Values that are compared, counted or stored have exactly the type of the rule: "false" is not False, and True is not 1.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from evertick.base.errors import InvalidDelay, Misuse
from evertick.base.instants import duration_ms

SHOWN_MAX: Final = 60
"""The number of characters of a wrong value that a message shows."""


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
        raise Misuse(f"{where} takes no option {', '.join(sorted(unknown))}; the options are {', '.join(known)}")


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
    """A wrong value for a message: shortened, and safe if its `repr` fails."""
    if isinstance(value, str) and len(value) > SHOWN_MAX:
        return f"{value[:SHOWN_MAX]!r}... ({len(value):,} characters)"
    try:
        return repr(value)[:SHOWN_MAX]
    except Exception:
        return f"a value of the type {type(value).__name__}"

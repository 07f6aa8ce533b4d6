"""Attributes of workflow runs: a few names with plain values, by which lists find runs."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from evertick.base.errors import LimitExceeded, Misuse, ValueTooLarge
from evertick.base.options import shown

ATTRIBUTES_MAX: Final = 20
"""Attributes of one run."""
NAME_CHARS_MAX: Final = 64
TEXT_CHARS_MAX: Final = 255
INTEGER_MAX: Final = 2**63 - 1

Value = str | int | bool
_INTEGER: Final = re.compile("-?(0|[1-9][0-9]{0,18})")
_NEXT: Final = r'(?=\s{1,20}[^\s="]+=|\Z)'
_WORD: Final = re.compile(rf'[^=]*=(?:".*?"{_NEXT}|.*?{_NEXT})', re.DOTALL)
"""A name, =, and a value up to the next name."""


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as they were given; None stands for one that is removed.

    Raises Misuse for names and values that cannot be, ValueTooLarge for a text that is too long.
    """
    if not isinstance(given, Mapping):
        raise Misuse(f"attributes are names with values, {{'customer': 'c7'}}, not {shown(given)}")
    for name, value in given.items():
        if not isinstance(name, str) or not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
            raise Misuse(
                f"{shown(name)} cannot name an attribute: it is printable text of 1 to {NAME_CHARS_MAX} characters"
            )
        _check_value(name, value)
    return dict(given)


def changed(attributes: Mapping[str, Value], changes: Mapping[str, Any]) -> dict[str, Value]:
    """Attributes after changes that are `checked`. Raises LimitExceeded if they are too many."""
    merged = {name: value for name, value in {**attributes, **changes}.items() if value is not None}
    if len(merged) > ATTRIBUTES_MAX:
        raise LimitExceeded(f"a run has at most {ATTRIBUTES_MAX} attributes, and these are {len(merged)}")
    return merged


def to_text(attributes: Mapping[str, Value]) -> str:
    """Attributes as JSON text, the same for the same ones; "" for none."""
    return json.dumps(attributes, sort_keys=True) if attributes else ""


def from_text(text: str | None) -> dict[str, Value]:
    """Attributes from `to_text`."""
    return json.loads(text) if text else {}


def value_text(value: Value) -> str:
    """A value as the index has it: JSON, so that 7, true and their texts differ."""
    return json.dumps(value, ensure_ascii=False)


def word_of(value: Value) -> str:
    """A value as a word of a command line or an address, which `from_word` reads as the same value."""
    if not isinstance(value, str):
        return json.dumps(value)
    return value if from_word(value) == value else f'"{value}"'


def from_word(word: str) -> Value:
    """The value of a word: 7 is a number, true and false are booleans, "7" in quotes is a text, and so is all else."""
    if word in ("true", "false"):
        return word == "true"
    if _INTEGER.fullmatch(word):
        return int(word)
    return word[1:-1] if _is_quoted(word) else word


def from_words(words: Sequence[str]) -> dict[str, Value]:
    """Attributes of the words of a command line or an address, `name=value`. Raises Misuse."""
    found: dict[str, Value] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise Misuse(f"an attribute is name=value, such as stage=paid, not {word[:100]!r}")
        if name in found:
            raise Misuse(f"the attribute {name[:100]!r} is there twice, and a run has one value of it")
        found[name] = from_word(value)
    return found


def words_of(attributes: Mapping[str, Value]) -> str:
    """Attributes as a line, which `words_in` takes apart: texts with a space are in quotes."""
    words = ((name, word_of(value)) for name, value in attributes.items())
    return " ".join(
        f'{name}="{word}"' if re.search(r"\s", word) and not _is_quoted(word) else f"{name}={word}"
        for name, word in words
    )


def words_in(line: str) -> list[str]:
    """The words `name=value` of a line, with spaces between; a value in quotes ends with them.

    A space before anything but another `name=` belongs to the value: `note=to be checked paid=true` are two words.
    """
    line, at, found = line.strip(), 0, list[str]()
    while at < len(line):
        word = _WORD.match(line, at)
        end = len(line) if word is None else word.end()
        found.append(line[at:end].strip())
        at = end
    return found


def _is_quoted(word: str) -> bool:
    return len(word) > 1 and word[0] == word[-1] == '"'


def _check_value(name: str, value: Any) -> None:
    if isinstance(value, str):
        if len(value) > TEXT_CHARS_MAX:
            raise ValueTooLarge(
                f"the attribute {name!r} is a text of {len(value)} characters; the limit is {TEXT_CHARS_MAX}"
            )
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise Misuse(f"the attribute {name!r} is a text with a lone surrogate, which has no UTF-8")
    elif type(value) is int:
        if not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
            raise Misuse(f"the attribute {name!r} is a number beyond 64 bits; write it as a text")
    elif value is not None and not isinstance(value, bool):
        raise Misuse(f"the attribute {name!r} is {type(value).__name__}; it takes str, int or bool, None to remove it")

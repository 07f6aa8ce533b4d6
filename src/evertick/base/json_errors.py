"""What is wrong with a JSON text, in words for people: where, and what is expected there.

`read_json` refuses what `json.loads` lets through: names that are there twice, NaN, and numbers beyond all floats.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, Final, Never

WORDS: Final = {
    "Expecting property name enclosed in double quotes": "a name in double quotes is expected",
    "Expecting ':' delimiter": "a colon is expected after the name",
    "Expecting ',' delimiter": "a comma is expected, or the end of the list or object",
    "Expecting value": "a value is expected: text in double quotes, a number, true, false, null, [ or {",
    "Extra data": "there is more after the end of the value",
    "Unterminated string starting at": "the text that begins here has no closing quote",
    "Invalid control character at": "a line break or tab in a text is written \\n or \\t",
    "Invalid \\escape": "a backslash in a text is written twice",
    "Invalid \\uXXXX escape": "\\u is followed by four hexadecimal digits",
    "Illegal trailing comma before end of object": "a comma before the closing } is one too many",
    "Illegal trailing comma before end of array": "a comma before the closing ] is one too many",
}
"""Python's words, and ours."""


def read_json(text: str) -> Any:
    """The value of a JSON text that people or programs give. Raises ValueError, RecursionError; see `json_fault`."""
    return json.loads(text, object_pairs_hook=object_of, parse_constant=no_constant, parse_float=_number)


def json_fault(error: Exception) -> str:
    """What is wrong, after `json.loads` raised: `line 2, column 7: a colon is expected after the name`."""
    if isinstance(error, RecursionError):
        return "lists and objects are too deep inside of each other"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    words = next((ours for theirs, ours in WORDS.items() if error.msg.startswith(theirs)), error.msg)
    return f"line {error.lineno}, column {error.colno}: {words}"


def begins_as_json(text: str) -> bool:
    """Whether a text begins as an object, a list or a text of JSON: if it is none, it is one with a mistake."""
    return text.lstrip().startswith(("{", "[", '"'))


def object_of(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """An object, as `object_pairs_hook`. Raises ValueError for a name that is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[Any] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the member {twice[:100]!r} is there twice")
    return found


def no_constant(word: str) -> Never:
    """Refuse NaN and Infinity, as `parse_constant`. Raises ValueError."""
    raise ValueError(f"{word} is not a number of JSON")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:100]} is beyond the largest number")
    return number

"""Escaping of untrusted text: what a function returned, raised or logged must not control the terminal that shows it.

Control characters, invisible formatting (which can reverse the order of letters) and lone surrogates are written
as escapes: `\x1b`, `\u202e`. JSON keeps its meaning, because JSON has the same escapes.
"""

import json
import math
import shlex
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, Never


def printable(text: str) -> str:
    """The text on one line, with control characters and invisible formatting escaped."""
    if text.isprintable():
        return text
    return "".join(char if _harmless(char) else _escape(char) for char in text)


def one_line(text: str) -> str:
    """As `printable`, with line breaks and indentation replaced by single spaces: for error messages."""
    return printable(" ".join(text.split()))


def shortened(text: str, chars_max: int) -> str:
    """The first `chars_max` characters, with a space in place of each that is not printable: for untrusted text."""
    return "".join(char if char.isprintable() else " " for char in text[:chars_max])


def printable_lines(text: str) -> str:
    """The lines of a text, each as `printable`."""
    return "\n".join(map(printable, text.rstrip().splitlines()))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON that is safe on a terminal and reads back as the same value; see `finite` for NaN and infinity."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    except ValueError:
        text = json.dumps(finite(value), ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(char if char == "\n" or _harmless(char) else _json_escape(char) for char in text)


def yaml_text(text: str) -> str:
    """YAML that is safe on a terminal. Control characters must be inside double quotes."""
    if text.isprintable():
        return text
    return "".join(char if char == "\n" or _harmless(char) else _yaml_escape(char) for char in text)


class Verbatim(str):
    """Text that `repr` leaves without quotes: an annotation or a default as a signature shows it."""

    __slots__ = ()
    __repr__ = str.__str__


def shell_word(text: str) -> str:
    """The text as one word of a line for a shell.

    Inside plain quotes a control character would still act on the terminal into which the line is pasted, so text
    with one is written as `$'\\x1b'`, which bash, zsh and ksh read.
    """
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{''.join(char if _harmless(char) else _shell_escape(char) for char in escaped)}'"


def schedule_word(schedule_id: str) -> str:
    """The id of a schedule as an argument of `evertick schedule`; as an option if it begins with a dash."""
    word = shell_word(schedule_id)
    return f"--schedule-id={word}" if schedule_id.startswith("-") else word


def finite(value: Any) -> Any:
    """The value with None in place of each NaN and infinity: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list | tuple) else value


def reason(error: OSError | UnicodeDecodeError) -> str:
    """The reason why a file could not be read: `No such file or directory`, without Python's `[Errno 2]`."""
    return "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)


def _harmless(char: str) -> bool:
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _shell_escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if 0x80 <= code <= 0xFF else _escape(char)  # in a shell \x80 is a byte, not a character


def _yaml_escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]


# -- Readable messages for mistakes in a JSON text: the place, and what is expected there.
#
# `read_json` refuses what `json.loads` accepts: duplicate names, NaN, and numbers too large for a float.

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
"""Messages of `json.loads`, and the messages that replace them."""


def read_json(text: str) -> Any:
    """The value of a JSON text from outside. Raises ValueError, RecursionError; `json_fault` describes both."""
    return json.loads(text, object_pairs_hook=object_of, parse_constant=no_constant, parse_float=_number)


def json_fault(error: Exception) -> str:
    """A readable message for an error of `json.loads`: `line 2, column 7: a colon is expected after the name`."""
    if isinstance(error, RecursionError):
        return "lists and objects are nested too deeply"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    words = next((ours for original, ours in WORDS.items() if error.msg.startswith(original)), error.msg)
    return f"line {error.lineno}, column {error.colno}: {words}"


def begins_as_json(text: str) -> bool:
    """Whether a text begins as a JSON object, list or string; if it is not valid JSON, it has a mistake."""
    return text.lstrip().startswith(("{", "[", '"'))


def object_of(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """A dict, for `object_pairs_hook`. Raises ValueError for a duplicate name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[Any] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the member {twice[:100]!r} is there twice")
    return found


def no_constant(word: str) -> Never:
    """Refuse NaN and Infinity, for `parse_constant`. Raises ValueError."""
    raise ValueError(f"{word} is not a number of JSON")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:100]} is beyond the largest number")
    return number

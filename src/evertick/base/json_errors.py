"""What is wrong with a JSON text, in words for people: where, and what is expected there."""

import json
from typing import Final

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


def json_fault(error: Exception) -> str:
    """What is wrong, after `json.loads` raised: `line 2, column 7: a colon is expected after the name`."""
    if isinstance(error, RecursionError):
        return "lists and objects are too deep inside of each other"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    words = next((ours for theirs, ours in WORDS.items() if error.msg.startswith(theirs)), error.msg)
    return f"line {error.lineno}, column {error.colno}: {words}"

"""JSON: read with the line of each schedule in it."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from evertick.base.escaping import json_text, no_constant, object_of
from evertick.cli.schedule.files.parsed import Parsed, Place, Unreadable

SPACE: Final = re.compile(r"[ \t\r\n]*")


def json_of(value: Any) -> str:
    """A value as JSON, keys in their order."""
    return json_text(value, indent=2) + "\n"


def read_json(text: str, name: str) -> Parsed:
    """The value of a file. Raises Unreadable."""
    reader = _Reader(text)
    try:
        value, end = reader.value(reader.past_space(0), (), deep=3)
        if reader.past_space(end) < len(text):
            raise json.JSONDecodeError("there is more after the value", text, end)
    except json.JSONDecodeError as error:
        raise Unreadable(name, error.lineno, f"not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise Unreadable(name, reader.line(reader.at), f"not JSON: {str(error)[:200]}") from None
    return Parsed(name, value, reader.lines)


@dataclass(slots=True)
class _Reader:
    """Reads values, the outer ones step by step to know where their parts begin."""

    text: str
    at: int = 0
    """Where the value begins that is being read."""
    lines: dict[Place, int] = field(default_factory=dict)
    decoder: json.JSONDecoder = field(
        default_factory=lambda: json.JSONDecoder(object_pairs_hook=object_of, parse_constant=no_constant)
    )
    seen: tuple[int, int] = (0, 1)
    """A position and its line: the last one that was asked for."""

    def line(self, at: int) -> int:
        """The line of a position; positions are asked for in their order."""
        before, line = self.seen
        line += self.text.count("\n", before, at)
        self.seen = (at, line)
        return line

    def past_space(self, at: int) -> int:
        """Where the next thing begins."""
        found = SPACE.match(self.text, at)
        return at if found is None else found.end()

    def value(self, at: int, place: Place, *, deep: int) -> tuple[Any, int]:
        """The value that begins at a position, and where it ends; the lines of parts `deep` levels down are noted."""
        self.at = at
        self.lines[place] = self.line(at)
        first = self.text[at : at + 1]
        if deep == 0 or first not in ("{", "["):
            return self.decoder.raw_decode(self.text, at)
        pairs: list[tuple[str | int, Any]] = []
        closing = {"{": "}", "[": "]"}[first]
        at = self.past_space(at + 1)
        while self.text[at : at + 1] != closing:
            if pairs:
                at = self._past(",", at)
            key: str | int = len(pairs)
            if first == "{":
                key, at = self._key(at)
            value, at = self.value(at, (*place, key), deep=deep - 1)
            pairs.append((key, value))
            at = self.past_space(at)
        return (object_of(pairs) if first == "{" else [value for _, value in pairs]), at + 1

    def _key(self, at: int) -> tuple[str, int]:
        if self.text[at : at + 1] != '"':
            raise json.JSONDecodeError("a member begins with its name in double quotes", self.text, at)
        key, at = self.decoder.raw_decode(self.text, at)
        return key, self._past(":", self.past_space(at))

    def _past(self, mark: str, at: int) -> int:
        if self.text[at : at + 1] != mark:
            raise json.JSONDecodeError(f"{mark!r} is missing", self.text, at)
        return self.past_space(at + 1)

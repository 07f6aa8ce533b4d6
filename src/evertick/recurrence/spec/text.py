"""Text from outside: how much of it is read, and how it is quoted in a message."""

from typing import Final

from evertick.base import options
from evertick.base.errors import InvalidSpec

TEXT_MAX: Final = 8_192
"""Longest text of one rule. Anything longer is refused before it is parsed."""


def bounded(text: str, what: str, limit: int = TEXT_MAX) -> str:
    """The text itself. Raises InvalidSpec if it is not text, is longer than `limit`, or no database can keep it."""
    if not isinstance(text, str):
        raise InvalidSpec(f"{what} must be text, not {type(text).__name__}")
    if len(text) > limit:
        raise InvalidSpec(f"{what} has {len(text)} characters; at most {limit} are read")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidSpec(f"{what} {shown(text)} contains half of a surrogate pair, which UTF-8 cannot hold; remove it")
    return text


def shown(text: object, limit: int = 60) -> str:
    """The text quoted for a message, control characters escaped, cut when long."""
    if not isinstance(text, str):
        return options.shown(text)[:limit]
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}... ({len(text)} characters)"

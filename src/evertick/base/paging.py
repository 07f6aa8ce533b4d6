"""Pages of lists: their size limits, and cursors."""

import base64
import json
from typing import Any, Final

from evertick.base.errors import InvalidArguments, LimitExceeded

PAGE_MAX: Final = 1_000
"""Rows of a page."""
TENANTS_MAX: Final = 10_000
"""Rows of a page of tenants."""


def check_limit(limit: object, most: int, refusal: str = "limit is a whole number from 1 to {:,}") -> None:
    """Raise LimitExceeded unless `limit` is a whole number from 1 to `most`; `refusal` begins the message."""
    if type(limit) is not int or not 1 <= limit <= most:
        raise LimitExceeded(f"{refusal.format(most)}, not {limit!r}")


def encode_cursor(position: list[Any]) -> str:
    """The cursor of a position in a list."""
    return base64.urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode()


def decode_cursor(cursor: str, parts: int) -> list[Any]:
    """The position in a cursor. Raises InvalidArguments unless the text is a cursor with this number of parts."""
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except ValueError:
        position = None
    if not isinstance(position, list) or len(position) != parts:
        raise wrong_cursor()
    return position


def wrong_cursor() -> InvalidArguments:
    """The error of a cursor that belongs to another list."""
    return InvalidArguments("the cursor is not of this list; pass the cursor that the page before returned")

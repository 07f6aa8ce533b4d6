"""How long the pages of lists are at most."""

from typing import Final

from evertick.base.errors import LimitExceeded

PAGE_MAX: Final = 1_000
"""Rows of a page."""
TENANTS_MAX: Final = 10_000
"""Rows of a page of tenants."""


def check_limit(limit: object, most: int, refusal: str = "limit is a whole number from 1 to {:,}") -> None:
    """Raise LimitExceeded, which begins with `refusal`, unless `limit` is a whole number from 1 to `most`."""
    if type(limit) is not int or not 1 <= limit <= most:
        raise LimitExceeded(f"{refusal.format(most)}, not {limit!r}")

"""Pages: a list that comes page by page, up to a limit."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from evertick.app.schedules.paging import PAGE_MAX

T = TypeVar("T")


def collected(limit: int, page: Callable[[int, str | None], tuple[Sequence[T], str | None]]) -> list[T]:
    """At most `limit` items; `page(size, cursor)` returns a page and the cursor of the next one, None at the end."""
    found: list[T] = []
    cursor: str | None = None
    while len(found) < limit:
        items, cursor = page(min(PAGE_MAX, limit - len(found)), cursor)
        found += items
        if cursor is None:
            break
    return found

"""How long a request may take: a database that hangs, or a network that loses everything, must not hold it for ever.

What is down raises by itself. What hangs is only known by its silence, so every request has REPLY_S; what takes longer
by its nature, such as a call of a function, says how long (`take_longer`). What was begun in a thread goes on there.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

from evertick.base.errors import DatabaseUnavailable, OutcomeUnknown

REPLY_S: Final = 20.0
"""Longer than a lock of the database is waited for, and shorter than clients wait."""
_current: Final[ContextVar[asyncio.Timeout | None]] = ContextVar("evertick_reply_time", default=None)


@asynccontextmanager
async def in_time(*, changes: bool) -> AsyncIterator[None]:
    """Limit what is inside. Raises DatabaseUnavailable, or OutcomeUnknown if it may have changed something."""
    try:
        async with asyncio.timeout(REPLY_S) as limit:
            before = _current.set(limit)
            try:
                yield
            finally:
                _current.reset(before)
    except TimeoutError as error:
        if not limit.expired():
            raise
        words = f"no reply of the database within {REPLY_S:g} s"
        if changes:
            raise OutcomeUnknown(f"{words}, so it may have happened or not") from error
        raise DatabaseUnavailable(words) from error


def take_longer(seconds: float | None = 0.0) -> None:
    """From now on the request has this time and REPLY_S, because it waits for long by its nature, or has got on.

    None is no limit.
    """
    limit = _current.get()
    if limit is not None and not limit.expired():
        limit.reschedule(None if seconds is None else asyncio.get_running_loop().time() + REPLY_S + seconds)

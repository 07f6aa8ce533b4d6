"""Conflict retry: run a transaction again that conflicted with another one, after a wait that grows.

`Store.write` makes one attempt. Calls from programs, actions and commands want a result, so they come through here;
the engine's own loops handle conflicts by batch.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from evertick.base.errors import WriteConflict
from evertick.base.ids import Entropy
from evertick.base.records.retry import RetryPolicy
from evertick.rules.jobs.retry import retry_delay_ms

T = TypeVar("T")

CONFLICTS: Final = RetryPolicy(attempts_max=10, first_ms=10, factor=2.0, cap_ms=1_000, jitter=0.5)
"""How often a transaction is attempted before its caller gets the WriteConflict."""


def retry_conflicts(attempt: Callable[[], T], entropy: Entropy, *, sleep: Callable[[float], None] = time.sleep) -> T:
    """The result of `attempt`, called again while it raises WriteConflict.

    Raises WriteConflict after the last of the attempts that `CONFLICTS` allows, and whatever else `attempt` raises.
    """
    failures = 0
    while True:
        try:
            return attempt()
        except WriteConflict:
            failures += 1
            if failures >= CONFLICTS.attempts_max:
                raise
        sleep(retry_delay_ms(failures, CONFLICTS, entropy) / 1000)


async def retry_conflicts_async(attempt: Callable[[], Awaitable[T]], entropy: Entropy) -> T:
    """Like `retry_conflicts`, without blocking the event loop."""
    failures = 0
    while True:
        try:
            return await attempt()
        except WriteConflict:
            failures += 1
            if failures >= CONFLICTS.attempts_max:
                raise
        await asyncio.sleep(retry_delay_ms(failures, CONFLICTS, entropy) / 1000)

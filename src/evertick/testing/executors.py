"""A world's executors: functions that have threads of their own in a worker run at once, in the thread of the test.

No event loop is to be seen there, as in a thread. So functions may do what is refused beside a running loop, such as
using Django's ORM, and in the thread of the test they find the test's own connections, with its open transaction.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from evertick.base.time_limit import Limit, TimeLimits
from evertick.engine.runtime.executors import InlineExecutors
from evertick.testing.loop import as_in_a_thread

T = TypeVar("T")


class WorldExecutors(InlineExecutors):
    """Inline, with functions as in a thread."""

    async def call(self, function: Callable[[], T]) -> T:
        return await super().call(lambda: as_in_a_thread(function))

    async def run_job(self, function: Callable[[], T]) -> T:
        return await super().run_job(lambda: as_in_a_thread(function))


class NoTimeLimits(TimeLimits):
    """Functions in transactions, as in a thread too. They take no simulated time, so none takes too long."""

    limits_steps = False

    def call(self, limit: Limit, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call `function`."""
        return as_in_a_thread(function, *args, **kwargs)

"""Work that takes as long as a test says: what a world's schedules do when a test names no function of its own.

It is a real action, known to the world alone: the app that lives there does not notice it.
"""

import asyncio
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from evertick.app.execution.contexts import ActionCtx
from evertick.app.functions.function import Action, Function
from evertick.app.scheduling.job_builder import Functions, Target
from evertick.base.ids import JobId
from evertick.base.instants import DAY_MS, Instant, from_datetime

NAME: Final = "evertick.testing.work"
TIMEOUT_MS: Final = 10 * 366 * DAY_MS


class Work:
    """The action, and when its runs were asked to stop."""

    def __init__(self) -> None:
        self.asked_to_stop: dict[JobId, Instant] = {}

        async def work(ctx: ActionCtx, takes: float, cleans_up: float) -> None:
            """Takes `takes` seconds, and `cleans_up` more when it is asked to stop before that."""
            try:
                await asyncio.sleep(takes)
            except asyncio.CancelledError:
                if ctx.job_id is not None:
                    self.asked_to_stop[ctx.job_id] = from_datetime(ctx.now)
                await asyncio.sleep(cleans_up)
                raise

        self.function: Action[[float, float], None] = Action(
            work, name=NAME, internal=True, timeout_ms=TIMEOUT_MS, app_name=None
        )


class WithWork:
    """An app's functions, and the work of a world beside them."""

    def __init__(self, functions: Functions, work: Work) -> None:
        self._functions = functions
        self._work = work.function

    def resolve(self, target: Target, /) -> Function[..., Any]:
        if target is self._work or target == NAME:
            return self._work
        return self._functions.resolve(target)

    def __iter__(self) -> Iterator[Function[..., Any]]:
        return chain(self._functions, (self._work,))

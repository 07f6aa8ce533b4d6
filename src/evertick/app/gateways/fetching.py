"""Long polls of gateways that dial out: a commit with something for one gateway wakes only that gateway's poll."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from evertick.api.gateway_fleet import FetchedReply, FetchedRequest
from evertick.app.environment import Environment
from evertick.app.gateways.joining import Joining
from evertick.base.errors import EvertickError
from evertick.engine.runtime.executors import call_in_loop
from evertick.store.notifications import Notification, Notifications

POLL_EVERY_S: Final = 1.0
"""Seconds between two queries for gateways that have something to fetch, if no notification arrives."""


def setting(event: asyncio.Event) -> Callable[[Notifications], None]:
    """A listener that sets the event, which belongs to the running loop, after a commit that concerns gateways."""
    loop = asyncio.get_running_loop()

    def on_commit(notifications: Notifications) -> None:
        if Notification.GATEWAY in notifications:
            call_in_loop(loop, event.set)

    return on_commit


class Polls:
    """The polls that wait on one event loop."""

    def __init__(self, environment: Environment) -> None:
        self._e = environment
        self._waiting: Counter[str] = Counter()
        self._news: dict[str, asyncio.Event] = {}
        self._notified = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def fetch(
        self,
        joining: Joining,
        secret: str,
        instance_id: str,
        replies: Sequence[FetchedReply],
        wait_s: float,
        is_gone: Callable[[], Awaitable[bool]],
    ) -> list[FetchedRequest]:
        """Take replies, and return requests as soon as there are some, or none after `wait_s`.

        It returns none if the client `is_gone`. Raises UnknownSecret, Conflict.
        """
        call, loop = self._e.executors.call, asyncio.get_running_loop()
        ends_at, left = loop.time() + wait_s, list(replies)
        while True:
            gateway_id, found = await call(lambda left=left: joining.fetch(secret, instance_id, left))  # type: ignore[misc]
            left = []
            if found or (wait := ends_at - loop.time()) <= 0:
                return found
            await self._wait(gateway_id, wait)
            if await is_gone():
                return []

    async def _wait(self, gateway_id: str, seconds: float) -> None:
        news = self._news.setdefault(gateway_id, asyncio.Event())
        self._waiting[gateway_id] += 1
        if self._task is None:
            self._task = asyncio.create_task(self._watch(), name="polls of gateways")
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            pass
        finally:
            news.clear()
            self._waiting[gateway_id] -= 1
            if not self._waiting[gateway_id]:
                del self._waiting[gateway_id], self._news[gateway_id]

    async def _watch(self) -> None:
        """Wake the polls of gateways that have something to fetch, while any poll waits."""
        stop = self._e.store.listen(setting(self._notified))
        try:
            while self._waiting:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_EVERY_S):
                        await self._notified.wait()
                self._notified.clear()
                with contextlib.suppress(EvertickError):  # waiting polls query again by themselves
                    now = self._e.clock.now()
                    for gateway_id in await self._e.executors.read(lambda tx, now=now: tx.gateways_to_fetch(now=now)):  # type: ignore[misc]
                        if gateway_id in self._news:
                            self._news[gateway_id].set()
        finally:
            self._task = None
            stop()

"""Turns: which of the scripts that wait in one process runs next, and how willingly it leaves the processor to others.

The tenant whose scripts computed least lately comes first. What a script will need is not known before it has run, so
its processor time counts afterwards, and loses half its weight in HALF_LIFE_S. While a script runs, the kernel shares
the processors: it runs with a niceness that grows with what its tenant has used.
"""

import asyncio
import os
import threading
import time
from collections import Counter, deque
from concurrent.futures import Future
from typing import Final, NamedTuple

from evertick.base.ids import TenantId

HALF_LIFE_S: Final = 10.0
LEAST_NICE: Final = 5
"""Niceness of the scripts of a tenant that computed little: the service itself comes before all scripts."""
MOST_NICE: Final = 15
"""Niceness if scripts of one tenant have kept all processors busy."""
ALL_BUSY_MS: Final = 1_000 * (os.cpu_count() or 1) * HALF_LIFE_S / 0.693
"""What a tenant has used, weighted, whose scripts keep all processors busy."""


class Used(NamedTuple):
    """Processor time, as it counts at a moment of the monotonic clock."""

    ms: float
    at: float

    def now(self, at: float) -> float:
        """How much of it counts at another moment."""
        return self.ms * float(0.5 ** ((at - self.at) / HALF_LIFE_S))


class Asked(NamedTuple):
    """A script that waits: it may run when fewer than `most` of its tenant do."""

    turn: "Future[None]"
    most: int


class Turns:
    """Turns for `slots` scripts at a time. Threads and event loops may ask."""

    def __init__(self, slots: int) -> None:
        self._lock = threading.Lock()
        self._free = slots
        self._waiting: dict[TenantId, deque[Asked]] = {}
        self._running: Counter[TenantId] = Counter()
        self._used: dict[TenantId, Used] = {}

    def ask(self, tenant: TenantId, most: int) -> "Future[None]":
        """Wait for a turn: the future is done when the script may run; then `end` must follow."""
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.setdefault(tenant, deque()).append(Asked(turn, most))
        self._grant()
        return turn

    async def wait(self, tenant: TenantId, most: int) -> None:
        """As `ask`, for an event loop; a wait that is canceled has no turn."""
        turn = self.ask(tenant, most)
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if not turn.cancel():  # it has just come
                self.end(tenant, 0)
            raise

    def end(self, tenant: TenantId, cpu_ms: float) -> None:
        """A script has ended that computed for so long."""
        with self._lock:
            self._free += 1
            self._running[tenant] -= 1
            now = time.monotonic()
            self._used[tenant] = Used(self._lately(tenant, now) + cpu_ms, now)
            self._used = {each: used for each, used in self._used.items() if used.now(now) >= 1}
            self._running = +self._running
        self._grant()

    def niceness(self, tenant: TenantId) -> int:
        """With which a script of a tenant runs."""
        with self._lock:
            share = self._lately(tenant, time.monotonic()) / ALL_BUSY_MS
        return LEAST_NICE + round(min(1.0, share) * (MOST_NICE - LEAST_NICE))

    def _lately(self, tenant: TenantId, now: float) -> float:
        used = self._used.get(tenant)
        return 0.0 if used is None else used.now(now)

    def _grant(self) -> None:
        granted = []
        with self._lock:
            now = time.monotonic()
            while self._free:
                ready = [each for each, asked in self._waiting.items() if self._running[each] < asked[0].most]
                if not ready:
                    break
                tenant = min(ready, key=lambda each: self._lately(each, now))
                turn = self._waiting[tenant].popleft().turn
                if not self._waiting[tenant]:
                    del self._waiting[tenant]
                if turn.set_running_or_notify_cancel():
                    self._free -= 1
                    self._running[tenant] += 1
                    granted.append(turn)
        for turn in granted:
            turn.set_result(None)

"""Hints for open streams: something of a tenant has changed. One query a second serves all of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from evertick.base.errors import EvertickError
from evertick.base.ids import TenantId
from evertick.base.records.history import ChangeMarks

T = TypeVar("T")

POLL_EVERY_S: Final = 1.0
STREAMS_MAX: Final = 1_000
"""Streams that one server holds open."""
STREAMS_OF_ONE_MAX: Final = 200
"""Of these, the ones of one token: no program may take the live view from all others."""

READS_SHARE: Final = 0.05
"""The part of a processor that all open pages together may take while things go on changing."""
READS_PAUSE_S_MAX: Final = 30.0
READS_MEAN_OF: Final = 8
"""About as many of the last reads make the mean of what one takes."""

Poll = Callable[[Sequence[TenantId]], Awaitable[list[ChangeMarks]]]


class Stream:
    """The changes that have not been sent to an open stream yet."""

    def __init__(self, tenant: TenantId, token: str = "") -> None:
        self.tenant = tenant
        self.token = token
        self.is_over = False
        """Whether the server ends."""
        self._changed: set[str] = set()
        self._woken = asyncio.Event()

    def tell(self, changed: set[str]) -> None:
        """These kinds of things have changed."""
        self._changed |= changed
        self._woken.set()

    def end(self) -> None:
        """No more changes will be sent."""
        self.is_over = True
        self._woken.set()

    async def changes(self, timeout_s: float) -> list[str]:
        """The kinds of things that have changed; none after the timeout, or when the server ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        self._woken.clear()
        changed, self._changed = sorted(self._changed), set()
        return changed


class Hints:
    """The open streams of a server, and the task that polls for them while there are any."""

    def __init__(self, poll: Poll) -> None:
        self._poll = poll
        self._streams: list[Stream] = []
        self._seen: dict[TenantId, ChangeMarks] = {}
        self._read_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._has_ended = False
        self._ends: set[asyncio.Future[None]] = set()

    def is_full(self, token: str = "") -> bool:
        """Whether no further stream is accepted of a token, by its id; one without an id has no limit of its own."""
        if len(self._streams) >= STREAMS_MAX:
            return True
        return bool(token) and sum(each.token == token for each in self._streams) >= STREAMS_OF_ONE_MAX

    def pause_after(self, took_s: float) -> float:
        """Seconds for which a page that was read upon a hint, in `took_s` seconds, is to be left alone.

        The more pages are open and the longer they take, the longer it is: readers must not slow down the work
        that they watch.
        """
        self._read_s += (took_s - self._read_s) / READS_MEAN_OF
        return min(len(self._streams) * self._read_s / READS_SHARE, READS_PAUSE_S_MAX)

    @contextlib.asynccontextmanager
    async def stream(self, tenant: TenantId, token: str = "") -> AsyncIterator[Stream]:
        """A stream of changes from now on. It is over if too many are open. Raises what the first poll raises."""
        if tenant not in self._seen:
            [pulse] = await self._poll([tenant])
            self._seen.setdefault(tenant, pulse)
        stream = Stream(tenant, token)
        if self._has_ended or self.is_full(token):  # many may have asked at once, before any of them was counted
            stream.end()
        self._streams.append(stream)
        if self._task is None:
            self._task = asyncio.create_task(self._watch())
        try:
            yield stream
        finally:
            self._streams.remove(stream)

    def end(self) -> None:
        """End all streams, those that are opened later, and what waits until then."""
        self._has_ended = True
        for waits in self._ends:
            if not waits.done():
                waits.set_result(None)
        for stream in self._streams:
            stream.end()

    async def until_end(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What the work returns; None if the server stops before that. Raises what the work raises."""
        task, end = asyncio.ensure_future(work), asyncio.get_running_loop().create_future()
        self._ends.add(end)
        try:
            if not self._has_ended:
                await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            self._ends.discard(end)
            task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_EVERY_S)
            tenants = sorted({stream.tenant for stream in self._streams})
            if not tenants:
                self._seen.clear()
                self._task = None
                return
            with contextlib.suppress(EvertickError):  # the database is away; the next poll finds what has changed
                self._compare(tenants, await self._poll(tenants))

    def _compare(self, tenants: Sequence[TenantId], pulses: Sequence[ChangeMarks]) -> None:
        before, self._seen = self._seen, dict(zip(tenants, pulses, strict=True))
        for stream in self._streams:  # a stream that was opened during the poll has seen its first pulse already
            if stream.tenant not in self._seen and stream.tenant in before:
                self._seen[stream.tenant] = before[stream.tenant]
        for stream in self._streams:
            was, now = before.get(stream.tenant), self._seen.get(stream.tenant)
            if was is None or now is None:
                continue
            if changed := {kind for kind in ChangeMarks._fields if getattr(was, kind) != getattr(now, kind)}:
                stream.tell(changed)

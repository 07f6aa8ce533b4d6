"""What is behind the contract: the scheduler whose crons a gateway shows.

`gateway/server.py` serves any backend. It checks tokens and schemas, makes a missing idempotency key and turns errors
into problems; a backend raises those of `evertick.base.errors`: CronNotFound, RunNotFound, RevisionConflict,
NotManaged, InvalidCron, IntervalTooShort, UnknownCommand, AccessDenied and GatewayUnreachable.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, Protocol

from evertick.api.gateways import (
    GatewayCron,
    GatewayCronChange,
    GatewayEvent,
    GatewayHealth,
    GatewayRun,
    NewGatewayCron,
)
from evertick.server.problems import Problem

EVENTS_MAX: Final = 256
"""Events that a reader may be behind."""
READERS_MAX: Final = 16


class Backend(Protocol):
    """The crons of one gateway. A method may be called before another one of it has ended."""

    async def start(self) -> None:
        """Begin; returns when the other methods may be called, even if what is behind it cannot be reached yet."""

    async def stop(self) -> None:
        """End; runs that are under way may finish for a few seconds."""

    async def health(self) -> GatewayHealth:
        """How it is. Raises GatewayUnreachable if what is behind it does not reply."""

    async def crons(self) -> Sequence[GatewayCron]:
        """All crons, those that are disabled, foreign or the system's included."""

    async def add(self, new: NewGatewayCron) -> tuple[GatewayCron, bool]:
        """Add a cron, or declare the one of that key again; returns whether it is new.

        Raises InvalidCron, IntervalTooShort, UnknownCommand, AccessDenied.
        """

    async def change(self, cron_id: str, change: GatewayCronChange, revision: str | None) -> GatewayCron:
        """Change a cron; with a `revision` only if it still has that one. Raises CronNotFound, NotManaged,
        RevisionConflict and what `add` raises."""

    async def remove(self, cron_id: str, revision: str | None) -> None:
        """Remove a cron; its runs are gone too. Raises CronNotFound, NotManaged, RevisionConflict."""

    async def run(self, cron_id: str, key: str) -> str:
        """Run a cron now; the same key is the same run. Returns the id of the run. Raises CronNotFound, NotManaged."""

    async def run_command(self, name: str, arguments: Mapping[str, str], key: str) -> str:
        """Run a command or builtin of the local configuration without a cron, as `run`. Raises UnknownCommand."""

    async def runs(self, cron_id: str, run_id: str | None, limit: int) -> Sequence[GatewayRun]:
        """Runs of a cron, or the one that is named, newest first. Raises CronNotFound."""

    async def run_of(self, run_id: str) -> GatewayRun:
        """A run. Raises RunNotFound."""

    def events(self) -> AsyncIterator[GatewayEvent]:
        """What happens from now on. A reader that is slow is ended, not waited for."""


class EventBus:
    """Brings events to the readers that there are. Use it on the event loop alone."""

    def __init__(self) -> None:
        self._readers: set[asyncio.Queue[GatewayEvent | None]] = set()

    def publish(self, event: GatewayEvent) -> None:
        """Hand an event to every reader; one that is EVENTS_MAX behind is ended, and lists anew when it comes again."""
        for queue in [*self._readers]:
            if queue.qsize() >= EVENTS_MAX:
                self._readers.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(event)

    def close(self) -> None:
        """End all readers."""
        for queue in self._readers:
            queue.put_nowait(None)
        self._readers.clear()

    def stream(self) -> AsyncIterator[GatewayEvent]:
        """What is published from the first reading on. Raises Problem if there are READERS_MAX readers."""
        if len(self._readers) >= READERS_MAX:
            raise Problem(503, "too_many_streams", f"{READERS_MAX} streams of events are open; try again later")
        return self._stream()

    async def _stream(self) -> AsyncIterator[GatewayEvent]:
        queue: asyncio.Queue[GatewayEvent | None] = asyncio.Queue()
        self._readers.add(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._readers.discard(queue)

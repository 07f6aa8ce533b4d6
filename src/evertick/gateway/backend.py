"""The interface of a backend: the scheduler whose crons a gateway serves.

`gateway/server.py` serves any backend. It checks tokens and schemas, creates a missing idempotency key and converts
errors to problems; a backend raises errors of `evertick.base.errors`: CronNotFound, RunNotFound, RevisionConflict,
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
"""The size limit of a reader's queue of events."""
READERS_MAX: Final = 16


class Backend(Protocol):
    """The crons of one gateway. Its methods may be called concurrently."""

    async def start(self) -> None:
        """Start; return when the other methods may be called, even if the scheduler cannot be reached yet."""

    async def stop(self) -> None:
        """Stop; running runs have a few seconds to finish."""

    async def health(self) -> GatewayHealth:
        """The health of the gateway. Raises GatewayUnreachable if the scheduler does not reply."""

    async def crons(self) -> Sequence[GatewayCron]:
        """All crons, including disabled and foreign ones and those of the system."""

    async def add(self, new: NewGatewayCron) -> tuple[GatewayCron, bool]:
        """Add a cron, or update the one with the same key; return it, and whether it is new.

        Raises InvalidCron, IntervalTooShort, UnknownCommand, AccessDenied.
        """

    async def change(self, cron_id: str, change: GatewayCronChange, revision: str | None) -> GatewayCron:
        """Change a cron; with a `revision` only if it still has that one. Raises CronNotFound, NotManaged,
        RevisionConflict and what `add` raises."""

    async def remove(self, cron_id: str, revision: str | None) -> None:
        """Remove a cron and its runs. Raises CronNotFound, NotManaged, RevisionConflict."""

    async def run(self, cron_id: str, key: str) -> str:
        """Run a cron now; return the run's id, the same for the same key. Raises CronNotFound, NotManaged."""

    async def run_command(self, name: str, arguments: Mapping[str, str], key: str) -> str:
        """Run a command or builtin of the local configuration without a cron, as `run`. Raises UnknownCommand."""

    async def runs(self, cron_id: str, run_id: str | None, limit: int) -> Sequence[GatewayRun]:
        """Runs of a cron, newest first, or only the run `run_id`. Raises CronNotFound."""

    async def run_of(self, run_id: str) -> GatewayRun:
        """A run. Raises RunNotFound."""

    def events(self) -> AsyncIterator[GatewayEvent]:
        """The events from now on. The stream of a slow reader ends."""


class EventBus:
    """Delivers events to the current readers. Use it only on the event loop."""

    def __init__(self) -> None:
        self._readers: set[asyncio.Queue[GatewayEvent | None]] = set()

    def publish(self, event: GatewayEvent) -> None:
        """Send an event to every reader. A reader with EVENTS_MAX waiting events is ended."""
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
        """The events published after the first read. Raises Problem if there are READERS_MAX readers."""
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

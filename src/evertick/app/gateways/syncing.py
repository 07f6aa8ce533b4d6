"""Syncs the copies of gateways' crons: after each change, when a heartbeat has another digest, and every SYNC_MS.

A sync asks for the health of the gateway, which is one small request. It asks for the crons only if their digest is
not that of the copy. Syncs are numbered: the result of one is dropped if a later one has begun, so that no old list
replaces a newer one. Only one of several servers syncs a gateway at a time.
"""

import asyncio
import contextlib
import logging
from functools import partial
from typing import Final

from evertick.app.environment import Environment
from evertick.app.gateways.connections import NOT_DONE, client_of, health_of, written
from evertick.app.gateways.fetching import setting
from evertick.app.gateways.joining import kept
from evertick.base.errors import EvertickError, Misuse
from evertick.base.escaping import shortened
from evertick.base.instants import MINUTE_MS, SECOND_MS, Instant
from evertick.base.records.gateways import GatewayRow, SyncResult
from evertick.store.transaction.transaction import Transaction

_logger: Final = logging.getLogger("evertick.gateways")

SYNC_MS: Final = MINUTE_MS
AT_A_TIME: Final = 16
IDLE_S: Final = 15.0
"""Seconds that the loop waits at most if no notification about a gateway arrives."""
FAILED_S: Final = 5.0
"""Seconds to wait after an error of the database."""
ERROR_CHARS_MAX: Final = 500


def sync(environment: Environment, row: GatewayRow, *, is_server: bool = False) -> None:
    """Sync the copy of a claimed gateway, and write the result, or why it failed.

    Raises Misuse if this process lacks a key or a permission; only a server then records the gateway as degraded.
    """
    clock = environment.clock
    if not row.instance_id or (row.url is None and health_of(row, clock.now())[0] == "offline"):
        return  # nothing would reply; its next heartbeat syncs it
    try:
        client = client_of(environment, row)
        health = client.health()
        is_copied = row.copied_at is not None and health.digest == row.copied_digest
        crons = None if is_copied else client.crons()
        found = SyncResult(
            status=health.status,
            warnings=kept(health.warnings),
            version=health.version[:ERROR_CHARS_MAX],
            digest=health.digest if crons is None else crons.digest,
            capabilities=kept(health.capabilities),
            commands=kept([*health.commands, *health.builtins]),
        )
        listed = None if crons is None else crons.crons
        written(environment, lambda transaction: transaction.note_sync(row, found, listed, now=clock.now()))
    except Exception as error:  # no reply of one gateway may stop the syncs of others
        if isinstance(error, Misuse) and not is_server:
            raise
        text = str(error) if isinstance(error, EvertickError) else f"{type(error).__name__}: {error}"
        words = shortened(text.removesuffix(NOT_DONE), ERROR_CHARS_MAX)
        if row.error is None:
            _logger.warning("the gateway %s of the tenant %s cannot be synced: %s", row.name, row.tenant, words)
        written(environment, lambda transaction: transaction.note_failed_sync(row, words))


class SyncLoop:
    """The loop that syncs the copies of all gateways of a database. Servers run it; workers need not."""

    def __init__(self, environment: Environment) -> None:
        self._e = environment
        self._news = asyncio.Event()
        self._syncs: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Sync forever. Errors are logged, and the sync is tried again."""
        stop = self._e.store.listen(setting(self._news))
        try:
            while True:
                self._news.clear()
                try:
                    wait_s = await self.round()
                except Exception as error:
                    is_bug = not isinstance(error, EvertickError)
                    _logger.warning("gateways are not synced: %s", error, exc_info=is_bug)
                    wait_s = FAILED_S
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._news.wait()
        finally:
            stop()

    async def round(self) -> float:
        """Begin the due syncs of gateways, at most AT_A_TIME in all. Returns for how many seconds nothing is due. A
        gateway that is slow to reply does not delay others.
        """
        executors, clock = self._e.executors, self._e.clock
        self._syncs = {each for each in self._syncs if not each.done()}
        while (free := AT_A_TIME - len(self._syncs)) > 0:
            now = clock.now()
            next_at = await executors.read(lambda transaction: transaction.next_sync_at())
            if next_at is None or next_at > now:
                return IDLE_S if next_at is None else min(IDLE_S, max(0.05, (next_at - now) / SECOND_MS))
            until = Instant(now + SYNC_MS)

            def claim(
                transaction: Transaction, now: Instant = now, until: Instant = until, free: int = free
            ) -> list[GatewayRow]:
                transaction.drop_gateway_requests(before=Instant(now - SYNC_MS))
                return transaction.claim_gateways(now=now, until=until, limit=free)

            for row in await executors.write(claim):
                task = asyncio.create_task(
                    executors.call(partial(sync, self._e, row, is_server=True)), name=f"sync of {row.name}"
                )
                task.add_done_callback(self._ended)
                self._syncs.add(task)
        return IDLE_S  # a sync that ends wakes the loop

    async def end(self) -> None:
        """Wait for the syncs that have begun."""
        if self._syncs:
            await asyncio.wait(self._syncs)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._news.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("%s failed", task.get_name(), exc_info=error)

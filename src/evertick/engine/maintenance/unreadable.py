"""Unreadable schedules: found and set aside before their time comes.

What a release can read is known when a worker starts, with its code and its time zone data. So each worker reads every
schedule once after its start, and again every three hours for what was changed by hand; one that it cannot read is
logged and gets the status `unreadable`, which metrics and lists show. The evaluator looks at it every minute from
then on.
"""

import logging
from typing import Final

from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import HOUR_MS, Instant
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.engine.schedules.evaluator import LOOK_AT_LEAST_EVERY_MS
from evertick.store.records.schedule import Schedule
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

_logger: Final = logging.getLogger("evertick.schedules")

PAGE: Final = 200
PAGE_EVERY_MS: Final = 200
"""A thousand schedules a second: the check takes some percent of a core, and keeps nobody waiting."""
EVERY_MS: Final = 3 * HOUR_MS
BEGIN: Final = (TenantId(""), "")


class UnreadableSchedules(Loop):
    """Reads all schedules, page by page."""

    name = "unreadable schedules"
    subscribes = frozenset()

    def __init__(self, deps: EngineDeps) -> None:
        super().__init__(deps, poll_ms=EVERY_MS)
        self._after: tuple[TenantId, str] = BEGIN

    async def round(self) -> Instant | None:
        """Read a page, and set aside what cannot be read."""
        after = self._after
        rows = await self._deps.executors.read(lambda transaction: transaction.awake_schedules(after, limit=PAGE))
        broken = [row for row in rows if row.unreadable]
        if broken:
            await self._deps.executors.write(
                lambda transaction: self._set_aside(transaction, broken), isolation=Isolation.READ_COMMITTED
            )
        self._after = (rows[-1].tenant, rows[-1].id) if len(rows) == PAGE else BEGIN
        pause_ms = PAGE_EVERY_MS if len(rows) == PAGE else EVERY_MS
        return Instant(self._deps.clock.now() + pause_ms)

    def _set_aside(self, transaction: Transaction, rows: list[Schedule]) -> None:
        now = self._deps.clock.now()
        for row in rows:
            whose = "" if row.tenant == DEFAULT_TENANT else f" of the tenant {row.tenant}"
            _logger.error(
                "the %s %s%s cannot be read, so it does not run: %s; `evertick doctor --fleet` says what to do",
                row.kind, row.id, whose, row.why_unreadable, extra={"schedule_id": row.id, "tenant": row.tenant},
            )  # fmt: skip
            self._deps.counters.add("schedules_broken")
            # Not later than it wanted to be looked at: another worker may have newer time zone data, and run it.
            wake_at = min(row.wake_at or now, now + LOOK_AT_LEAST_EVERY_MS)
            transaction.save_schedules([row.set_aside(Instant(wake_at))])

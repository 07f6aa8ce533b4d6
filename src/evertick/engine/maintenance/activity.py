"""Activity: how the attempts of this worker end, added up in memory and written down once a minute.

A job costs a few additions here, and a minute a few rows. What a process counted in its last minute is lost with it if
it is killed: these are numbers for charts.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from evertick.base.errors import Conflict, Unavailable
from evertick.base.ids import TenantId, WorkerId
from evertick.base.instants import DAY_MS, MINUTE_MS, Instant
from evertick.base.records.insight import ActivityRow
from evertick.base.records.jobs import JobState
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.engine.runtime.metrics import JobEnded
from evertick.engine.runtime.registration import call_in_loop
from evertick.rules.jobs.spread import bucket_of, spread_to_text
from evertick.store.contract.store import Isolation

SLOT_MS: Final = 10 * MINUTE_MS
"""The span of the rows of one function."""
KEYS_MAX: Final = 5_000
"""Functions of tenants that are told apart in a minute. What further ones do is not counted."""
END_OF_TIME: Final = Instant(2**62)


class ActivityWriter(Loop):
    """Writes what `Activity` has counted: a few rows for each minute in which something ended."""

    name = "activity"
    subscribes = frozenset()

    def __init__(self, deps: EngineDeps, worker_id: Callable[[], WorkerId | None]) -> None:
        super().__init__(deps, poll_ms=DAY_MS)  # the first end of a minute pokes it; idle, it costs nothing
        self._worker_id = worker_id
        self._source = ""
        self._activity = Activity()
        deps.counters.batch_observers.append(self._activity)

    async def round(self) -> Instant | None:
        """Write the minutes that are over."""
        minute = Instant(self._deps.clock.now() // MINUTE_MS * MINUTE_MS)
        await self._write(minute)
        return Instant(minute + MINUTE_MS) if self._activity.is_counting else None

    async def run(self) -> None:
        """As other loops; at the end, the minute that has begun is written, too."""
        self._activity.on_minute = partial(call_in_loop, asyncio.get_running_loop(), self.poke)
        await super().run()
        self._deps.counters.batch_observers.remove(self._activity)
        try:
            await self._write(END_OF_TIME)
        except (Unavailable, Conflict):
            pass  # numbers for charts are not worth a wait

    async def _write(self, before: Instant) -> None:
        self._source = self._worker_id() or self._source
        rows = self._activity.take(before, self._source)
        if rows:
            await self._deps.executors.write(
                lambda transaction: transaction.add_activity(rows), isolation=Isolation.READ_COMMITTED
            )


class Activity:
    """An observer of ended attempts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[Instant, Counter[tuple[TenantId, str, JobState]]] = {}
        self._late: dict[Instant, dict[TenantId, Counter[int]]] = {}
        self._took: dict[Instant, dict[TenantId, Counter[int]]] = {}
        self.on_minute: Callable[[], object] | None = None
        """Called at the first end of a minute, in any thread."""

    @property
    def is_counting(self) -> bool:
        """Whether something is counted that was not taken yet."""
        return bool(self._ends)

    def jobs_ended(self, events: Sequence[JobEnded]) -> None:
        """Count ended attempts."""
        if not events:
            return
        minute = Instant(events[0].ended_at // MINUTE_MS * MINUTE_MS)
        with self._lock:
            is_first = minute not in self._ends
            ends = self._ends.setdefault(minute, Counter())
            if len(ends) < KEYS_MAX:
                ends.update((event.claim.tenant, event.claim.name, event.end.state) for event in events)
            late, took = self._late.setdefault(minute, {}), self._took.setdefault(minute, {})
            for event in events:
                if event.lost:
                    continue
                tenant, begun = event.claim.tenant, event.started_at
                if tenant not in late:
                    if len(late) >= KEYS_MAX:
                        continue
                    late[tenant], took[tenant] = Counter(), Counter()
                late[tenant][begun - event.claim.due_at] += 1
                took[tenant][event.ended_at - begun] += 1
        if is_first and self.on_minute is not None:
            self.on_minute()

    def take(self, before: Instant, source: str) -> list[ActivityRow]:
        """The rows of the minutes that began before a moment; they are forgotten here."""
        with self._lock:
            minutes = [minute for minute in self._ends if minute < before]
            taken = [(each, self._ends.pop(each), self._late.pop(each), self._took.pop(each)) for each in minutes]
        rows: dict[tuple[TenantId, str, Instant], Counter[JobState]] = {}
        spreads: dict[tuple[TenantId, str, Instant], tuple[str, str]] = {}
        for minute, ends, late, took in taken:
            slot = Instant(minute // SLOT_MS * SLOT_MS)
            for (tenant, name, state), count in ends.items():
                for key in ((tenant, "", minute), (tenant, name, slot)):
                    rows.setdefault(key, Counter())[state] += count
            for tenant in late:
                spreads[tenant, "", minute] = (_text(late[tenant]), _text(took[tenant]))
        return [_row(key, source, ends, spreads.get(key, (None, None))) for key, ends in rows.items()]


def _row(
    key: tuple[TenantId, str, Instant], source: str, ends: Counter[JobState], spreads: tuple[str | None, str | None]
) -> ActivityRow:
    failed, canceled, retried = ends[JobState.FAILED], ends[JobState.CANCELED], ends[JobState.PENDING]
    return ActivityRow(*key, source, ends.total(), failed, canceled, retried, *spreads)


def _text(durations: Counter[int]) -> str:
    """The spread of durations in milliseconds, which were counted as they are: that is quicker, and there are few."""
    spread: Counter[int] = Counter()
    for milliseconds, count in durations.items():
        spread[bucket_of(milliseconds)] += count
    return spread_to_text(spread)

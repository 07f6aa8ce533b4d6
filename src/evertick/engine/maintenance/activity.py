"""Activity: how the attempts of this worker end, counted in memory and written once a minute.

A job costs a few additions here, and a minute a few rows. If a process is killed, the counts of its last minute are
lost: these are numbers for charts.
"""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from evertick.base.ids import QueueId, TenantId, WorkerId, pool_name
from evertick.base.instants import DAY_MS, MINUTE_MS, Instant, span_begin
from evertick.base.records.insight import SLOT_MS, ActivityRow, PoolActivityRow
from evertick.base.records.jobs import JobState
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import call_in_loop
from evertick.engine.runtime.loop import Loop
from evertick.engine.runtime.metrics import JobEnded
from evertick.rules.jobs.histogram import bucket_of, spread_to_text
from evertick.store.store import Isolation

_logger: Final = logging.getLogger("evertick.engine")

KEYS_MAX: Final = 5_000
"""Functions of tenants that are counted separately in a minute. Further ones are not counted."""
END_OF_TIME: Final = Instant(2**62)

Durations = dict[tuple[TenantId, QueueId], Counter[int]]
"""How often each duration occurred, in milliseconds."""
Span = tuple[TenantId, str, Instant]
"""The tenant, the subject and the start. The subject is a function, a pool, or empty for all functions together."""


class ActivityWriter(Loop):
    """Writes the counts of `Activity`: a few rows for each minute in which an attempt ended."""

    name = "activity"
    subscribes = frozenset()

    def __init__(self, deps: EngineDeps, worker_id: Callable[[], WorkerId | None]) -> None:
        super().__init__(deps, poll_ms=DAY_MS)  # the first end of a minute pokes it; idle, it costs nothing
        self._worker_id = worker_id
        self._source = ""
        self._activity = Activity(deps.pool_of_queue)
        deps.counters.batch_observers.append(self._activity)

    async def round(self) -> Instant | None:
        """Write the minutes that are over."""
        minute = span_begin(self._deps.clock.now(), MINUTE_MS)
        await self._write(minute)
        return Instant(minute + MINUTE_MS) if self._activity.is_counting else None

    async def run(self) -> None:
        """Run as other loops; at the end, also write the current minute."""
        self._activity.on_minute = partial(call_in_loop, asyncio.get_running_loop(), self.poke)
        await super().run()
        self._deps.counters.batch_observers.remove(self._activity)
        try:
            await self._write(END_OF_TIME)
        except Exception as error:  # numbers for charts justify neither a wait nor a worker that ends with an error
            _logger.warning("the activity of the last minute is not counted: %s", error)

    async def _write(self, before: Instant) -> None:
        self._source = self._worker_id() or self._source
        rows, pools = self._activity.take(before, self._source)
        if rows:
            await self._deps.executors.write(
                lambda transaction: transaction.add_activity(rows, pools), isolation=Isolation.READ_COMMITTED
            )


class Activity:
    """An observer of ended attempts. `pool_of_queue` has the full names of pools; attempts in others have none."""

    def __init__(self, pool_of_queue: Mapping[QueueId, str]) -> None:
        self._pool_of_queue = pool_of_queue
        self._lock = threading.Lock()
        self._ends: dict[Instant, Counter[tuple[TenantId, str, QueueId, JobState]]] = {}
        self._late: dict[Instant, Durations] = {}
        self._took: dict[Instant, Durations] = {}
        self._late_in_pools: dict[Span, Counter[int]] = {}
        """The spreads of the current ten minutes: each is written again, complete, when one of its minutes is over."""
        self.on_minute: Callable[[], object] | None = None
        """Called at the first end of a minute, in any thread."""

    @property
    def is_counting(self) -> bool:
        """Whether there are counts that `take` has not returned yet."""
        return bool(self._ends)

    def jobs_ended(self, events: Sequence[JobEnded]) -> None:
        """Count ended attempts."""
        if not events:
            return
        minute = span_begin(events[0].ended_at, MINUTE_MS)
        with self._lock:
            is_first = minute not in self._ends
            ends = self._ends.setdefault(minute, Counter())
            groups: dict[tuple[TenantId, str, QueueId, JobState], list[JobEnded]] = {}
            for event in events:
                claim = event.claim
                groups.setdefault((claim.tenant, claim.name, claim.queue, event.end.state), []).append(event)
            late, took = self._late.setdefault(minute, {}), self._took.setdefault(minute, {})
            is_full = len(ends) >= KEYS_MAX
            for group, members in groups.items():
                if not is_full:
                    ends[group] += len(members)
                tenant, _, queue, _ = group
                key, begun = (tenant, queue), [each for each in members if not each.lost]
                if key not in late:
                    if len(late) >= KEYS_MAX or not begun:
                        continue
                    late[key], took[key] = Counter(), Counter()
                late[key].update([each.started_at - each.claim.due_at for each in begun])
                took[key].update([each.ended_at - each.started_at for each in begun])
        if is_first and self.on_minute is not None:
            self.on_minute()

    def take(self, before: Instant, source: str) -> tuple[list[ActivityRow], list[PoolActivityRow]]:
        """Return the rows of the minutes that began before `before`, and forget them."""
        with self._lock:
            minutes = [minute for minute in self._ends if minute < before]
            taken = [(each, self._ends.pop(each), self._late.pop(each), self._took.pop(each)) for each in minutes]
        rows: dict[Span, Counter[JobState]] = {}
        pools: dict[Span, Counter[JobState]] = {}
        spreads: dict[Span, tuple[str, str]] = {}
        for minute, ends, late, took in taken:
            slot = span_begin(minute, SLOT_MS)
            for (tenant, name, queue, state), count in ends.items():
                for key in ((tenant, "", minute), (tenant, name, slot)):
                    rows.setdefault(key, Counter())[state] += count
                if queue in self._pool_of_queue:
                    pools.setdefault((tenant, self._pool(queue), slot), Counter())[state] += count
            all_late, all_took = _by_tenant(late), _by_tenant(took)
            for tenant in all_late:
                spreads[tenant, "", minute] = (_text(all_late[tenant]), _text(all_took[tenant]))
            self._add_late_in_pools(slot, late)
        late_texts = {key: spread_to_text(spread) for key, spread in self._late_in_pools.items() if key in pools}
        kept_from = span_begin(before, SLOT_MS)
        self._late_in_pools = {key: each for key, each in self._late_in_pools.items() if key[2] >= kept_from}
        return (
            [ActivityRow(*key, source, *_counts(each), *spreads.get(key, (None, None))) for key, each in rows.items()],
            [PoolActivityRow(*key, source, *_counts(each), late_texts.get(key)) for key, each in pools.items()],
        )

    def _pool(self, queue: QueueId) -> str:
        return pool_name(self._pool_of_queue[queue])

    def _add_late_in_pools(self, slot: Instant, late: Durations) -> None:
        for (tenant, queue), durations in late.items():
            if queue in self._pool_of_queue:
                key = (tenant, self._pool(queue), slot)
                self._late_in_pools.setdefault(key, Counter()).update(_spread(durations))


def _counts(ends: Counter[JobState]) -> tuple[int, int, int, int]:
    return ends.total(), ends[JobState.FAILED], ends[JobState.CANCELED], ends[JobState.PENDING]


def _by_tenant(durations: Durations) -> dict[TenantId, Counter[int]]:
    found: dict[TenantId, Counter[int]] = {}
    for (tenant, _), each in durations.items():
        found.setdefault(tenant, Counter()).update(each)
    return found


def _text(durations: Counter[int]) -> str:
    return spread_to_text(_spread(durations))


def _spread(durations: Counter[int]) -> Counter[int]:
    """The histogram of durations in milliseconds. Counting equal durations first is faster, because few differ."""
    spread: Counter[int] = Counter()
    for milliseconds, count in durations.items():
        spread[bucket_of(milliseconds)] += count
    return spread

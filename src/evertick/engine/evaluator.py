"""The evaluator: turns due schedules into occurrences and runs. It has no chain that could break.

Each round takes a page of schedules whose wake-up has come, or whose runs have ended, found by an index scan; rows
that another evaluator holds are skipped, so any number may run and none leads. It takes one more than a page, so that
it sees that there is more and looks again at once. All that follows from a page is one transaction. Whatever goes
wrong, the next look is at most a minute away, and finds everything that is overdue.
"""

import logging
from dataclasses import dataclass, replace
from typing import Final

from evertick.base.clock import Clock
from evertick.base.errors import EvertickError
from evertick.base.ids import IdMaker, ScheduleId, TenantId
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.schedule_records import ScheduleRow
from evertick.engine.evaluation import Evaluated, evaluate, write
from evertick.engine.events import Counters
from evertick.engine.lanes import Lanes
from evertick.engine.loops import Loop
from evertick.engine.schedule_log import log_evaluated
from evertick.engine.schedule_standing import OPEN, Targets
from evertick.engine.settings import Settings
from evertick.store.contract import Isolation, Transaction

_logger: Final = logging.getLogger("evertick.engine")

PAGE: Final = 100
REPORTS_MAX: Final = 1_000
"""Ends of runs of one schedule that are heard in one round."""
LOOK_AT_LEAST_EVERY_MS: Final = MINUTE_MS

_Key = tuple[TenantId, ScheduleId]


@dataclass(frozen=True, slots=True)
class _Round:
    items: list[Evaluated]
    wake_at: Instant | None


class Evaluator(Loop):
    """Looks at schedules when they want to be looked at."""

    name = "evaluator"

    def __init__(
        self,
        lanes: Lanes,
        clock: Clock,
        ids: IdMaker,
        settings: Settings,
        counters: Counters,
        *,
        targets: Targets = OPEN,
    ) -> None:
        super().__init__(clock, poll_ms=min(settings.poll_ms, settings.evaluate_every_ms))
        self._lanes = lanes
        self._ids = ids
        self._settings = settings
        self._counters = counters
        self._targets = targets

    async def round(self) -> Instant | None:
        """Evaluate one page."""
        done = await self._lanes.write(self._page, isolation=Isolation.READ_COMMITTED)
        for item in done.items:
            self._counters.add("schedules_evaluated")
            log_evaluated(item, self._counters)
        return done.wake_at

    def _page(self, transaction: Transaction) -> _Round:
        now = self._clock.now()
        due = transaction.due_schedules(now, limit=PAGE + 1)
        reported = transaction.reported_schedules(limit=PAGE + 1)
        page: dict[_Key, ScheduleRow] = {(row.tenant, row.id): row for row in due[:PAGE]}
        for tenant, schedule_id in reported[:PAGE]:
            if (tenant, schedule_id) not in page:
                self._add_reported(transaction, page, tenant, schedule_id)
        told = set(reported)
        items = []
        for key, row in page.items():
            item = self._evaluate(transaction, row, now, told=key in told)
            if item is None:
                transaction.save_schedules([replace(row, wake_at=Instant(now + LOOK_AT_LEAST_EVERY_MS))])
            else:
                items.append(item)
        write(transaction, items, now=now, make_id=self._ids.make)
        more = len(due) > PAGE or len(reported) > PAGE or any(len(item.reports) == REPORTS_MAX for item in items)
        return _Round(items, now if more else transaction.next_wake())

    def _evaluate(self, transaction: Transaction, row: ScheduleRow, now: Instant, *, told: bool) -> Evaluated | None:
        reports = transaction.run_reports(row.id, tenant=row.tenant, limit=REPORTS_MAX) if told else []
        try:
            return evaluate(
                row,
                reports,
                (),
                now=now,
                make_id=self._ids.make,
                retention_ms=self._settings.completed_retention_ms,
                standing=self._targets.standing(transaction, row),
            )
        except EvertickError as error:
            # A spec that this release cannot read must not stop the others; it is looked at again in a minute.
            _logger.error("schedule %s cannot be evaluated: %s", row.id, error, extra={"schedule_id": row.id})
            self._counters.add("schedules_broken")
            return None

    def _add_reported(
        self, transaction: Transaction, page: dict[_Key, ScheduleRow], tenant: TenantId, schedule_id: ScheduleId
    ) -> None:
        row = transaction.try_lock_schedule(schedule_id, tenant=tenant)
        if row is not None:
            page[tenant, schedule_id] = row
        elif transaction.get_schedule(schedule_id, tenant=tenant) is None:
            # The schedule was deleted; its runs went on, and the ledger still wants to know how they ended.
            reports = transaction.run_reports(schedule_id, tenant=tenant, limit=REPORTS_MAX)
            for report in reports:
                transaction.end_occurrence(report)
            transaction.delete_run_reports(reports)

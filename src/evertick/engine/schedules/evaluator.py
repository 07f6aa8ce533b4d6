"""The evaluator: turns due schedules into occurrences and runs. It has no chain that could break.

Each round takes a page of schedules whose wake-up has come, or whose runs have ended, found by an index scan; rows
that another evaluator holds are skipped, so any number may run and none leads. It takes one more than a page, so that
it sees that there is more and looks again at once. All that follows from a page is one transaction. Whatever goes
wrong, the next look is at most a minute away, and finds everything that is overdue.
"""

import logging
from dataclasses import dataclass
from functools import partial
from typing import Final

from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import MINUTE_MS, Instant
from evertick.base.records.schedules import RunReport
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.engine.runtime.runner import known_kind, known_pool
from evertick.engine.schedules.eligibility import OPEN, Targets
from evertick.engine.schedules.evaluation import Inputs, evaluate
from evertick.engine.schedules.log import log_evaluated
from evertick.engine.schedules.outcome import Evaluated, Evaluation
from evertick.engine.schedules.persistence import write
from evertick.store.contract.notifications import Notification
from evertick.store.contract.store import Isolation, Transaction
from evertick.store.records.schedule import Schedule

_logger: Final = logging.getLogger("evertick.engine")

PAGE: Final = 250
"""Schedules of one transaction: more share the price of a commit, and keep other writers waiting for longer."""
REPORTED_MIN: Final = 25
"""Schedules looked at in every round because their runs ended, however many are due."""
REPORTS_MAX: Final = 2_000
"""Ends of runs that are heard in one round."""
LOOK_AT_LEAST_EVERY_MS: Final = MINUTE_MS
STEP_ASIDE_MS: Final = 20
"""How long to wait when all that is due is being looked at by others."""

_Key = tuple[TenantId, ScheduleId]


@dataclass(frozen=True, slots=True)
class _Round:
    items: list[Evaluated]
    wake_at: Instant | None


class Evaluator(Loop):
    """Looks at schedules when they want to be looked at."""

    name = "evaluator"
    subscribes = frozenset({Notification.SCHEDULE})

    def __init__(self, deps: EngineDeps, *, targets: Targets = OPEN) -> None:
        super().__init__(deps, poll_ms=min(deps.settings.poll_ms, deps.settings.evaluate_every_ms))
        self._targets = targets
        self._kind_of = partial(known_kind, deps.runner)
        self._pool_of = partial(known_pool, deps.runner)

    async def round(self) -> Instant | None:
        """Evaluate one page."""
        done = await self._deps.executors.write(self._page, isolation=Isolation.READ_COMMITTED)
        for item in done.items:
            self._deps.counters.add("schedules_evaluated")
            log_evaluated(item, self._deps.counters)
        return done.wake_at

    def _page(self, transaction: Transaction) -> _Round:
        now = self._deps.clock.now()
        due = transaction.due_schedules(now, limit=PAGE + 1)
        room = max(PAGE - len(due), REPORTED_MIN)  # what is due comes first
        reported = transaction.reported_schedules(limit=room + 1)
        page = {(row.tenant, row.id): row for row in (*due[:PAGE], *reported[:room])}
        reports = transaction.run_reports(list(page), limit=REPORTS_MAX)
        page = {(row.tenant, row.id): row for row in transaction.with_open_runs(list(page.values()), reports)}
        now = max(
            now, self._deps.clock.now()
        )  # what was read may have happened since, and a run starts after the end it heard
        more = len(due) > PAGE or len(reported) > room or len(reports) == REPORTS_MAX
        if len(reports) == REPORTS_MAX:
            page = _heard_out(page, reports)
        evaluation = Evaluation(
            now=now,
            make_id=self._deps.ids.make,
            retention_ms=self._deps.settings.completed_retention_ms,
            kind_of=self._kind_of,
            pool_of=self._pool_of,
        )
        items = self._evaluate(transaction, page, reports, evaluation)
        write(transaction, items, evaluation)
        if not page:
            # Their schedules were deleted; the runs went on, and the ledger still wants to know how they ended.
            orphans = transaction.orphaned_reports(limit=REPORTS_MAX)
            transaction.end_occurrences(orphans)
            transaction.delete_run_reports(orphans)
        return _Round(items, now if more else self._next_look(transaction, now, idle=not page))

    def _evaluate(
        self, transaction: Transaction, page: dict[_Key, Schedule], reports: list[RunReport], evaluation: Evaluation
    ) -> list[Evaluated]:
        told: dict[_Key, list[RunReport]] = {}
        for report in reports:
            told.setdefault((report.tenant, report.schedule_id), []).append(report)
        items, broken = [], []
        for key, row in page.items():
            eligibility = self._targets.eligibility(transaction, row)
            try:
                item = evaluate(row, Inputs(reports=told.get(key, ()), eligibility=eligibility), evaluation)
            except Exception:
                # What this release cannot read must not stop the other schedules; it is looked at again in a minute.
                _logger.exception("schedule %s cannot be evaluated", row.id, extra={"schedule_id": row.id})
                self._deps.counters.add("schedules_broken")
                broken.append(row.set_aside(Instant(evaluation.now + LOOK_AT_LEAST_EVERY_MS)))
            else:
                items.append(item)
        transaction.save_schedules(broken)
        return items

    def _next_look(self, transaction: Transaction, now: Instant, *, idle: bool) -> Instant | None:
        wake_at = transaction.next_wake()
        if idle and wake_at is not None and wake_at <= now:
            return Instant(now + STEP_ASIDE_MS)  # another evaluator is looking at it
        return wake_at


def _heard_out(page: dict[_Key, Schedule], reports: list[RunReport]) -> dict[_Key, Schedule]:
    """The schedules of the page whose reports are all among `reports`; if there is none, the one that has them all.

    A schedule must not be judged before the ends of its runs were heard: it would find runs open that are not.
    """
    last = (reports[-1].tenant, reports[-1].schedule_id)
    return {key: row for key, row in page.items() if key < last} or {last: page[last]}

"""The evaluator: turns due schedules into occurrences and runs. No schedule depends on its previous run to continue.

Each round takes a page of schedules that are due, or whose runs have ended, found by an index scan. Rows that another
evaluator has locked are skipped, so any number may run and none is the leader. A round reads one more row than a page,
so that it sees that there is more and runs again at once. The results of a page are one transaction. A page ends early
when its results are many: after an outage, other writers then wait for a small part of the catch-up, not for all of it.
Where concurrent writers are possible, two pages are processed at once while more is due: one is computed while the
database writes the other. If anything fails, the next poll is at most a minute away, and finds everything that is
overdue.
"""

import asyncio
import logging
from dataclasses import dataclass
from functools import cache
from typing import Final

from evertick.base.clock import Clock, real_seconds
from evertick.base.errors import InvalidSpec, SchemaMismatch
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.instants import MILLISECOND, MINUTE_MS, Instant
from evertick.base.records.jobs import ServedFunction
from evertick.base.records.schedules import RunReport
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.loop import Loop
from evertick.engine.schedules.commands import refuse_unreadable
from evertick.engine.schedules.eligibility import ELIGIBLE, WORKFLOWS, Targets
from evertick.engine.schedules.evaluation import Inputs, evaluate_fast
from evertick.engine.schedules.log import log_evaluated
from evertick.engine.schedules.outcome import Evaluated, Evaluation, oldest_start, write
from evertick.store.notifications import Notification
from evertick.store.records.schedule import UNREADABLE, Schedule
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

_logger: Final = logging.getLogger("evertick.engine")

PAGE: Final = 250
"""Schedules per transaction: more of them share the cost of a commit, but block other writers for longer."""
PAGES_AT_ONCE: Final = 2
"""Pages per round where concurrent writers are possible and more is due than one page."""
REPORTED_MIN: Final = 25
"""Schedules evaluated in every round because their runs ended, however many are due."""
PAGE_MIN: Final = 8
"""The least number of schedules to read after pages that ended early."""
OCCURRENCES_MAX: Final = 500
"""Occurrences and ends of runs after which a page takes no further schedule; fewer while pages are slow."""
OCCURRENCES_MIN: Final = 100
"""Fewer would not justify the commit, and would leave no capacity for due schedules next to those with ended runs."""
PAGE_MS: Final = 100
"""Time after which a page takes no further schedule. A page that took twice as long makes the next ones smaller."""
REPORTS_MAX: Final = 1_000
"""Ends of runs that are processed in one round."""
ORPHANS_EVERY_MS: Final = 10_000
"""How often ends of runs of deleted schedules are processed while there is other work."""
POLL_AT_LEAST_EVERY_MS: Final = MINUTE_MS
LOCKED_WAIT_MS: Final = 20
"""How long to wait when other evaluators have locked all due schedules."""

_Key = tuple[TenantId, ScheduleId]


@dataclass(frozen=True, slots=True)
class _Round:
    items: list[Evaluated]
    again: bool
    """Whether there is more to do now."""
    wake_at: Instant | None
    budget: "_Budget"


class _Budget:
    """The remaining capacity of one transaction."""

    def __init__(self, clock: Clock, occurrences: int) -> None:
        self._clock = clock
        self._began = clock.now()
        self._left = occurrences

    def spend(self, item: Evaluated) -> None:
        """Subtract the rows of a result that will be written."""
        self._left -= len(item.occurrences) + len(item.reports)

    @property
    def is_spent(self) -> bool:
        """Whether the transaction should end here."""
        return self._left <= 0 or self.took_ms >= PAGE_MS

    @property
    def took_ms(self) -> float:
        """Milliseconds of real time since it began."""
        return 1000 * real_seconds(self._clock, self._clock.now() - self._began)


class Evaluator(Loop):
    """Evaluates schedules that are due."""

    name = "evaluator"
    subscribes = frozenset({Notification.SCHEDULE})

    def __init__(self, deps: EngineDeps, *, targets: Targets = WORKFLOWS) -> None:
        super().__init__(deps, poll_ms=min(deps.settings.poll, deps.settings.evaluate_every) // MILLISECOND)
        self._targets = targets
        self._page_size = PAGE
        self._more_is_due = False
        self._occurrences_max = OCCURRENCES_MAX
        self._orphans_ended_at = Instant(0)

    async def round(self) -> Instant | None:
        """Evaluate a page, or two at once; each skips rows that the other has locked. Raises the first error."""
        if not self._more_is_due:
            done = [await self._write_page()]
        else:
            ended = await asyncio.gather(*(self._write_page() for _ in range(PAGES_AT_ONCE)), return_exceptions=True)
            self._more_is_due = False
            done = []
            for each in ended:
                if isinstance(each, BaseException):
                    raise each
                done.append(each)
        self._more_is_due = any(each.again for each in done) and not self._deps.store.single_engine
        return min((each.wake_at for each in done if each.wake_at is not None), default=None)

    async def _write_page(self) -> _Round:
        done = await self._deps.executors.write(self._page, isolation=Isolation.READ_COMMITTED)
        if done.items:
            self._adapt(done.budget.took_ms)
            log_evaluated(done.items, self._deps.counters)
        return done

    def _page(self, transaction: Transaction) -> _Round:
        budget = _Budget(self._deps.clock, self._occurrences_max)
        now = self._deps.clock.now()
        size = min(self._page_size, PAGE)
        due = transaction.due_schedules(now, limit=size + 1)
        capacity = max(size - len(due), REPORTED_MIN)  # due schedules have priority, except for a few places
        reported = transaction.reported_schedules(limit=capacity + 1)
        rows = (*reported[:REPORTED_MIN], *due[:size], *reported[REPORTED_MIN:capacity])
        page = {(row.tenant, row.id): row for row in rows}
        reports = transaction.run_reports(list(page), limit=REPORTS_MAX)
        page = {(row.tenant, row.id): row for row in transaction.with_open_runs(list(page.values()), reports)}
        more = len(due) > size or len(reported) > capacity or len(reports) == REPORTS_MAX
        if len(reports) == REPORTS_MAX:
            page = _with_all_reports(page, reports)
        evaluation = self._evaluation(transaction, now)
        items, unseen = self._evaluate(transaction, page, reports, evaluation, budget)
        self._page_size = max(PAGE_MIN, 2 * len(items)) if unseen else PAGE
        write(transaction, items, evaluation)
        orphaned = self._end_orphans(transaction, evaluation.now, idle=not page)
        again = more or orphaned or unseen > 0
        wake_at = now if again else self._next_poll(transaction, evaluation.now, idle=not page)
        return _Round(items, again, wake_at, budget)

    def _adapt(self, took_ms: float) -> None:
        """Let pages grow while they are quick, and shrink after one has blocked others for long."""
        if took_ms > 2 * PAGE_MS:
            self._occurrences_max = max(OCCURRENCES_MIN, self._occurrences_max // 2)
        elif took_ms < PAGE_MS:
            self._occurrences_max = min(OCCURRENCES_MAX, 2 * self._occurrences_max)

    def _evaluation(self, transaction: Transaction, began: Instant) -> Evaluation:
        """The evaluation of a page. It is not earlier than the rows it read: a run starts after an earlier end."""
        now = max(began, self._deps.clock.now())

        def attended_since() -> Instant:
            # The only engine of a database renews no lease: the workers in it are this process.
            alone = self._deps.store.single_engine
            return oldest_start(transaction.list_workers() if alone else transaction.workers_alive(now), now)

        return Evaluation(
            now=now,
            make_id=self._deps.ids.make,
            retention_ms=self._deps.settings.completed_retention // MILLISECOND,
            function_of=cache(self._function_of),
            tracing=self._deps.tracing,
            attended_since=cache(attended_since),
        )

    def _function_of(self, name: str, app: str | None) -> ServedFunction | None:
        return self._deps.runner.function(name) if app is None or app in self._deps.apps else None

    def _evaluate(
        self,
        transaction: Transaction,
        page: dict[_Key, Schedule],
        reports: list[RunReport],
        evaluation: Evaluation,
        budget: _Budget,
    ) -> tuple[list[Evaluated], int]:
        """The results of a page, and how many of its schedules are left for the next one."""
        reports_of: dict[_Key, list[RunReport]] = {}
        for report in reports:
            reports_of.setdefault((report.tenant, report.schedule_id), []).append(report)
        items: list[Evaluated] = []
        broken: list[Schedule] = []
        ineligible = self._targets.ineligible(transaction, list(page.values()), evaluation)
        for key, row in page.items():
            if budget.is_spent and items:
                break
            eligibility = ineligible.get(key, ELIGIBLE)
            try:
                if row.status == UNREADABLE:
                    refuse_unreadable(row, "evaluated")
                item = evaluate_fast(row, Inputs(reports=reports_of.get(key, ()), eligibility=eligibility), evaluation)
            except Exception as error:
                # A schedule that this release cannot read must not stop the others; it is tried again in a minute.
                known = isinstance(error, InvalidSpec | SchemaMismatch)
                _logger.error(
                    "schedule %s cannot be evaluated: %s", row.id, error,
                    extra={"schedule_id": row.id}, exc_info=not known,
                )  # fmt: skip
                self._deps.counters.add("schedules_broken")
                broken.append(row.mark_unreadable(Instant(evaluation.now + POLL_AT_LEAST_EVERY_MS)))
            else:
                budget.spend(item)
                items.append(item)
        transaction.save_schedules(broken)
        return items, len(page) - len(items) - len(broken)

    def _end_orphans(self, transaction: Transaction, now: Instant, *, idle: bool) -> bool:
        """Record ends of runs of deleted schedules in the ledger. Return whether there may be more."""
        if not idle and abs(now - self._orphans_ended_at) < ORPHANS_EVERY_MS:
            return False
        self._orphans_ended_at = now
        orphans = transaction.orphaned_reports(limit=REPORTS_MAX)
        transaction.end_occurrences(orphans)
        transaction.delete_run_reports(orphans)
        return len(orphans) == REPORTS_MAX

    def _next_poll(self, transaction: Transaction, now: Instant, *, idle: bool) -> Instant | None:
        wake_at = transaction.next_wake()
        if idle and wake_at is not None and wake_at <= now:
            return Instant(now + LOCKED_WAIT_MS)  # another evaluator is processing it
        return wake_at


def _with_all_reports(page: dict[_Key, Schedule], reports: list[RunReport]) -> dict[_Key, Schedule]:
    """The schedules of the page for which `reports` is complete, by key. `reports` is sorted, and may be cut at its
    end.

    If there is none, the last schedule, whose reports fill the page. A schedule must not be judged before all ends of
    its runs are processed: it would treat ended runs as open.
    """
    last = (reports[-1].tenant, reports[-1].schedule_id)
    return {key: row for key, row in page.items() if key < last} or {last: page[last]}

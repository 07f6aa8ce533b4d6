"""After an outage an evaluator makes up for it in small transactions, and hears orphaned ends meanwhile."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from evertick import App, MutationCtx, every
from evertick.base.clock import ManualClock
from evertick.base.ids import DEFAULT_TENANT, JobId, ScheduleId
from evertick.base.instants import Instant
from evertick.base.records.schedules import OccurrenceFilter, RunReport
from evertick.engine.schedules import evaluator as evaluator_module
from evertick.engine.schedules.evaluator import OCCURRENCES_MAX, ORPHANS_EVERY_MS, Evaluator
from evertick.rules.schedules.state import OCCURRENCES_PER_ROUND
from tests.store.rows import at

MINUTE = 60_000
SCHEDULES = 12
BEHIND_S = 1_200


class Site:
    """An app in memory, its evaluator, and what each of the evaluator's transactions wrote."""

    def __init__(self) -> None:
        self.clock = ManualClock(at(0))
        self.app = App("outage", database_url="sqlite://", clock=self.clock)

        @self.app.mutation
        def tick(ctx: MutationCtx) -> None:
            pass

        self.tick = tick
        self.app.migrate()
        self.evaluator = Evaluator(self.app.environment.engine_deps(self.app._execution, self.app.counters))

    def create(self, name: str, **options: Any) -> None:
        """A schedule of every second."""
        self.app.schedules.create(name, when=every(seconds=1), do=self.tick, **options)

    def round(self) -> Instant | None:
        """One transaction of the evaluator."""
        return asyncio.run(self.evaluator.round())

    def count(self, text: str = "select count(*) from occurrences") -> int:
        """How many rows."""
        found: int = self.app.environment.store.read(lambda tx: tx.connection.execute(text).fetchone()[0])
        return found


@pytest.fixture
def site() -> Iterator[Site]:
    """A site at noon."""
    site = Site()
    yield site
    site.app.close()


@pytest.mark.long
@pytest.mark.parametrize("overlap", ["skip", "buffer_all", "allow_all"])
def test_an_outage_is_made_up_for_in_small_transactions(site: Site, overlap: str) -> None:
    for number in range(SCHEDULES):
        site.create(f"s{number}", overlap=overlap)
    site.clock.set(Instant(site.clock.now() + BEHIND_S * 1000))
    pages = []
    while True:
        before = site.count()
        wake_at = site.round()
        pages.append(site.count() - before)
        if wake_at is None or wake_at > site.clock.now():
            break

    assert sum(pages) == SCHEDULES * BEHIND_S
    assert max(pages) <= OCCURRENCES_MAX + OCCURRENCES_PER_ROUND
    assert site.count("select count(distinct nominal_at) from occurrences where schedule_id = 's3'") == BEHIND_S


def test_a_page_that_took_long_makes_the_next_ones_smaller(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(SCHEDULES):
        site.create(f"s{number}")
    site.clock.set(Instant(site.clock.now() + BEHIND_S * 1000))
    evaluate = evaluator_module.evaluate_fast

    def slow(*arguments: Any) -> Any:
        site.clock.set(Instant(site.clock.now() + 60))
        return evaluate(*arguments)

    monkeypatch.setattr(evaluator_module, "evaluate_fast", slow)
    site.round()

    assert site.count() == 2 * OCCURRENCES_PER_ROUND
    monkeypatch.setattr(evaluator_module, "evaluate_fast", evaluate)
    site.evaluator._adapt(250)
    before = site.count()
    site.round()

    assert site.count() - before <= OCCURRENCES_MAX // 2 + OCCURRENCES_PER_ROUND


def test_ends_of_runs_whose_schedule_is_gone_are_heard_beside_steady_work(site: Site) -> None:
    """A schedule that is due in every round must not keep them waiting for an idle moment."""
    site.create("gone")
    site.create("steady")
    site.clock.set(Instant(site.clock.now() + 1_000))
    site.round()
    (row,) = site.app.environment.store.read(
        lambda tx: tx.list_occurrences(OccurrenceFilter(schedule_id=ScheduleId("gone")), limit=9)
    )
    site.app.schedules.delete("gone")
    report = RunReport(
        row.job_id or JobId(""), DEFAULT_TENANT, row.schedule_id, row.nominal_at, row.origin, row.request,
        site.clock.now(), "success", None, "",
    )  # fmt: skip
    site.app.environment.store.write(lambda tx: tx.report_runs([report]))

    for _ in range(ORPHANS_EVERY_MS // 1_000 + 1):
        site.clock.set(Instant(site.clock.now() + 1_000))
        site.round()

    assert site.count("select count(*) from run_reports") == 0
    key = row._replace(ended_at=report.ended_at, outcome="success")
    found = site.app.environment.store.read(
        lambda tx: tx.list_occurrences(OccurrenceFilter(schedule_id=ScheduleId("gone")), limit=9)
    )
    assert found == [key]

"""Targets that may not run: the schedule skips and advances, or goes with them."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from evertick import App, MutationCtx, every
from evertick.base.errors import ScheduleNotFound
from evertick.base.ids import ScheduleId, TenantId
from evertick.engine.schedules.eligibility import Eligibility
from evertick.engine.schedules.outcome import Evaluation
from evertick.schedules import Fate, Reason
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction
from evertick.testing import World
from tests.schedules.api_app import minutes

OpenWorld = Callable[..., World]

app = App("targets")
workflows: dict[str, str] = {}
"""A workflow's name to its status, as the guard of workflows would read it from the database."""


@app.mutation(name="report")
def report(ctx: MutationCtx) -> None:
    ctx.db.insert("reports", {})


@app.mutation(name="plain")
def plain(ctx: MutationCtx) -> None:
    ctx.db.insert("plains", {})


class Workflows:
    """Knows which targets are workflows, and whether these may run."""

    def ineligible(
        self, transaction: Transaction, rows: Sequence[Schedule], evaluation: Evaluation, /
    ) -> dict[tuple[TenantId, ScheduleId], Eligibility]:
        found = {}
        for row in rows:
            name = row.target.name
            status = workflows.get(name, "active")
            if status != "active":
                reason = None if status == "deleted" else f"workflow {name} is {status}"
                found[row.tenant, row.id] = Eligibility(reason, gone=reason is None)
        return found


app.targets = Workflows()


@pytest.fixture(autouse=True)
def active() -> Iterator[None]:
    workflows["report"] = "active"
    yield
    workflows.clear()


@pytest.mark.parametrize("status", ["paused", "deprecated"])
def test_a_target_that_may_not_run_is_skipped_and_its_schedule_advances(world: OpenWorld, status: str) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=report)
    w.advance(60)
    workflows["report"] = status
    w.advance(120)
    workflows["report"] = "active"
    w.advance(60)

    rows = app.schedules.occurrences("s").occurrences
    assert [row.reason for row in rows] == [
        Reason.ON_TIME,
        Reason.TARGET_INELIGIBLE,
        Reason.TARGET_INELIGIBLE,
        Reason.ON_TIME,
    ]
    assert rows[1].detail == f"workflow report is {status}"
    told = app.schedules.explain("s", minutes(2))
    assert told.sentence == f"skipped: workflow report is {status}"
    assert len(w.query("reports")) == 2


def test_a_trigger_of_a_target_that_may_not_run_is_skipped(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=report)
    workflows["report"] = "paused"

    skipped = app.schedules.trigger("s", overlap="allow_all")
    w.advance(1)

    assert (skipped.fate, skipped.reason) == (Fate.SKIPPED, Reason.TARGET_INELIGIBLE)
    assert app.schedules.get("s").blocked_reason == "workflow report is paused"
    assert w.query("reports") == []


def test_a_deleted_target_takes_its_schedule_with_it(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=report)
    app.schedules.create("other", when=every(minutes=1), do=plain)
    w.advance(60)
    workflows["report"] = "deleted"

    with pytest.raises(ScheduleNotFound, match="target of schedule 's' is gone"):
        app.schedules.trigger("s")
    w.advance(60)

    assert [each.id for each in app.schedules.list().schedules] == ["other"]
    line = app.schedules.history("s")[0]
    assert (line.action, line.actor, line.detail) == ("deleted", "evaluator", "its target is gone")
    assert app.schedules.occurrences("s").occurrences[-1].reason is Reason.TARGET_INELIGIBLE
    assert len(w.query("reports")) == 1
    assert len(w.query("plains")) == 2


def test_a_schedule_whose_target_is_gone_can_still_be_deleted(world: OpenWorld) -> None:
    world(app)
    app.schedules.create("s", when=every(minutes=1), do=report)
    workflows["report"] = "deleted"

    app.schedules.delete("s")

    assert app.schedules.list().schedules == ()

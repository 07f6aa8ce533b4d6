"""Schedules in functions: a mutation makes, changes and asks about schedules inside its own transaction.

The example is a customer who books a weekly report, and may cancel the booking.
"""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from evertick import App, MutationCtx, QueryCtx, Settings, cron, every, weekly
from evertick.base.errors import AlreadyExists, LimitExceeded
from evertick.base.ids import ScheduleId, TenantId
from evertick.engine.schedules.eligibility import Eligibility
from evertick.engine.schedules.outcome import Evaluation
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction
from evertick.testing import World, days, hours, minutes, moment, seconds

app = App("reports")


@app.mutation
def book(ctx: MutationCtx, customer: str, day: str, credit: int) -> None:
    """A booking and its schedule, or neither."""
    ctx.db.insert("bookings", {"customer": customer})
    ctx.schedules.create(
        f"report-{customer}", when=weekly(day_of_week=day, hour=9), do=write_report.with_args(customer)
    )
    if credit < 1:
        raise ValueError("no credit")


@app.mutation(internal=True)
def write_report(ctx: MutationCtx, customer: str) -> None:
    ctx.db.insert("reports", {"customer": customer})


@app.mutation
def cancel_booking(ctx: MutationCtx, customer: str) -> None:
    ctx.schedules.delete(f"report-{customer}")


@app.query
def next_reports(ctx: QueryCtx) -> dict[str, str]:
    page = ctx.schedules.list(sort="next")
    return {each.id: f"{each.next:%a %d %H:%M}" for each in page.schedules}


def test_a_schedule_is_made_with_the_transaction_or_not_at_all(world: World) -> None:
    world.call(book, "ada", "monday", credit=1)
    with pytest.raises(ValueError, match="no credit"):
        world.call(book, "bob", "monday", credit=0)

    assert [each["customer"] for each in world.query("bookings")] == ["ada"]
    assert world.call(next_reports) == {"report-ada": "Mon 05 09:00"}


@pytest.mark.long
def test_it_runs_until_somebody_deletes_it(world: World) -> None:
    world.call(book, "ada", "friday", credit=1)
    world.advance(days(10))
    world.call(cancel_booking, "ada")
    world.advance(days(30))

    assert len(world.query("reports")) == 2


def test_making_the_same_schedule_again_changes_nothing(world: World) -> None:
    """A request that is repeated because its answer was lost does no harm; another definition is refused."""
    first = app.schedules.create("report", when=every(hours=1), do=write_report.with_args("ada"))
    again = app.schedules.create("report", when=every(hours=1), do=write_report.with_args("ada"))
    assert again == first

    with pytest.raises(AlreadyExists, match="with another definition"):
        app.schedules.create("report", when=every(hours=2), do=write_report.with_args("ada"))


def test_it_may_begin_with_a_run_and_a_backfill(world: World) -> None:
    """A report that is booked today, with those of the last two days."""
    world.advance(days(3))
    report = app.schedules.create(
        "report",
        when=cron("0 9 * * *"),
        do=write_report.with_args("ada"),
        trigger=True,
        backfill=[(moment("2026-01-02"), moment("2026-01-03T23:00"))],
        overlap="buffer_all",
    )
    world.advance(seconds(1))

    assert [(each.origin, each.nominal) for each in world.occurrences(report.id)] == [
        ("backfill", moment("2026-01-02T09:00")),
        ("backfill", moment("2026-01-03T09:00")),
        ("trigger", moment("2026-01-04T00:00")),
    ]


def test_while_its_target_may_not_run_a_schedule_skips_and_goes_on() -> None:
    """Whoever owns a target may say so; the reason is in the ledger."""
    guarded = App("printing")
    absence: list[str] = ["the printer is away"]

    class Printers:
        def ineligible(
            self, transaction: Transaction, rows: Sequence[Schedule], evaluation: Evaluation, /
        ) -> dict[tuple[TenantId, ScheduleId], Eligibility]:
            return {(row.tenant, row.id): Eligibility(reason) for row in rows for reason in absence}

    guarded.targets = Printers()
    with World(guarded) as world:
        report = world.schedule(every=hours(1))
        world.advance(hours(2.5))
        absence.clear()
        world.advance(hours(1.5))

        assert world.skips(report) == [moment("01:00"), moment("02:00")]
        assert world.occurrences(report)[0].detail == "the printer is away"
        assert world.starts(report) == [moment("03:00"), moment("04:00")]


def test_a_rule_hotter_than_its_limit_is_refused() -> None:
    """Both limits are settings: the least interval, and how many starts a minute."""
    with (
        World(app, settings=Settings(schedule_interval_min=timedelta(minutes=1))) as world,
        pytest.raises(LimitExceeded, match="closer than 1m, the least interval allowed"),
    ):
        world.schedule(every=timedelta(seconds=59))
    with (
        World(app, settings=Settings(schedule_starts_per_minute=3)) as world,
        pytest.raises(LimitExceeded, match="more than 3 times a minute"),
    ):
        world.schedule(every=minutes(0.25))

"""Five weeks of reminders in no time: the fixture `evertick_world` comes with Evertick's plugin for pytest."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from app import app, pay, remind, send_invoice

from evertick.testing import World

DAY_S = 86_400


def reminders(world: World, invoice: str) -> int:
    """How often a customer was reminded."""
    row = world.get(invoice)
    assert row is not None
    return int(row["reminders"])


def test_the_first_reminder_is_sent_after_two_weeks(evertick_world: World) -> None:
    invoice = evertick_world.call(send_invoice, "ada", 1200)

    evertick_world.advance(14 * DAY_S - 1)
    assert reminders(evertick_world, invoice) == 0

    evertick_world.advance(1)
    assert reminders(evertick_world, invoice) == 1


def test_five_reminders_are_sent_at_most(evertick_world: World) -> None:
    invoice = evertick_world.call(send_invoice, "ada", 1200)

    evertick_world.drain()  # works everything off, the clock jumps from one job to the next

    assert reminders(evertick_world, invoice) == 5


def test_who_has_paid_is_not_reminded_again(evertick_world: World) -> None:
    invoice = evertick_world.call(send_invoice, "ada", 1200)
    evertick_world.advance(14 * DAY_S)

    evertick_world.call(pay, invoice)
    evertick_world.drain()

    assert reminders(evertick_world, invoice) == 1


def test_a_crash_of_the_worker_sends_no_second_reminder(evertick_world: World) -> None:
    invoice = evertick_world.call(send_invoice, "ada", 1200)
    evertick_world.crash_before_commit(remind)

    evertick_world.advance(14 * DAY_S)
    evertick_world.restart()
    evertick_world.advance(60)

    assert reminders(evertick_world, invoice) == 1


@pytest.mark.evertick(at="2026-12-24T12:00:00Z")
def test_a_year_that_ends_in_between_changes_nothing(evertick_world: World) -> None:
    evertick_world.call(send_invoice, "ada", 1200)

    [job] = evertick_world.jobs(remind)

    assert job.due_at == datetime(2027, 1, 7, 12, tzinfo=UTC)


def test_two_worlds_know_nothing_of_each_other(world: Callable[..., World]) -> None:
    one = world(app)
    one.call(send_invoice, "ada", 1200)
    assert len(one.jobs(remind)) == 1

"""Retrying jobs: a bank that is away for minutes, refuses a card for good, or is asked no longer.

away 3 times    x   .30 s.   x   ..60 s..   x   ....120 s....   charged      one receipt
refused         x                                                            one failure, no second try
canceled        x   .30 s.   x   .. cancel                                   one cancellation
"""

from collections.abc import Iterator

import pytest

from evertick import ActionCtx, App, JobResult, MutationCtx, NonRetryable, Retry
from evertick.functions import JobState
from evertick.testing import World, hours, moment, seconds

PATIENT = Retry(5, first=seconds(30), factor=2, jitter=0)
AT = "2026-03-01T09:00:00Z"


class Bank:
    """The other side."""

    def __init__(self) -> None:
        self.away = 0
        self.refuses = False
        self.asked_at: list[str] = []

    def ask(self, at: str) -> None:
        """Take the money. Raises while the bank is away, or for good."""
        self.asked_at.append(at)
        if self.refuses:
            raise NonRetryable("card expired")
        if self.away:
            self.away -= 1
            raise ConnectionError("the bank is away")


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def world(bank: Bank) -> Iterator[World]:
    app = App("shop", database_url="sqlite://")

    @app.action(name="charge")
    async def charge(ctx: ActionCtx, order: str) -> str:
        bank.ask(f"{world.now:%H:%M:%S}")
        return f"receipt of {order}"

    @app.mutation(name="charged")
    def charged(ctx: MutationCtx, job_id: str, order: str, result: JobResult) -> None:
        ctx.db.insert("payments", {"order": order, "kind": result.kind, "receipt": result.value})

    @app.mutation(name="pay")
    def pay(ctx: MutationCtx, order: str) -> str:
        return ctx.scheduler.using(retry=PATIENT, on_complete=charged, context=order).run_after(0, charge, order)

    with World(app, at=AT) as world:
        yield world


def paid(world: World) -> list[tuple[str, str | None]]:
    """What is known of the payments."""
    return [(row["kind"], row["receipt"]) for row in world.query("payments")]


def test_it_is_tried_again_further_and_further_apart_and_told_once(world: World, bank: Bank) -> None:
    bank.away = 3
    job_id = world.call("pay", "order-1")
    world.advance(seconds(100))
    job = world.app.jobs.get(job_id)
    assert (job.state, job.attempt, paid(world)) == (JobState.PENDING, 3, [])

    world.advance(hours(1))
    assert bank.asked_at == ["09:00:00", "09:00:30", "09:01:30", "09:03:30"]
    assert paid(world) == [("success", "receipt of order-1")]
    assert [each.outcome for each in world.app.jobs.attempts(job_id)] == ["failed", "failed", "failed", "success"]


def test_what_can_never_work_is_not_tried_again(world: World, bank: Bank) -> None:
    bank.refuses = True
    world.call("pay", "order-1")
    world.advance(hours(1))

    assert bank.asked_at == ["09:00:00"]
    assert paid(world) == [("failed", None)]


def test_a_canceled_one_is_not_tried_again(world: World, bank: Bank) -> None:
    bank.away = 99
    job_id = world.call("pay", "order-1")
    world.advance_to(moment("2026-03-01T09:00:45Z"))
    assert world.app.jobs.cancel(job_id)
    world.advance(hours(1))

    assert bank.asked_at == ["09:00:00", "09:00:30"]
    assert paid(world) == [("canceled", None)]


def test_after_the_last_attempt_it_has_failed_and_runs_again_when_the_bank_is_back(world: World, bank: Bank) -> None:
    bank.away = 5
    job_id = world.call("pay", "order-1")
    world.advance(hours(1))
    assert (len(bank.asked_at), paid(world)) == (5, [("failed", None)])

    again = world.app.jobs.retry(job_id)
    world.advance(hours(1))
    assert [world.app.jobs.get(each).state for each in (job_id, again)] == [JobState.FAILED, JobState.SUCCESS]
    assert paid(world) == [("failed", None), ("success", "receipt of order-1")]

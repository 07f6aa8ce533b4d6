"""Scheduled functions: a function that runs later, scheduled with your data or not at all.

The example is a chat whose messages destroy themselves after five seconds.
"""

import pytest

from evertick import ActionCtx, App, MutationCtx, Retry
from evertick.functions import JobState
from evertick.testing import World, days, minutes, moment, seconds

app = App("chat")


@app.mutation
def send(ctx: MutationCtx, body: str) -> str:
    """Writes a message, and schedules its end."""
    message_id = ctx.db.insert("messages", {"body": body})
    ctx.scheduler.run_after(5, destruct, message_id)
    if body == "":
        raise ValueError("an empty message")
    return message_id


@app.mutation(internal=True)
def destruct(ctx: MutationCtx, message_id: str) -> None:
    ctx.db.delete(message_id)
    ctx.db.insert("destructions", {"message": message_id})


@app.action(internal=True)
async def charge(ctx: ActionCtx, card: str) -> str:
    """A side effect somewhere else in the world."""
    ctx.log.info("attempt %d", ctx.attempt)
    return f"charged {card}"


def test_a_message_destroys_itself(world: World) -> None:
    message = world.call(send, "hello")
    world.advance(4.999)
    assert world.get(message) is not None

    world.advance(0.001)
    assert world.get(message) is None


def test_a_function_is_scheduled_with_the_transaction_or_not_at_all(world: World) -> None:
    """The mutation raised after it had scheduled: neither the message nor its end were ever there."""
    with pytest.raises(ValueError, match="an empty message"):
        world.call(send, "")

    assert world.query("messages") == []
    assert world.jobs() == []


def test_a_canceled_job_never_starts(world: World) -> None:
    message = world.call(send, "hello")
    (job,) = world.pending(destruct)
    world.app.scheduler.cancel(job.id)
    world.advance(minutes(1))

    assert world.get(message) is not None
    assert world.job(job.id).state is JobState.CANCELED


def test_a_crash_in_the_middle_changes_nothing_twice(world: World) -> None:
    """A mutation's writes and the mark that it is done are one commit. So its effects happen exactly once."""
    world.call(send, "hello")
    world.crash_before_commit(destruct, times=3)
    world.advance(5)
    for _ in range(3):
        world.restart()

    assert len(world.query("destructions")) == 1
    assert [(job.state, job.attempt, job.crashes) for job in world.jobs(destruct)] == [(JobState.SUCCESS, 4, 3)]


def test_a_conflict_runs_the_mutation_again_and_nobody_notices(world: World) -> None:
    world.call(send, "hello")
    world.conflict_next(destruct, times=2)
    world.advance(6)

    assert len(world.query("destructions")) == 1
    assert [(job.state, job.failures) for job in world.jobs(destruct)] == [(JobState.SUCCESS, 0)]


def test_an_action_starts_at_most_once(world: World) -> None:
    """Nobody knows how far it came when its worker died. So it is not started again: it has failed, and says why."""
    world.app.scheduler.run_after(0, charge, "1234")
    world.crash_before_commit(charge)
    world.advance(1)
    world.restart()
    world.advance(minutes(10))

    (job,) = world.jobs(charge)
    assert (job.state, job.attempt) == (JobState.FAILED, 1)
    assert job.error is not None
    assert "worker" in job.error


def test_a_retry_policy_says_that_starting_again_does_no_harm(world: World) -> None:
    """The second wait is twice as long as the first."""
    world.app.scheduler.using(retry=Retry(3, first=seconds(10), jitter=0)).run_after(0, charge, "1234")
    for _ in range(2):
        world.fail_next(charge, OSError("no line"))
    world.advance(minutes(1))

    (job,) = world.jobs(charge)
    assert (job.state, job.attempt, job.result) == (JobState.SUCCESS, 3, "charged 1234")
    assert job.completed_at == moment("00:00:30")


@pytest.mark.long
def test_a_job_can_be_months_away(world: World) -> None:
    """It is a row in the database: no process has to live that long."""
    world.app.scheduler.run_at(moment("2026-03-01T09:00"), charge, "1234")
    world.outage(days(30))
    world.advance_to(moment("2026-03-01T09:00"))

    assert [job.result for job in world.jobs(charge)] == ["charged 1234"]

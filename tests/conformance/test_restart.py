"""Crashes and outages: everything is in the database, so the next worker goes on."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from evertick import ActionCtx, App, MutationCtx, Retry
from evertick.functions import JobState
from evertick.testing import World
from tests.conformance.facts import fact

OpenWorld = Callable[..., World]

app = App("restart")


@app.mutation
def insert(ctx: MutationCtx, n: int) -> None:
    ctx.db.insert("numbers", {"n": n})


@app.mutation
def increment(ctx: MutationCtx) -> None:
    counter = ctx.db.query("counters").unique()
    if counter is None:
        ctx.db.insert("counters", {"value": 1})
    else:
        ctx.db.patch(counter["_id"], {"value": counter["value"] + 1})


@app.action
async def act(ctx: ActionCtx) -> None:
    await ctx.run_mutation(increment)
    await asyncio.sleep(60)
    await ctx.run_mutation(increment)


def numbers(w: World) -> list[int]:
    return [document["n"] for document in w.query("numbers")]


def counted(w: World) -> int:
    return sum(counter["value"] for counter in w.query("counters"))


@fact("cvx-sf-050")
def test_jobs_that_came_due_during_an_outage_run_promptly_once_each_in_due_order(world: OpenWorld) -> None:
    w = world(app)
    for n in (7, 3, 9, 1, 0, 8, 2, 6, 4, 5):
        w.app.scheduler.run_after(10 + n, insert, n)
    w.kill()
    w.advance(timedelta(days=3))
    assert numbers(w) == []
    assert len(w.pending()) == 10

    w.restart()

    assert numbers(w) == list(range(10))
    assert {job.state for job in w.jobs()} == {JobState.SUCCESS}


@fact("cvx-sf-052")
def test_a_mutation_whose_worker_dies_before_the_commit_runs_again_with_one_effect(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(1, increment)
    w.crash_before_commit(increment)
    w.advance(10)
    assert (w.job(job_id).state, counted(w)) == (JobState.PENDING, 0)

    w.restart()

    job = w.job(job_id)
    assert (job.state, job.attempt, job.crashes) == (JobState.SUCCESS, 2, 1)
    assert counted(w) == 1


def test_those_that_shared_the_lost_commit_run_again_too(world: OpenWorld) -> None:
    w = world(app)
    for n in range(5):
        w.app.scheduler.run_after(1, insert, n)
    w.app.scheduler.run_after(1, increment)
    w.crash_before_commit(increment)
    w.advance(10)
    assert numbers(w) == []

    w.restart()
    assert numbers(w) == [0, 1, 2, 3, 4]
    assert counted(w) == 1


def test_an_action_whose_worker_dies_fails_as_lost_and_is_not_started_again(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, act)
    w.advance(30)
    w.restart()
    w.advance(3600)

    job = w.job(job_id)
    assert (job.state, job.attempt) == (JobState.FAILED, 1)
    assert str(job.error).startswith("LostWorker: lost worker")
    assert counted(w) == 1


def test_an_action_that_ended_but_whose_end_was_not_written_fails_as_lost_too(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, act)
    w.crash_before_commit(act)
    w.advance(100)
    assert w.job(job_id).state is JobState.IN_PROGRESS
    w.restart()
    w.drain()

    assert str(w.job(job_id).error).startswith("LostWorker")
    assert counted(w) == 2


def test_an_action_with_a_retry_policy_is_started_again_after_a_crash(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.using(retry=Retry(2)).run_after(0, act)
    w.advance(30)
    w.restart()
    w.drain()

    job = w.job(job_id)
    assert (job.state, job.attempt) == (JobState.SUCCESS, 2)
    assert counted(w) == 3


def test_a_mutation_that_kills_its_workers_is_put_in_quarantine(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, increment)
    w.crash_before_commit(increment, times=5)
    w.advance(1)
    for _ in range(5):
        w.restart()

    job = w.job(job_id)
    assert (job.state, job.crashes) == (JobState.FAILED, 5)
    assert str(job.error).startswith("Quarantined: its worker died 5 times")
    assert counted(w) == 0


def test_while_nothing_runs_everything_stays_pending_and_runs_afterwards(world: OpenWorld) -> None:
    """Convex pauses a deployment; here the worker is simply not there. Pausing belongs to schedules and pools."""
    w = world(app)
    w.kill()
    job_id = w.app.scheduler.run_after(5, increment)
    w.advance(3600)
    assert w.job(job_id).state is JobState.PENDING

    w.restart()
    assert w.job(job_id).state is JobState.SUCCESS
    assert w.job(job_id).requested_at == w.now - timedelta(seconds=3595)


def test_a_dead_workers_action_does_nothing_any_more(world: OpenWorld) -> None:
    w = world(app)
    w.app.scheduler.run_after(0, act)
    w.advance(30)
    w.kill()
    w.advance(3600)

    assert counted(w) == 1

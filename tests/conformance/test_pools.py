"""Pools and retries, as Convex's Workpool and Action Retrier have them: limits, attempts, callbacks, cancels."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from evertick import ActionCtx, App, JobResult, MutationCtx, NonRetryable, Retry
from evertick.base.errors import JobNotFound, Misuse
from evertick.testing import World
from tests.conformance.facts import fact

OpenWorld = Callable[..., World]

app = App("pools")


class Seen:
    """What the functions did."""

    together = 0
    most = 0
    times: list[datetime]
    told: list[tuple[int, str]]


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    """Every test begins anew."""
    Seen.together, Seen.most, Seen.times, Seen.told = 0, 0, [], []


@app.action(pool="calls")
async def call(ctx: ActionCtx) -> None:
    Seen.together += 1
    Seen.most = max(Seen.most, Seen.together)
    await asyncio.sleep(1)
    Seen.together -= 1


@app.action
async def act_fail(ctx: ActionCtx) -> None:
    Seen.times.append(ctx.now)
    raise ValueError("boom")


@app.action
async def act_fail_for_good(ctx: ActionCtx) -> None:
    Seen.times.append(ctx.now)
    raise NonRetryable("no use")


@app.mutation
def fail(ctx: MutationCtx) -> None:
    Seen.times.append(ctx.now)
    raise ValueError("boom")


@app.mutation
def done(ctx: MutationCtx, job_id: str, context: int, result: JobResult) -> None:
    Seen.told.append((context, result.kind))


def waits() -> list[float]:
    """The seconds between attempts."""
    return [(later - earlier).total_seconds() for earlier, later in zip(Seen.times, Seen.times[1:], strict=False)]


@fact("cvx-wp-001")
def test_no_more_than_the_limit_run_at_once_and_each_end_is_told_once(world: OpenWorld) -> None:
    w = world(app)
    w.app.pools.set("calls", running=3)
    for n in range(10):
        w.app.scheduler.using(on_complete=done, context=n).run_after(0, call)
    w.advance(timedelta(minutes=5))

    assert Seen.most == 3
    assert sorted(Seen.told) == [(n, "success") for n in range(10)]


@fact("cvx-wp-003")
def test_a_negative_limit_is_refused(world: OpenWorld) -> None:
    """Convex refuses more than 200, too: so many functions are what its platform runs at a time. Here workers do."""
    w = world(app)
    with pytest.raises(Misuse, match="running= takes a whole number from 0"):
        w.app.pools.set("calls", running=-1)
    assert w.app.pools.set("calls", running=201).limits.running == 201


@fact("cvx-wp-004")
def test_attempts_end_after_as_many_as_were_asked_for_and_waits_double(world: OpenWorld) -> None:
    w = world(app)
    scheduler = w.app.scheduler.using(retry=Retry(3, first=0.1, factor=2), on_complete=done, context=1)
    scheduler.run_after(0, act_fail)
    w.advance(timedelta(minutes=1))

    assert len(Seen.times) == 3
    assert 0.05 <= waits()[0] < 0.5
    assert 0.1 <= waits()[1] < 0.65
    assert Seen.told == [(1, "failed")]


@fact("cvx-wp-006")
def test_a_cancel_beats_a_retry_that_waits(world: OpenWorld) -> None:
    w = world(app)
    scheduler = w.app.scheduler.using(retry=Retry(5, first=600), on_complete=done, context=1)
    job_id = scheduler.run_after(0, act_fail)
    w.advance(timedelta(seconds=10))
    assert (len(Seen.times), w.job(job_id).state) == (1, "pending")
    w.app.scheduler.cancel(job_id)
    w.app.scheduler.cancel(job_id)
    w.advance(timedelta(hours=3))

    assert (len(Seen.times), w.job(job_id).state) == (1, "canceled")
    assert Seen.told == [(1, "canceled")]


@fact("cvx-wp-008")
def test_an_unknown_job_is_canceled_silently_and_read_as_unknown(world: OpenWorld) -> None:
    """Convex calls what it does not know finished. Here it is None among many, and an error if asked for."""
    w = world(app)
    job_id = w.app.scheduler.run_after(60, fail)
    unknown = job_id[:-1] + ("0" if job_id[-1] != "0" else "1")
    w.app.scheduler.cancel(unknown)

    assert w.app.jobs.get_many([unknown]) == (None,)
    with pytest.raises(JobNotFound):
        w.app.jobs.get(unknown)
    assert w.job(job_id).state == "pending"


@fact("cvx-wp-010")
def test_an_error_that_is_not_to_be_retried_ends_the_job_at_once(world: OpenWorld) -> None:
    w = world(app)
    w.app.scheduler.using(retry=Retry(5), on_complete=done, context=1).run_after(0, act_fail_for_good)
    w.advance(timedelta(hours=1))

    assert len(Seen.times) == 1
    assert Seen.told == [(1, "failed")]


@fact("cvx-wp-012")
def test_a_mutation_that_raises_runs_once_unless_it_asked_for_more(world: OpenWorld) -> None:
    w = world(app)
    w.app.scheduler.using(on_complete=done, context=1).run_after(0, fail)
    w.advance(timedelta(hours=1))

    assert len(Seen.times) == 1
    assert Seen.told == [(1, "failed")]


@fact("cvx-ar-001")
def test_the_policy_of_the_action_retrier_can_be_asked_for(world: OpenWorld) -> None:
    """Its first wait is its initial backoff times its base, 500 ms, spread by half."""
    w = world(app)
    w.app.scheduler.using(retry=Retry(5, first=0.5), on_complete=done, context=1).run_after(0, act_fail)
    w.advance(timedelta(minutes=5))

    assert len(Seen.times) == 5
    assert 0.25 <= waits()[0] < 1
    assert Seen.told == [(1, "failed")]

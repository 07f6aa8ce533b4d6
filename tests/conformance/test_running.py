"""How scheduled functions run: once, in the order in which they are due, and what becomes of those that fail."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from evertick import ActionCtx, App, MutationCtx, NonRetryable, Retry, Settings, SyncActionCtx
from evertick.engine.runtime.executors import CONFLICTS
from evertick.engine.runtime.metrics import JobEnded
from evertick.functions import JobState
from evertick.testing import World
from tests.conformance.facts import fact

OpenWorld = Callable[..., World]

app = App("running")


@app.mutation
def insert(ctx: MutationCtx, text: str) -> None:
    ctx.db.insert("texts", {"text": text})


@app.mutation
def insert_then_raise(ctx: MutationCtx) -> None:
    ctx.db.insert("texts", {"text": "never"})
    ctx.scheduler.run_after(0, insert, "never")
    raise ValueError("boom")


@app.mutation
def increment(ctx: MutationCtx) -> None:
    counter = ctx.db.query("counters").unique()
    if counter is None:
        ctx.db.insert("counters", {"value": 1})
    else:
        ctx.db.patch(counter["_id"], {"value": counter["value"] + 1})


@app.action
async def nap(ctx: ActionCtx, seconds: float) -> None:
    await asyncio.sleep(seconds)


@app.action
async def count_down(ctx: ActionCtx, counter: int) -> None:
    if counter:
        await ctx.scheduler.run_after(1, count_down, counter - 1)


def texts(w: World) -> list[str]:
    return [document["text"] for document in w.query("texts")]


@fact("cvx-sf-025")
def test_a_mutation_that_raises_fails_without_its_writes_and_is_tried_once(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(1, insert_then_raise)
    w.advance(3600)

    job = w.job(job_id)
    assert (job.state, job.error, job.attempt) == (JobState.FAILED, "ValueError: boom", 1)
    assert "insert_then_raise" in str(job.traceback)
    assert texts(w) == []
    assert len(w.jobs()) == 1


def test_one_that_raises_does_not_harm_those_that_share_its_commit(world: OpenWorld) -> None:
    w = world(app)
    ids = [
        w.app.scheduler.run_after(1, insert, "a"),
        w.app.scheduler.run_after(1, insert_then_raise),
        w.app.scheduler.run_after(1, insert, "b"),
    ]
    w.advance(1)

    assert [w.job(job_id).state.value for job_id in ids] == ["success", "failed", "success"]
    assert texts(w) == ["a", "b"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyError("k"), TimeoutError("t"), GeneratorExit(), RuntimeError()])
def test_whatever_a_mutation_raises_ends_the_job_and_not_the_worker(world: OpenWorld, error: BaseException) -> None:
    w = world(app)
    w.fail_next(insert, error)
    first, second = w.app.scheduler.run_after(1, insert, "a"), w.app.scheduler.run_after(2, insert, "b")
    w.advance(2)

    assert w.job(first).error == f"{type(error).__name__}: {error}"
    assert w.job(second).state is JobState.SUCCESS


def test_an_action_that_raises_fails_with_its_text_and_is_not_retried(world: OpenWorld) -> None:
    w = world(app)
    w.fail_next(nap, ConnectionError("no route"))
    job_id = w.app.scheduler.run_after(1, nap, 1)
    w.advance(3600)

    job = w.job(job_id)
    assert (job.state, job.error, job.attempt) == (JobState.FAILED, "ConnectionError: no route", 1)


@fact("cvx-sf-027")
def test_a_write_conflict_is_retried_and_the_effect_happens_once(
    world: OpenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "evertick.engine")
    w = world(app)
    w.conflict_next(increment)
    job_id = w.app.scheduler.run_after(1, increment)
    w.drain()

    job = w.job(job_id)
    assert (job.state, job.failures, job.error) == (JobState.SUCCESS, 0, None)
    assert [counter["value"] for counter in w.query("counters")] == [1]
    assert [record.will_retry for record in caplog.records if hasattr(record, "will_retry")] == [True]


def test_conflicts_are_retried_however_many_there_are(world: OpenWorld) -> None:
    w = world(app)
    w.conflict_next(increment, times=50)
    job_id = w.app.scheduler.run_after(1, increment)
    w.drain()

    assert w.job(job_id).state is JobState.SUCCESS
    assert [counter["value"] for counter in w.query("counters")] == [1]
    assert w.counters.snapshot()["mutation_conflicts"] == 50


def test_a_conflict_of_one_does_not_harm_those_that_share_its_commit(world: OpenWorld) -> None:
    w = world(app)
    w.conflict_next(increment, times=2)
    ids = [w.app.scheduler.run_after(1, insert, "a"), w.app.scheduler.run_after(1, increment)]
    w.drain()

    assert {w.job(job_id).state for job_id in ids} == {JobState.SUCCESS}
    assert texts(w) == ["a"]
    assert [counter["value"] for counter in w.query("counters")] == [1]


def test_a_caller_gets_a_conflict_only_after_several_tries(world: OpenWorld) -> None:
    w = world(app)
    w.conflict_next(increment, times=CONFLICTS.attempts - 1)
    w.call(increment)
    assert [counter["value"] for counter in w.query("counters")] == [1]

    w.conflict_next(increment, times=CONFLICTS.attempts)
    with pytest.raises(Exception, match="write conflict"):
        w.call(increment)
    assert [counter["value"] for counter in w.query("counters")] == [1]


def test_while_the_database_is_away_jobs_wait_and_succeed_later(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(5, increment)
    with w.database_unavailable():
        w.advance(60)
    assert w.job(job_id).state is JobState.PENDING
    w.advance(10)

    assert w.job(job_id).state is JobState.SUCCESS
    assert [counter["value"] for counter in w.query("counters")] == [1]


def test_the_end_of_an_action_that_ran_into_an_outage_is_written_after_it(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, nap, 10)
    w.advance(5)
    with w.database_unavailable():
        w.advance(60)
    w.advance(10)

    job = w.job(job_id)
    assert (job.state, job.attempt) == (JobState.SUCCESS, 1)


@fact("cvx-sf-029")
def test_no_more_actions_run_at_once_than_there_are_slots(world: OpenWorld) -> None:
    w = world(app, settings=Settings(action_slots=8))
    ids = [w.app.scheduler.run_after(0, nap, 1) for _ in range(20)]

    running = []
    for _ in range(12):
        w.advance(0.25)
        running.append(len(w.jobs(nap, state="in_progress")))

    assert max(running) == 8
    assert {w.job(job_id).state for job_id in ids} == {JobState.SUCCESS}


@fact("cvx-sf-031")
def test_others_see_an_action_in_progress_until_it_returns(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(1, nap, 10)
    seen = []
    for _ in range(3):
        w.advance(5)
        (row,) = w.query("_scheduled_functions")
        seen.append((row["state"], "completed_time" in row))

    assert seen == [
        ({"kind": "in_progress"}, False),
        ({"kind": "in_progress"}, False),
        ({"kind": "success"}, True),
    ]
    assert w.job(job_id).state is JobState.SUCCESS


def test_a_mutation_is_never_seen_in_progress(world: OpenWorld) -> None:
    local = App("local")
    seen: list[str] = []

    @local.mutation
    def look_at_myself(ctx: MutationCtx) -> None:
        assert ctx.job_id is not None
        row = ctx.db.system.get(ctx.job_id)
        assert row is not None
        seen.append(row["state"]["kind"])

    w = world(local)
    w.app.scheduler.run_after(1, look_at_myself)
    w.drain()

    assert seen == ["pending"]


@fact("cvx-sf-033")
def test_an_action_that_schedules_itself_ten_times_ends(world: OpenWorld) -> None:
    w = world(app)
    w.app.scheduler.run_after(0, count_down, 9)
    w.advance(timedelta(days=1))

    assert [job.state for job in w.jobs()] == [JobState.SUCCESS] * 10


@fact("cvx-sf-035")
def test_the_code_that_is_deployed_when_it_runs_is_what_runs(world: OpenWorld) -> None:
    def version(text: str) -> App:
        made = App("shop")

        @made.mutation(name="f")
        def f(ctx: MutationCtx) -> None:
            ctx.db.insert("texts", {"text": text})

        return made

    w = world(version("old"))
    w.app.scheduler.run_after(10, "f")
    w.app.scheduler.run_after(30, "f")
    w.advance(20)
    w.deploy(version("new"))
    w.advance(20)

    assert texts(w) == ["old", "new"]


def test_a_job_written_before_a_parameter_was_added_still_runs(world: OpenWorld) -> None:
    old, new = App("shop"), App("shop")

    @old.mutation(name="f")
    def old_f(ctx: MutationCtx, a: int) -> None: ...

    @new.mutation(name="f")
    def new_f(ctx: MutationCtx, a: int, b: str = "default") -> None:
        ctx.db.insert("texts", {"text": f"{a} {b}"})

    w = world(old)
    w.app.scheduler.run_after(10, old_f, 1)
    w.deploy(new)
    w.drain()

    assert texts(w) == ["1 default"]


def test_a_job_whose_function_is_gone_waits_for_a_worker_that_knows_it(world: OpenWorld) -> None:
    """Convex fails it. During a rolling deploy that loses jobs, so Evertick keeps it and shows it as blocked."""
    empty = App("running")
    w = world(app)
    job_id = w.app.scheduler.run_after(10, insert, "late")
    w.deploy(empty)
    w.advance(60)
    assert (w.job(job_id).state, w.job(job_id).blocked) == (JobState.PENDING, True)

    w.deploy(app)
    assert (w.job(job_id).state, w.job(job_id).blocked) == (JobState.SUCCESS, False)
    assert texts(w) == ["late"]


current_user: contextvars.ContextVar[str | None] = contextvars.ContextVar("current_user", default=None)


@fact("cvx-sf-037")
def test_a_job_has_no_user_whoever_scheduled_it(world: OpenWorld) -> None:
    """There is no identity in Evertick's contexts. What a web framework keeps in a context variable does not reach a
    job either: pass ids as arguments.
    """
    local = App("local")
    seen: list[str | None] = []

    @local.mutation
    def who(ctx: MutationCtx) -> None:
        seen.append(current_user.get())

    @local.mutation
    def schedule(ctx: MutationCtx) -> None:
        seen.append(current_user.get())
        ctx.scheduler.run_after(1, who)

    w = world(local)
    token = current_user.set("ada")
    w.call(schedule)
    current_user.reset(token)
    w.drain()

    assert seen == ["ada", None]


def test_jobs_start_in_the_order_in_which_they_are_due(world: OpenWorld) -> None:
    w = world(app)
    for delay in (30, 10, 20, 10.001):
        w.app.scheduler.run_after(delay, insert, f"{delay}")
    w.drain()

    assert texts(w) == ["10", "10.001", "20", "30"]


def test_a_job_may_schedule_another_and_that_a_third(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def hop(ctx: MutationCtx, left: int) -> None:
        ctx.db.insert("texts", {"text": f"{left} at {ctx.now:%H:%M:%S}"})
        if left:
            ctx.scheduler.run_after(60, hop, left - 1)

    w = world(local, at="2026-01-01T00:00:00Z")
    w.app.scheduler.run_after(60, hop, 2)
    w.drain()

    assert texts(w) == ["2 at 00:01:00", "1 at 00:02:00", "0 at 00:03:00"]


def test_a_finished_job_is_told_to_those_who_watch(world: OpenWorld) -> None:
    """What a subscription will push: the end of a job, without anybody asking."""

    class Watcher:
        def __init__(self) -> None:
            self.ends: list[tuple[str, JobState]] = []

        def job_ended(self, event: JobEnded, /) -> None:
            self.ends.append((event.claim.id, event.end.state))

    w = world(app)
    watcher = Watcher()
    w.counters.observers.append(watcher)
    job_id = w.app.scheduler.run_after(5, insert, "a")
    w.advance(5)

    assert watcher.ends == [(job_id, JobState.SUCCESS)]


def test_an_action_may_take_until_its_timeout_and_no_longer(world: OpenWorld) -> None:
    local = App("local")

    @local.action(timeout=30)
    async def slow(ctx: ActionCtx, seconds: float) -> None:
        await asyncio.sleep(seconds)

    w = world(local)
    fits, too_slow = w.app.scheduler.run_after(0, slow, 29.9), w.app.scheduler.run_after(0, slow, 31)
    w.advance(30)

    assert w.job(fits).state is JobState.SUCCESS
    assert w.job(too_slow).state is JobState.FAILED
    assert "took longer than 30 s" in str(w.job(too_slow).error)


def test_an_action_takes_ten_minutes_at_most_unless_it_says_otherwise(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(0, nap, 3600)
    w.advance(timedelta(minutes=9, seconds=59))
    assert w.job(job_id).state is JobState.IN_PROGRESS
    w.advance(1)

    assert str(w.job(job_id).error).startswith("TimedOut")


def test_an_actions_own_timeout_error_is_its_own(world: OpenWorld) -> None:
    w = world(app)
    w.fail_next(nap, TimeoutError("of the user's"))
    job_id = w.app.scheduler.run_after(0, nap, 1)
    w.drain()

    assert w.job(job_id).error == "TimeoutError: of the user's"


def test_with_a_retry_policy_waits_grow_around_the_doubled_first_one(world: OpenWorld) -> None:
    """Convex has no policy for scheduled functions; its workpool draws from [0.5, 1.5) of the wait, and so do we."""
    w = world(app)
    for _ in range(4):
        w.fail_next(nap, ConnectionError("no"))
    retry = Retry(5, first=1.0, factor=2.0)
    job_id = w.app.scheduler.using(retry=retry).run_after(0, nap, 0)
    waits = []
    for failures in range(1, 5):
        w.advance(0)
        job = w.job(job_id)
        assert (job.state, job.failures, job.error) == (JobState.PENDING, failures, "ConnectionError: no")
        waits.append((job.due_at - w.now).total_seconds())
        w.advance_to(job.due_at)

    assert w.job(job_id).state is JobState.SUCCESS
    assert w.job(job_id).attempt == 5
    for failures, wait in enumerate(waits):
        assert 0.5 * 2**failures <= wait < 1.5 * 2**failures


def test_retries_end_after_the_last_attempt(world: OpenWorld) -> None:
    w = world(app)
    for _ in range(3):
        w.fail_next(insert, ValueError("again"))
    job_id = w.app.scheduler.using(retry=Retry(3)).run_after(0, insert, "never")
    w.drain()

    job = w.job(job_id)
    assert (job.state, job.attempt, job.failures) == (JobState.FAILED, 3, 3)
    assert texts(w) == []


def test_an_error_that_is_not_retryable_ends_the_retries(world: OpenWorld) -> None:
    w = world(app)

    class Refused(NonRetryable): ...

    w.fail_next(nap, Refused("no card"))
    job_id = w.app.scheduler.using(retry=Retry(5)).run_after(0, nap, 0)
    w.drain()

    job = w.job(job_id)
    assert (job.state, job.attempt, job.error) == (JobState.FAILED, 1, "Refused: no card")


def test_a_plain_action_runs_and_its_calls_are_transactions_of_their_own(world: OpenWorld) -> None:
    local = App("local")
    threads: list[int] = []

    @local.mutation
    def write(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("texts", {"text": text})

    @local.action
    def act(ctx: SyncActionCtx) -> None:
        threads.append(threading.get_ident())
        ctx.run_mutation(write, "written")
        ctx.scheduler.run_after(5, write, "scheduled")
        raise ValueError("later")

    w = world(local)
    job_id = w.app.scheduler.run_after(0, act)
    w.drain()

    assert w.job(job_id).error == "ValueError: later"
    assert texts(w) == ["written", "scheduled"]
    assert threads == [threading.get_ident()]


def test_the_job_id_reaches_the_whole_tree_of_calls(world: OpenWorld) -> None:
    local = App("local")
    seen: list[object] = []

    @local.mutation
    def leaf(ctx: MutationCtx) -> None:
        seen.append(ctx.job_id)

    @local.mutation
    def branch(ctx: MutationCtx) -> None:
        seen.append(ctx.job_id)
        ctx.run_mutation(leaf)

    @local.action
    async def inner(ctx: ActionCtx) -> None:
        seen.append(ctx.job_id)
        await ctx.run_mutation(branch)

    @local.action
    async def outer(ctx: ActionCtx) -> None:
        seen.append(ctx.job_id)
        await ctx.run_action(inner)

    w = world(local)
    job_id = w.app.scheduler.run_after(0, outer)
    w.drain()
    w.call(leaf)

    assert seen == [job_id] * 4 + [None]


def test_emptying_the_table_under_the_worker_does_not_disturb_it(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def write(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("texts", {"text": text})

    @local.action
    async def act(ctx: ActionCtx) -> None:
        await asyncio.sleep(10)

    @local.mutation
    def drop_all(ctx: MutationCtx) -> None:
        ctx.connection.execute("delete from jobs")

    w = world(local)
    w.app.scheduler.run_after(0, act)
    w.app.scheduler.run_after(5, write, "dropped")
    w.advance(1)
    w.call(drop_all)
    w.app.scheduler.run_after(5, write, "new")
    w.advance(60)

    assert texts(w) == ["new"]
    assert [job.state for job in w.jobs()] == [JobState.SUCCESS]

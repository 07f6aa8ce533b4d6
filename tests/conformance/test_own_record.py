"""What a function sees of its own record, and what the record of one born canceled shows."""

from collections.abc import Callable

from evertick import ActionCtx, App, JobId, JobResult, MutationCtx, QueryCtx, Retry, SyncActionCtx
from evertick.documents import Document
from evertick.functions import JobState
from evertick.testing import World
from tests.conformance.waiting import undeterred

OpenWorld = Callable[..., World]

app = App("own record")


@app.query
def record(ctx: QueryCtx, job_id: str) -> Document | None:
    return ctx.db.system.get(job_id)


@app.mutation
def look(ctx: MutationCtx) -> str:
    assert ctx.job_id is not None
    row = ctx.db.system.get(ctx.job_id)
    assert row is not None
    assert "completed_time" not in row
    return str(row["state"]["kind"])


@app.action
async def act_look(ctx: ActionCtx) -> str:
    assert ctx.job_id is not None
    row = await ctx.run_query(record, ctx.job_id)
    assert row is not None
    return str(row["state"]["kind"])


@app.mutation
def later(ctx: MutationCtx, n: int) -> None:
    ctx.db.insert("ran", {"n": n})


@app.action
async def schedule_late(ctx: ActionCtx) -> JobId:
    await undeterred(10)
    return await ctx.scheduler.run_after(60, later, 1)


def test_a_mutation_sees_itself_pending_and_an_action_in_progress(world: OpenWorld) -> None:
    """Convex shows a mutation its own record as in progress. Here a mutation is pending to everyone until it is over:
    what it would see of itself is not true if its transaction is undone.
    """
    w = world(app)
    ids = [w.app.scheduler.run_after(0, look), w.app.scheduler.run_after(0, act_look)]
    w.drain()

    assert [w.job(job_id).result for job_id in ids] == ["pending", "in_progress"]


def test_one_born_canceled_ended_when_it_was_scheduled_and_keeps_what_was_asked_for(world: OpenWorld) -> None:
    """Convex shows the moment of the call as its scheduled time, too; here that field is always what was asked for."""
    w = world(app)
    parent = w.app.scheduler.run_after(0, schedule_late)
    w.advance(1)
    w.app.scheduler.cancel(parent)
    w.advance(9)

    called_at = round(w.now.timestamp() * 1000)
    row = w.query("_scheduled_functions")[-1]
    assert row["state"] == {"kind": "canceled"}
    assert row["completed_time"] == called_at
    assert row["scheduled_time"] == called_at + 60_000
    assert row["args"] == [{"n": 1}]
    w.drain()
    assert w.query("ran") == []


def test_jobs_that_are_due_at_the_same_moment_start_in_the_order_of_their_scheduling(world: OpenWorld) -> None:
    """Convex promises no order among equals."""
    w = world(app)
    for n in range(20):
        w.app.scheduler.run_after(5, later, n)
    w.drain()

    assert [document["n"] for document in w.query("ran")] == list(range(20))


def test_a_retry_that_fails_after_its_cancel_is_not_tried_again(world: OpenWorld) -> None:
    local = App("local")
    runs: list[int] = []

    @local.action
    async def fails(ctx: ActionCtx) -> None:
        runs.append(ctx.attempt)
        await undeterred(5)
        raise ValueError("boom")

    w = world(local)
    job_id = w.app.scheduler.using(retry=Retry(3, first=1)).run_after(0, fails)
    w.advance(2)
    w.app.scheduler.cancel(job_id)
    w.advance(3600)

    assert runs == [1]
    assert w.job(job_id).state is JobState.CANCELED


def test_one_born_canceled_takes_no_key_and_tells_nobody(world: OpenWorld) -> None:
    """A completion would be one more function that a canceled one schedules."""
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx) -> None: ...

    @local.mutation
    def done(ctx: MutationCtx, job_id: str, context: None, result: JobResult) -> None: ...

    @local.action
    def act(ctx: SyncActionCtx) -> None:
        assert ctx.job_id is not None
        ctx.scheduler.cancel(ctx.job_id)
        for on_conflict in ("replace", "keep", "error"):
            ctx.scheduler.using(key="k", on_conflict=on_conflict, on_complete=done).run_after(0, target)

    w = world(local)
    holder = w.app.scheduler.using(key="k").run_after(3600, target)
    w.app.scheduler.run_after(0, act)
    w.advance(60)

    assert [job.state for job in w.jobs(target)] == [JobState.PENDING] + [JobState.CANCELED] * 3
    assert w.job(holder).state is JobState.PENDING
    assert w.jobs(done) == []


def test_a_job_keeps_its_key_and_the_time_that_was_asked_for_while_it_waits_for_its_next_try(world: OpenWorld) -> None:
    local = App("local")

    @local.action
    async def fails(ctx: ActionCtx) -> None:
        raise ValueError(f"attempt {ctx.attempt}")

    w = world(local)
    keyed = w.app.scheduler.using(key="k", retry=Retry(2, first=60, jitter=0.0))
    job_id = keyed.run_after(5, fails)
    asked_for = w.query("_scheduled_functions")[0]["scheduled_time"]
    w.advance(6)
    row = w.query("_scheduled_functions")[0]

    assert (row["state"], row["scheduled_time"]) == ({"kind": "pending"}, asked_for)
    assert (w.job(job_id).due_at - w.job(job_id).requested_at).total_seconds() == 60
    assert keyed.run_after(0, fails) == job_id
    w.drain()
    assert w.query("_scheduled_functions")[0]["state"] == {"kind": "failed", "error": "ValueError: attempt 2"}
    assert w.query("_scheduled_functions")[0]["scheduled_time"] == asked_for

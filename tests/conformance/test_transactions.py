"""Scheduling belongs to the transaction that schedules."""

import asyncio
from collections.abc import Callable

import pytest

from evertick import ActionCtx, App, JobId, MutationCtx, QueryCtx
from evertick.functions import JobState
from evertick.testing import World
from tests.conformance.facts import fact

OpenWorld = Callable[..., World]

app = App("transactions")


@app.mutation
def write(ctx: MutationCtx, text: str) -> None:
    ctx.db.insert("texts", {"text": text})


@app.mutation
def schedule_then_raise(ctx: MutationCtx) -> None:
    ctx.scheduler.run_after(0, write, "never")
    raise ValueError("afterwards")


@app.mutation
def schedule(ctx: MutationCtx, text: str, delay: float = 0) -> JobId:
    return ctx.scheduler.run_after(delay, write, text)


@app.mutation
def unrelated_failure(ctx: MutationCtx) -> None:
    raise RuntimeError("not mine")


def texts(w: World) -> list[str]:
    return [document["text"] for document in w.query("texts")]


@fact("cvx-sf-003")
def test_a_mutation_that_raises_after_scheduling_leaves_no_job(world: OpenWorld) -> None:
    w = world(app)

    with pytest.raises(ValueError, match="afterwards"):
        w.call(schedule_then_raise)
    w.advance(3600)

    assert w.jobs() == []
    assert texts(w) == []


def test_a_scheduled_mutation_that_raises_after_scheduling_leaves_only_its_own_row(world: OpenWorld) -> None:
    w = world(app)
    job_id = w.app.scheduler.run_after(1, schedule_then_raise)
    w.advance(3600)

    assert [job.id for job in w.jobs()] == [job_id]
    assert w.job(job_id).state is JobState.FAILED


@fact("cvx-sf-005")
def test_a_job_without_delay_never_starts_before_the_commit(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("texts", {"text": text})

    @local.mutation
    def parent(ctx: MutationCtx) -> None:
        ctx.scheduler.run_after(0, target, "A")
        ctx.db.insert("texts", {"text": "B"})

    w = world(local)
    w.call(parent)
    w.drain()

    assert texts(w) == ["B", "A"]


def test_the_job_of_a_scheduled_mutation_starts_after_its_commit_too(world: OpenWorld) -> None:
    """Many mutations share a commit, but what one of them schedules is only there after it."""
    local = App("local")

    @local.mutation
    def child(ctx: MutationCtx) -> None:
        ctx.db.insert("texts", {"text": f"child sees {len(ctx.db.query('texts').collect())}"})

    @local.mutation
    def parent(ctx: MutationCtx) -> None:
        ctx.scheduler.run_after(0, child)
        ctx.db.insert("texts", {"text": "parent"})

    w = world(local)
    w.app.scheduler.run_after(1, parent)
    w.app.scheduler.run_after(1, parent)
    w.drain()

    assert texts(w) == ["parent", "parent", "child sees 2", "child sees 3"]


@fact("cvx-sf-007")
def test_what_a_nested_mutation_scheduled_is_gone_when_its_parent_raises(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def child(ctx: MutationCtx) -> None:
        ctx.scheduler.run_after(0, target)

    @local.mutation
    def target(ctx: MutationCtx) -> None:
        ctx.db.insert("texts", {"text": "never"})

    @local.mutation
    def parent(ctx: MutationCtx) -> None:
        ctx.run_mutation(child)
        raise ValueError("parent")

    w = world(local)
    with pytest.raises(ValueError, match="parent"):
        w.call(parent)
    w.advance(3600)

    assert w.jobs() == []
    assert texts(w) == []


def test_a_nested_mutation_that_raises_undoes_its_own_writes_and_jobs_alone(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("texts", {"text": text})

    @local.mutation
    def child(ctx: MutationCtx) -> None:
        ctx.db.insert("texts", {"text": "child"})
        ctx.scheduler.run_after(0, target, "scheduled by the child")
        raise ValueError("child")

    @local.mutation
    def parent(ctx: MutationCtx) -> None:
        ctx.db.insert("texts", {"text": "before"})
        ctx.scheduler.run_after(0, target, "scheduled by the parent")
        with pytest.raises(ValueError, match="child"):
            ctx.run_mutation(child)
        ctx.db.insert("texts", {"text": "after"})

    w = world(local)
    w.call(parent)
    w.drain()

    assert texts(w) == ["before", "after", "scheduled by the parent"]
    assert len(w.jobs()) == 1


def test_what_a_nested_mutation_scheduled_runs_later_by_itself(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx) -> None:
        ctx.db.insert("texts", {"text": f"job {ctx.job_id}"})

    @local.mutation
    def child(ctx: MutationCtx) -> JobId:
        return ctx.scheduler.run_after(5, target)

    @local.mutation
    def parent(ctx: MutationCtx) -> JobId:
        return ctx.run_mutation(child)

    w = world(local)
    job_id = w.call(parent)
    w.advance(5)

    assert texts(w) == [f"job {job_id}"]


def test_another_mutation_that_raises_in_between_does_not_disturb_a_job(world: OpenWorld) -> None:
    w = world(app)
    w.call(schedule, "kept", delay=10)
    w.advance(5)
    with pytest.raises(RuntimeError, match="not mine"):
        w.call(unrelated_failure)
    w.advance(5)

    assert texts(w) == ["kept"]


def test_each_call_of_an_action_is_a_transaction_of_its_own_and_survives_its_failure(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("texts", {"text": text})

    @local.action
    async def act(ctx: ActionCtx) -> None:
        await ctx.scheduler.run_after(10, target, "scheduled")
        await ctx.run_mutation(target, "written")
        raise OSError("later")

    w = world(local)
    job_id = w.app.scheduler.run_after(0, act)
    w.drain()

    assert w.job(job_id).error == "OSError: later"
    assert texts(w) == ["written", "scheduled"]


def test_an_action_sees_the_effect_of_what_it_scheduled_while_it_runs(world: OpenWorld) -> None:
    local = App("local")

    @local.mutation
    def target(ctx: MutationCtx) -> None:
        ctx.db.insert("texts", {"text": "done"})

    @local.query
    def count(ctx: QueryCtx) -> int:
        return len(ctx.db.query("texts").collect())

    @local.action
    async def act(ctx: ActionCtx) -> int:
        await ctx.scheduler.run_after(0, target)
        looks = 0
        while not await ctx.run_query(count):
            await asyncio.sleep(0.1)
            looks += 1
        return looks

    w = world(local)
    job_id = w.app.scheduler.run_after(0, act)
    w.advance(60)

    assert w.job(job_id).state is JobState.SUCCESS
    assert texts(w) == ["done"]

"""Suspects, whose workers died twice: what they wait for, and what goes on meanwhile. The deaths are arranged."""

import asyncio
from collections.abc import Iterator

import pytest

from evertick import ActionCtx, App, MutationCtx, Retry, Step
from evertick.engine.jobs import claims
from evertick.engine.jobs.mutations import BATCHES_IN_A_ROW
from evertick.engine.runtime.settings import Settings
from evertick.functions import JobState
from evertick.rules.jobs.lifecycle import CRASHES_MAX, SUSPECT_CRASHES
from evertick.testing import World
from evertick.testing.loop import JumpingLoop
from evertick.workflows import RunState
from tests.app.engine import SharedStore, run_for, worker_of

app = App("suspects")


@app.mutation
def note(ctx: MutationCtx, what: str) -> None:
    ctx.db.insert("notes", {"what": what})


@app.mutation
def suspect(ctx: MutationCtx) -> None:
    ctx.db.insert("notes", {"what": "suspect"})


@app.action
async def act(ctx: ActionCtx, name: str, takes: float) -> None:
    await ctx.run_mutation(note, f"{name} begins")
    await asyncio.sleep(takes)
    await ctx.run_mutation(note, f"{name} ends")


@pytest.fixture
def world() -> Iterator[World]:
    opened = World(app)
    yield opened
    opened.close()


def notes(world: World) -> list[str]:
    """What happened, in its order."""
    return [document["what"] for document in world.query("notes")]


def make_suspect(world: World) -> str:
    """A mutation that two workers did not survive, due again in 10 seconds."""
    world.crash_before_commit(suspect, times=SUSPECT_CRASHES)
    job_id = world.app.scheduler.using(retry=Retry(9, first=10, jitter=0)).run_after(0, suspect)
    world.advance(0.001)
    for _ in range(SUSPECT_CRASHES - 1):
        world.restart()
    world.fail_next(suspect, ValueError("not yet"))
    world.restart()
    world.advance(0.001)
    assert world.job(job_id).crashes == SUSPECT_CRASHES
    return job_id


def test_a_suspect_mutation_waits_for_the_actions_that_run_and_none_is_started_before_it(world: World) -> None:
    """Mutations that are no suspects go on."""
    make_suspect(world)
    world.app.scheduler.run_after(5, act, "first", takes=30)
    world.app.scheduler.run_after(12, act, "second", takes=30)
    world.app.scheduler.run_after(15, note, "fresh")

    world.advance(34)
    assert notes(world) == ["first begins", "fresh"]
    world.advance(2)
    assert notes(world) == ["first begins", "fresh", "first ends", "suspect", "second begins"]


def test_a_suspect_mutation_that_is_canceled_while_it_waits_lets_actions_start_again(world: World) -> None:
    job_id = make_suspect(world)
    world.app.scheduler.run_after(5, act, "first", takes=30)
    world.app.scheduler.run_after(12, act, "second", takes=1)
    world.advance(15)

    world.app.scheduler.cancel(job_id)
    world.advance(3)

    assert notes(world) == ["first begins", "second begins", "second ends"]


def test_a_suspect_action_runs_beside_others_but_beside_no_other_suspect(world: World) -> None:
    retried = world.app.scheduler.using(retry=Retry(9, first=0.001))
    jobs = [retried.run_after(0, act, name, takes=10) for name in ("one", "other")]
    for _ in range(SUSPECT_CRASHES):
        world.advance(1)
        world.restart()
    assert [world.job(job_id).crashes for job_id in jobs] == [SUSPECT_CRASHES] * 2
    before = len(notes(world))
    world.app.scheduler.run_after(2, act, "fresh", takes=1)

    world.drain()

    told = notes(world)[before:]
    assert told in (
        ["one begins", "fresh begins", "fresh ends", "one ends", "other begins", "other ends"],
        ["other begins", "fresh begins", "fresh ends", "other ends", "one begins", "one ends"],
    )


def test_a_worker_that_stops_while_a_suspect_waits_leaves_it_to_the_next(world: World) -> None:
    make_suspect(world)
    world.app.scheduler.run_after(5, act, "first", takes=30)
    world.advance(15)

    world.restart()

    assert notes(world) == ["first begins", "suspect"]


@pytest.mark.parametrize("killers", [1, 2])
def test_workflow_runs_are_not_held_while_a_suspect_mutation_kills_its_worker(killers: int) -> None:
    """A crash is counted for all that the worker holds: an innocent run would be quarantined with the mutation."""
    deadly = App("deadly")

    @deadly.mutation
    def kill(ctx: MutationCtx) -> None: ...

    @deadly.mutation
    def step_of_run(ctx: MutationCtx) -> None: ...

    @deadly.workflow
    async def innocent(step: Step) -> None:
        await step.run(step_of_run)

    with World(deadly) as world:
        world.crash_before_commit(kill, times=killers * CRASHES_MAX)
        killed = [deadly.scheduler.enqueue(kill) for _ in range(killers)]
        runs = [deadly.workflows.start(innocent) for _ in range(5)]
        for _ in range(killers * CRASHES_MAX + 1):
            world.advance(1)
            world.restart()

        assert {world.job(job_id).crashes for job_id in killed} == {CRASHES_MAX}
        assert {deadly.workflows.get(run_id).state for run_id in runs} == {RunState.SUCCESS}
        assert max(world.job(run_id).crashes for run_id in runs) <= SUSPECT_CRASHES


def test_a_suspect_mutation_and_a_suspect_run_take_turns() -> None:
    """Each pauses the loop of the other. Actions and other jobs continue when both have run."""
    both = App("both")

    @both.mutation
    def kill(ctx: MutationCtx) -> None:
        ctx.db.insert("done", {"what": "mutation"})

    @both.workflow
    async def dies(step: Step) -> None:
        await step.run(kill)

    @both.action
    async def after(ctx: ActionCtx) -> None: ...

    with World(both) as world:
        world.crash_before_commit(kill, times=2 * SUSPECT_CRASHES)
        jobs = [both.scheduler.enqueue(kill), both.workflows.start(dies)]
        for _ in range(2 * SUSPECT_CRASHES + 1):
            world.advance(1)
            world.restart()
        jobs.append(both.scheduler.enqueue(after))
        world.advance(5)

        assert sorted(world.job(job_id).crashes for job_id in jobs) == [0, SUSPECT_CRASHES, 2 * SUSPECT_CRASHES]
        assert [world.job(job_id).state for job_id in jobs] == [JobState.SUCCESS] * 3
        assert len(world.query("done")) == 2


def test_a_suspect_mutation_is_not_passed_by_while_batches_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every claim looks at suspects; what one saw was forgotten with the claims that followed it in the round."""
    monkeypatch.setattr(claims, "POLL_KEPT_MS", 0)  # every second claim looks
    store, loop, ran = SharedStore("sqlite://"), JumpingLoop(), []
    store.migrate()
    busy = App("busy", settings=Settings(batch=1))

    @busy.mutation(name="job")
    def job(ctx: MutationCtx, number: int) -> None:
        ran.append(number)
        if len(ran) == 1:
            marked = "update jobs set crashes = ?, stage = 'suspect' where id = ?"
            ctx.connection.execute(marked, (SUSPECT_CRASHES, suspect_id))

    busy.open_on(store, inline=True)
    busy.scheduler.run_after_many(0, [job.with_args(number) for number in range(8 * BATCHES_IN_A_ROW)])
    suspect_id = busy.scheduler.run_after(0, job, -1)
    worker = worker_of(busy)

    run_for(loop, worker, 5)

    assert len(ran) == 8 * BATCHES_IN_A_ROW + 1
    assert ran.index(-1) <= BATCHES_IN_A_ROW + 2  # the batch that made it one, and a round
    loop.close()
    busy.close()

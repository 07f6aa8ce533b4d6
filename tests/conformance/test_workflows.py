"""Workflows, as Convex's Workflow component has them. Two things differ, and each test says which."""

import asyncio
from collections.abc import Callable

import pytest

from evertick import ActionCtx, App, JobResult, MutationCtx, Retry, Settings, Step
from evertick.errors import StepFailed
from evertick.testing import World
from evertick.workflows import Workflow
from tests.conformance.facts import fact

OpenWorld = Callable[..., World]

app = App("workflows")
second = "second"


@app.mutation
def note(ctx: MutationCtx, text: str) -> str:
    ctx.db.insert("notes", {"text": text})
    return text


@app.mutation
def told(ctx: MutationCtx, job_id: str, context: None, result: JobResult) -> None:
    ctx.db.insert("told", {"kind": result.kind})


@app.action
async def fail(ctx: ActionCtx) -> None:
    ctx.log.info("attempt")
    raise ValueError("boom")


@app.action
async def slow(ctx: ActionCtx) -> str:
    await asyncio.sleep(60)
    return "slow"


@app.workflow
async def two_steps(step: Step) -> str:
    await step.run(note, "first")
    return await step.using(name=second).run(slow)


@app.workflow
async def catches(step: Step) -> str:
    try:
        await step.using(retry=Retry(3, first=0.1)).run(fail)
    except StepFailed as error:
        return await step.run(note, f"went on after {error.type}")
    return "did not fail"


@app.workflow
async def sleeps(step: Step) -> None:
    await step.sleep(3600)


@app.workflow
async def acts(step: Step) -> None:
    await step.run(slow)
    await step.run(note, "acted")


@app.workflow
async def three_at_once(step: Step, return_exceptions: bool) -> list[str]:
    began, results = step.now(), list[object]()
    steps = (step.run(slow), step.run(fail), step.run(note, "mutation"))
    try:
        results += await asyncio.gather(*steps, return_exceptions=return_exceptions)
    except StepFailed as error:
        results.append(error)
    return [*map(str, results), str(step.now() - began)]


def notes(world: World) -> list[str]:
    return [line["text"] for line in world.query("notes")]


@fact("cvx-wf-001")
def test_code_that_does_not_fit_the_journal_stops_the_run_and_no_step_runs_again(
    world: OpenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the run ends failed. Here it waits for code that fits, and says so: nothing of what it did is lost."""
    w = world(app, settings=Settings(runs_in_memory=0))
    run = w.app.workflows.start(two_steps)
    w.advance(30)
    with monkeypatch.context() as changed:
        changed.setattr("tests.conformance.test_workflows.second", "renamed")
        w.advance(60)
        stopped = w.app.workflows.get(run)
        assert stopped.state == "running" and stopped.error is not None
        assert (stopped.error["type"], notes(w)) == ("ReplayMismatch", ["first"])
        assert "action 'second'" in stopped.error["message"] and "action 'renamed'" in stopped.error["message"]
    w.advance(60)
    assert (w.app.workflows.get(run).result, notes(w)) == ("slow", ["first"])


@fact("cvx-wf-003")
def test_a_run_whose_code_catches_the_error_of_a_step_goes_on(world: OpenWorld) -> None:
    w = world(app)
    run = w.app.workflows.start(catches)
    w.advance(60)
    assert w.app.workflows.get(run).result == "went on after ValueError"
    assert [job.attempt for job in w.jobs(fail)] == [3]


@fact("cvx-wf-005")
@pytest.mark.parametrize("workflow", [sleeps, acts], ids=["in a sleep", "in a step"])
def test_a_canceled_run_is_told_as_canceled_and_a_later_result_changes_nothing(
    world: OpenWorld, workflow: Workflow[[], None]
) -> None:
    w = world(app)
    run = w.app.workflows.using(on_complete=told).start(workflow)
    w.advance(30)
    w.app.workflows.cancel(run)
    w.advance(7200)
    assert w.app.workflows.get(run).state == "canceled"
    assert ([line["kind"] for line in w.query("told")], notes(w)) == (["canceled"], [])


@fact("cvx-wf-007")
def test_steps_at_once_of_which_one_fails(world: OpenWorld) -> None:
    """There the code goes on when all have ended. Here it is as everywhere in asyncio: `gather` raises at once, and
    waits for all with `return_exceptions`.
    """
    w = world(app)
    all_ended = w.app.workflows.start(three_at_once, return_exceptions=True)
    w.advance(120)
    [ended, failed, mutated, took] = w.app.workflows.get(all_ended).result
    assert (ended, mutated, took) == ("slow", "mutation", "0:01:00") and "ValueError: boom" in failed

    at_once = w.app.workflows.start(three_at_once, return_exceptions=False)
    w.advance(1)
    [failed, took] = w.app.workflows.get(at_once).result
    assert "ValueError: boom" in failed and took.startswith("0:00:00")
    assert w.jobs(slow)[-1].state == "canceled"

"""Workflows whose code and steps do what no workflow should: the run ends, says why, and others go on."""

import asyncio
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Step
from evertick.errors import InvalidArguments, StepFailed, StepOutsideWorkflow
from evertick.testing import World, minutes

HUGE = 10**5_000


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("message", ["half a pair \udc80", "a byte \x00"])
def test_a_step_may_fail_with_text_that_no_database_keeps(message: str) -> None:
    app = App("test")

    @app.mutation
    def fail(ctx: MutationCtx) -> None:
        raise ValueError(message)

    @app.workflow
    async def run(step: Step) -> str:
        try:
            await step.run(fail)
        except StepFailed as error:
            return ascii(error.message)
        return "it did not fail"

    with World(app) as world:
        run_id = app.workflows.start(run)
        world.advance(1)
        result = app.workflows.result(run_id)

    assert result == ascii(message)


def test_what_a_run_did_stays_done_when_its_error_cannot_be_printed() -> None:
    app = App("test")

    @app.mutation
    def keep(ctx: MutationCtx) -> None:
        ctx.db.insert("kept", {})

    @app.workflow
    async def run(step: Step) -> None:
        await step.run(keep)
        raise Unprintable

    with World(app) as world:
        run_id = app.workflows.start(run)
        world.advance(1)
        ended = app.workflows.get(run_id)
        kept = len(app.db.query("kept").collect())

    assert ended.error is not None
    assert ended.error["type"] == "Unprintable"
    assert "cannot be read" in ended.error["message"]
    assert kept == 1


def test_the_error_of_a_run_has_its_traceback_and_reaches_the_hooks() -> None:
    app = App("test")
    told: list[BaseException | None] = []

    @app.on_failure
    def tell(failure: Any) -> None:
        told.append(failure.exception)

    @app.workflow
    async def run(step: Step) -> None:
        await step.sleep(1)
        raise LookupError("which shelf?")

    with World(app) as world:
        run_id = app.workflows.start(run)
        world.advance(2)
        ended = app.workflows.get(run_id)

    assert ended.error is not None
    assert 'raise LookupError("which shelf?")' in ended.error["traceback"]
    assert "evertick/rules" not in ended.error["traceback"]
    assert [type(error) for error in told] == [LookupError]


def test_the_steps_of_a_run_that_has_left_memory_are_of_no_use_to_another() -> None:
    app = App("test")
    steps: list[Step] = []

    @app.mutation
    def keep(ctx: MutationCtx) -> None:
        ctx.db.insert("kept", {})

    @app.workflow
    async def lend(step: Step) -> None:
        steps.append(step)

    @app.workflow
    async def misuse(step: Step) -> str:
        try:
            await steps[0].run(keep)
        except StepOutsideWorkflow as error:
            return str(error)
        return "it ran"

    with World(app) as world:
        app.workflows.start(lend)
        world.advance(1)
        run_id = app.workflows.start(misuse)
        world.advance(1)
        assert "called outside the code of its run" in app.workflows.result(run_id)
        assert app.db.query("kept").collect() == []


@pytest.mark.parametrize("value", [HUGE, deep(220)], ids=["long number", "deep list"])
def test_what_could_not_be_read_back_is_refused_when_it_is_written(value: Any) -> None:
    app = App("test")

    @app.mutation
    def take(ctx: MutationCtx, value: Any) -> None: ...

    @app.mutation
    def give(ctx: MutationCtx) -> Any:
        return value

    @app.workflow
    async def run(step: Step) -> str:
        try:
            await step.run(give)
        except StepFailed as error:
            return str(error)
        return "it was read"

    with World(app) as world:
        with pytest.raises(InvalidArguments, match="cannot be read back"):
            app.scheduler.run_after(0, take, value)
        job_id = app.scheduler.run_after(0, give)
        run_id = app.workflows.start(run)
        world.advance(1)
        assert app.jobs.get(job_id).state == "failed"
        assert "cannot be read back" in app.workflows.result(run_id)
        assert {job.id for job in app.jobs.list().jobs} == {job_id, run_id}  # no row makes the list unreadable


def test_values_just_within_what_can_be_read_arrive() -> None:
    app = App("test")

    @app.mutation
    def give_back(ctx: MutationCtx, value: Any) -> Any:
        return value

    with World(app) as world:
        ids = [app.scheduler.run_after(0, give_back, value) for value in (10**4_000, deep(150), "1" * 5_000, deep(1))]
        world.advance(1)
        results = [app.jobs.get(job_id).result for job_id in ids]

    assert results == [10**4_000, deep(150), "1" * 5_000, deep(1)]


@pytest.mark.parametrize("how", ["cancel", "timeout", "group", "gather", "left behind", "stuck"])
def test_what_a_run_still_waits_for_when_it_ends_is_canceled(how: str) -> None:
    app = App("test")

    @app.action(name="call")
    async def call(ctx: ActionCtx) -> None:
        await asyncio.sleep(600)

    @app.workflow(name="child")
    async def child(step: Step) -> None:
        await step.wait_for("never")

    @app.mutation(name="fail")
    def fail(ctx: MutationCtx) -> None:
        raise ValueError

    async def failing(step: Step) -> None:
        await step.sleep(1)
        await step.run(fail)

    @app.workflow(name="parent")
    async def parent(step: Step) -> None:
        both = [step.run(call), step.workflow(child)]
        if how == "cancel":
            await asyncio.gather(*both)
        elif how == "timeout":
            async with asyncio.timeout(5):
                await asyncio.gather(*both)
        elif how == "group":
            async with asyncio.TaskGroup() as group:
                for each in (*both, failing(step)):
                    group.create_task(each)
        elif how == "gather":
            await asyncio.gather(*both, failing(step))
        elif how == "left behind":
            tasks = [asyncio.create_task(each) for each in both]
            await step.sleep(1)
            assert not any(task.done() for task in tasks)
        else:
            tasks = [asyncio.create_task(each) for each in both]
            await step.sleep(1)
            while True:
                await asyncio.sleep(0)

    with World(app) as world:
        run_id = app.workflows.start(parent)
        world.advance(minutes(1) if how != "cancel" else 1)
        if how == "cancel":
            app.workflows.cancel(run_id)
        world.advance(minutes(20))
        ended = {job.function: job.state for job in app.jobs.list().jobs if job.function != "fail"}

    assert ended.pop("parent") in ("success", "failed", "canceled")
    assert ended == {"call": "canceled", "child": "canceled"}


def test_the_end_of_a_call_of_an_earlier_generation_is_no_end_of_a_later_one() -> None:
    app = App("test")

    @app.workflow(name="slow")
    async def slow(step: Step) -> str:
        try:
            await step.wait_for("never")
        except asyncio.CancelledError:
            await step.sleep(5)  # so its end comes when the run has continued as new
            raise
        return ""

    @app.workflow(name="quick")
    async def quick(step: Step) -> str:
        await step.sleep(20)
        return "quick"

    @app.workflow(name="parent")
    async def parent(step: Step, generation: int = 0) -> str:
        if generation == 0:
            try:
                await step.using(timeout=1).workflow(slow)
            except TimeoutError:
                step.continue_as_new(1)
        return await step.workflow(quick)

    with World(app) as world:
        run_id = app.workflows.start(parent)
        world.advance(minutes(1))
        assert app.workflows.result(run_id) == "quick"


def test_a_run_whose_arguments_no_longer_fit_says_so() -> None:
    old, new = App("test"), App("test")

    @old.workflow(name="greet")
    async def greet(step: Step, name: str) -> None:
        await step.sleep(1)
        await step.wait_for("answered")

    @new.workflow(name="greet")
    async def greet_all(step: Step, names: list[str]) -> None:
        await step.sleep(1)

    with World(old) as world:
        run_id = old.workflows.start(greet, "ada")
        world.advance(5)
        world.deploy(new)
        new.workflows.signal(run_id, "answered")
        world.advance(5)
        error = new.workflows.get(run_id).error

    assert error is not None
    assert error["type"] == "ReplayMismatch"
    assert "the code ends with InvalidArguments: ArgumentValidationError: greet(names)" in error["message"]

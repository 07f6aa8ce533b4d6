"""Runs of workflows with a real worker, on both databases."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pydantic
import pytest

from evertick import ActionCtx, App, JobResult, MutationCtx, QueryCtx, Retry, Step
from evertick.errors import (
    AlreadyExists,
    InvalidArguments,
    JobNotFound,
    Misuse,
    RunNotOpen,
    StepFailed,
    StepStillRuns,
    WorkflowFailed,
)
from evertick.functions import Mutation
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine

pytestmark = pytest.mark.sql

Add = Mutation[[str], int]


class Color(Enum):
    RED = "red"


@dataclass
class Line:
    price: Decimal


class Decision(pydantic.BaseModel):
    by: UUID
    lines: list[Line]


@pytest.fixture
def app(open_app: OpenApp) -> App:
    return open_app()


@pytest.fixture
def add(app: App) -> Add:
    """A mutation that writes a line and returns how many there are."""

    @app.mutation(name="add")
    def add(ctx: MutationCtx, text: str) -> int:
        ctx.db.insert("lines", {"text": text})
        return len(ctx.db.query("lines").collect())

    return add


def until(question: Callable[[], bool]) -> None:
    """Wait until something holds that no job's end tells of."""
    deadline = time.monotonic() + PATIENCE_S
    while not question():
        assert time.monotonic() < deadline, "nothing came of it"
        time.sleep(0.005)


def lines(app: App) -> list[str]:
    return [line["text"] for line in app.db.query("lines").collect()]


def test_a_request_to_cancel_is_heard_before_an_event_that_would_end_the_run(app: App, add: Add) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step) -> str:
        try:
            await step.wait_for("go")
        except asyncio.CancelledError:
            await step.run(add, "cleaned up")
            raise
        return "went"

    run_id = app.workflows.start(flow)
    with Engine(app):
        until(lambda: len(app.workflows.history(run_id).events) == 2)  # it waits
    app.workflows.signal(run_id, "go")
    assert app.workflows.cancel(run_id)
    with Engine(app):
        until(lambda: app.workflows.get(run_id).state == "canceled")

    assert lines(app) == ["cleaned up"]


TYPED = {
    "at": datetime(2026, 1, 1, tzinfo=UTC), "color": Color.RED, "days": {date(2026, 1, 2)}, "proof": b"\xff",
    "n": (1, 2), "decision": Decision(by=UUID(int=1), lines=[Line(Decimal("1.50"))]), "rate": Decimal("0.1"),
}  # fmt: skip


def test_an_event_of_a_program_without_the_workflow_is_written_as_json(app: App) -> None:
    """It does not know the types; beside the code, a value that is no JSON and has no type is refused."""
    taken: list[Any] = []

    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        taken.append(await step.wait_for("decided"))

    run_id = app.workflows.start(flow)
    with pytest.raises(InvalidArguments, match="the value of the event 'decided' cannot be stored as JSON"):
        app.workflows.signal(run_id, "decided", TYPED)
    elsewhere = App(app.name, database_url=app.database_url)
    with elsewhere:
        elsewhere.workflows.signal(run_id, "decided", TYPED)
    with Engine(app):
        until(lambda: app.workflows.get(run_id).state == "success")
    assert taken[0] == {
        "at": "2026-01-01T00:00:00Z", "color": "red", "days": ["2026-01-02"], "proof": "_w==", "n": [1, 2],
        "decision": {"by": str(UUID(int=1)), "lines": [{"price": "1.50"}]}, "rate": "0.1",
    }  # fmt: skip


@pytest.mark.parametrize("value", [object(), float("nan"), [Line(Decimal(1)), object()], {"deep": Line(float("inf"))}])  # type: ignore[arg-type]
def test_a_value_of_an_event_that_cannot_be_written_is_refused(app: App, value: object) -> None:
    with pytest.raises(InvalidArguments, match="the value of the event 'decided' cannot be stored as JSON"):
        app.workflows.signal("run", "decided", value)


def test_steps_run_in_order_and_once_and_their_results_come_back(app: App, add: Add) -> None:
    @app.query(name="count")
    def count(ctx: QueryCtx) -> int:
        return len(ctx.db.query("lines").collect())

    @app.action(name="double")
    async def double(ctx: ActionCtx, n: int) -> int:
        return 2 * n

    @app.workflow(name="flow")
    async def flow(step: Step, first: str) -> list[int]:
        counted = await step.run(add, first)
        doubled = await step.run(double, 21)
        return [counted, doubled, await step.run(add, "second"), await step.run(count)]

    with Engine(app):
        run_id = app.workflows.start(flow, "first")
        assert app.workflows.result(run_id, timeout=PATIENCE_S) == [1, 42, 2, 2]

    assert lines(app) == ["first", "second"]
    run = app.workflows.get(run_id)
    assert (run.state, run.function, run.args) == ("success", "flow", {"first": "first"})
    assert [(e.kind.value, e.name) for e in app.workflows.history(run_id).events] == [
        ("start", ""), ("step", "add"), ("call", "double"), ("end", "double"), ("step", "add"), ("step", "count"),
    ]  # fmt: skip


def test_gathered_steps_children_and_sleeps_go_on_side_by_side(app: App, add: Add) -> None:
    @app.action(name="ten")
    async def ten(ctx: ActionCtx, n: int) -> int:
        return 10 * n

    @app.workflow(name="child")
    async def child(step: Step, n: int) -> int:
        await step.sleep(0.01)
        return 100 * n

    @app.workflow(name="parent")
    async def parent(step: Step) -> list[int]:
        return list(
            await asyncio.gather(
                step.run(ten, 1), step.run(ten, 2), step.run(add, "x"), step.workflow(child, 3), step.workflow(child, 4)
            )
        )

    with Engine(app):
        assert app.workflows.result(app.workflows.start(parent), timeout=PATIENCE_S) == [10, 20, 1, 300, 400]


def test_a_run_takes_events_in_the_order_in_which_they_were_sent(app: App) -> None:
    @app.workflow(name="listen")
    async def listen(step: Step) -> list[object]:
        step.progress({"listens": True})
        return [await step.wait_for("word"), await step.wait_for("end"), await step.wait_for("word")]

    with Engine(app):
        run_id = app.workflows.using(key="ears").start(listen)
        app.workflows.signal("ears", "word", "a", key="1")
        app.workflows.signal("ears", "word", "not again", key="1")
        app.workflows.signal(run_id, "word", {"b": 1})
        app.workflows.signal(run_id, "end")
        assert app.workflows.result(run_id, timeout=PATIENCE_S) == ["a", None, {"b": 1}]

    assert app.workflows.get(run_id).progress == {"listens": True}
    with pytest.raises(RunNotOpen, match="has ended"):
        app.workflows.signal(run_id, "word")
    with pytest.raises(RunNotOpen, match="has ended"):
        app.workflows.signal("ears", "word")
    assert app.workflows.get("ears").id == run_id
    with pytest.raises(JobNotFound, match="no run 'eyes'"):
        app.workflows.get("eyes")


def test_a_mutation_starts_signals_and_ends_runs_with_its_transaction_or_not_at_all(app: App) -> None:
    @app.workflow(name="wait")
    async def wait(step: Step) -> object:
        return await step.wait_for("go")

    @app.mutation(name="begin")
    def begin(ctx: MutationCtx, fails: bool) -> str:
        run_id = ctx.workflows.using(key="the one").start(wait)
        ctx.workflows.signal(run_id, "go", "went")
        if fails:
            raise ValueError("no")
        return run_id

    with Engine(app):
        with pytest.raises(ValueError, match="no"):
            app.call(begin, True)
        assert app.workflows.list(wait).runs == ()
        run_id = app.call(begin, False)
        assert app.workflows.result(run_id, timeout=PATIENCE_S) == "went"


def test_only_one_unfinished_run_has_a_key(app: App) -> None:
    @app.workflow(name="wait")
    async def wait(step: Step, n: int) -> object:
        return await step.wait_for("go")

    first = app.workflows.using(key="k").start(wait, 1)
    assert app.workflows.using(key="k").start(wait, 2) == first
    with pytest.raises(AlreadyExists):
        app.workflows.using(key="k", on_conflict="error").start(wait, 3)
    second = app.workflows.using(key="k", on_conflict="replace").start(wait, 4)

    assert app.workflows.get(first).state == "canceled"
    assert app.workflows.get("k").id == second
    assert [run.id for run in app.workflows.list(wait, state="pending").runs] == [second]


def test_a_canceled_run_cleans_up_and_cancels_what_it_waits_for(app: App, add: Add) -> None:
    begun: list[str] = []

    @app.workflow(name="child")
    async def child(step: Step) -> None:
        try:
            begun.append(step.id)
            await step.wait_for("never")
        finally:
            await step.run(add, "child cleaned")

    @app.workflow(name="parent")
    async def parent(step: Step) -> None:
        try:
            await step.workflow(child)
        finally:
            await step.run(add, "parent cleaned")

    with Engine(app):
        run_id = app.workflows.start(parent)
        until(lambda: bool(begun) and app.workflows.list(child).runs[0].state == "running")
        assert app.workflows.cancel(run_id)
        with pytest.raises(WorkflowFailed, match="Canceled"):
            app.workflows.result(run_id, timeout=PATIENCE_S)
        with pytest.raises(WorkflowFailed, match="Canceled"):
            app.workflows.result(app.workflows.list(child).runs[0].id, timeout=PATIENCE_S)

    assert sorted(lines(app)) == ["child cleaned", "parent cleaned"]
    assert not app.workflows.cancel(run_id)


def test_a_terminated_run_runs_no_more_code(app: App, add: Add) -> None:
    @app.workflow(name="wait")
    async def wait(step: Step) -> None:
        try:
            await step.wait_for("never")
        finally:
            await step.run(add, "cleaned")

    with Engine(app):
        run_id = app.workflows.start(wait)
        until(lambda: app.workflows.get(run_id).state == "running")
        assert app.workflows.terminate(run_id)
        assert app.workflows.get(run_id).state == "canceled"
    assert lines(app) == []


def test_a_failed_step_can_be_caught_and_one_with_a_retry_policy_is_tried_again(app: App, add: Add) -> None:
    tries: list[int] = []

    @app.mutation(name="refuse")
    def refuse(ctx: MutationCtx) -> None:
        ctx.db.insert("lines", {"text": "undone"})
        raise ValueError("refused")

    @app.action(name="flaky")
    async def flaky(ctx: ActionCtx) -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return len(tries)

    @app.workflow(name="flow")
    async def flow(step: Step) -> list[object]:
        try:
            await step.run(refuse)
        except StepFailed as error:
            caught = [error.step, error.type, error.message]
        return [*caught, await step.using(retry=Retry(5, first=0.001)).run(flaky)]

    with Engine(app):
        run_id = app.workflows.start(flow)
        assert app.workflows.result(run_id, timeout=PATIENCE_S) == ["refuse", "ValueError", "refused", 3]
    assert lines(app) == []


def test_a_step_that_takes_longer_than_its_timeout_raises_timeout_error(app: App, add: Add) -> None:
    @app.mutation(name="spin")
    def spin(ctx: MutationCtx) -> None:
        ctx.db.insert("lines", {"text": "undone"})
        while True:
            pass

    @app.mutation(name="short", timeout=0.01)
    def short(ctx: MutationCtx) -> None:
        spin.handler(ctx)

    @app.action(name="hang")
    async def hang(ctx: ActionCtx) -> None:
        await asyncio.Event().wait()

    @app.workflow(name="flow")
    async def flow(step: Step) -> list[object]:
        outcomes: list[object] = []
        hurried, patient = step.using(timeout=0.05), step.using(timeout=3600)
        for begin in (
            lambda: hurried.run(spin),
            lambda: hurried.run(hang),
            lambda: patient.run(short),
            lambda: patient.run(add, "in time"),
        ):
            try:
                outcomes.append(await begin())
            except TimeoutError:
                outcomes.append("late")
            except StepFailed as error:
                outcomes.append(error.type)
        return outcomes

    with Engine(app):
        run_id = app.workflows.start(flow)
        assert app.workflows.result(run_id, timeout=PATIENCE_S) == ["late", "late", "TimedOut", 1]
        until(lambda: app.jobs.list(function=hang).jobs[0].state == "canceled")
    assert lines(app) == ["in time"]
    assert [step.outcome for step in app.workflows.history(run_id).steps()] == ["failed"] * 3 + ["success"]


def test_what_a_workflow_raises_is_its_error_and_its_completion_is_told(app: App) -> None:
    told: list[object] = []

    @app.mutation(name="note")
    def note(ctx: MutationCtx, job_id: str, context: str, result: JobResult) -> None:
        told.append((job_id, context, result.kind))

    @app.workflow(name="fail")
    async def fail(step: Step) -> None:
        await step.sleep(0.001)
        raise LookupError("nothing there")

    with Engine(app):
        run_id = app.workflows.using(on_complete=note, context="c").start(fail)
        with pytest.raises(WorkflowFailed, match="LookupError: nothing there"):
            app.workflows.result(run_id, timeout=PATIENCE_S)
        until(lambda: bool(told))
    assert told == [(run_id, "c", "failed")]


def test_a_run_continues_as_new_with_an_empty_journal(app: App, add: Add) -> None:
    @app.workflow(name="count")
    async def count(step: Step, left: int) -> str:
        await step.run(add, f"{left}")
        if left:
            step.continue_as_new(left - 1)
        return step.id

    with Engine(app):
        run_id = app.workflows.start(count, 3)
        assert app.workflows.result(run_id, timeout=PATIENCE_S) == run_id

    history = app.workflows.history(run_id)
    assert lines(app) == ["3", "2", "1", "0"]
    assert (history.generation, history.args, len(history.events)) == (3, {"left": 0}, 2)


def test_a_run_is_restarted_from_a_step(app: App, add: Add) -> None:
    fails = [True]

    @app.action(name="charge")
    async def charge(ctx: ActionCtx) -> str:
        if fails:
            raise ConnectionError("away")
        return "charged"

    @app.workflow(name="flow")
    async def flow(step: Step) -> list[object]:
        count, _ = await asyncio.gather(step.run(add, "one"), step.sleep(0.001))
        return [count, await step.run(charge), await step.run(add, "two")]

    with Engine(app):
        run_id = app.workflows.start(flow)
        with pytest.raises(WorkflowFailed, match="away"):
            app.workflows.result(run_id, timeout=PATIENCE_S)
        fails.clear()
        again = app.workflows.restart(run_id, step="charge")
        assert app.workflows.result(again, timeout=PATIENCE_S) == [1, "charged", 2]
        whole = app.workflows.restart(again)
        assert app.workflows.result(whole, timeout=PATIENCE_S) == [3, "charged", 4]
    with pytest.raises(Misuse, match="not made a step 'nothing'"):
        app.workflows.restart(run_id, step="nothing")


def test_events_that_a_run_had_not_taken_are_those_of_the_restarted_one(app: App) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step) -> list[object]:
        first = await step.wait_for("go")
        try:
            return [first, await step.wait_for("go", timeout=0.05)]
        except TimeoutError:
            return [first]

    run_id = app.workflows.start(flow)
    app.workflows.signal(run_id, "go", 1, key="once")
    again = app.workflows.restart(run_id)
    app.workflows.signal(again, "go", 2, key="once")  # it has the key of the first one
    with Engine(app):
        assert app.workflows.result(again, timeout=PATIENCE_S) == [1]


def test_a_run_is_not_restarted_behind_a_call_that_has_no_end(app: App, add: Add) -> None:
    @app.workflow(name="child")
    async def child(step: Step) -> None:
        await step.wait_for("never")

    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        await asyncio.gather(step.workflow(child), _sleep_and_add(step))

    async def _sleep_and_add(step: Step) -> None:
        await step.sleep(0.001)
        await step.run(add, "slept")

    with Engine(app):
        run_id = app.workflows.start(flow)
        until(lambda: lines(app) == ["slept"])
        with pytest.raises(StepStillRuns, match="still waits for 'child'"):
            app.workflows.restart(run_id, step="add")


def test_another_worker_takes_a_run_up_from_its_journal(app: App, add: Add) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step) -> int:
        await step.run(add, "one")
        await step.wait_for("go")
        return await step.run(add, "two")

    with Engine(app):
        run_id = app.workflows.start(flow)
        until(lambda: app.workflows.get(run_id).state == "running")
    app.workflows.signal(run_id, "go")
    with Engine(app):
        assert app.workflows.result(run_id, timeout=PATIENCE_S) == 2
    assert lines(app) == ["one", "two"]


def test_code_that_does_not_fit_the_journal_stops_the_run_until_it_does(app: App, add: Add) -> None:
    changed: list[bool] = []

    def text() -> str:
        return "other" if changed else "one"

    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        await step.run(add, text())
        await step.wait_for("go")

    def why(run_id: str) -> str:
        error = app.workflows.get(run_id).error
        return "" if error is None else str(error["message"])

    with Engine(app):
        run_id = app.workflows.start(flow)
        until(lambda: app.workflows.get(run_id).state == "running")
    changed.append(True)
    app.workflows.signal(run_id, "go")
    with Engine(app):
        until(lambda: "calls it with other arguments now" in why(run_id))
        assert app.workflows.get(run_id).state == "running"
        changed.clear()
        app.workflows.signal(run_id, "again")  # any event lets it try once more
        assert app.workflows.result(run_id, timeout=PATIENCE_S) is None
    assert lines(app) == ["one"]


@pytest.mark.parametrize("many", [1, 30])
def test_a_long_run_goes_on_over_many_transactions(app: App, many: int) -> None:
    @app.mutation(name="nothing")
    def nothing(ctx: MutationCtx) -> None: ...

    @app.workflow(name="long")
    async def long(step: Step) -> int:
        for _ in range(40 * many):
            await step.run(nothing)
        return 40 * many

    with Engine(app):
        assert app.workflows.result(app.workflows.start(long), timeout=PATIENCE_S) == 40 * many


def test_awaited_calls_do_the_same(app: App) -> None:
    @app.workflow(name="listen")
    async def listen(step: Step) -> object:
        return await step.wait_for("word")

    async def main() -> object:
        runs = app.aio.workflows
        run_id = await runs.start(listen)
        await runs.signal(run_id, "word", "heard")
        return await runs.result(run_id, timeout=PATIENCE_S)

    with Engine(app):
        assert asyncio.run(main()) == "heard"


def test_tenants_do_not_see_the_runs_of_others(app: App) -> None:
    @app.workflow(name="listen")
    async def listen(step: Step) -> object:
        return await step.wait_for("word")

    run_id = app.tenant("acme").workflows.start(listen)
    for call in (app.workflows.get, app.workflows.cancel, app.workflows.restart, app.workflows.history):
        with pytest.raises(JobNotFound):
            call(run_id)
    with pytest.raises(JobNotFound):
        app.workflows.signal(run_id, "word")
    assert app.tenant("acme").workflows.get(run_id).state == "pending"


def refusals() -> list[tuple[str, Callable[[App], object]]]:
    return [
        ("is not a workflow", lambda app: app.workflows.start("add", "x")),  # type: ignore[arg-type]
        ("start it with app.workflows.start", lambda app: app.call("flow")),  # type: ignore[arg-type]
        ("cannot name an event", lambda app: app.workflows.signal("job_1", "")),
        ("not the run of a workflow", lambda app: app.workflows.get(app.scheduler.run_after(60, "add", "x"))),
    ]


@pytest.mark.parametrize(("message", "call"), refusals(), ids=[message for message, _ in refusals()])
def test_what_cannot_work_is_refused(app: App, add: Add, message: str, call: Callable[[App], object]) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step) -> None: ...

    with pytest.raises(Misuse, match=message):
        call(app)


def test_a_result_that_does_not_come_in_time_raises_timeout_error(app: App) -> None:
    @app.workflow(name="listen")
    async def listen(step: Step) -> object:
        return await step.wait_for("word")

    with pytest.raises(TimeoutError, match="it is still running"):
        app.workflows.result(app.workflows.start(listen), timeout=0.01)

"""Functions in transactions that use up their time by waiting are run again; those that compute too long are not."""

import threading
from collections import Counter
from datetime import timedelta

import pytest

from evertick import App, MutationCtx, QueryCtx, Step
from evertick.base.errors import InvalidDelay, RegistrationError
from evertick.engine.runtime.runner import WAITING_RUNS_MAX
from evertick.engine.runtime.settings import Settings
from evertick.errors import WorkflowFailed
from evertick.functions import JobState
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine


def wait() -> None:
    """Wait without computing, until the time is over, whatever is raised by then."""
    while True:
        try:
            threading.Event().wait(0.005)
        except Exception:
            continue


def compute() -> None:
    while True:
        pass


def notes(app: App) -> Counter[str]:
    @app.query(name="notes", timeout=60)
    def all_notes(ctx: QueryCtx) -> list[str]:
        return [note["text"] for note in ctx.db.query("notes").collect()]

    return Counter(app.call(all_notes))


def test_a_mutation_that_has_waited_is_run_again_and_the_others_run_once(open_app: OpenApp) -> None:
    app, runs = open_app(), Counter[str]()

    @app.mutation(name="waits", timeout=0.1)
    def waits(ctx: MutationCtx, text: str, times: int) -> None:
        ctx.db.insert("notes", {"text": text})
        runs[text] += 1
        if runs[text] <= times:
            wait()

    @app.mutation(name="note", timeout=60)
    def note(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("notes", {"text": text})

    calls = [
        note.with_args("first"),
        waits.with_args("late", 1),
        note.with_args("second"),
        waits.with_args("never", 1_000),
        note.with_args("3"),
    ]
    ids = app.scheduler.run_after_many(0, calls)
    with Engine(app) as engine:
        jobs = [engine.wait(job_id) for job_id in ids]

    failed = JobState.FAILED
    assert [job.state for job in jobs] == [failed if index == 3 else JobState.SUCCESS for index in range(5)]
    assert notes(app) == Counter(["first", "late", "second", "3"])
    assert runs == {"late": 2, "never": WAITING_RUNS_MAX}
    error = str(jobs[3].error)
    assert error.startswith("TimedOut: waits took longer than 0.1 s; give it more with @app.mutation(timeout=...)")
    assert "waited the rest of the time" in error
    assert error.endswith(f"in each of {WAITING_RUNS_MAX} runs")


def test_a_mutation_that_computes_too_long_fails_at_once(open_app: OpenApp) -> None:
    app, runs = (
        open_app(settings=Settings(mutation_cpu_limit=timedelta(milliseconds=50), mutation_timeout=timedelta(hours=1))),
        Counter[str](),
    )

    @app.mutation(name="usual")
    def usual(ctx: MutationCtx) -> None:
        runs["usual"] += 1
        compute()

    @app.mutation(name="own", cpu_limit=0.05, timeout=3_600)
    def own(ctx: MutationCtx) -> None:
        runs["own"] += 1
        try:
            compute()
        except BaseException:
            compute()

    with pytest.raises(TimeoutError, match=r"own used more than 0\.05 s of processor time; .*\(cpu_limit="):
        app.call(own)
    runs.clear()
    ids = [app.scheduler.run_after(0, function) for function in (usual, own)]
    with Engine(app) as engine:
        errors = [str(engine.wait(job_id).error) for job_id in ids]

    assert [error.partition(" of ")[0] for error in errors] == [
        "TimedOut: usual used more than 0.05 s", "TimedOut: own used more than 0.05 s",
    ]  # fmt: skip
    assert runs == {"usual": 1, "own": 1}


def test_a_call_that_has_waited_says_so(open_app: OpenApp) -> None:
    app = open_app(settings=Settings(mutation_timeout=timedelta(milliseconds=50)))

    @app.mutation(name="waits")
    def waits(ctx: MutationCtx) -> None:
        wait()

    with pytest.raises(TimeoutError, match=r"waits took longer than 0\.05 s; .* a sleep or a busy machine$"):
        app.call(waits)


@pytest.mark.parametrize("where", ["in a step", "between two steps"])
def test_a_workflow_that_has_waited_goes_on_at_its_next_run(open_app: OpenApp, where: str) -> None:
    app, runs = open_app(), Counter[str]()

    @app.mutation(name="note", timeout=60)
    def note(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("notes", {"text": text})

    @app.mutation(name="waits", timeout=0.1)
    def waits(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("notes", {"text": text})
        wait_at(text, "in a step")

    def wait_at(text: str, place: str) -> None:
        if place == where:
            runs[text] += 1
            if text == "never" or runs[text] == 1:
                wait()

    @app.workflow(name="flow", timeout=0.1)
    async def flow(step: Step, text: str) -> str:
        await step.run(note, "begun")
        wait_at(text, "between two steps")
        await step.run(waits, text)
        return "done"

    with Engine(app):
        first, second = (app.workflows.start(flow, text) for text in ("late", "never"))
        assert app.workflows.result(first, timeout=PATIENCE_S) == "done"
        with pytest.raises(WorkflowFailed, match=r"took longer than 0\.1 s"):
            app.workflows.result(second, timeout=PATIENCE_S)

    assert runs == {"late": 2, "never": WAITING_RUNS_MAX}
    found = notes(app)
    assert found["late"] == 1
    assert found["never"] == 0


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_limit_of_processor_time_is_a_positive_duration(limit: float) -> None:
    with pytest.raises(InvalidDelay, match="cpu_limit"):
        App("bad").mutation(cpu_limit=limit)


def test_an_action_has_no_limit_of_processor_time() -> None:
    with pytest.raises(RegistrationError, match="use timeout= instead of cpu_limit="):
        App("bad").action(cpu_limit=1)

"""Runs that stay in memory between their transactions, and when they leave it."""

import pytest

from evertick import ActionCtx, App, Step
from evertick.engine.runtime.settings import Settings
from tests.app.conftest import OpenApp
from tests.app.engine import PATIENCE_S, Engine
from tests.app.workflows.test_on_both_databases import until

STEPS = 20


def run_actions(app: App) -> int:
    """Run a workflow of actions; returns how often its code began."""
    begun: list[int] = []

    @app.action(name="double")
    async def double(ctx: ActionCtx, n: int) -> int:
        return 2 * n

    @app.workflow(name="sum")
    async def total(step: Step) -> int:
        begun.append(1)
        return sum([await step.run(double, n) for n in range(STEPS)])

    with Engine(app):
        assert app.workflows.result(app.workflows.start(total), timeout=PATIENCE_S) == STEPS * (STEPS - 1)
    return len(begun)


def test_a_run_goes_on_in_memory_and_not_by_replay(open_app: OpenApp) -> None:
    app = open_app()
    # After a conflict a run is replayed, so there may be a few.
    assert run_actions(app) < STEPS / 2
    assert app.counters.snapshot()["runs_from_memory"] > STEPS / 2


@pytest.mark.long
def test_a_worker_that_keeps_no_runs_replays_them(open_app: OpenApp) -> None:
    app = open_app(settings=Settings(runs_in_memory=0))
    assert run_actions(app) > STEPS
    assert "runs_from_memory" not in app.counters.snapshot()


@pytest.mark.parametrize("seconds", [0.2, 3600])
def test_a_run_that_sleeps_long_leaves_memory_at_once(open_app: OpenApp, seconds: float) -> None:
    app = open_app()
    left: list[str] = []

    @app.workflow(name="sleeper")
    async def sleeper(step: Step) -> str:
        try:
            await step.sleep(seconds)
        except GeneratorExit:
            left.append("left")
            raise
        return "woke"

    with Engine(app):
        run_id = app.workflows.start(sleeper)
        if seconds < 60:
            assert app.workflows.result(run_id, timeout=PATIENCE_S) == "woke"
        else:
            until(lambda: bool(left))


def test_the_runs_used_least_recently_leave_memory_and_the_worker_takes_none_along(open_app: OpenApp) -> None:
    app = open_app(settings=Settings(runs_in_memory=2))
    left: list[str] = []

    @app.workflow(name="waiter")
    async def waiter(step: Step, name: str) -> object:
        try:
            return await step.wait_for("go")
        except GeneratorExit:
            left.append(name)
            raise

    def is_waiting(run_id: str) -> bool:
        return len(app.workflows.history(run_id).events) == 2

    with Engine(app):
        runs = {}
        for name in "abcd":
            runs[name] = app.workflows.start(waiter, name)
            until(lambda: is_waiting(runs[name]))  # noqa: B023
        until(lambda: "a" in left)
        app.workflows.signal(runs["a"], "go", 1)
        assert app.workflows.result(runs["a"], timeout=PATIENCE_S) == 1
    assert {"b", "c", "d"} <= set(left)

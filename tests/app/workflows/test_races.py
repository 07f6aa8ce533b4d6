"""What many callers do to one run at the same moment, on both databases."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from evertick import App, JobResult, MutationCtx, Step
from evertick.errors import AlreadyExists, EvertickError, JobNotRetryable, RunNotOpen
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until

pytestmark = pytest.mark.sql

CALLERS = 8
ENDING = ("cancel", "terminate", "restart", "pause", "resume", "restart")


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls return or raise, made at the same moment."""

    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except EvertickError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(outcome, calls))


@pytest.fixture
def app(open_app: OpenApp) -> App:
    return open_app()


def is_running(app: App, run: str) -> bool:
    return app.workflows.get(run).state == "running"


def told(app: App) -> Counter[str]:
    """How often the end of each run was told."""
    return Counter(line["run"] for line in app.db.query("ends").collect())


@pytest.mark.long
def test_a_run_ends_once_whoever_ends_signals_or_restarts_it_at_the_same_moment(app: App) -> None:
    @app.mutation(name="told")
    def tell(ctx: MutationCtx, job_id: str, context: None, result: JobResult) -> None:
        ctx.db.insert("ends", {"run": job_id, "kind": result.kind})

    @app.mutation(name="add")
    def add(ctx: MutationCtx, text: str) -> None:
        ctx.db.insert("lines", {"text": text})

    @app.workflow(name="child")
    async def child(step: Step, parent: str) -> None:
        try:
            await step.wait_for("never")
        finally:
            await step.run(add, f"child {parent}")

    @app.workflow(name="flow")
    async def flow(step: Step, n: int) -> int:
        waits = asyncio.create_task(step.workflow(child, step.id))
        try:
            return n + await step.wait_for("go")
        finally:
            waits.cancel()
            await step.run(add, step.id)

    chance = random.Random(7)
    with Engine(app):
        for n in range(6):
            run = app.workflows.using(on_complete=tell, key=f"k{n}").start(flow, n)
            if n % 3:
                until(partial(is_running, app, run))
            calls = [partial(app.workflows.signal, run, "go", 1)]
            calls += [partial(getattr(app.workflows, each), run) for each in ENDING]
            chance.shuffle(calls)
            at_once(*calls)
            open_ones = [each.id for each in app.workflows.list(flow, state=["pending", "running", "paused"]).runs]
            assert len(open_ones) <= 1, open_ones
            for each in open_ones:
                app.workflows.resume(each)
                with suppress(RunNotOpen):
                    app.workflows.signal(each, "go", 2)
            until(lambda: not app.workflows.list(flow, state=["pending", "running", "paused"]).runs)
        until(lambda: not app.jobs.list(function=tell, state=["pending", "in_progress"]).jobs)

    runs = app.workflows.list(flow, limit=1_000).runs
    assert told(app) == Counter({run.id: 1 for run in runs})
    cleaned = Counter(line["text"] for line in app.db.query("lines").collect())
    assert max(cleaned.values()) == 1
    ends = {line["run"]: line["kind"] for line in app.db.query("ends").collect()}
    assert {run.id: run.state for run in runs} == ends


@pytest.mark.parametrize("policy", ["keep", "error", "replace"])
def test_of_many_starts_under_one_key_one_run_is_open(app: App, policy: str) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        await step.wait_for("end")

    def start() -> Any:
        return app.workflows.using(key="one", on_conflict=policy).start(flow)

    for _ in range(5):
        ids = at_once(*[start] * CALLERS)
        runs = app.workflows.list(flow, limit=1_000).runs
        open_ones = [run.id for run in runs if run.state in ("pending", "running")]
        assert len(open_ones) == 1
        started = [each for each in ids if isinstance(each, str)]
        refused = {type(each) for each in ids if not isinstance(each, str)}
        assert refused <= ({AlreadyExists} if policy == "error" else set())
        assert (len(set(started)) == 1) is (policy != "replace")
        assert open_ones[0] in started
        app.workflows.cancel(open_ones[0])


def test_a_failed_run_is_retried_once_whoever_does_it_at_the_same_moment(app: App) -> None:
    @app.workflow(name="flow")
    async def flow(step: Step) -> None:
        raise ValueError("no use")

    for _ in range(3):
        run = app.workflows.start(flow)
        with Engine(app) as engine:
            engine.wait(run)
        again = at_once(*[partial(app.jobs.retry, run)] * CALLERS)
        assert len([each for each in again if isinstance(each, str)]) == 1, again
        assert all(isinstance(each, str | JobNotRetryable) for each in again), again

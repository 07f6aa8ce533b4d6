"""Events that are withdrawn, and who has sent those that a run was sent."""

import asyncio
import threading
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Step
from evertick.base.errors import Conflict, JobNotFound, Misuse, NotFound
from evertick.base.ids import JobId
from evertick.testing import World
from evertick.workflows import RunHistory
from tests.app.conftest import OpenApp
from tests.app.engine import Engine


@pytest.fixture
def app(open_app: OpenApp) -> App:
    app = open_app("shop")

    @app.workflow(name="approve")
    async def approve(step: Step) -> Any:
        return await step.wait_for("decision")

    @app.mutation(name="send_on")
    def send_on(ctx: MutationCtx, run_id: str, event: str) -> None:
        ctx.workflows.signal(run_id, event, "from a mutation")

    @app.action(name="send_later")
    async def send_later(ctx: ActionCtx, run_id: str) -> None:
        await ctx.workflows.signal(run_id, "decision", "from an action")

    @app.workflow(name="asks")
    async def asks(step: Step, run_id: str) -> None:
        await step.run(send_on, run_id, "decision")

    @app.mutation(name="take_back")
    def take_back(ctx: MutationCtx, run_id: str, event: str) -> Any:
        return ctx.workflows.withdraw(run_id, event).value

    return app


def named(app: App, name: str) -> Any:
    return app.functions.resolve(name)


def begun(app: App, key: str = "doc-7") -> JobId:
    """A run that waits."""
    run_id = app.workflows.using(key=key).start(named(app, "approve"))
    with Engine(app) as engine:
        engine.until(lambda: bool(app.workflows.history(run_id).events) or None)
    return run_id


def test_an_event_is_withdrawn_with_its_value_and_the_run_never_sees_it(app: App) -> None:
    run_id = begun(app)
    app.workflows.signal("doc-7", "decison", {"approved": True}, key="once")
    app.workflows.signal(run_id, "decison", "another")

    with pytest.raises(Misuse, match=r"2 events 'decison' wait for run job_\w+; give the id of one: \d+-\d+, "):
        app.workflows.withdraw(run_id, "decison")
    taken_back = app.workflows.withdraw("doc-7", "decison", key="once")
    assert (taken_back.value, taken_back.key, taken_back.sent_by) == ({"approved": True}, "once", "app shop")
    [left] = app.workflows.get(run_id).waiting_events
    assert app.workflows.withdraw(run_id, "decison", id=left.id).value == "another"
    assert app.workflows.get(run_id).waiting_event_count == 0
    app.workflows.signal(run_id, "decision", "yes", key="once")  # whose key is free again
    with Engine(app) as engine:
        assert engine.wait(run_id).result == "yes"


def test_what_does_not_wait_is_refused_with_why(app: App) -> None:
    run_id = begun(app)
    app.workflows.signal(run_id, "other")
    with pytest.raises(NotFound, match=r"no event 'decision' waits for run job_\w+; waiting events: 'other'"):
        app.workflows.withdraw(run_id, "decision")
    with pytest.raises(NotFound, match=r"no event 'other' with the id '5-5' waits for run"):
        app.workflows.withdraw(run_id, "other", id="5-5")
    with pytest.raises(JobNotFound):
        app.workflows.withdraw("gone", "decision")
    app.workflows.signal(run_id, "decision", 1)
    with Engine(app) as engine:
        engine.wait(run_id)
    with pytest.raises(Conflict, match=r"has already taken the event 'decision', at \S+Z as its step 1, so it cannot"):
        app.workflows.withdraw(run_id, "decision")
    assert app.workflows.withdraw(run_id, "other").value is None, "a restart of the ended run would take it along"


def test_an_event_is_withdrawn_in_a_mutation_and_from_an_event_loop(app: App) -> None:
    run_id = begun(app)
    app.workflows.signal(run_id, "decison", 1)
    app.workflows.signal(run_id, "decisoon", 2)

    assert app.call(named(app, "take_back"), run_id, "decison") == 1

    async def take_back() -> Any:
        return (await app.aio.workflows.withdraw(run_id, "decisoon")).value

    assert asyncio.run(take_back()) == 2


@pytest.mark.long
def test_history_says_who_sent_an_event(app: App) -> None:
    ids = {each: begun(app, each) for each in ("program", "mutation", "action", "run")}
    app.workflows.signal("program", "decision", 0)
    app.workflows.signal("program", "left", 0)
    mutation = app.scheduler.run_after(0, named(app, "send_on"), "mutation", "decision")
    action = app.scheduler.run_after(0, named(app, "send_later"), "action")
    run = app.workflows.start(named(app, "asks"), "run")
    with Engine(app) as engine:
        for each in ids.values():
            engine.wait(each)

    def senders(key: str) -> tuple[str | None, JobId | None]:
        history = app.workflows.history(key)
        [step] = history.steps()
        end = history.events[-1]
        [timed] = app.workflows.timeline(key).steps
        assert (step.sent_by, step.sent_by_job) == (end.sent_by, end.sent_by_job) == (timed.sent_by, timed.sent_by_job)
        read = RunHistory.model_validate_json(history.model_dump_json())
        assert [event.row() for event in read.events] == [event.row() for event in history.events]
        return end.sent_by, end.sent_by_job

    assert senders("program") == ("app shop", None)
    assert senders("mutation") == ("function send_on", mutation)
    assert senders("action") == ("function send_later", action)
    assert senders("run") == ("function send_on", run)
    [left] = app.workflows.get("program").waiting_events
    assert (left.name, left.sent_by) == ("left", "app shop")
    again = app.workflows.restart("program", from_failed=False, step=1)
    assert app.workflows.get(again).waiting_events[0].sent_by == "app shop"
    assert (app.workflows.get(again).restarted_from, app.workflows.get(ids["program"]).retried_as) == (
        ids["program"],
        again,
    )


def test_the_parts_that_a_restart_keeps_say_who_sent_their_events(app: App) -> None:
    run_id = begun(app)
    app.workflows.signal(run_id, "decision", 0)
    with Engine(app) as engine:
        engine.wait(run_id)
    app.workflows.cancel(run_id)

    @app.workflow(name="two")
    async def two(step: Step) -> None:
        await step.wait_for("first")
        await step.wait_for("second")
        raise ValueError("no")

    failed = app.workflows.using(key="two").start(two)
    app.workflows.signal(failed, "first")
    app.workflows.signal(failed, "second")
    with Engine(app) as engine:
        engine.wait(failed)
        again = app.workflows.restart(failed, from_failed=True)
        engine.wait(again)
    assert [each.sent_by for each in app.workflows.history(again).steps()] == ["app shop", "app shop"]
    retried = app.jobs.retry(again)
    assert app.workflows.get(retried).restarted_from == again


@pytest.mark.parametrize("seed", range(3))
def test_of_taking_and_withdrawing_exactly_one_wins(app: App, seed: int) -> None:
    """A worker and a program want the same events at the same time."""
    runs = [app.workflows.using(key=f"r{number}").start(named(app, "approve")) for number in range(12)]
    withdrawn: set[str] = set()
    refused: set[str] = set()
    start = threading.Barrier(2)

    def take_back() -> None:
        start.wait()
        for run_id in runs:
            try:
                app.workflows.withdraw(run_id, "decision")
            except (Conflict, NotFound):
                refused.add(run_id)
            else:
                withdrawn.add(run_id)

    with Engine(app) as engine:
        engine.until(lambda: all(app.workflows.history(each).events for each in runs) or None)
        thread = threading.Thread(target=take_back)
        thread.start()
        start.wait()
        for run_id in runs:
            app.workflows.signal(run_id, "decision", "first", key="only")
        thread.join()
        for run_id in withdrawn:
            app.workflows.signal(run_id, "decision", "second")
        results = {run_id: engine.wait(run_id).result for run_id in runs}
    assert results == {run_id: "second" if run_id in withdrawn else "first" for run_id in runs}
    assert withdrawn | refused == set(runs)


# -- in one batch of a worker


def test_a_step_withdraws_from_a_run_beside_it_and_never_from_its_own() -> None:
    app = App("beside")

    @app.mutation(name="take_back")
    def take_back(ctx: MutationCtx, run_id: str, fails: bool = False) -> str:
        value: str = ctx.workflows.withdraw(run_id, "go").value
        if fails:
            raise ValueError("undone")
        return value

    @app.workflow(name="taker")
    async def taker(step: Step) -> str:
        return str(await step.wait_for("go"))

    @app.workflow(name="withdrawer")
    async def withdrawer(step: Step, run_id: str, fails: bool) -> str:
        await step.wait_for("go")
        return await step.run(take_back, run_id, fails)

    @app.workflow(name="own")
    async def own(step: Step) -> str:
        return await step.run(take_back, step.id)

    with World(app) as world:
        # The withdrawer is older, so it goes first in the batch that has both.
        for fails, ends in ((False, None), (True, "once")):
            one = app.workflows.start(withdrawer, f"taker {fails}", fails)
            other = app.workflows.using(key=f"taker {fails}").start(taker)
            world.advance(1)

            @app.mutation(name=f"both {fails}")
            def both(ctx: MutationCtx) -> None:
                ctx.workflows.signal(one, "go", "now")  # noqa: B023
                ctx.workflows.signal(other, "go", "once")  # noqa: B023

            world.call(both)
            world.advance(1)
            assert app.workflows.get(one).state == ("failed" if fails else "success")
            assert (world.job(other).state, world.job(other).result) == ("success" if ends else "pending", ends)
            if ends is None:
                app.workflows.signal(other, "go", "twice")
                world.advance(1)
                assert world.job(other).result == "twice"
        mine = app.workflows.start(own)
        world.advance(1)
        assert "a step cannot withdraw an event of its own run" in str(app.workflows.get(mine).error)

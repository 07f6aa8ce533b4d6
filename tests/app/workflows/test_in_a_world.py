"""Workflows under a clock that jumps."""

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Retry, Step, every
from evertick.app.workflows import operations
from evertick.errors import (
    JobNotPending,
    JobNotRetryable,
    LimitExceeded,
    Misuse,
    ReplayMismatch,
    StepOutcomeUnknown,
)
from evertick.testing import World, days, hours, minutes, replay

app = App("shop")


@app.mutation
def note(ctx: MutationCtx, text: str) -> None:
    ctx.db.insert("notes", {"text": text, "at": ctx.now.isoformat()})


@app.action
async def charge(ctx: ActionCtx) -> str:
    return "charged"


@app.workflow
async def remind(step: Step, user: str) -> str:
    await step.run(note, f"hello {user}")
    try:
        word = await step.wait_for("verified", timeout=timedelta(days=3))
    except TimeoutError:
        await step.run(note, "please verify")
        await step.sleep(days(30))
        word = "late"
    return f"{word} at {step.now():%m-%d}"


@app.workflow
async def pay(step: Step) -> str:
    try:
        return await step.run(charge)
    except StepOutcomeUnknown:
        return "unknown"


def texts(world: World) -> list[str]:
    return [document["text"] for document in world.query("notes")]


def test_a_run_waits_for_days_and_goes_on_in_time() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        run_id = app.workflows.start(remind, "ada")
        world.advance(days(2))
        assert texts(world) == ["hello ada"]
        run = app.workflows.get(run_id)
        assert (run.state, str(run.wakes_at)) == ("running", "2026-01-04 00:00:00+00:00")
        world.advance(days(2))
        assert texts(world) == ["hello ada", "please verify"]
        world.advance(days(30))
        assert app.workflows.result(run_id, timeout=0) == "late at 02-03"


def test_an_event_comes_before_its_timeout() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        run_id = app.workflows.start(remind, "ada")
        world.advance(days(1))
        app.workflows.signal(run_id, "verified", "yes")
        world.advance(minutes(1))
        assert app.workflows.result(run_id, timeout=0) == "yes at 01-02"
        assert texts(world) == ["hello ada"]


def test_a_run_survives_the_death_of_its_worker_and_an_outage() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        run_id = app.workflows.start(remind, "ada")
        world.crash_before_commit(note)
        world.advance(minutes(1))
        world.restart()
        world.advance(minutes(1))
        world.outage(days(10))
        world.advance(minutes(1))
        assert texts(world) == ["hello ada", "please verify"]
        world.advance(days(30))
        assert app.workflows.get(run_id).state == "success"


def test_the_outcome_of_an_action_whose_worker_was_lost_is_unknown() -> None:
    local = App("lost")
    begun: list[str] = []

    @local.action(name="slow")
    async def slow(ctx: ActionCtx) -> None:
        import asyncio

        begun.append(ctx.job_id or "")
        await asyncio.sleep(3600)

    @local.workflow(name="flow")
    async def flow(step: Step) -> str:
        try:
            await step.run(slow)
        except StepOutcomeUnknown as error:
            return error.type
        return "done"

    with World(local) as world:
        run_id = local.workflows.start(flow)
        world.advance(minutes(1))
        world.kill()
        world.restart()
        world.advance(minutes(5))
        assert local.workflows.result(run_id, timeout=0) == "LostWorker"
        assert len(begun) == 1


@pytest.mark.long
def test_a_step_that_takes_longer_than_its_timeout_is_canceled_and_the_run_goes_on() -> None:
    local = App("late")

    @local.action(name="slow")
    async def slow(ctx: ActionCtx, seconds: int) -> str:
        await asyncio.sleep(seconds)
        return "in time"

    @local.workflow(name="child")
    async def child(step: Step) -> None:
        await step.wait_for("never")

    @local.workflow(name="flow")
    async def flow(step: Step) -> list[str]:
        limited = step.using(timeout=timedelta(minutes=10))
        outcomes = [await limited.run(slow, 60)]
        closed = limited.using(pool="closed")
        for begin in (lambda: limited.run(slow, 3600), lambda: limited.workflow(child), lambda: closed.run(slow, 60)):
            try:
                await begin()
            except TimeoutError as error:
                outcomes.append(str(error))
        return outcomes

    with World(local, at="2026-01-01T00:00:00Z") as world:
        local.pools.pause("closed")
        run_id = local.workflows.start(flow)
        world.advance(minutes(20))
        world.restart()
        world.advance(minutes(20))
        late = "the step '{}' took longer than 600 s, the timeout= it was given"
        ended = ["in time", late.format("slow"), late.format("child"), late.format("slow")]
        assert local.workflows.result(run_id, timeout=0) == ended
        assert sorted(job.state for job in local.jobs.list(function=slow).jobs) == ["canceled", "canceled", "success"]
        assert local.workflows.list(child).runs[0].state == "canceled"
        history = local.workflows.history(run_id)
    assert [step.outcome for step in history.steps()] == ["success", "failed", "failed", "failed"]
    assert replay(flow, history) == ended


def test_a_step_that_ended_while_its_run_was_paused_is_in_time() -> None:
    local = App("in time")

    @local.action(name="slow")
    async def slow(ctx: ActionCtx) -> str:
        await asyncio.sleep(60)
        return "in time"

    @local.workflow(name="flow")
    async def flow(step: Step) -> str:
        return await step.using(timeout=600).run(slow)

    with World(local) as world:
        run_id = local.workflows.start(flow)
        world.advance(minutes(0.5))
        local.workflows.pause(run_id)
        world.advance(hours(1))
        local.workflows.resume(run_id)
        world.advance(minutes(1))
        assert local.workflows.result(run_id, timeout=0) == "in time"


@app.workflow
async def report(step: Step, *, stop_at: int = 0) -> int:
    """Counts on from the last successful run; waits for a while, so that it leaves memory."""
    occurrence = step.schedule
    if occurrence is None:
        return -1
    await step.run(note, f"{occurrence.nominal_time:%H:%M} {occurrence.origin} {occurrence.last_result}")
    await step.sleep(minutes(10))
    assert step.schedule == step.using(name="other").schedule == occurrence
    if occurrence.nominal_time.hour == stop_at:
        raise ValueError("no report")
    assert (occurrence.last_failure is None) == (occurrence.nominal_time.hour != stop_at + 1)
    return (occurrence.last_result or 0) + 1


@app.workflow
async def reports(step: Step) -> int:
    return await step.workflow(report)


def test_a_run_knows_its_occurrence_and_what_earlier_runs_have_left_behind() -> None:
    with World(app, at="2026-01-01T00:30:00Z") as world:
        app.schedules.create("daily", when=every(hours=1), do=report.with_args(stop_at=2))
        world.advance(hours(4))
        assert texts(world) == ["01:00 schedule None", "02:00 schedule 1", "03:00 schedule 1", "04:00 schedule 2"]
        runs = app.workflows.list(report).runs
        assert sorted(run.state for run in runs) == ["failed", "success", "success", "success"]

        app.schedules.trigger("daily")
        world.advance(minutes(1))
        assert texts(world)[-1] == "04:30 trigger 3"
        started, child = app.workflows.start(report), app.workflows.start(reports)
        world.advance(minutes(1))
        assert [app.workflows.result(each) for each in (started, child)] == [-1, -1]


def test_a_history_has_the_occurrence_that_its_code_has_read() -> None:
    with World(app, at="2026-01-01T00:30:00Z") as world:
        app.schedules.create("daily", when=every(hours=1), do=report.with_args(stop_at=9))
        world.advance(hours(2))
        histories = [app.workflows.history(run.id) for run in app.workflows.list(report).runs]
        seen = {each.schedule.last_result: each for each in histories if each.schedule is not None}
        assert set(seen) == {None, 1}
        history = seen[1]

        assert replay(report, history) == replay(report, history.model_dump_json()) == 2
        older = json.loads(history.model_dump_json())
        del older["schedule"]
        with pytest.raises(ReplayMismatch):  # as if it had been started by hand: the code does nothing then
            replay(report, older)


def test_a_schedule_starts_a_run_for_each_of_its_times() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        app.schedules.create("pay", when=every(hours=1), do=pay)
        world.advance(hours(3) + minutes(1))
        runs = app.workflows.list(pay).runs
        assert [run.state for run in runs] == ["success"] * 3
        assert app.workflows.history(runs[0].id).events[-1].result == "charged"


def test_a_workflow_is_an_async_function() -> None:
    from evertick.errors import RegistrationError

    with pytest.raises(RegistrationError, match="async def"):

        @App("x").workflow
        def plain(step: Step) -> None: ...


def test_a_list_of_all_workflows_is_narrowed_by_state_prefix_and_start() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        ada = app.workflows.using(key="remind:ada").start(remind, "ada")
        world.advance(hours(1))
        paid = app.workflows.using(key="pay:1").start(pay)
        app.scheduler.run_after(0, note, "no run")
        world.advance(hours(1))
        bob = app.workflows.using(key="remind:bob").start(remind, "bob")

        def ids(**where: Any) -> list[str]:
            return [run.id for run in app.workflows.list(**where).runs]

        assert ids() == [bob, paid, ada]
        assert ids(state="running") == [ada]
        assert ids(state=["pending", "success"]) == [bob, paid]
        assert ids(prefix="remind:") == [bob, ada]
        assert ids(prefix=paid) == [paid]
        assert ids(started_from=datetime(2026, 1, 1, 1, tzinfo=UTC)) == [bob, paid]
        assert ids(started_until=datetime(2026, 1, 1, 1, tzinfo=UTC)) == [ada]
        assert ids(workflow=remind, state="pending") == [bob]
        first = app.workflows.list(limit=2)
        assert [run.id for run in app.workflows.list(cursor=first.cursor).runs] == [ada]
        assert app.tenant("acme").workflows.list().runs == ()
        assert ids(roots=True) == ids()
        with pytest.raises(Misuse, match="roots= must be True or False, not 'yes'"):
            ids(roots="yes")
        with pytest.raises(Misuse, match="use one of pending, running"):
            app.workflows.list(state="in_progress")


def test_a_paused_run_takes_no_step_and_sees_events_and_timers_when_it_is_resumed() -> None:
    with World(app, at="2026-01-01T00:00:00Z") as world:
        signaled, late = (app.workflows.using(key=user).start(remind, user) for user in ("ada", "bob"))
        unbegun = app.workflows.start(pay)
        assert app.workflows.pause(unbegun)
        world.advance(minutes(1))
        assert [app.workflows.pause(each) for each in (signaled, late)] == [True, True]
        app.workflows.signal(signaled, "verified", "yes")
        world.advance(days(4))

        assert texts(world) == ["hello ada", "hello bob"]
        assert [run.state for run in app.workflows.list().runs] == ["paused"] * 3
        assert app.workflows.list(state="running").runs == ()
        assert app.workflows.get(late).wakes_at == datetime(2026, 1, 4, tzinfo=UTC)
        assert [app.workflows.resume(each) for each in (signaled, late, unbegun)] == [True] * 3
        world.advance(minutes(1))

        assert app.workflows.get(signaled).result == "yes at 01-05"
        assert texts(world) == ["hello ada", "hello bob", "please verify"]
        assert app.workflows.result(unbegun, timeout=0) == "charged"
        assert not app.workflows.resume(late)
        assert not app.workflows.pause(signaled)


def test_a_paused_run_that_is_canceled_is_resumed_to_clean_up() -> None:
    local = App("cleans")

    @local.mutation(name="clean")
    def clean(ctx: MutationCtx) -> None:
        ctx.db.insert("cleaned", {})

    @local.workflow(name="flow")
    async def flow(step: Step) -> None:
        try:
            await step.wait_for("never")
        finally:
            await step.run(clean)

    with World(local) as world:
        run_id = local.workflows.start(flow)
        world.advance(minutes(1))
        local.workflows.pause(run_id)
        assert local.workflows.cancel(run_id)
        world.advance(minutes(1))
        assert local.workflows.get(run_id).state == "canceled"
        assert len(world.query("cleaned")) == 1


def test_a_whole_run_has_no_retry_policy() -> None:
    with World(app) as world:
        with pytest.raises(Misuse, match=r"a run of .*\.pay keeps .*: step\.using\(retry=\.\.\.\)"):
            app.scheduler.using(retry=Retry(3)).run_after(0, pay)
        with pytest.raises(Misuse, match="keeps what its steps returned"):
            app.schedules.create("pays", when=every(hours=1), do=pay, retry=Retry(3))
        app.schedules.create("notes", when=every(hours=1), do=note.with_args("x"), retry=Retry(3))
        with pytest.raises(Misuse, match="keeps what its steps returned"):
            app.schedules.update("notes", do=pay)
        app.schedules.update("notes", do=pay, retry=None)
        world.advance(hours(1))
        assert app.workflows.list(pay).runs


def test_the_time_of_a_run_that_has_begun_cannot_be_changed() -> None:
    with World(app) as world:
        run_id = app.workflows.start(remind, "ada")
        app.jobs.run_now(run_id)
        world.advance(minutes(1))
        wakes_at = app.workflows.get(run_id).wakes_at
        with pytest.raises(JobNotPending, match="has begun, and goes on when what its code waits for has come"):
            app.jobs.run_now(run_id)
        assert app.workflows.get(run_id).wakes_at == wakes_at


def test_a_run_has_so_many_events_that_it_has_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "EVENTS_MAX", 2)
    with World(app) as world:
        run_id = app.workflows.start(remind, "ada")
        world.advance(minutes(1))
        for _ in range(2):
            app.workflows.signal(run_id, "other")
        with pytest.raises(LimitExceeded, match="has 2 events of 8 characters that its code has not taken yet"):
            app.workflows.signal(run_id, "verified")
        assert app.workflows.get(run_id).state == "running"


def test_the_events_that_a_run_has_not_taken_have_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "WAITING_CHARS_MAX", 100)
    with World(app) as world:
        run_id = app.workflows.start(remind, "ada")
        world.advance(minutes(1))
        app.workflows.signal(run_id, "other", "x" * 70)
        with pytest.raises(LimitExceeded, match="1 events of 72 characters"):
            app.workflows.signal(run_id, "other", "x" * 70)
        app.workflows.signal(run_id, "other", "x" * 20)


def test_a_run_waits_until_its_tenant_has_room_for_the_jobs_of_its_steps() -> None:
    with World(app) as world:
        run_id = app.workflows.start(pay)
        later = [app.scheduler.run_after(hours(2), note, "later") for _ in range(2)]
        app.tenants.set("default", jobs=2)
        world.advance(minutes(5))
        run = app.workflows.get(run_id)
        assert (run.state, run.error and run.error["type"]) == ("running", "QuotaExceeded")
        assert app.workflows.history(run_id).events == ()

        app.jobs.cancel(later[0])
        world.advance(minutes(2))
        assert app.workflows.result(run_id, timeout=0) == "charged"
        assert app.workflows.get(run_id).error is None


def test_a_saved_history_is_replayed_as_an_object_and_as_text() -> None:
    with World(app) as world:
        run_id = app.workflows.start(pay)
        world.advance(minutes(5))
        history = app.workflows.history(run_id)
        result = app.workflows.result(run_id)

    saved = json.dumps(history.to_json())
    assert replay(pay, saved) == replay(pay, json.loads(saved)) == replay(pay, history) == result
    assert replay(pay, history.model_dump_json()) == result
    for nonsense in ("{", "[]", {"id": 1}):
        with pytest.raises(Misuse, match="this is not a history of a run") as refused:
            replay(pay, nonsense)
        assert "http" not in str(refused.value)
    with pytest.raises(Misuse, match=f"this is the history of a run of {pay.name}, not of {remind.name}"):
        replay(remind, saved)


def test_code_that_is_not_deterministic_is_found_by_a_world() -> None:
    chance = App("chance")

    @chance.mutation
    def note(ctx: MutationCtx, number: float) -> None: ...

    @chance.workflow
    async def draw_number(step: Step) -> None:
        await step.run(note, random.random())
        await step.sleep(1)

    with World(chance) as world:
        run_id = chance.workflows.start(draw_number)
        world.advance(10)
        run = chance.workflows.get(run_id)
        assert run.state == "running"
        assert run.error is not None
        assert run.error["type"] == "ReplayMismatch"
        assert "take time, chance and ids from step.now(), step.random() and step.uuid()" in run.error["message"]


def test_a_run_that_has_begun_is_not_replaced_by_one_with_other_arguments() -> None:
    with World(app) as world:
        run_id = app.workflows.start(remind, "ada")
        world.advance(minutes(1))
        waiting = app.workflows.start(remind, "bob")
        with pytest.raises(JobNotRetryable, match="has begun, and its steps would be made again"):
            app.jobs.retry(run_id, args={"user": "eve"})
        assert app.workflows.get(run_id).state == "running"
        assert app.workflows.get(app.jobs.retry(waiting, args={"user": "eve"})).args == {"user": "eve"}

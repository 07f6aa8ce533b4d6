"""`run_timeout`: a run that is open for too long is terminated, whatever it is, and has timed out."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from evertick import ActionCtx, App, MutationCtx, Overlap, Retry, Step, every
from evertick.base.errors import EvertickError, WorkflowFailed
from evertick.schedules import Fate, RunOutcome
from evertick.testing import World, minutes, seconds

OpenWorld = Callable[..., World]

app = App("timeouts")


@app.action(name="slow", timeout=3_600)
async def slow(ctx: ActionCtx) -> None:
    await asyncio.sleep(1_800)


@app.action(name="failing", timeout=3_600)
async def failing(ctx: ActionCtx) -> None:
    raise ValueError("not yet")


@app.mutation(name="quick")
def quick(ctx: MutationCtx) -> str:
    return "done"


@app.workflow(name="waiting")
async def waiting(step: Step) -> None:
    await step.wait_for("never")


OPEN_FOR_LONG = {
    "an action that takes long": (slow, {}),
    "a workflow that waits": (waiting, {}),
    "an action that is tried again and again": (
        failing,
        {"retry": Retry(1_000, first=timedelta(seconds=30), factor=1, jitter=0)},
    ),
}


@pytest.mark.parametrize("kind", OPEN_FOR_LONG)
def test_a_run_that_is_open_for_its_run_timeout_is_terminated_and_has_timed_out(world: OpenWorld, kind: str) -> None:
    function, options = OPEN_FOR_LONG[kind]
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=function, run_timeout=minutes(10), **options)
    w.advance(minutes(60) + minutes(9))
    [run] = app.schedules.get("s").running
    assert run.stop is None

    w.advance(minutes(2))

    [row] = w.occurrences("s")
    assert (row.fate, row.outcome) == (Fate.STARTED, RunOutcome.TIMED_OUT)
    assert row.detail == "the run was open for longer than the run_timeout of 10 min of its schedule"
    assert row.duration is not None
    assert minutes(10) <= row.duration <= minutes(10) + seconds(2)
    schedule = app.schedules.get("s")
    assert (schedule.running, schedule.last_failure) == ((), row.detail)
    assert "timed_out" in app.schedules.explain("s", at=row.nominal).sentence
    w.advance(minutes(40))
    assert len(w.occurrences("s")) == 1  # it is not tried again


def test_a_timeout_is_a_failure_for_pause_on_failure_and_frees_the_slot_for_what_waits(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("pausing", when=every(hours=1), do=slow, run_timeout=60, pause_on_failure=True)
    app.schedules.create("s", when=every(minutes=10), do=slow, run_timeout=minutes(12), overlap=Overlap.BUFFER_ONE)

    w.advance(minutes(62))

    assert app.schedules.get("pausing").paused
    assert [each.outcome for each in w.occurrences("s") if each.outcome] == [RunOutcome.TIMED_OUT] * 4
    assert len(app.schedules.get("s").running) == 1


def test_a_run_that_ends_in_time_keeps_its_outcome_and_a_paused_schedule_times_out_too(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("quick", when=every(hours=1), do=quick, run_timeout=1)
    app.schedules.create("s", when=every(hours=1), do=slow, run_timeout=minutes(10))
    w.advance(minutes(61))
    app.schedules.pause("s", "later")
    w.advance(minutes(10))

    assert [each.outcome for each in w.occurrences("quick")] == [RunOutcome.SUCCESS]
    assert [each.outcome for each in w.occurrences("s")] == [RunOutcome.TIMED_OUT]


def test_the_timeout_can_be_changed_while_a_run_is_open_lifted_and_used_for_crons(world: OpenWorld) -> None:
    declared = App("declared")

    @declared.action(name="slow", timeout=3_600)
    async def cron_target(ctx: ActionCtx) -> None:
        await asyncio.sleep(1_800)

    declared.crons.using(run_timeout=minutes(3)).add("c", every(hours=1), cron_target)
    w = world(declared)
    declared.schedules.create("s", when=every(hours=1), do=cron_target, run_timeout=minutes(30))
    w.advance(minutes(62))
    declared.schedules.update("s", run_timeout=minutes(5))
    w.advance(minutes(4))
    declared.schedules.update("s", run_timeout=None)

    assert declared.schedules.get("s").policies.run_timeout_ms is None
    for name in ("c", "s"):
        assert {each.outcome for each in w.occurrences(name)} == {RunOutcome.TIMED_OUT}


@pytest.mark.parametrize("wrong", [0, -1, "ten minutes", True, float("nan"), timedelta(days=40_000)])
def test_a_timeout_that_is_no_length_of_time_is_refused(world: OpenWorld, wrong: object) -> None:
    world(app)
    with pytest.raises(EvertickError, match=r"run.timeout"):
        app.schedules.create("s", when=every(hours=1), do=slow, run_timeout=wrong)  # type: ignore[arg-type]


def test_who_waits_for_a_workflow_that_timed_out_is_not_left_waiting(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=waiting, run_timeout=minutes(10))
    w.advance(minutes(75))

    [row] = w.occurrences("s")
    assert row.job_id is not None
    with pytest.raises(WorkflowFailed):
        app.workflows.result(row.job_id)

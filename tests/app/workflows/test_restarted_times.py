"""What a restart runs again counts its time from the restart; what it keeps keeps its times."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from evertick import ActionCtx, App, MutationCtx, Retry, Step
from evertick.testing import World, days, hours, replay

app = App("again")
BEGUN = "2026-01-01T00:00:00Z"


@app.mutation
def note(ctx: MutationCtx, text: str) -> None:
    ctx.db.insert("notes", {"text": text})


@app.action(timeout=hours(9))
async def answer(ctx: ActionCtx) -> str:
    await asyncio.sleep(5 * 3600)
    return "answered"


@app.workflow
async def approval(step: Step) -> str:
    await step.run(note, "asked")
    try:
        said: str = await step.wait_for("decision", timeout=hours(1))
    except TimeoutError:
        said = "expired"
    return f"{said} {step.now():%d %H:%M}"


@app.workflow
async def sleeps(step: Step) -> str:
    await step.run(note, "asked")
    await step.sleep(hours(1))
    return f"{step.now():%d %H:%M}"


@app.workflow
async def within(step: Step) -> str:
    await step.run(note, "asked")
    try:
        async with asyncio.timeout(3600):
            said: str = await step.wait_for("decision")
    except TimeoutError:
        said = "expired"
    return f"{said} {step.now():%d %H:%M}"


@app.workflow
async def polled(step: Step) -> str:
    """Its deadline is a moment, which the code makes from the time of the step before."""
    await step.run(note, "asked")
    until = step.now() + timedelta(hours=1)
    await step.sleep_until(until)
    return f"{step.now():%d %H:%M}"


@app.workflow
async def limited(step: Step) -> str:
    await step.run(note, "asked")
    try:
        said = await step.using(timeout=hours(1), retry=Retry(5)).run(answer)
    except TimeoutError:
        said = "expired"
    return f"{said} {step.now():%d %H:%M}"


@app.workflow
async def dated(step: Step) -> str:
    """What it tells others is the time at which it was restarted."""
    await step.run(note, "asked")
    await step.run(note, f"now {step.now():%d %H:%M}")
    await step.sleep(hours(1))
    return f"{step.now():%d %H:%M}"


def ends(workflow: Any, step: int | str, first: str, again: str) -> None:
    """A run that ended on the first is restarted on the third of January at 12:00: both ends are right, also
    if it is replayed."""
    with World(app, at=BEGUN) as world:
        run_id = app.workflows.start(workflow)
        world.advance(hours(2))
        assert app.workflows.result(run_id) == first
        world.advance(days(2) + hours(10))
        restarted = app.workflows.restart(run_id, step=step)
        world.advance(minutes_of(again))
        assert app.workflows.get(restarted).state == "running"
        world.restart()  # from here on the run is replayed
        world.advance(hours(2))
        assert app.workflows.result(restarted) == again
        history = app.workflows.history(restarted)
        assert replay(workflow, history) == replay(workflow, history.to_json()) == again
        [last] = [event.position for event in history.events if event.restarted_at]
        kept, old = history.events[: last + 1], app.workflows.history(run_id).events
        assert [event.at for event in kept] == [event.at for event in old[: last + 1]]


def minutes_of(end: str) -> float:
    """Seconds until a minute before an end of the form `... HH:MM` on the day on which it was restarted at 12:00."""
    at = datetime.strptime(end[-5:], "%H:%M")
    return (at.hour - 12) * 3600 + (at.minute - 1) * 60


@pytest.mark.parametrize(
    ("workflow", "step", "first", "again"),
    [
        (approval, "decision", "expired 01 01:00", "expired 03 13:00"),
        (approval, 2, "expired 01 01:00", "expired 03 13:00"),
        (approval, 1, "expired 01 01:00", "expired 03 13:00"),
        (sleeps, "sleep", "01 01:00", "03 13:00"),
        (within, "decision", "expired 01 01:00", "expired 03 13:00"),
        (polled, "sleep", "01 01:00", "03 13:00"),
        (limited, 2, "expired 01 01:00", "expired 03 13:00"),
        (dated, 2, "01 01:00", "03 13:00"),
    ],
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_what_runs_again_has_its_whole_time(workflow: Any, step: int | str, first: str, again: str) -> None:
    ends(workflow, step, first, again)


def test_the_code_reads_the_time_of_the_restart() -> None:
    with World(app, at=BEGUN) as world:
        run_id = app.workflows.start(dated)
        world.advance(hours(2))
        world.advance(days(2) + hours(10))
        app.workflows.restart(run_id, step=2)
        world.drain()
        assert [each["text"] for each in world.query("notes")] == ["asked", "now 01 00:00", "now 03 12:00"]


def test_the_approver_has_another_chance_and_the_run_another_restart() -> None:
    with World(app, at=BEGUN) as world:
        run_id = app.workflows.start(approval)
        for day in (3, 5):
            world.advance(days(2))
            run_id = app.workflows.restart(run_id, step="decision")
            world.advance(60)
            [wait] = app.workflows.timeline(run_id).waits_for
            assert (wait.since.day, wait.until) == (day, wait.since + timedelta(hours=1))
            [asked, _] = app.workflows.timeline(run_id).steps
            assert (asked.name, asked.ended_at and asked.ended_at.day, asked.due_at) == (note.name, 1, None)
        app.workflows.signal(run_id, "decision", "yes")
        world.advance(1)
        assert app.workflows.result(run_id) == "yes 05 00:02"
        [_, asked_event, *others] = app.workflows.history(run_id).events
        assert (asked_event.restarted_at and asked_event.restarted_at.day, asked_event.due_at) == (5, None)
        assert not any(event.restarted_at for event in others)


@app.workflow
async def chained(step: Step) -> str:
    await step.run(note, "one")
    await step.run(note, "two")
    return "done"


def test_the_first_step_that_runs_again_begins_at_the_restart() -> None:
    with World(app, at=BEGUN) as world:
        run_id = app.workflows.start(chained)
        world.advance(days(2))
        restarted = app.workflows.restart(run_id, step=2)
        world.drain()
        one, two = app.workflows.history(restarted).steps()
        assert (one.started_at.day, two.started_at.day, two.duration_ms) == (1, 3, 0)


@app.workflow
async def beside(step: Step) -> list[str]:
    """Waits, and makes a step meanwhile that is restarted: the wait is before it, so it keeps its time."""
    said = asyncio.create_task(waited(step))
    await asyncio.sleep(0)
    await step.run(note, "beside")
    return [await said, f"{step.now():%d %H:%M}"]


async def waited(step: Step) -> str:
    try:
        await step.wait_for("decision", timeout=hours(1))
    except TimeoutError:
        return "expired"
    return "decided"


def test_a_wait_that_was_called_before_the_step_keeps_its_time() -> None:
    with World(app, at=BEGUN) as world:
        run_id = app.workflows.start(beside)
        world.advance(60)
        restarted = app.workflows.restart(run_id, step=note.name)
        world.advance(hours(3))
        assert app.workflows.result(restarted) == ["expired", "01 01:00"]
        assert replay(beside, app.workflows.history(restarted)) == ["expired", "01 01:00"]

"""Trigger: somebody wants a run now. It obeys the overlap policy of the schedule, unless it brings its own.

time     0     1     2
trigger     S=============|
1              x  overlap
2                    x  overlap
trigger                 S=
"""

import pytest

from evertick import App, MutationCtx, Overlap
from evertick.base.errors import InvalidArguments, ScheduleNotFound
from evertick.schedules import Reason
from evertick.testing import World, hours, minutes, moment, seconds
from tests.stories.figures import figure

app = App("shop")


@app.mutation
def report(ctx: MutationCtx, day: str = "today") -> None:
    assert ctx.schedule is not None
    ctx.db.insert("reports", {"day": day, "origin": ctx.schedule.origin})


def test_a_trigger_starts_a_run_at_once(world: World) -> None:
    """It is a run like any other: the times of the schedule meet it, and are skipped."""
    reports = world.schedule(every=minutes(1), takes=seconds(140))
    world.advance(seconds(30))
    triggered = world.app.schedules.trigger(reports)
    assert (triggered.fate, triggered.reason, triggered.nominal) == ("started", "triggered", moment("00:00:30"))

    world.advance(seconds(120))
    world.app.schedules.trigger(reports, overlap=Overlap.ALLOW_ALL)
    world.advance(seconds(25))

    assert world.starts(reports) == [moment("00:00:30"), moment("00:02:30")]
    assert world.timeline(reports) == figure(__doc__)


def test_with_skip_a_trigger_that_finds_a_run_open_is_skipped(world: World) -> None:
    """The answer says what became of it; `allow_all` means: now, whatever runs."""
    reports = world.schedule(every=minutes(1), takes=minutes(10))
    world.advance(seconds(90))

    assert world.app.schedules.trigger(reports).reason is Reason.OVERLAP
    assert world.app.schedules.trigger(reports, overlap=Overlap.BUFFER_ONE).reason is Reason.BEHIND_RUN
    assert world.app.schedules.trigger(reports, overlap=Overlap.ALLOW_ALL).reason is Reason.TRIGGERED


def test_a_trigger_may_bring_other_arguments(world: World) -> None:
    """They are for this run alone."""
    reports = world.schedule(every=minutes(1), do=report)
    world.app.schedules.trigger(reports, args=report.with_args("yesterday"))
    world.advance(minutes(1))

    assert [(each["day"], each["origin"]) for each in world.query("reports")] == [
        ("yesterday", "trigger"),
        ("today", "schedule"),
    ]
    with pytest.raises(InvalidArguments):
        world.app.schedules.trigger(reports, args={"hour": 7})


def test_the_same_request_triggers_once(world: World) -> None:
    """A button pressed twice, a reply lost on the way: with a request id the second one answers what the first did."""
    reports = world.schedule(every=hours(1), do=report)
    first = world.app.schedules.trigger(reports, request_id="button-7")
    world.advance(5)

    assert world.app.schedules.trigger(reports, request_id="button-7").run == first.run
    assert len(world.starts(reports)) == 1


def test_a_trigger_of_nothing_is_refused(world: World) -> None:
    with pytest.raises(ScheduleNotFound, match="no schedule 'nothing'"):
        world.app.schedules.trigger("nothing")

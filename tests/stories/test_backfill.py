"""Backfill: run now what the schedule names in a span of time. First the plan, then the run, with the plan's token."""

import pytest

from evertick import App, MutationCtx, Overlap
from evertick.base.errors import LimitExceeded, Misuse, VersionConflict
from evertick.schedules import Reason
from evertick.testing import World, hours, minutes, moment, seconds

app = App("meter")


@app.mutation
def read_meter(ctx: MutationCtx) -> None:
    assert ctx.schedule is not None
    ctx.db.insert("readings", {"hour": f"{ctx.schedule.nominal_time:%H:%M}"})


def test_a_backfill_runs_what_the_schedule_would_have_run(world: World) -> None:
    """Also times before the schedule was made: both ends of the span are included."""
    world.advance(hours(10))
    readings = world.schedule(every=hours(1), do=read_meter)
    world.app.schedules.backfill(readings, moment("07:00"), moment("09:00"), overlap=Overlap.ALLOW_ALL)
    world.advance(1)

    assert [each["hour"] for each in world.query("readings")] == ["07:00", "08:00", "09:00"]
    assert {each.reason for each in world.occurrences(readings)} == {Reason.BACKFILLED}


def test_the_plan_says_what_would_happen_and_changes_nothing(world: World) -> None:
    """How many times, which of them, and which ran already: those would run again."""
    world.advance(hours(8))
    readings = world.schedule(every=hours(1), do=read_meter)
    world.advance(hours(2))

    plan = world.app.schedules.backfill_plan(readings, moment("07:00"), moment("10:00"))

    assert [time.nominal for time in plan.times] == [moment("07:00"), moment("08:00"), moment("09:00"), moment("10:00")]
    assert plan.already_ran == (moment("09:00"), moment("10:00"))
    assert len(world.query("readings")) == 2


def test_the_token_starts_exactly_the_plan(world: World) -> None:
    """If the schedule changed between the look and the click, nothing starts."""
    readings = world.schedule(every=hours(1), do=read_meter)
    plan = world.app.schedules.backfill_plan(readings, moment("07:00"), moment("10:00"))
    world.app.schedules.update(readings, when="only when triggered")

    with pytest.raises(VersionConflict, match="plan it again"):
        world.app.schedules.backfill(readings, moment("07:00"), moment("10:00"), token=plan.token)
    assert world.occurrences(readings) == []


def test_buffer_all_runs_the_times_one_after_the_other(world: World) -> None:
    """A backfill reports how far it has come."""
    world.advance(hours(10))
    readings = world.schedule(every=hours(1), takes=minutes(1))
    backfill = world.app.schedules.backfill(readings, moment("07:00"), moment("09:00"), overlap=Overlap.BUFFER_ALL)
    world.advance(seconds(90))

    progress = world.app.schedules.backfill_status(readings, backfill.id)
    assert (progress.times, progress.started, progress.ended, progress.waiting) == (3, 2, 1, 1)

    world.advance(minutes(2))
    progress = world.app.schedules.backfill_status(readings, backfill.id)
    assert (progress.started, progress.ended, progress.done) == (3, 3, True)
    assert world.starts(readings) == [moment("10:00"), moment("10:01"), moment("10:02")]


def test_a_canceled_backfill_skips_what_waits_and_lets_run_what_runs(world: World) -> None:
    """Nothing of it is stopped; nothing more of it is started."""
    world.advance(hours(10))
    readings = world.schedule(every=hours(1), takes=minutes(1))
    backfill = world.app.schedules.backfill(readings, moment("07:00"), moment("09:00"), overlap=Overlap.BUFFER_ALL)
    world.advance(seconds(30))

    canceled = world.app.schedules.backfill_cancel(readings, backfill.id)
    world.advance(minutes(5))

    assert (canceled.skipped, canceled.done) == (2, True)
    assert [each.reason for each in world.occurrences(readings)] == [
        Reason.BACKFILLED,
        Reason.BACKFILL_CANCELED,
        Reason.BACKFILL_CANCELED,
    ]
    assert world.occurrences(readings)[0].outcome == "success"


def test_a_backfill_leaves_room_for_the_times_of_the_schedule(world: World) -> None:
    """It fills at most half of the buffer and waits for room, so nothing of today is lost for yesterday's sake."""
    world.advance(hours(10))
    readings = world.schedule(every=minutes(1), takes=seconds(20), overlap=Overlap.BUFFER_ALL, buffer_limit=10)
    backfill = world.app.schedules.backfill(readings, moment("09:31"), moment("09:50"))
    world.advance(minutes(12))

    assert world.missed(readings) == []
    assert world.app.schedules.backfill_status(readings, backfill.id).ended == 20


def test_so_many_runs_of_a_backfill_at_a_time(world: World) -> None:
    """They ask no overlap policy: neither the schedule's own runs nor what waits is in their way."""
    world.advance(hours(10))
    readings = world.schedule(every=hours(1), takes=minutes(10), overlap=Overlap.SKIP)
    backfill = world.app.schedules.backfill(readings, moment("01:00"), moment("05:00"), max_active=2)
    world.advance(minutes(5))
    assert len(world.app.schedules.get(readings).running) == 2

    world.advance(minutes(30))

    starts = [moment(text) for text in ("10:00", "10:00", "10:10", "10:10", "10:20")]
    assert [when.replace(microsecond=0) for when in world.starts(readings)] == starts
    assert world.app.schedules.backfill_status(readings, backfill.id).done


def test_what_ran_before_can_be_left_out(world: World) -> None:
    """The plan says which times ran; with `skip_done` it is without them, and so is the backfill."""
    readings = world.schedule(every=hours(1), do=read_meter)
    world.advance(hours(2))
    world.app.schedules.pause(readings)
    world.advance(hours(2))
    world.app.schedules.resume(readings)
    world.advance(hours(2))

    plan = world.app.schedules.backfill_plan(
        readings, moment("01:00"), moment("06:00"), overlap="allow_all", skip_done=True
    )
    world.app.schedules.backfill(
        readings, moment("01:00"), moment("06:00"), overlap="allow_all", skip_done=True, token=plan.token
    )
    world.advance(minutes(1))

    assert [time.nominal for time in plan.times] == [moment("03:00"), moment("04:00")]
    assert plan.already_ran == (moment("01:00"), moment("02:00"), moment("05:00"), moment("06:00"))
    ran = [each.nominal for each in world.occurrences(readings) if each.fate == "started"]
    assert ran == [moment(f"0{hour}:00") for hour in range(1, 7)]


def test_a_limit_and_a_policy_contradict_each_other(world: World) -> None:
    """A limit of its own means that its runs ask no policy."""
    readings = world.schedule(every=hours(1), do=read_meter)

    with pytest.raises(Misuse, match="leave out buffer_all, or the limit"):
        world.app.schedules.backfill(readings, moment("00:00"), moment("01:00"), overlap="buffer_all", max_active=2)
    with pytest.raises(Misuse, match="at least 1"):
        world.app.schedules.backfill(readings, moment("00:00"), moment("01:00"), max_active=0)


def test_ten_years_of_minutes_are_refused(world: World) -> None:
    """A plan is bounded: 100,000 times. The message says how far the first of them reach."""
    readings = world.schedule(every=minutes(1), do=read_meter)

    with pytest.raises(LimitExceeded, match="split it, the last that fits is 2016-03-10T10:39:00Z"):
        world.app.schedules.backfill_plan(readings, moment("2016-01-01"), moment("2026-01-01"))

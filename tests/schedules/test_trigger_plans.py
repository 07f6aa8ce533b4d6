"""What a trigger would do now: the plan says what then happens."""

from collections.abc import Callable
from datetime import date

import pytest

from evertick import Overlap, cron, every
from evertick.base.errors import LimitExceeded, Misuse, ScheduleNotFound
from evertick.testing import World
from tests.schedules.api_app import HOUR, app, fail, minutes, nap, tick

OpenWorld = Callable[..., World]


def sentences() -> dict[str, str]:
    return {each.overlap.value: each.sentence for each in app.schedules.trigger_plan("s").effects}


def test_without_an_open_run_every_policy_starts_one(world: OpenWorld) -> None:
    world(app)
    app.schedules.create("s", when=every(hours=1), do=tick)
    plan = app.schedules.trigger_plan("s")
    assert (plan.overlap, plan.running, plan.waiting) == (Overlap.SKIP, (), 0)
    assert {each.sentence for each in plan.effects} == {"Starts at once."}
    assert app.schedules.get("s").version == 1
    with pytest.raises(ScheduleNotFound):
        app.schedules.trigger_plan("other")


def test_behind_an_open_run_each_policy_says_what_it_would_do(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=nap.with_args(600), overlap="buffer_all")
    w.advance(130)
    [run] = [each.run for each in app.schedules.get("s").running]
    assert sentences() == {
        "skip": f"Nothing would start: {run} has not ended.",
        "buffer_one": f"Nothing would start: {run} has not ended.",
        "buffer_all": f"Waits until {run} has ended and 1 other before it, and starts then.",
        "cancel_other": f"Asks {run} to cancel; starts when that has ended.",
        "terminate_other": f"Stops {run} at once; starts when that has ended.",
        "allow_all": "Starts at once, in addition to 1 open run.",
    }
    assert app.schedules.trigger_plan("s").waiting == 1


@pytest.mark.parametrize("overlap", list(Overlap))
def test_what_the_plan_says_happens(world: OpenWorld, overlap: Overlap) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=nap.with_args(600))
    w.advance(70)
    [planned] = [each for each in app.schedules.trigger_plan("s").effects if each.overlap is overlap]
    done = app.schedules.trigger("s", overlap=overlap)
    assert (done.fate, done.reason) == (planned.fate, planned.reason)
    assert planned.run == (None if done.fate == "started" else done.run)
    stopped = tuple(each.run for each in app.schedules.get("s").running if each.stop is not None)
    assert stopped == planned.stops


def test_days_tell_how_their_times_ended_and_which_are_to_come(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("good", when=cron("0 23 * * *", tz="America/New_York"), do=tick)
    app.schedules.create("bad", when=cron("0 */12 * * *"), do=fail)
    w.advance(52 * HOUR)

    good = app.schedules.days("good", date(2025, 12, 31), date(2026, 1, 5))
    assert (good.time_zone, good.complete) == ("America/New_York", True)
    assert [dict(each.endings) for each in good.days] == [{"ok": 1}, {"ok": 1}, {"ok": 1}, {}, {}]
    assert [each.upcoming for each in good.days] == [None, None, None, *[minutes(60 * hours) for hours in (76, 100)]]

    bad = app.schedules.days("bad", date(2026, 1, 1), date(2026, 1, 4)).days
    assert [dict(each.endings) for each in bad] == [{"failed": 1}, {"failed": 2}, {"failed": 1}]
    assert [each.upcoming is not None for each in bad] == [False, False, True]
    with pytest.raises(Misuse, match="before they start"):
        app.schedules.days("bad", date(2026, 1, 2), date(2026, 1, 2))
    with pytest.raises(LimitExceeded, match="62 days"):
        app.schedules.days("bad", date(2026, 1, 1), date(2026, 4, 1))

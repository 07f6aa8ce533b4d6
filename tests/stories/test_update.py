"""Update: any part of a schedule may change at any time. What runs, runs on; what waits, waits; the past stays past."""

import pytest

from evertick import App, MutationCtx, Overlap, every
from evertick.base.errors import VersionConflict
from evertick.testing import World, hours, minutes, moment, seconds

app = App("office")


@app.mutation
def write_letter(ctx: MutationCtx, to: str) -> None:
    ctx.db.insert("letters", {"to": to})


def test_only_what_is_given_changes(world: World) -> None:
    """An update is a patch. To lift what was set, say None."""
    letters = world.schedule(
        every=hours(1), do=write_letter.with_args("ada"), overlap=Overlap.BUFFER_ALL, jitter=seconds(5)
    )
    world.app.schedules.update(letters, do=write_letter.with_args("bob"), jitter=None)
    world.advance(hours(1))

    assert [each["to"] for each in world.query("letters")] == ["bob"]
    assert world.starts(letters) == [moment("01:00")]
    assert world.app.schedules.get(letters).policies.overlap is Overlap.BUFFER_ALL


def test_a_new_rule_is_not_retroactive(world: World) -> None:
    """Times before the update belong to the old rule, and are over."""
    letters = world.schedule(every=hours(1), do=write_letter.with_args("ada"))
    world.advance(minutes(150))
    world.app.schedules.update(letters, when=every(minutes=10))
    world.advance(minutes(30))

    assert world.starts(letters) == [
        moment("01:00"),
        moment("02:00"),
        moment("02:40"),
        moment("02:50"),
        moment("03:00"),
    ]


def test_what_waits_keeps_waiting_with_the_policy_it_came_with(world: World) -> None:
    """A change to SKIP concerns the times to come, not those that were promised their turn."""
    letters = world.schedule(every=minutes(1), takes=seconds(130), overlap=Overlap.BUFFER_ALL)
    world.advance(minutes(3))
    world.app.schedules.update(letters, overlap=Overlap.SKIP)
    world.advance(minutes(5))

    assert world.starts(letters) == [moment("00:01:00"), moment("00:03:10"), moment("00:05:20"), moment("00:08:00")]
    assert world.skips(letters) == [moment("00:04:00"), moment("00:05:00"), moment("00:06:00"), moment("00:07:00")]


def test_what_waits_starts_with_the_new_function_and_arguments(world: World) -> None:
    """The place in the queue is kept; what is done there is what the schedule does now."""
    letters = world.schedule(every=minutes(1), takes=seconds(90), overlap=Overlap.BUFFER_ONE)
    world.advance(minutes(2))
    world.app.schedules.update(letters, do=write_letter.with_args("bob"))
    world.advance(seconds(45))

    assert world.starts(letters) == [moment("00:01:00"), moment("00:02:30")]
    assert [each["to"] for each in world.query("letters")] == ["bob"]


def test_open_runs_counters_and_the_pause_stay(world: World) -> None:
    letters = world.schedule(every=minutes(1), takes=minutes(10))
    world.advance(minutes(3))
    world.app.schedules.pause(letters, "holidays")
    world.app.schedules.update(letters, when=every(minutes=5))

    schedule = world.app.schedules.get(letters)
    assert [run.nominal for run in schedule.running] == [moment("00:01:00")]
    assert schedule.counters.by_reason == {"on_time": 1, "overlap": 2}
    assert (schedule.paused, schedule.note) == (True, "holidays")


def test_a_change_of_something_that_changed_meanwhile_is_refused(world: World) -> None:
    """Read, decide, write: with `if_version` nobody overwrites what he has not seen."""
    letters = world.schedule(every=hours(1), do=write_letter.with_args("ada"))
    seen = world.app.schedules.get(letters).version
    world.app.schedules.pause(letters, "somebody was quicker")

    with pytest.raises(VersionConflict, match="it was changed meanwhile"):
        world.app.schedules.update(letters, overlap=Overlap.ALLOW_ALL, if_version=seen)


def test_the_history_tells_who_changed_what(world: World) -> None:
    letters = world.schedule(every=hours(1), do=write_letter.with_args("ada"))
    world.app.schedules.using(actor="ada").update(letters, when=every(hours=2), overlap="allow_all")

    (line, _) = world.app.schedules.history(letters)
    assert (line.actor, line.action) == ("ada", "updated")
    assert line.detail == "times: every hour -> every 2 hours; overlap: skip -> allow_all"


def test_a_replacement_gives_everything_else_back_its_default(world: World) -> None:
    """As a whole new definition; what has happened stays all the same."""
    letters = world.schedule(every=hours(1), do=write_letter.with_args("ada"), overlap=Overlap.BUFFER_ALL)
    world.advance(hours(1))
    world.app.schedules.replace(letters, when=every(hours=2), do=write_letter.with_args("bob"))

    schedule = world.app.schedules.get(letters)
    assert schedule.policies.overlap is Overlap.SKIP
    assert schedule.actions == 1

"""Delete: a schedule goes, its runs go on. What waited is dropped, and the ledger still knows all of it."""

import pytest

from evertick import Overlap
from evertick.base.errors import ScheduleNotFound
from evertick.schedules import Reason
from evertick.testing import World, hours, minutes, moment


def test_deleting_a_schedule_leaves_its_runs_alone(world: World) -> None:
    report = world.schedule(every=minutes(1), takes=minutes(5))
    world.advance(minutes(2))
    world.app.schedules.delete(report)
    world.advance(minutes(10))

    assert [(job.state, job.attempt) for job in world.jobs()] == [("success", 1)]
    with pytest.raises(ScheduleNotFound, match="no schedule 'schedule-1'"):
        world.app.schedules.get(report)


def test_what_waited_is_dropped_and_the_ledger_says_so(world: World) -> None:
    """The ledger of a deleted schedule can be read until its retention is over; its run's end is written there, too."""
    report = world.schedule(every=minutes(1), takes=minutes(5), overlap=Overlap.BUFFER_ONE)
    world.advance(minutes(2))
    world.app.schedules.delete(report)
    world.advance(minutes(10))

    ran, waited = world.occurrences(report)
    assert (ran.outcome, ran.ended) == ("success", moment("00:06:00"))
    assert (waited.fate, waited.reason) == ("skipped", Reason.DELETED)


def test_its_name_is_free_again(world: World) -> None:
    """A new schedule of the same name is another one: it begins now, with a state of its own."""
    world.schedule("report", every=minutes(1))
    world.advance(minutes(2))
    world.app.schedules.delete("report")
    world.schedule("report", every=hours(1))
    world.advance(hours(1))

    assert world.app.schedules.get("report").actions == 1
    assert [line.action for line in world.app.schedules.history("report")] == ["created", "deleted", "created"]


def test_explain_still_answers_for_a_deleted_schedule(world: World) -> None:
    report = world.schedule(every=minutes(1))
    world.advance(minutes(2))
    world.app.schedules.delete(report)
    world.advance(minutes(2))

    assert world.app.schedules.explain(report, moment("00:01:00")).ran
    after = world.app.schedules.explain(report, moment("00:04:00"))
    assert after.sentence == "the schedule had been deleted by app world at 2026-01-01T00:02:00Z"

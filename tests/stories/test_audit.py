"""Audit: what did not go to plan, over all schedules? And does the ledger know every time that the rules name?"""

from evertick import CatchUp
from evertick.testing import World, hours, minutes, moment


def test_after_an_outage_the_audit_says_what_was_late_and_what_was_missed(world: World) -> None:
    """Every schedule by its own policy: nothing of the outage is forgotten."""
    world.schedule("latest", every=hours(1), catch_up=CatchUp.LATEST)
    world.schedule("strict", every=hours(1), catch_up_window=minutes(20))
    world.advance(minutes(90))
    world.outage(hours(3))

    report = world.app.schedules.audit(moment("00:00"), moment("05:00"))

    assert [(each.schedule, each.nominal) for each in report.late] == [("latest", moment("04:00"))]
    assert [(each.schedule, each.nominal, each.reason) for each in report.missed] == [
        ("latest", moment("02:00"), "catch_up_latest"),
        ("strict", moment("02:00"), "catch_up_window"),
        ("latest", moment("03:00"), "catch_up_latest"),
        ("strict", moment("03:00"), "catch_up_window"),
        ("strict", moment("04:00"), "catch_up_window"),
    ]
    assert report.started == 2
    assert not report.clean


def test_what_was_missed_can_be_backfilled(world: World) -> None:
    """The missed times stay in the ledger; the backfill adds its own rows beside them."""
    world.schedule("strict", every=hours(1), catch_up_window=minutes(20))
    world.outage(hours(3) + minutes(30))
    missed = world.missed("strict")
    assert missed == [moment("01:00"), moment("02:00"), moment("03:00")]

    world.app.schedules.backfill("strict", missed[0], missed[-1], overlap="allow_all")
    world.advance(1)

    assert [(each.nominal, each.fate) for each in world.occurrences("strict") if each.origin == "backfill"] == [
        (moment, "started") for moment in missed
    ]


def test_while_nobody_is_there_the_audit_knows_what_is_overdue(world: World) -> None:
    """It walks every rule by itself and compares: a time that the ledger does not know shows."""
    world.schedule("hourly", every=hours(1))
    world.kill()
    world.advance(minutes(150))

    report = world.app.schedules.audit(moment("00:00"), moment("03:00"))
    assert [(each.nominal, each.why) for each in report.unrecorded] == [
        (moment("01:00"), "overdue"),
        (moment("02:00"), "overdue"),
    ]
    assert not report.clean

    world.restart()
    assert world.app.schedules.audit(moment("00:00"), moment("03:00")).unrecorded == ()


def test_a_day_that_went_to_plan_is_clean(world: World) -> None:
    """Skipped times are no fault: a policy decided so."""
    world.schedule("hourly", every=hours(1))
    world.schedule("busy", every=minutes(10), takes=minutes(15), end=moment("01:00"))
    world.advance(hours(24))

    report = world.app.schedules.audit(moment("00:00"), world.now)
    assert report.clean
    assert report.complete
    assert report.skipped_count == 3

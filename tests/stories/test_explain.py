"""Explain: why did it run, or why did it not? One chain of checks, which ends where it was decided."""

from datetime import date, datetime

import pytest

from evertick import App, MutationCtx, daily
from evertick.testing import World, days, hours, minutes, moment, seconds

app = App("bakery")


@app.mutation
def bake(ctx: MutationCtx, what: str = "bread") -> None: ...


def why(world: World, schedule: str, moment: datetime) -> str:
    """The answer in a sentence."""
    return world.app.schedules.explain(schedule, moment).sentence


def test_it_ran_and_this_is_how(world: World) -> None:
    bread = world.schedule("bread", when=daily(hour=5), do=bake)
    world.advance(hours(6))

    explanation = world.app.schedules.explain(bread, moment("05:00"))
    assert explanation.ran
    assert explanation.sentence == "started on time as bread-2026-01-01T05:00:00Z, ended success after 0 ms"
    assert [check.name for check in explanation.checks] == [
        *("matched", "not excluded", "within bounds"),
        *("kept", "active", "limit", "catch-up", "eligible", "overlap", "room", "startable"),
        *("started", "ended"),
    ]


def test_it_did_not_run_because_the_rule_does_not_name_that_time(world: World) -> None:
    """It comes with the nearest times, for comparison with what was meant."""
    bread = world.schedule(when=daily(hour=5, tz="Europe/Berlin"), do=bake)
    world.advance(days(2))

    assert why(world, bread, moment("2026-01-02T05:00")) == (
        "the rule does not name this time; the nearest are 2026-01-02T05:00:00+01:00 (2026-01-02T04:00:00Z) and "
        "2026-01-03T05:00:00+01:00 (2026-01-03T04:00:00Z)"
    )


def test_it_did_not_run_because_the_day_was_excluded(world: World) -> None:
    bread = world.schedule(when=daily(hour=5), do=bake, exclude=date(2026, 1, 2))
    world.advance(days(2))

    assert why(world, bread, moment("2026-01-02T05:00")) == (
        "the rule does not name this time: left out (except 2 January 2026); "
        "the nearest are 2026-01-01T05:00:00Z and 2026-01-03T05:00:00Z"
    )


def test_it_did_not_run_because_it_was_paused(world: World) -> None:
    """By whom, since when, and why; and what would mend it."""
    bread = world.schedule("bread", when=daily(hour=5), do=bake)
    world.app.schedules.using(actor="ada").pause(bread, "no flour")
    world.advance(days(1))

    explanation = world.app.schedules.explain(bread, moment("05:00"))
    assert explanation.sentence == "skipped: paused by ada since 2026-01-01T00:00:00Z: no flour"
    assert explanation.fix == (
        "evertick schedule resume bread; then evertick schedule backfill bread "
        "--start-time 2026-01-01T05:00:00Z --end-time 2026-01-01T05:00:00Z --skip-done"
    )


def test_it_did_not_run_because_another_run_was_open(world: World) -> None:
    bread = world.schedule("bread", every=minutes(1), takes=seconds(90))
    world.advance(minutes(2))

    assert why(world, bread, moment("00:02:00")) == "skipped: bread-2026-01-01T00:01:00Z has not ended"


def test_it_did_not_run_because_nobody_was_there(world: World) -> None:
    bread = world.schedule(when=daily(hour=5), do=bake, catch_up_window=minutes(30))
    world.outage(hours(6))

    explanation = world.app.schedules.explain(bread, moment("05:00"))
    assert (explanation.fate, explanation.checks[-1].name) == ("missed", "catch-up")
    assert explanation.sentence.endswith("no worker evaluated it from 2026-01-01T05:00:00Z to 2026-01-01T06:00:00Z")


def test_it_has_not_run_yet_because_nobody_is_there(world: World) -> None:
    """No row of the ledger, and no worker that could write one: that is an answer, too."""
    bread = world.schedule(when=daily(hour=5), do=bake)
    world.kill()
    world.advance(hours(6))

    explanation = world.app.schedules.explain(bread, moment("05:00"))
    assert explanation.sentence == "it is due, but no worker runs that would evaluate it"
    assert explanation.fix == "evertick worker"


def test_it_ran_and_failed(world: World) -> None:
    bread = world.schedule("bread", when=daily(hour=5), do=bake)
    world.fail_next(bake, OSError("the oven is cold"))
    world.advance(hours(6))

    explanation = world.app.schedules.explain(bread, moment("05:00"))
    assert explanation.sentence == "started on time as bread-2026-01-01T05:00:00Z, ended failed after 0 ms"
    assert explanation.fix == f"evertick job get {explanation.occurrences[0].job_id}"


@pytest.mark.parametrize(
    ("moment", "sentence"),
    [
        (moment("2025-12-31T05:00"), "the schedule did not exist yet"),
        (moment("2026-01-02T05:00"), "it is to start at 2026-01-02T05:00:00Z"),
    ],
    ids=["before", "ahead"],
)
def test_the_past_before_and_the_time_ahead(world: World, moment: datetime, sentence: str) -> None:
    bread = world.schedule(when=daily(hour=5), do=bake)
    world.advance(hours(6))

    assert why(world, bread, moment) == sentence

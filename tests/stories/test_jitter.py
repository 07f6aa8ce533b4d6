"""Jitter: a delay that looks random and never changes, so that a hundred schedules of midnight do not start at once."""

from datetime import UTC

import pytest

from evertick import App, MutationCtx
from evertick.testing import World, days, hours, minutes, moment

app = App("farm")


@app.mutation
def feed(ctx: MutationCtx) -> None:
    assert ctx.schedule is not None
    ctx.db.insert("meals", {"nominal": ctx.schedule.nominal_time.isoformat(), "run": ctx.schedule.run_id})


def test_each_schedule_starts_at_a_moment_of_its_own_within_the_jitter(world: World) -> None:
    """The moment comes from the schedule's id and the nominal time, so it is spread and yet always the same."""
    herd = [world.schedule(f"feed-{n}", every=hours(1), jitter=minutes(30), do=feed) for n in range(20)]
    world.advance(minutes(90))

    (first, *others) = [world.starts(animal) for animal in herd]
    moments = [moment for starts in (first, *others) for moment in starts]
    assert len(set(moments)) == 20
    assert min(moments) >= moment("01:00")
    assert max(moments) < moment("01:30")


def test_the_nominal_time_names_the_run_and_the_actual_time_starts_it(world: World) -> None:
    """Whoever works with the run sees a round time; bounds and exclusions are about that one, too."""
    meals = world.schedule("meals", every=hours(1), jitter=minutes(30), do=feed, end=moment("01:00"))
    world.advance(hours(2))

    (meal,) = world.query("meals")
    assert (meal["nominal"], meal["run"]) == (moment("01:00").isoformat(), "meals-2026-01-01T01:00:00Z")
    (occurrence,) = world.occurrences(meals)
    assert moment("01:00") < occurrence.actual == occurrence.started


@pytest.mark.long
def test_the_coming_moments_are_known_beforehand(world: World) -> None:
    """What `upcoming` shows is what will happen."""
    meals = world.schedule(every=hours(1), jitter=minutes(30), do=feed)
    coming = [time.actual for time in world.app.schedules.get(meals).upcoming]
    world.advance(days(1))

    assert world.starts(meals)[: len(coming)] == coming


@pytest.mark.long
def test_no_occurrence_passes_the_next_one(world: World) -> None:
    """However large the jitter, a delay ends before the next nominal time."""
    meals = world.schedule(every=minutes(10), jitter=hours(5), do=feed)
    world.advance(hours(4))

    assert all(each.actual < each.nominal + minutes(10) for each in world.occurrences(meals))
    assert world.starts(meals)[0].astimezone(UTC) < moment("00:20")

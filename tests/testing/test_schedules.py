"""What a world offers to stories about schedules: work of a known length, words for moments, and the ledger drawn."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

import evertick
import evertick.testing
from evertick import App, MutationCtx, Overlap, daily, every
from evertick.base.errors import FunctionNotFound, InvalidDelay, Misuse
from evertick.base.ids import ScheduleId
from evertick.testing import World, days, hours, minutes, moment, seconds

OpenWorld = Callable[..., World]

app = App("kit")


@app.mutation
def note(ctx: MutationCtx, text: str = "") -> None:
    ctx.db.insert("notes", {"text": text})


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("00:01", datetime(2026, 1, 1, 0, 1, tzinfo=UTC)),
        ("23:59:59.250", datetime(2026, 1, 1, 23, 59, 59, 250_000, tzinfo=UTC)),
        ("2026-03-29T02:30", datetime(2026, 3, 29, 2, 30, tzinfo=UTC)),
        ("2026-03-29", datetime(2026, 3, 29, tzinfo=UTC)),
        ("2026-03-29T02:30:00Z", datetime(2026, 3, 29, 2, 30, tzinfo=UTC)),
        ("2026-03-29T02:30+02:00", datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
def test_a_moment_is_a_time_of_the_first_day_or_of_any_other(text: str, meant: datetime) -> None:
    assert moment(text) == meant


def test_no_public_name_means_two_things() -> None:
    shared = set(evertick.__all__) & set(evertick.testing.__all__)
    assert all(getattr(evertick, name) is getattr(evertick.testing, name) for name in shared)


@pytest.mark.parametrize("text", ["noon", "25:00", "1:00", ""])
def test_at_refuses_what_is_no_moment(text: str) -> None:
    with pytest.raises(Misuse, match="is not a time"):
        moment(text)


def test_durations_add_up() -> None:
    assert days(1) + hours(2) + minutes(3) + seconds(4.5) == timedelta(days=1, hours=2, minutes=3, seconds=4.5)


def test_a_world_needs_no_app_for_stories_about_schedules() -> None:
    with World() as world:
        report = world.schedule(every=minutes(1), takes=seconds(150), overlap=Overlap.BUFFER_ONE)
        world.advance(minutes(3) + seconds(45))

        assert report == "schedule-1"
        assert world.starts(report) == [moment("00:01:00"), moment("00:03:30")]
        assert world.skips(report) == [moment("00:03:00")]
        assert world.schedule("named", every=hours(1)) == "named"
        assert world.schedule(every=hours(1)) == "schedule-3"


def test_a_schedule_of_a_world_may_call_functions_of_the_app(world: OpenWorld) -> None:
    w = world(app)
    w.schedule(when=daily(hour=9), do=note.with_args("nine"))
    w.schedule(when=daily(hour=10), do=note)
    w.advance(days(1))

    assert [each["text"] for each in w.query("notes")] == ["nine", ""]


def test_the_work_of_a_world_stays_there() -> None:
    with World(app) as world:
        world.schedule(every=minutes(1), takes=seconds(1))
        world.advance(minutes(2))
        assert [job.function for job in world.jobs()] == ["evertick.testing.stories"] * 2
    with pytest.raises(FunctionNotFound):
        app.functions.resolve("evertick.testing.stories")


def test_a_schedule_that_says_too_little_or_too_much_is_refused(world: OpenWorld) -> None:
    w = world(app)
    with pytest.raises(Misuse, match="takes either every="):
        w.schedule()
    with pytest.raises(Misuse, match="takes either every="):
        w.schedule(every=minutes(1), when=daily(hour=9))
    with pytest.raises(Misuse, match="omit them"):
        w.schedule(every=minutes(1), do=note, takes=1)
    with pytest.raises(InvalidDelay):
        w.schedule(every=minutes(1), takes=-1)


def test_an_outage_kills_the_worker_and_another_one_sees_what_is_late(world: OpenWorld) -> None:
    w = world(app)
    report = w.schedule(every=minutes(1))
    w.advance(seconds(90))
    w.outage(minutes(1))

    assert w.now == moment("00:02:30")
    assert w.starts(report) == [moment("00:01:00"), moment("00:02:30")]


def test_a_ledger_is_told_by_fate(world: OpenWorld) -> None:
    w = world(app)
    report = w.schedule(every=minutes(1), takes=minutes(10), overlap="buffer_one", catch_up_window=30)
    w.advance(seconds(90))
    w.outage(minutes(2))

    assert w.starts(report) == [moment("00:01:00"), moment("00:03:30")]
    assert w.missed(report) == [moment("00:02:00")]
    assert w.waiting(report) == []
    w.advance(minutes(2))
    assert w.waiting(report) == [moment("00:04:00")]
    assert w.skips(report) == [moment("00:05:00")]
    assert len(w.occurrences(report)) == 5
    assert w.occurrences(ScheduleId("never-was")) == []


def test_a_timeline_draws_what_became_of_every_time(world: OpenWorld) -> None:
    w = world(app)
    report = w.schedule(
        every=minutes(1), takes=minutes(3), cleans_up=seconds(40), overlap="cancel_other", end=moment("00:04:30")
    )
    w.advance(minutes(2) + seconds(50))
    w.outage(minutes(2))
    w.app.schedules.trigger(report, overlap="terminate_other")
    w.advance(minutes(1))

    assert w.timeline(report).splitlines() == [
        "time     1     2     3     4     5",
        "1        S=====c===|",
        "2              ....S============f",
        "3                    ~~~~~~~~~~~x  catch_up_superseded",
        "4                          ~~~~~St",
        "trigger                         S=====",
    ]


def test_a_timeline_draws_a_run_that_is_blocked(world: OpenWorld) -> None:
    w = world(app)
    report = w.schedule(every=minutes(1), do=note.with_args("x"))
    w.advance(minutes(1) + seconds(30))
    w.deploy(App("kit"))  # a release without the function
    w.advance(minutes(2))

    assert w.timeline(report).splitlines() == [
        "time  1     2     3",
        "1     S|",
        "2           Sbbbbbbbb",
        "3                 x  overlap",
    ]
    assert [job.blocked for job in w.pending()] == [True]


def test_a_timeline_draws_a_backfill_where_it_happened(world: OpenWorld) -> None:
    w = world(app)
    w.advance(minutes(4) + seconds(30))
    report = w.schedule(every=minutes(1), end=moment("00:05:00"))
    w.app.schedules.backfill(report, moment("00:01"), moment("00:01"))
    w.advance(minutes(1))

    assert w.timeline(report).splitlines() == [
        "time        4     5",
        "backfill 1     S|",
        "5                 S|",
    ]


@pytest.mark.long
def test_a_timeline_counts_in_units_and_starts_at_the_first_of_them(world: OpenWorld) -> None:
    w = world(app)
    w.advance(days(40))
    report = w.schedule(when=daily(hour=12))
    assert w.timeline(report, unit=days(1)) == "time  40"
    w.advance(days(3))

    assert w.timeline(report, unit=days(1)).splitlines() == [
        "time  40    41    42    43",
        "40.5     S|",
        "41.5           S|",
        "42.5                 S|",
    ]


def test_a_worlds_worker_is_alive_until_it_is_killed() -> None:
    """Real once: it counted as dead after ten seconds, so no run was ever blocked."""
    before = App("kit")

    @before.mutation(name="gone")
    def gone(ctx: MutationCtx) -> None: ...

    after = App("kit")
    with World(before) as world:
        world.app.schedules.create("s", when=every(hours=1), do="gone")
        world.deploy(after)
        world.advance(hours(1) + minutes(30))

        [run] = after.schedules.get("s").running
        assert run.blocked
        world.kill()
        [run] = after.schedules.get("s").running
        assert not run.blocked

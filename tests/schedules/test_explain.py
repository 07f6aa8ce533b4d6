"""Why did it run, why did it not: one chain of checks that ends where it was decided."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evertick import App, MutationCtx, Overlap, calendar, cron, daily, every
from evertick.api.reports import Answer, Missing
from evertick.base.errors import InvalidDelay, ScheduleNotFound
from evertick.base.ids import WorkerId
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.jobs import Worker
from evertick.schedules import Explanation, Fate, Reason
from evertick.testing import World
from tests.schedules.api_app import HOUR, START, app, fail, minutes, nap, tick
from tests.schedules.conftest import SetClock

OpenWorld = Callable[..., World]


def chain(explanation: Explanation) -> list[str]:
    """The names of the checks, with a mark at those that did not let it pass."""
    marks = {Answer.YES: "", Answer.NO: "!", Answer.UNKNOWN: "?"}
    return [marks[check.answer] + check.name for check in explanation.checks]


def test_a_run_is_told_from_its_rule_to_its_end(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=nap.with_args(20))
    w.advance(90)

    told = app.schedules.explain("s", minutes(1))

    assert (told.fate, told.reason, told.missing, told.ran) == (Fate.STARTED, Reason.ON_TIME, None, True)
    assert chain(told) == [
        "matched", "not excluded", "within bounds", "kept", "active", "limit", "catch-up", "eligible", "overlap",
        "room", "startable", "started", "ended",
    ]  # fmt: skip
    assert told.sentence == "started on time as s-2026-01-01T00:01:00Z, ended success after 20 s"
    assert told.fix is None


def test_a_run_that_goes_on_or_failed_is_told_so(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("runs", when=every(minutes=1), do=nap.with_args(50))
    app.schedules.create("fails", when=every(minutes=1), do=fail)
    w.advance(61)

    runs = app.schedules.explain("runs", minutes(1))
    fails = app.schedules.explain("fails", minutes(1))

    assert runs.sentence.endswith("and is running")
    assert chain(fails)[-1] == "!ended"
    assert fails.fix is not None
    assert "evertick job" in fails.fix


def test_a_run_that_waits_for_its_pool_is_told_so(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    app.pools.pause("default")
    w.advance(61)

    told = app.schedules.explain("s", minutes(1))

    assert told.sentence.endswith("; waits: pool 'default' is paused")
    assert chain(told)[-1] == "!ran"


def test_the_cure_quotes_an_id_that_the_shell_would_split(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("clear carts", when=every(minutes=1), do=nap.with_args(1))
    app.schedules.pause("clear carts", "cleaning")
    w.advance(90)

    fix = app.schedules.explain("clear carts", minutes(1)).fix

    assert fix is not None
    assert "'clear carts'" in fix


def test_a_time_during_a_pause_names_who_paused_and_why(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    app.schedules.using(actor="ana").pause("s", "vendor outage")
    w.advance(70)

    before = app.schedules.explain("s", minutes(1))
    app.schedules.resume("s")
    after = app.schedules.explain("s", minutes(1))

    for told in (before, after):
        assert "paused by ana since 2026-01-01T00:00:00Z: vendor outage" in told.sentence
        assert chain(told)[-1] == "!active"
        assert told.fix is not None
        assert "schedule resume s" in told.fix
    assert (before.missing, before.fate) == (Missing.PAUSED, None)
    assert (after.missing, after.reason) == (None, Reason.PAUSED)


@pytest.mark.parametrize(("again", "by", "why"), [("", "ana", "vendor outage"), ("still down", "ben", "still down")])
def test_a_second_pause_keeps_when_it_began_and_its_reason_unless_it_gives_another(
    world: OpenWorld, again: str, by: str, why: str
) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    app.schedules.using(actor="ana").pause("s", "vendor outage")
    w.advance(70)
    app.schedules.using(actor="ben").pause("s", again)
    w.advance(60)

    assert f"paused by {by} since 2026-01-01T00:00:00Z: {why}" in app.schedules.explain("s", minutes(2)).sentence
    assert app.schedules.describe("s").note == why


def test_a_time_in_an_outage_longer_than_the_window_is_missed(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=daily(hour=8), do=tick, catch_up_window=HOUR)
    w.advance_to("2026-01-01T07:41:00Z")
    w.kill()
    w.advance_to("2026-01-01T09:12:00Z")
    w.restart()

    told = app.schedules.explain("s", datetime(2026, 1, 1, 8, tzinfo=UTC))

    assert (told.fate, told.reason) == (Fate.MISSED, Reason.CATCH_UP_WINDOW)
    assert chain(told)[-2:] == ["limit", "!catch-up"]
    assert told.sentence == (
        "missed: 1 h 12 min late; the catch-up window is 1 h; "
        "no worker evaluated it from 2026-01-01T08:00:00Z to 2026-01-01T09:12:00Z"
    )
    assert told.fix == (
        "evertick schedule backfill s --start-time 2026-01-01T08:00:00Z --end-time 2026-01-01T08:00:00Z --skip-done; "
        "then for the next outage: evertick schedule update s --overlap-policy BufferAll --catchup-window 1d"
    )


def test_an_overlap_names_the_run_in_the_way(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=nap.with_args(90))
    app.schedules.create("b", when=every(minutes=1), do=nap.with_args(90), overlap=Overlap.BUFFER_ONE)
    w.advance(121)

    skipped = app.schedules.explain("s", minutes(2))
    buffered = app.schedules.explain("b", minutes(2))

    assert skipped.sentence == "skipped: s-2026-01-01T00:01:00Z has not ended"
    assert chain(skipped)[-1] == "!overlap"
    assert (buffered.fate, buffered.sentence) == (Fate.BUFFERED, "buffered: waits for b-2026-01-01T00:01:00Z")


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.BUFFER_ONE])
def test_the_cure_of_an_overlap_is_a_policy_that_lets_all_wait(world: OpenWorld, overlap: Overlap) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=nap.with_args(200), overlap=overlap)
    w.advance(181)

    told = app.schedules.explain("s", minutes(3))

    assert told.reason is Reason.OVERLAP
    assert told.fix == "let such times wait: evertick schedule update s --overlap-policy BufferAll"


def test_what_was_asked_for_by_hand_is_asked_for_again_with_another_policy(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=nap.with_args(200), overlap=Overlap.BUFFER_ONE)
    w.advance(10)
    app.schedules.backfill("s", minutes(-180), minutes(0))
    w.advance(1)
    skipped = next(each for each in app.schedules.occurrences("s").occurrences if each.reason is Reason.OVERLAP)
    app.schedules.trigger("s", overlap="skip")

    told = app.schedules.explain("s", skipped.nominal)
    again = app.schedules.explain("s", datetime(2026, 1, 1, 0, 0, 11, tzinfo=UTC))

    at = skipped.nominal.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert told.fix == (
        f"evertick schedule backfill s --start-time {at} --end-time {at} --skip-done --overlap-policy BufferAll"
    )
    assert again.fix == "evertick schedule trigger s --overlap-policy AllowAll"


def test_a_limit_that_was_reached(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick, remaining_actions=1)
    w.advance(150)

    told = app.schedules.explain("s", minutes(2))

    assert chain(told)[-1] == "!limit"
    assert "no actions remain" in told.sentence or told.missing is Missing.ENDED


@pytest.mark.parametrize(
    ("at", "check", "says"),
    [
        ("2026-01-05T09:30:00Z", "!matched", "the nearest are 2026-01-05T09:00:00Z and 2026-01-06T09:00:00Z"),
        ("2026-01-03T09:00:00Z", "!not excluded", "does not name this time"),
        ("2026-01-20T09:00:00Z", "!within bounds", "does not name this time"),
    ],
)
def test_a_time_the_rule_does_not_name_says_which_part_of_it_says_no(
    world: OpenWorld, at: str, check: str, says: str
) -> None:
    world(app)
    end = datetime(2026, 1, 10, tzinfo=UTC)
    app.schedules.create("s", when=daily(hour=9, exclude=calendar(day_of_week="Sat,Sun"), end=end), do=tick)

    told = app.schedules.explain("s", datetime.fromisoformat(at))

    assert told.missing is Missing.NOT_NAMED
    assert check in chain(told)
    assert says in told.sentence


def test_a_time_moved_by_the_clock_change_is_told(world: OpenWorld) -> None:
    w = world(app, at="2026-03-28T12:00:00Z")
    app.schedules.create("s", when=cron("30 2 * * *", tz="Europe/Berlin"), do=tick)
    w.advance(86_400)

    told = app.schedules.explain("s", datetime(2026, 3, 29, 1, tzinfo=UTC))

    assert told.ran
    assert any("02:30" in check.text and check.name == "clock change" for check in told.checks)


def test_ahead_it_says_when_it_will_start(world: OpenWorld) -> None:
    world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)

    told = app.schedules.explain("s", minutes(5))

    assert (told.missing, told.sentence) == (Missing.UPCOMING, "it is to start at 2026-01-01T00:05:00Z")


def test_a_due_time_that_nobody_looked_at_says_whether_anybody_could(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    w.kill()
    w.advance(120)

    told = app.schedules.explain("s", minutes(1))

    assert (told.missing, told.fix) == (Missing.NOT_EVALUATED, "evertick worker")
    assert chain(told)[-1] == "!evaluated"


def test_before_the_schedule_before_its_rule_and_after_its_end(world: OpenWorld) -> None:
    w = world(app)
    w.advance(120)
    app.schedules.create("s", when=every(minutes=2), do=tick)
    w.advance(120)
    app.schedules.update("s", when=every(minutes=5))
    w.advance(600)

    early = app.schedules.explain("s", START)
    assert (early.missing, early.sentence) == (Missing.NOT_CREATED, "the schedule did not exist yet")
    assert early.fix is not None and "backfill" in early.fix
    unnamed = app.schedules.explain("s", minutes(1))
    assert unnamed.missing is Missing.NOT_CREATED and unnamed.fix is None  # a backfill would run nothing
    assert "its rule does not name this time; the nearest are" in unnamed.sentence
    assert app.schedules.explain("s", minutes(3)).missing is Missing.OTHER_SPEC
    assert app.schedules.explain("s", minutes(4)).ran
    app.schedules.delete("s")
    w.advance(600)
    assert app.schedules.explain("s", minutes(4)).ran
    gone = app.schedules.explain("s", minutes(20))
    assert (gone.missing, gone.sentence) == (
        Missing.DELETED,
        "the schedule had been deleted by app api at 2026-01-01T00:14:00Z",
    )


def outage(world: OpenWorld, do: Any = tick, *, lasts: int = 200) -> World:
    """Times of `s` at which no worker looked, three of them unless given, and then a worker again."""
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=do, catch_up="none")
    w.kill()
    w.advance(lasts)
    w.restart()
    w.advance(10)
    return w


def test_a_missed_time_that_a_backfill_caught_up_is_reported_as_such_and_not_to_be_run_again(world: OpenWorld) -> None:
    w = outage(world)
    before = app.schedules.explain("s", minutes(2))
    assert (before.fate, before.ran) == (Fate.MISSED, False)
    assert before.fix is not None and "--skip-done; " in before.fix, "run twice it bills once"

    made = app.schedules.backfill("s", START, minutes(3), overlap="allow_all", only_missed=True)
    w.advance(5)
    told = app.schedules.explain("s", minutes(2))

    assert told.sentence == f"missed, and caught up by {made.id} at 2026-01-01T00:03:30Z, which ended success"
    assert (told.fate, told.ran, told.fix) == (Fate.MISSED, True, None)
    assert chain(told)[-2:] == ["!catch-up", "caught up"]
    assert [each.origin for each in told.occurrences] == ["schedule", "backfill"], (
        "the one that is explained comes first"
    )


def test_a_backfill_whose_run_waits_makes_up_for_it_too(world: OpenWorld) -> None:
    w = outage(world, do=nap.with_args(20))
    made = app.schedules.backfill("s", START, minutes(3), overlap="buffer_all", only_missed=True)
    w.advance(1)

    told = [app.schedules.explain("s", minutes(each)) for each in (1, 2, 3)]

    assert {each.fix for each in told} == {None}
    assert all(each.sentence.startswith("missed, and ") and made.id in each.sentence for each in told)
    assert told[2].sentence.endswith("which waits for s-2026-01-01T00:01:00Z")


def test_a_backfill_under_way_is_told_of_before_it_hands_a_time_over(world: OpenWorld) -> None:
    outage(world)
    made = app.schedules.backfill("s", START, minutes(3), max_active=1, only_missed=True)

    told = app.schedules.explain("s", minutes(3))

    assert (told.sentence, told.fix) == (f"missed, and to be caught up by {made.id}, which is under way", None)


def test_a_backfill_whose_run_failed_leaves_that_run_to_be_looked_at(world: OpenWorld) -> None:
    w = outage(world, fail, lasts=80)
    app.schedules.backfill("s", minutes(1), minutes(1))
    w.advance(5)

    told = app.schedules.explain("s", minutes(1))

    assert told.sentence.endswith("which ended failed")
    assert told.fix == f"evertick job get {told.occurrences[1].job_id}"


def test_what_was_asked_by_hand_is_told_as_such(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=tick)
    w.advance(90)
    app.schedules.trigger("s", request_id="r-1")
    w.advance(1)

    told = app.schedules.explain("s", START + timedelta(seconds=90))

    assert told.checks[0].text == "asked for by hand: a trigger (r-1)"
    [lateness] = [each.text for each in told.checks if each.name == "catch-up"]
    assert lateness == "what is asked for by hand is never too late"
    assert told.ran


def test_an_id_that_never_was_and_a_naive_moment_are_refused(world: OpenWorld) -> None:
    world(app)

    with pytest.raises(ScheduleNotFound):
        app.schedules.explain("nobody", START)
    with pytest.raises(InvalidDelay, match="no time zone"):
        app.schedules.explain("s", datetime(2026, 1, 1))


def test_the_only_engine_of_a_file_is_alive_though_it_renews_no_lease(tmp_path: Path, clock: SetClock) -> None:
    own = App("file", database_url=f"sqlite:///{tmp_path}/evertick.db", clock=clock)

    @own.mutation
    def tock(ctx: MutationCtx) -> None:
        """Nothing."""

    own.schedules.create("s", when=every(minutes=1), do=tock)
    store, begun = own.environment.store, clock.now()
    store.lock_engine()
    row = Worker(WorkerId("worker_1"), begun, Instant(begun + 10_000), "here", 1)
    store.write(lambda transaction: transaction.register_worker(row))
    clock.advance(timedelta(minutes=10))

    told = own.schedules.explain("s", to_datetime(begun) + timedelta(minutes=1))

    assert (told.missing, told.sentence) == (Missing.NOT_EVALUATED, "it is due, and about to be evaluated")
    assert told.checks[-1].text == "due for 9 min, and not evaluated yet; 1 worker(s) are alive"
    own.close()

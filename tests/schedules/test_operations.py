"""What is done to schedules: pause, trigger, backfill, update, delete; and what is asked about them."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from evertick import Overlap, cron, every
from evertick.base.errors import (
    InvalidArguments,
    InvalidDelay,
    InvalidSpec,
    LimitExceeded,
    Misuse,
    NotFound,
    ScheduleNotFound,
    Unavailable,
    VersionConflict,
)
from evertick.schedules import UNCHANGED, Fate, Reason
from evertick.testing import World
from tests.schedules.api_app import HOUR, START, app, minutes, nap, tick

OpenWorld = Callable[..., World]


def fates(schedule_id: str = "s") -> list[tuple[datetime, str, str]]:
    rows = app.schedules.occurrences(schedule_id).occurrences
    return [(row.nominal, str(row.fate), str(row.reason)) for row in rows]


# -- pause


def test_times_during_a_pause_are_skipped_with_its_note_and_none_is_made_up(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    paused = app.schedules.using(actor="ana").pause("s", "the database is down")
    w.advance(150)
    assert len(w.query("ticks")) == 0

    resumed = app.schedules.resume("s", "it is back")
    w.advance(60)

    assert (paused.status, paused.next, paused.note) == ("paused", None, "the database is down")
    assert (resumed.status, resumed.next, resumed.note) == ("active", minutes(3), "it is back")
    assert fates() == [
        (minutes(1), "skipped", "paused"),
        (minutes(2), "skipped", "paused"),
        (minutes(3), "started", "on_time"),
    ]
    skipped = app.schedules.occurrences("s", reason="paused").occurrences
    assert "paused by ana" in skipped[0].detail
    assert "the database is down" in skipped[0].detail


def test_a_pause_until_a_moment_ends_by_itself(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    app.schedules.pause("s", "lunch", until=minutes(2.5))

    w.advance(240)

    assert [fate for _, fate, _ in fates()] == ["skipped", "skipped", "started", "started"]
    with pytest.raises(Misuse, match="is past"):
        app.schedules.pause("s", until=START)


@pytest.mark.long
def test_a_long_pause_is_written_down_before_it_ends(world: OpenWorld) -> None:
    """The schedule names 51,840 times in three days; every one of them has its row, and none runs late."""
    w = world(app)
    app.schedules.create("s", when=every(seconds=5), do=tick)
    app.schedules.pause("s", "winter")
    w.advance(timedelta(days=3))

    app.schedules.resume("s")
    w.advance(3)

    now = app.schedules.get("s")
    assert (now.skipped, now.actions) == (51_840, 0)
    assert app.schedules.audit(START, w.now).clean


# -- trigger


def test_a_trigger_answers_what_became_of_it(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=nap.with_args(90))

    first = app.schedules.trigger("s")
    w.advance(1)
    second = app.schedules.trigger("s")
    third = app.schedules.trigger("s", overlap=Overlap.ALLOW_ALL)
    fourth = app.schedules.trigger("s", overlap="BufferOne")

    assert (first.fate, first.reason) == (Fate.STARTED, Reason.TRIGGERED)
    assert (second.fate, second.reason) == (Fate.SKIPPED, Reason.OVERLAP)
    assert second.run == first.run
    assert third.fate is Fate.STARTED
    assert fourth.fate is Fate.BUFFERED
    assert [str(each.overlap) for each in app.schedules.get("s").waiting] == ["buffer_one"]


def test_a_trigger_brings_its_own_arguments_for_one_run(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick.with_args(1))

    app.schedules.trigger("s", args={"n": 7})
    app.schedules.trigger("s", args=tick.with_args(8), overlap="allow_all")
    w.advance(60)

    assert sorted(each["n"] for each in w.query("ticks")) == [1, 7, 8]
    with pytest.raises(InvalidArguments):
        app.schedules.trigger("s", args={"m": 7})
    with pytest.raises(Misuse, match="calls tick"):
        app.schedules.trigger("s", args=nap.with_args(1))


def test_a_trigger_with_a_request_id_happens_once(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=tick)

    first = app.schedules.trigger("s", request_id="r-1")
    w.advance(5)
    again = app.schedules.trigger("s", request_id="r-1")
    w.advance(5)

    assert again.job_id == first.job_id
    assert len(w.query("ticks")) == 1


def test_triggers_are_free_and_ignore_a_pause(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=tick, remaining_actions=1, paused=True)

    app.schedules.trigger("s")
    w.advance(1)

    assert len(w.query("ticks")) == 1
    assert app.schedules.get("s").remaining == 1


# -- backfill


def test_a_backfill_is_planned_and_then_runs_exactly_the_plan(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=10), do=tick)
    w.advance(HOUR)

    plan = app.schedules.backfill_plan("s", minutes(-30), minutes(30), overlap="AllowAll")
    begun = app.schedules.backfill("s", minutes(-30), minutes(30), overlap="AllowAll", token=plan.token)
    w.advance(1)
    done = app.schedules.backfill_status("s", begun.id)

    assert (plan.count, plan.times[0].nominal, plan.times[-1].nominal) == (7, minutes(-30), minutes(30))
    assert plan.already_ran == (minutes(10), minutes(20), minutes(30))
    assert (begun.times, begun.done) == (7, False)
    assert (done.started, done.ended, done.waiting, done.done) == (7, 7, 0, True)
    assert app.schedules.history("s")[0].action == "backfilled"


def test_a_plan_of_a_schedule_that_changed_is_not_run(world: OpenWorld) -> None:
    world(app)
    app.schedules.create("s", when=every(minutes=10), do=tick)
    plan = app.schedules.backfill_plan("s", minutes(-30), START)
    app.schedules.update("s", when=every(minutes=5))

    with pytest.raises(VersionConflict, match="plan it again"):
        app.schedules.backfill("s", minutes(-30), START, token=plan.token)

    assert app.schedules.get("s").backfills == ()


@pytest.mark.long
def test_a_backfill_of_ten_years_of_minutes_is_refused_with_the_moment_that_still_fits(world: OpenWorld) -> None:
    world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)

    for ask in (app.schedules.backfill_plan, app.schedules.backfill):
        with pytest.raises(LimitExceeded, match="the last that fits is 2016-03-"):
            ask("s", START.replace(year=2016), START)


def test_a_backfill_waits_for_room_and_can_be_canceled(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=nap.with_args(60), buffer_limit=8, start=minutes(-600))
    begun = app.schedules.backfill("s", minutes(-600), minutes(0), overlap="buffer_all")
    w.advance(90)

    running = app.schedules.get("s").backfills
    canceled = app.schedules.backfill_cancel("s", begun.id)
    w.advance(HOUR)

    assert [each.id for each in running] == [begun.id]
    assert running[0].waiting > 0
    assert canceled.done
    assert app.schedules.backfill_status("s", begun.id).started == 2
    with pytest.raises(NotFound, match="has no backfill"):
        app.schedules.backfill_cancel("s", "nothing")


# -- update


def test_an_update_changes_what_is_given_and_keeps_the_rest(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create(
        "s", when=every(minutes=1), do=tick.with_args(3), overlap="buffer_all", memo={"team": "a"}, remaining_actions=9
    )
    w.advance(90)

    after = app.schedules.update("s", when=every(minutes=2), catch_up_window=timedelta(hours=1))
    w.advance(60)

    assert after.policies.overlap is Overlap.BUFFER_ALL
    assert after.policies.catch_up_window_ms == 3_600_000
    assert (after.memo, after.remaining, after.actions, after.target.args) == ({"team": "a"}, 8, 1, {"n": 3})
    assert [each for each, _, _ in fates()] == [minutes(1), minutes(2)]
    detail = app.schedules.history("s")[0].detail
    assert detail.startswith("times: every minute -> every 2 minutes; catch_up_window_ms: ")


def test_a_pool_is_refused_until_pools_are_built(world: OpenWorld) -> None:
    world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)

    with pytest.raises(Misuse, match="pool of its function"):
        app.schedules.create("t", when=every(minutes=1), do=tick, pool="p")
    with pytest.raises(Misuse, match="pool of its function"):
        app.schedules.update("s", pool="p")
    with pytest.raises(Misuse, match="pool of its function"):
        app.crons.using(pool="p")


def test_unset_lifts_what_was_set(world: OpenWorld) -> None:
    world(app)
    app.schedules.create(
        "s",
        when=every(minutes=1),
        do=tick,
        end=minutes(60),
        jitter=timedelta(seconds=5),
        remaining_actions=3,
        workflow_id="w",
        catch_up_window=60,
    )

    after = app.schedules.update(
        "s", end=None, jitter=None, remaining_actions=None, workflow_id=None, catch_up_window=None, pool=None
    )

    assert (after.spec.end, after.spec.jitter_ms, after.remaining, after.target.pool) == (None, 0, None, None)
    assert after.run_id_template == "s-{nominal}"
    assert after.policies.catch_up_window_ms == 365 * 86_400_000


def test_an_update_that_gives_nothing_changes_nothing(world: OpenWorld) -> None:
    world(app)
    made = app.schedules.create("s", when=every(minutes=1), do=tick)

    assert app.schedules.update("s", note=UNCHANGED, when=UNCHANGED, overlap=UNCHANGED) == made


def test_an_update_of_a_stale_version_changes_nothing(world: OpenWorld) -> None:
    world(app)
    version = app.schedules.create("s", when=every(minutes=1), do=tick).version
    app.schedules.pause("s", "first")

    for change in (
        lambda: app.schedules.update("s", if_version=version, overlap="allow_all"),
        lambda: app.schedules.replace("s", when=every(hours=1), do=tick, if_version=version),
        lambda: app.schedules.resume("s", if_version=version),
        lambda: app.schedules.delete("s", if_version=version),
    ):
        with pytest.raises(VersionConflict, match="is at version 2, not 1"):
            change()

    now = app.schedules.get("s")
    assert (now.status, now.policies.overlap, now.version) == ("paused", Overlap.SKIP, 2)


def test_triggers_and_backfills_are_no_change_for_those_who_have_read_the_schedule(world: OpenWorld) -> None:
    w = world(app)
    made = app.schedules.create("s", when=every(minutes=1), do=tick)
    plan = app.schedules.backfill_plan("s", minutes(-30), minutes(-20))
    w.advance(0.5)
    app.schedules.trigger("s")
    begun = app.schedules.backfill("s", minutes(-30), minutes(-20), token=plan.token)
    with pytest.raises(VersionConflict, match="changed since the backfill was planned"):
        app.schedules.backfill("s", minutes(-30), minutes(-20), token=plan.token)
    app.schedules.backfill_cancel("s", begun.id)

    now = app.schedules.get("s")
    assert (now.version, now.updated) == (made.version, made.updated)
    assert app.schedules.update("s", note="x", if_version=made.version).version == made.version + 1
    lines = [line.action for line in app.schedules.history("s")]
    assert lines == ["updated", "backfill canceled", "backfilled", "triggered", "created"]


def test_what_is_refused_at_creation_is_refused_in_an_update_and_nothing_is_lost(world: OpenWorld) -> None:
    world(app)
    before = app.schedules.create("s", when=every(minutes=1), do=tick)
    bad: list[dict[str, Any]] = [
        {"when": cron("0 0 31 2 *")},
        {"concurrency_limit": 0},
        {"do": "nobody"},
        {"overlap": "never"},
        {"start": minutes(5), "end": minutes(1)},
        {"colour": "red"},
    ]

    for changes in bad:
        with pytest.raises((Misuse, NotFound)):
            app.schedules.update("s", **changes)

    assert app.schedules.get("s") == before


def test_a_spec_that_has_ended_completes_the_schedule_and_a_new_one_revives_it(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    w.advance(60)

    ended = app.schedules.update("s", end=minutes(1))
    revived = app.schedules.update("s", end=None)

    assert (ended.status, str(ended.ending)) == ("completed", "spec")
    assert (revived.status, revived.next) == ("active", minutes(2))


def test_a_replacement_sets_back_what_is_not_given_and_keeps_what_happened(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick, overlap="buffer_all", memo={"a": 1}, remaining_actions=9)
    w.advance(60)
    app.schedules.pause("s", "for now")

    after = app.schedules.replace("s", when=every(hours=1), do=nap.with_args(1))

    assert (after.sentence, after.target.function, after.policies.overlap) == ("every hour", "nap", Overlap.SKIP)
    assert (after.memo, after.remaining, after.actions, after.status) == ({}, None, 1, "paused")


def test_waiting_occurrences_start_with_the_new_function(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=nap.with_args(90), overlap="buffer_one")
    w.advance(125)

    app.schedules.update("s", do=tick.with_args(5))
    w.advance(30)

    assert [each["n"] for each in w.query("ticks")] == [5]


# -- delete, list, many at once


def test_a_deleted_schedule_leaves_its_ledger_and_history(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)
    w.advance(120)

    app.schedules.delete("s")
    w.advance(120)

    assert len(w.query("ticks")) == 2
    assert len(fates()) == 2
    assert [line.action for line in app.schedules.history("s")] == ["deleted", "created"]
    with pytest.raises(ScheduleNotFound):
        app.schedules.get("s")


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.get("nobody"),
        lambda s: s.update("nobody", overlap="skip"),
        lambda s: s.pause("nobody"),
        lambda s: s.resume("nobody"),
        lambda s: s.trigger("nobody"),
        lambda s: s.delete("nobody"),
        lambda s: s.backfill_plan("nobody", START, START),
        lambda s: s.backfill("nobody", START, START),
        lambda s: s.backfill_cancel("nobody", "b"),
        lambda s: s.matching_times("nobody", START, START),
        lambda s: s.explain("nobody", START),
    ],
)
def test_an_unknown_id_is_said_to_be_unknown(world: OpenWorld, call: Callable[[Any], object]) -> None:
    world(app)

    with pytest.raises(ScheduleNotFound, match="no schedule 'nobody'"):
        call(app.schedules)


def test_lists_are_filtered_sorted_and_paged(world: OpenWorld) -> None:
    world(app)
    for number in range(7):
        do = tick if number % 2 else nap.with_args(1)
        app.schedules.create(f"s{number}", when=every(minutes=10 - number), do=do, paused=number == 3)

    by_id = app.schedules.list(limit=3)
    rest = app.schedules.list(limit=10, cursor=by_id.cursor)
    by_next = app.schedules.list(sort="next", limit=2)
    next_two = app.schedules.list(sort="next", limit=2, cursor=by_next.cursor)

    assert [each.id for each in by_id.schedules + rest.schedules] == [f"s{n}" for n in range(7)]
    assert rest.cursor is None
    assert [each.id for each in by_next.schedules + next_two.schedules] == ["s6", "s5", "s4", "s2"]
    assert [each.id for each in app.schedules.list(status="paused").schedules] == ["s3"]
    assert [each.id for each in app.schedules.list(function="tick").schedules] == ["s1", "s3", "s5"]
    assert [each.id for each in app.schedules.list(id_contains="6").schedules] == ["s6"]
    assert [each.id for each in app.schedules.list(next_before=minutes(6)).schedules] == ["s5", "s6"]
    assert app.schedules.list(kind="cron").schedules == ()


def test_what_is_of_the_wrong_type_is_refused_and_changes_nothing(world: OpenWorld) -> None:
    world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick)

    with pytest.raises(Misuse, match="note= takes text"):
        app.schedules.pause("s", None)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="note= takes text"):
        app.schedules.resume("s", 3)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="must be allowed to be active, not '2'"):
        app.schedules.backfill("s", START, minutes(1), max_active="2")  # type: ignore[arg-type]

    assert [line.action for line in app.schedules.history("s")] == ["created"]


def test_a_wrong_cursor_filter_or_page_is_refused(world: OpenWorld) -> None:
    world(app)

    with pytest.raises(InvalidArguments, match="cursor"):
        app.schedules.list(cursor="nonsense")
    with pytest.raises(Misuse, match="sorted by id, next or last"):
        app.schedules.list(sort="name")
    with pytest.raises(Misuse, match="status is one of"):
        app.schedules.list(status="enabled")
    with pytest.raises(LimitExceeded):
        app.schedules.occurrences(limit=0)
    with pytest.raises(Misuse, match="one of started"):
        app.schedules.occurrences(fate="lost")


def test_the_ledger_is_read_in_pages_in_both_directions(world: OpenWorld) -> None:
    w = world(app)
    for name in ("a", "b"):
        app.schedules.create(name, when=every(minutes=1), do=tick)
    w.advance(180)

    first = app.schedules.occurrences(limit=4)
    rest = app.schedules.occurrences(limit=4, cursor=first.cursor)
    newest = app.schedules.occurrences("a", newest_first=True, limit=2)
    between = app.schedules.occurrences("b", start=minutes(1), end=minutes(2))

    whole = [(each.nominal, each.schedule) for each in first.occurrences + rest.occurrences]
    assert whole == [(minutes(n), name) for n in (1, 2, 3) for name in ("a", "b")]
    assert rest.cursor is None
    assert [each.nominal for each in newest.occurrences] == [minutes(3), minutes(2)]
    assert [each.nominal for each in between.occurrences] == [minutes(1)]


def test_matching_times_of_a_schedule_or_a_spec_begin_inside_and_end_outside(world: OpenWorld) -> None:
    world(app)
    app.schedules.create("s", when=every(minutes=10), do=tick)

    of_schedule = app.schedules.matching_times("s", START, minutes(30))
    of_spec = app.schedules.matching_times([every(minutes=20), every(minutes=30)], START, minutes(60))

    assert [time.nominal for time in of_schedule] == [minutes(0), minutes(10), minutes(20)]
    assert [time.nominal for time in of_spec] == [minutes(0), minutes(20), minutes(30), minutes(40)]
    assert len(app.schedules.matching_times("s", START, minutes(300), limit=2)) == 2
    with pytest.raises(InvalidDelay, match="no time zone"):
        app.schedules.matching_times("s", datetime(2026, 1, 1), START)
    with pytest.raises(InvalidSpec):
        app.schedules.matching_times([every(minutes=1), every(minutes=1, jitter=3)], START, START)


@pytest.mark.long
def test_many_are_paused_resumed_and_deleted_by_filter(world: OpenWorld) -> None:
    w = world(app)
    for number in range(1_100):
        app.schedules.create(f"s{number:04}", when=every(hours=1), do=tick if number % 2 else nap.with_args(1))

    paused = app.schedules.pause_all("night", function="tick")
    again = app.schedules.pause_all("night")
    resumed = app.schedules.resume_all("morning", id_contains="s000")
    deleted = app.schedules.delete_all(status="paused")
    w.advance(1)

    assert (paused, again, resumed, deleted) == (550, 550, 10, 1_090)
    assert [each.note for each in app.schedules.list().schedules] == ["morning"] * 10


def test_an_async_action_awaits_the_same_operations(world: OpenWorld) -> None:
    from tests.schedules.async_app import async_app, manage

    w = world(async_app)

    assert w.call(manage) == ["created every minute", "paused night", "triggered started", "listed 1", "deleted 1"]
    assert asyncio.iscoroutinefunction(manage.handler)


def test_a_schedule_too_far_behind_asks_to_try_again(world: OpenWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(app)
    app.schedules.create("s", when=every(seconds=1), do=tick)
    w.kill()
    w.advance(timedelta(hours=1))
    monkeypatch.setattr("evertick.engine.schedules.commands.ROUNDS_MAX", 2)

    with pytest.raises(Unavailable, match="try again in a moment"):
        app.schedules.pause("s")

    assert app.schedules.get("s").status == "active"

"""Creating schedules: what is checked, what is repeatable, what happens at once."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import App, Overlap, Retry, Settings, at, calendar, cron, daily, every
from evertick.base.errors import (
    AlreadyExists,
    EvertickError,
    FunctionNotFound,
    InvalidArguments,
    InvalidDelay,
    InvalidSpec,
    LimitExceeded,
    Misuse,
    ScheduleNotFound,
)
from evertick.schedules import Spec
from evertick.testing import World
from tests.schedules.api_app import START, app, fail, look, minutes, nap, tick

OpenWorld = Callable[..., World]


def nested(depth: int) -> list[Any]:
    """A list in a list, and so on."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_a_schedule_runs_its_function_at_its_times(world: OpenWorld) -> None:
    w = world(app)
    created = app.schedules.create("s", when=every(minutes=1), do=tick.with_args(7), note="tea")

    w.advance(150)

    assert created.sentence == "every minute"
    assert [time.nominal for time in created.upcoming[:2]] == [minutes(1), minutes(2)]
    assert [each["n"] for each in w.query("ticks")] == [7, 7]
    now = app.schedules.get("s")
    assert (now.actions, now.note, now.status, now.next) == (2, "tea", "active", minutes(3))
    assert [each.nominal for each in now.recent] == [minutes(2), minutes(1)]
    assert now.last_result == 7


def test_several_specs_are_united_with_bounds_jitter_and_exclusions_of_their_own(world: OpenWorld) -> None:
    world(app)
    created = app.schedules.create(
        "s",
        when=[every(hours=5, offset=timedelta(minutes=15)), calendar(day_of_week="Fri", hour=11, minute=3)],
        do=tick,
        start=datetime(2026, 1, 2, tzinfo=UTC),
        end=datetime(2026, 1, 4, tzinfo=UTC),
        exclude=calendar(day_of_week="Sat"),
        jitter=timedelta(seconds=20),
    )

    nominal = [time.nominal.strftime("%a %H:%M") for time in created.upcoming]

    assert "Fri 11:03" in nominal
    assert {day.split()[0] for day in nominal} == {"Fri"}
    assert created.spec.jitter_ms == 20_000
    assert all(time.nominal <= time.actual < time.nominal + timedelta(seconds=20) for time in created.upcoming)


def test_a_text_is_a_cron_line_or_a_sentence(world: OpenWorld) -> None:
    world(app)
    created = app.schedules.create("s", when="every weekday at 9am except holidays in New York, New York time", do=tick)
    assert created.sentence == "at 09:00 on weekdays, except holidays in New York, New York time"
    assert app.schedules.update("s", when="*/5 * * * *").sentence == "every 5 minutes"
    united = app.schedules.replace("s", when=["every day at noon", every(hours=5)], do=tick)
    assert united.sentence == "at 12:00 every day, and every 5 hours"
    first = app.schedules.matching_times(["every day at noon"], START, START + timedelta(days=1))[0]
    assert first.nominal == START.replace(hour=12)
    with pytest.raises(InvalidSpec, match=r"is not understood after .* Read as a cron line: "):
        app.schedules.create("t", when="hourly on a weakday", do=tick)


def test_united_specs_must_agree_on_their_zone_unless_only_intervals_have_none(world: OpenWorld) -> None:
    world(app)
    berlin = daily(hour=9, tz="Europe/Berlin")

    mixed = app.schedules.create("mixed", when=[every(hours=1), berlin], do=tick)
    with pytest.raises(InvalidSpec, match="must agree on their time zone"):
        app.schedules.create("s", when=[berlin, daily(hour=9, tz="Asia/Tokyo")], do=tick)

    assert mixed.time_zone == "Europe/Berlin"


def test_creating_again_with_the_same_definition_answers_what_exists(world: OpenWorld) -> None:
    world(app)
    first = app.schedules.create("s", when=every(minutes=1), do=tick, overlap="BufferAll")

    again = app.schedules.create("s", when=every(minutes=1), do=tick, overlap=Overlap.BUFFER_ALL)

    assert again == first
    with pytest.raises(AlreadyExists):
        app.schedules.create("s", when=every(minutes=2), do=tick)


def test_a_request_id_makes_creation_repeatable_also_after_an_update(world: OpenWorld) -> None:
    world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick, request_id="r-1")
    app.schedules.update("s", overlap="allow_all")

    again = app.schedules.create("s", when=every(minutes=1), do=tick, request_id="r-1")

    assert again.policies.overlap is Overlap.ALLOW_ALL
    with pytest.raises(AlreadyExists):
        app.schedules.create("s", when=every(minutes=1), do=tick)


def test_a_schedule_can_begin_with_a_run_a_backfill_and_a_pause(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create(
        "s",
        when=every(minutes=1),
        do=tick,
        overlap="buffer_all",
        paused=True,
        note="not yet",
        trigger=Overlap.ALLOW_ALL,
        backfill=[(minutes(-3), minutes(-1))],
    )

    w.advance(120)

    now = app.schedules.get("s")
    assert now.pause is not None
    assert (now.status, now.pause.note, now.pause.by) == ("paused", "not yet", "app api")
    started = app.schedules.occurrences("s", fate="started").occurrences
    assert [(each.nominal, str(each.origin)) for each in started] == [
        (minutes(-3), "backfill"),
        (minutes(-2), "backfill"),
        (minutes(-1), "backfill"),
        (minutes(0), "trigger"),
    ]


def test_a_limited_schedule_completes_and_stays(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick, remaining_actions=2)

    w.advance(600)

    now = app.schedules.get("s")
    assert (now.status, now.remaining, str(now.ending), now.actions, now.upcoming) == ("completed", 0, "limit", 2, ())


def test_runs_are_named_by_the_template(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(minutes=1), do=tick, workflow_id="my-workflow-id")
    app.schedules.create("t", when=every(minutes=1), do=tick, run_id_template="{nominal}/{workflow_id}")

    w.advance(60)

    runs = [each.run for each in app.schedules.occurrences().occurrences]
    assert runs == ["my-workflow-id-2026-01-01T00:01:00Z", "2026-01-01T00:01:00Z/t"]


def test_a_retry_policy_is_the_runs(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("s", when=every(hours=1), do=fail, retry=Retry(3, first=1))

    w.advance(3660)

    assert [job.failures for job in w.jobs(fail)] == [3]


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"do": "nobody"}, FunctionNotFound, "no function 'nobody'"),
        ({"do": look}, Misuse, "is a query"),
        ({"do": nap}, InvalidArguments, "seconds"),
        ({"when": cron("0 0 31 2 *")}, InvalidSpec, "never"),
        (
            {"when": at(datetime(2025, 1, 1, tzinfo=UTC))},
            InvalidSpec,
            "its last time was 2025-01",
        ),
        ({"end": datetime(2025, 1, 1, tzinfo=UTC), "start": START}, InvalidSpec, "ends before it starts"),
        ({"start": datetime(2026, 1, 1)}, InvalidSpec, "no time zone"),
        ({"when": "0 9 * *"}, InvalidSpec, "neither a sentence nor a cron line"),
        ({"when": 9}, Misuse, "when="),
        ({"when": None}, Misuse, "when="),
        ({"concurrency_limit": 0}, Misuse, "from 1 to"),
        ({"remaining_actions": 0}, Misuse, "at least 1"),
        ({"buffer_limit": -1}, Misuse, "buffer_limit= takes"),
        ({"overlap": "sometimes"}, Misuse, "one of skip, buffer_one"),
        ({"memo": {"x": object()}}, InvalidArguments, "JSON"),
        ({"memo": {"x": nested(20_000)}}, InvalidArguments, "JSON"),
        ({"memo": {"x": "y" * 70_000}}, LimitExceeded, "memo"),
        ({"backfill": [(datetime(2016, 1, 1, tzinfo=UTC), START)]}, LimitExceeded, "more than 100000 times"),
        ({"backfill": [(START, minutes(-1))]}, Misuse, "before it starts"),
        ({"backfill": [(datetime(2025, 1, 1), START)]}, InvalidDelay, "no time zone"),
        ({"run_id_template": " "}, Misuse, "printable"),
        ({"request_id": ""}, Misuse, "request_id= takes"),
    ],
)
def test_what_can_never_be_is_refused_with_the_reason_and_leaves_nothing(
    world: OpenWorld, changes: dict[str, Any], error: type[EvertickError], says: str
) -> None:
    world(app)
    given: dict[str, Any] = {"when": every(minutes=1), "do": tick}

    with pytest.raises(error, match=says):
        app.schedules.create("s", **(given | changes))

    assert app.schedules.list().schedules == ()
    with pytest.raises(ScheduleNotFound):
        app.schedules.history("s")


@pytest.mark.parametrize("schedule_id", ["", " ", "a\nb", ".", "..", "x" * 513])
def test_an_id_is_printable_text(world: OpenWorld, schedule_id: str) -> None:
    world(app)

    with pytest.raises(LimitExceeded if len(schedule_id) > 512 else InvalidSpec):
        app.schedules.create(schedule_id, when=every(minutes=1), do=tick)


def test_an_unknown_zone_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidSpec, match="Mars"):
        daily(hour=9, tz="Mars/Olympus")


def test_a_rule_hotter_than_the_settings_allow_is_refused(world: OpenWorld) -> None:
    strict = Settings(schedule_interval_min=timedelta(minutes=5), schedule_starts_per_minute=1)
    world(app, settings=strict)

    with pytest.raises(LimitExceeded, match="closer than 5m"):
        app.schedules.create("s", when=every(minutes=4), do=tick)
    app.schedules.create("s", when=every(minutes=5), do=tick)
    with pytest.raises(LimitExceeded):
        app.schedules.update("s", when=[every(minutes=5), every(minutes=7)])


def test_more_starts_a_minute_than_allowed_are_refused(world: OpenWorld) -> None:
    world(app, settings=Settings(schedule_starts_per_minute=10))

    with pytest.raises(LimitExceeded, match="more than 10 times a minute"):
        app.schedules.create("s", when=every(seconds=5), do=tick)
    assert app.schedules.create("s", when=every(seconds=6), do=tick).id == "s"


def test_a_spec_without_sources_is_for_triggers(world: OpenWorld) -> None:
    w = world(app)
    app.schedules.create("by hand", when=Spec(), do=tick)

    app.schedules.trigger("by hand")
    w.advance(1)

    assert len(w.query("ticks")) == 1


@pytest.mark.long
def test_a_schedule_without_times_stays_until_it_is_deleted(world: OpenWorld) -> None:
    """It has no last time after which it would be over, however long no trigger comes."""
    w = world(app)
    app.schedules.create("by hand", when="only when triggered", do=tick)

    w.advance(timedelta(days=40))
    assert app.schedules.get("by hand").status == "active"
    app.schedules.trigger("by hand")
    w.advance(timedelta(days=40))

    assert app.schedules.get("by hand").status == "active"
    assert len(w.query("ticks")) == 1


def test_a_function_of_another_app_is_refused(world: OpenWorld) -> None:
    world(app)
    other = App("other")
    stranger = other.mutation(name="stranger")(_nothing)

    with pytest.raises(FunctionNotFound, match="registered with the app 'other'"):
        app.schedules.create("s", when=every(minutes=1), do=stranger)


def _nothing(ctx: Any) -> None:
    """A function of another app."""

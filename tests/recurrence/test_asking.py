"""What a compiled recurrence answers: unions, exclusions, bounds, DST policies, counting, and why."""

import random

import pytest

from evertick.recurrence import jitter_ms
from evertick.recurrence.explain import ReasonKind, clock_note, explain
from tests.recurrence.asking import at, cron, local, recurrence, rrule

NEW_YORK = "America/New_York"


def test_a_union_fires_at_every_time_of_every_source_once() -> None:
    rule = recurrence(
        crons=["0 9 * * *", "0 9,12 * * *"],
        intervals=["12h"],
        calendars=[{"dayOfWeek": "Fri", "hour": "11", "minute": "3"}],
        times=["2026-05-01T09:30:00Z"],
    )
    day = rule.between(at("2026-05-01T00:00:00Z"), at("2026-05-02T00:00:00Z"))
    assert [text[11:16] for text in local(rule, day)] == ["00:00", "09:00", "09:30", "11:03", "12:00"]
    assert rule.count(at("2026-05-01T00:00:00Z"), at("2026-05-02T00:00:00Z")) == 5
    assert rule.prev(day[-1]) == day[-2]


def test_the_seeds_schedule_fires_every_five_hours_and_on_fridays() -> None:
    rule = recurrence(intervals=["5h/15m"], calendars=[{"dayOfWeek": "Fri", "hour": "11", "minute": "3"}])
    times = rule.preview(4, at("2022-06-17T05:00:00Z"))
    assert local(rule, times) == [
        "2022-06-17T05:15:00+00:00",
        "2022-06-17T10:15:00+00:00",
        "2022-06-17T11:03:00+00:00",
        "2022-06-17T15:15:00+00:00",
    ]


def test_bounds_include_both_ends() -> None:
    rule = cron("0 9 * * *", start="2026-05-01T09:00:00Z", end="2026-05-03T09:00:00Z")
    assert len(rule.preview(10, 0)) == 3
    assert rule.next(at("2026-05-03T09:00:00Z")) is None
    assert rule.prev(at("2026-05-01T09:00:00Z")) is None
    assert rule.prev(at("2030-01-01T00:00:00Z")) == at("2026-05-03T09:00:00Z")
    assert rule.count(0, at("2030-01-01T00:00:00Z")) == 3


def test_an_exclusion_without_time_fields_drops_whole_days() -> None:
    rule = cron("0 */6 * * *", exclude=[{"calendar": {"month": "12", "day_of_month": "24-26"}}])
    around = rule.between(at("2026-12-23T12:00:00Z"), at("2026-12-27T06:00:00Z"))
    assert [text[5:16] for text in local(rule, around)] == ["12-23T12:00", "12-23T18:00", "12-27T00:00"]


@pytest.mark.parametrize(
    ("exclusion", "kept"),
    [
        ({"cron": "* 12-14 * * *"}, 21),
        ({"cron": "0 12 * * *"}, 23),
        ({"calendar": {"hour": "12-14"}}, 21),
        ({"calendar": {"hour": "12", "minute": "30"}}, 24),
        ({"dates": ["2026-05-02"]}, 24),
        ({"dates": ["2026-05-01"]}, 0),
        ({"date_range": ["2026-04-01", "2026-05-01"]}, 0),
    ],
)
@pytest.mark.parametrize("source", [{"crons": ["0 * * * *"]}, {"intervals": ["1h"]}, {"calendars": [{"hour": "*"}]}])
def test_exclusions_take_away_what_they_cover_from_every_source(
    source: dict[str, object], exclusion: dict[str, object], kept: int
) -> None:
    rule = recurrence(**source, exclude=[exclusion])
    begin, end = at("2026-05-01T00:00:00Z"), at("2026-05-02T00:00:00Z")
    assert len(rule.between(begin, end)) == kept
    assert rule.count(begin, end) == kept


@pytest.mark.parametrize("seed", range(40))
def test_exclusions_are_set_differences(seed: int) -> None:
    """Any source minus any exclusion is what the source has and the exclusion, as a source, has not."""
    chance = random.Random(seed)
    interval = chance.choice(["7m", "15m", "5h/15m", "36h", "90s", "11h"])
    source = chance.choice([{"intervals": [interval]}, {"crons": [f"*/{chance.randint(2, 30)} 8-18 * * 1-5"]}])
    hours = f"{chance.randrange(12)}-{chance.randint(12, 23)}"
    excluded = f"*/{chance.choice([1, 2, 5])} {hours} * * {chance.choice(['*', '1', '0,6'])}"
    rule = recurrence(**source, exclude=[{"cron": excluded}], time_zone=NEW_YORK)
    plain, taken = recurrence(**source, time_zone=NEW_YORK), cron(excluded, NEW_YORK)
    begin = at("2026-10-28T00:00:00Z")
    end = begin + 9 * 86_400
    wanted = [t for t in plain.between(begin, end) if not taken.matches(t - t % 60)]
    assert rule.between(begin, end) == wanted
    assert rule.count(begin, end) == len(wanted)
    backwards, before = [], end
    while (before := rule.prev(before) or begin - 1) >= begin:
        backwards.append(before)
    assert backwards[::-1] == wanted


def test_an_exclusion_that_ends_with_a_year_ends_for_rare_steps_too() -> None:
    rule = recurrence(
        intervals=["11m"],
        exclude=[
            {"cron": "0-59 1-23 * * *"},
            {"date_range": ["2020-01-01", "2020-12-30"]},
            {"calendar": {"year": "2021"}},
        ],
    )
    plain = recurrence(intervals=["11m"])
    begin, end = at("2019-12-20T00:00:00Z"), at("2022-01-20T00:00:00Z")
    closed = (at("2020-01-01T00:00:00Z"), at("2020-12-31T00:00:00Z"), at("2021-01-01T00:00:00Z"))
    wanted = [
        t
        for t in plain.between(begin, end)
        if t % 86_400 < 3_600 and not closed[0] <= t < closed[1] and not closed[2] <= t < at("2022-01-01T00:00:00Z")
    ]
    assert rule.between(begin, end) == wanted
    backwards, before = [], end
    while (before := rule.prev(before) or begin - 1) >= begin:
        backwards.append(before)
    assert backwards[::-1] == wanted


def test_exdates_and_exrules_remove_occurrences_without_touching_count() -> None:
    one = {
        "dtstart": "2026-01-05T09:00:00",
        "rrule": "FREQ=DAILY;COUNT=10",
        "exdate": ["2026-01-06T09:00:00", "20260107", "2026-01-08T10:00:00"],
        "exrule": ["FREQ=WEEKLY;BYDAY=SA,SU"],
        "rdate": ["2026-02-01T12:00:00", "2026-01-06T09:00:00"],
    }
    rule = recurrence(rrules=[one], time_zone=NEW_YORK)
    days = [text[5:10] for text in local(rule, rule.preview(20, 0))]
    assert days == ["01-05", "01-08", "01-09", "01-12", "01-13", "01-14", "02-01"]


def test_an_exrule_equal_to_its_rule_leaves_nothing() -> None:
    one = {"dtstart": "2026-01-05T09:00:00", "rrule": "FREQ=DAILY", "exrule": ["FREQ=DAILY"]}
    assert recurrence(rrules=[one]).is_empty()


def test_an_until_of_a_local_time_and_of_a_date_is_inclusive() -> None:
    assert len(rrule("FREQ=DAILY;UNTIL=20200103T090000", tz=NEW_YORK).preview(9, 0)) == 3
    assert len(rrule("FREQ=DAILY;UNTIL=20200103", tz=NEW_YORK).preview(9, 0)) == 3
    assert len(rrule("FREQ=DAILY;UNTIL=20200103T140000Z", tz=NEW_YORK).preview(9, 0)) == 3
    assert len(rrule("FREQ=DAILY;UNTIL=20200103T135959Z", tz=NEW_YORK).preview(9, 0)) == 2


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ("next", "2025-03-09T03:00:00-04:00"),
        ("shift", "2025-03-09T03:30:00-04:00"),
        ("skip", "2025-03-10T02:30:00-04:00"),
    ],
)
def test_the_gap_policy_decides_about_skipped_times(gap: str, expected: str) -> None:
    rule = cron("30 2 * * *", NEW_YORK, dst={"gap": gap})
    assert local(rule, rule.preview(1, at("2025-03-08T12:00:00Z"))) == [expected]


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [("first", ["-04:00"]), ("last", ["-05:00"]), ("both", ["-04:00", "-05:00"])],
)
def test_the_overlap_policy_decides_about_repeated_times(overlap: str, expected: list[str]) -> None:
    rule = cron("30 1 * * *", NEW_YORK, dst={"overlap": overlap})
    day = rule.between(at("2025-11-02T04:00:00Z"), at("2025-11-03T05:00:00Z"))
    assert local(rule, day) == [f"2025-11-02T01:30:00{offset}" for offset in expected]


def test_count_skips_what_a_gap_drops_when_the_policy_is_skip() -> None:
    rule = rrule("FREQ=DAILY;COUNT=4", "2025-03-07T02:30:00", NEW_YORK, dst={"gap": "skip"})
    assert [text[8:10] for text in local(rule, rule.preview(9, 0))] == ["07", "08", "10", "11"]


def test_an_anchor_moves_the_grid_of_an_interval() -> None:
    rule = recurrence(intervals=[{"every": "1w", "offset": "9h", "anchor": "2026-01-05T00:00:00Z"}])
    assert local(rule, rule.preview(1, at("2026-01-06T00:00:00Z"))) == ["2026-01-12T09:00:00+00:00"]
    assert rule.prev(at("2026-01-05T09:00:00Z")) == at("2025-12-29T09:00:00Z")
    started = recurrence(intervals=[{"every": "1w", "anchor": "start"}], start="2026-01-05T12:00:00Z")
    assert started.next(0) == at("2026-01-05T12:00:00Z")


@pytest.mark.parametrize(
    "rule",
    [
        cron("*/7 9-17 * * 1-5", NEW_YORK),
        cron("30 2 1,15 * *", "Europe/Berlin"),
        cron("*/20 * * * * *", NEW_YORK),
        rrule("FREQ=MONTHLY;BYDAY=MO,TU;BYHOUR=9,12;BYSETPOS=1,-1", tz=NEW_YORK),
        rrule("FREQ=HOURLY;INTERVAL=2;BYDAY=MO", tz=NEW_YORK),
        rrule("FREQ=HOURLY;INTERVAL=7;BYDAY=MO,FR", tz=NEW_YORK),
        recurrence(intervals=["7h"]),
    ],
    ids=range(7),
)
def test_counting_agrees_with_visiting(rule: object) -> None:
    chance = random.Random(7)
    for _ in range(12):
        begin = chance.randint(1_700_000_000, 1_800_000_000)
        end = begin + chance.choice([3_600, 86_400, 900_000])
        times = rule.between(begin, end)  # type: ignore[attr-defined]
        assert rule.count(begin, end) == len(times)  # type: ignore[attr-defined]
        assert rule.between(begin, end, 3) == times[:3]  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", ["", "a", "my-schedule", "tenant-" + "x" * 60])
def test_jitter_is_steady_stays_below_its_limit_and_keeps_the_order(seed: str) -> None:
    rule = cron("*/5 * * * *", exclude=[{"cron": "* 3 * * *"}])
    limit_ms = 3_600_000
    actual = []
    for nominal in rule.preview(300, at("2026-05-01T00:00:00Z")):
        following = rule.following_nominal(nominal)
        assert following == nominal + 300  # an excluded time counts: jitter does not reach over it
        delay = jitter_ms(seed, nominal, following, limit_ms)
        assert delay == jitter_ms(seed, nominal, following, limit_ms)
        assert 0 <= delay < 300_000
        actual.append(nominal * 1000 + delay)
    assert actual == sorted(set(actual))
    assert len({time % 300_000 for time in actual}) > 250
    assert jitter_ms(seed, 0, None, 0) == 0
    assert jitter_ms(seed, 0, None, 10**15) < 2**32


def kinds(rule: object, moment: str) -> list[ReasonKind]:
    return [reason.kind for reason in explain(rule, at(moment)).reasons]  # type: ignore[arg-type]


def test_a_moved_time_is_explained_by_the_clock_change() -> None:
    rule = cron("30 2 * * *", NEW_YORK)
    answer = explain(rule, at("2025-03-09T03:00:00-04:00"))
    assert answer.fires
    assert [reason.kind for reason in answer.reasons] == [ReasonKind.NAMED, ReasonKind.MOVED]
    assert answer.reasons[1].text == "moved from 02:30: clocks went forward from 02:00 to 03:00"


def test_the_two_passes_of_a_repeated_hour_are_told_apart() -> None:
    rule = cron("*/30 * * * *", NEW_YORK)
    first, second = (clock_note(rule, at(f"2025-11-02T01:30:00-0{hours}:00")) for hours in (4, 5))
    assert first is not None
    assert second is not None
    assert (first.kind, second.kind) == (ReasonKind.FIRST_OF_TWO, ReasonKind.SECOND_OF_TWO)
    fixed = cron("30 1 * * *", NEW_YORK)
    assert kinds(fixed, "2025-11-02T01:30:00-05:00") == [ReasonKind.NOT_NAMED, ReasonKind.OTHER_OF_TWO]


def test_why_a_time_does_not_fire_is_told() -> None:
    rule = cron(
        "0 9 * * *", start="2026-05-01T00:00:00Z", end="2026-06-01T00:00:00Z", exclude=[{"dates": ["2026-05-02"]}]
    )
    assert kinds(rule, "2026-05-03T09:00:00Z") == [ReasonKind.NAMED]
    assert kinds(rule, "2026-05-02T09:00:00Z") == [ReasonKind.NAMED, ReasonKind.EXCLUDED]
    assert kinds(rule, "2026-04-02T09:00:00Z") == [ReasonKind.NAMED, ReasonKind.BEFORE_START]
    assert kinds(rule, "2026-07-02T09:00:00Z") == [ReasonKind.NAMED, ReasonKind.AFTER_END]
    assert kinds(rule, "2026-05-03T10:00:00Z") == [ReasonKind.NOT_NAMED]
    one = {"dtstart": "2026-01-05T09:00:00", "rrule": "FREQ=DAILY", "exdate": ["2026-01-06T09:00:00"]}
    assert kinds(recurrence(rrules=[one]), "2026-01-06T09:00:00Z") == [ReasonKind.REMOVED]


@pytest.mark.parametrize(
    ("exclusion", "words"),
    [
        ({"dates": ["2026-05-01"]}, "1 May 2026"),
        ({"date_range": ["2026-04-30", "2026-05-02"]}, "from 30 April 2026 through 2 May 2026"),
        ({"cron": "* * 1 5 *"}, "on 1 May every year"),
        (
            {"holidays": {"country": "DE", "resolved": [["2026-05-01", "Erster Mai"]]}},
            "holidays in Germany (Erster Mai)",
        ),
    ],
)
def test_the_exception_that_takes_a_time_out_is_named(exclusion: dict[str, object], words: str) -> None:
    answer = explain(cron("0 9 * * *", exclude=[{"dates": ["2026-01-01"]}, exclusion]), at("2026-05-01T09:00:00Z"))
    (excluded,) = [reason for reason in answer.reasons if reason.kind is ReasonKind.EXCLUDED]
    assert excluded.exclusion == 1
    assert excluded.text == f"left out (except {words})"


def test_many_sources_are_one_line_of_times() -> None:
    """A walk through many rules agrees with asking for one time after the other, bounds and exclusions included."""
    many = recurrence(
        crons=["0 9 * * *", "*/7 9 * * 1", "0 9,17 * * 1-5"],
        intervals=["5h", "7h", "86399s"],
        times=["2026-03-02T09:00:00Z"],
        exclude=[{"calendar": {"day_of_week": "Wed"}}],
        start="2026-03-01T00:00:00Z",
        end="2026-03-20T12:00:00Z",
    )
    asked, at = [], many.next(0)
    while at is not None:
        asked.append(at)
        at = many.next(at)
    assert list(many.iterate(0)) == asked == many.preview(10_000, 0) == many.between(0, 1 << 40)
    assert many.between(asked[3], asked[90]) == asked[3:90]
    assert many.preview(5, asked[50]) == asked[51:56]
    assert many.preview(0, 0) == []
    assert many.count(asked[3], asked[90]) == 87

"""Rules that fire rarely or never, where clocks change: answered after little work, which is counted in calls."""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from datetime import datetime, timedelta
from types import FrameType
from typing import Any

import pytest

from evertick.recurrence import Recurrence
from tests.recurrence.asking import at, recurrence, rrule
from tests.sampling import one_in

CALLS_MAX = 200_000
"""More than the answers to one rule take, and far less than a search from clock change to clock change until 9999."""
NOW = at("2026-06-01T00:00:00Z")
TEN_YEARS = 10 * 366 * 86_400
ZONES = [
    "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "Europe/Dublin",
    "Africa/Casablanca", "Africa/Monrovia", "UTC",
]  # fmt: skip


def calls(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls."""
    counted = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal counted
        counted += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


def ask_everything(rule: Recurrence) -> None:
    rule.next(NOW)
    rule.prev(NOW)
    rule.is_empty()
    rule.count(NOW, NOW + TEN_YEARS)
    rule.preview(20, NOW)


NEVER = [
    "FREQ=MINUTELY;INTERVAL=62;BYMINUTE=4,20,40",
    "FREQ=MINUTELY;INTERVAL=62;BYMINUTE=4,20,40;COUNT=5",
    "FREQ=MINUTELY;INTERVAL=62;BYMINUTE=4,20,40;UNTIL=20991231T000000Z",
    "FREQ=SECONDLY;INTERVAL=7200;BYMINUTE=7",
    "FREQ=HOURLY;INTERVAL=24;BYHOUR=3;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=HOURLY;INTERVAL=7;BYMONTH=6;BYMONTHDAY=31",
    "FREQ=SECONDLY;INTERVAL=1200;BYSECOND=20",
    "FREQ=MINUTELY;INTERVAL=10080;BYDAY=MO",
]


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Dublin", "UTC"])
@pytest.mark.parametrize("text", NEVER)
def test_steps_that_never_fire_are_found_out_with_little_work(text: str, zone: str) -> None:
    rule = rrule(text, "2002-01-29T00:05:21", zone)
    assert calls(lambda: ask_everything(rule)) < CALLS_MAX
    assert rule.is_empty()
    assert rule.next(NOW) is None


RARE = [
    "FREQ=MINUTELY;INTERVAL=1441;BYHOUR=3;BYMINUTE=1;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
    "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=0;BYMINUTE=0;BYSECOND=0",
    "FREQ=HOURLY;INTERVAL=14;BYHOUR=12;BYMONTH=3;BYMONTHDAY=8,9,10,11,12,13,14;BYDAY=SU",
    "FREQ=HOURLY;INTERVAL=12;BYHOUR=3;BYMONTH=7",
    "FREQ=MINUTELY;INTERVAL=7;BYDAY=MO,WE,FR;BYHOUR=9",
    "FREQ=SECONDLY;INTERVAL=7;BYHOUR=9,10,11",
]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", one_in(3, RARE))
def test_filtered_steps_are_found_and_counted_with_little_work(text: str, zone: str) -> None:
    rule = rrule(text, "2002-01-29T00:00:00", zone)
    assert calls(lambda: ask_everything(rule)) < CALLS_MAX


def test_steps_less_a_pattern_that_hits_them_all_are_found_out() -> None:
    """Every second day at nine, less every second day from the same one."""
    rrules = [
        {"dtstart": "2020-01-01T09:00:00", "rrule": "FREQ=HOURLY;INTERVAL=48", "exrule": ["FREQ=DAILY;INTERVAL=2"]}
    ]
    rule = recurrence(rrules=rrules, time_zone="UTC")
    assert calls(lambda: ask_everything(rule)) < CALLS_MAX
    assert rule.is_empty()


def test_a_look_back_past_exclusions_remembers_that_an_offset_never_had_a_time() -> None:
    """The minutes are met under Dublin's offset of 1880 to 1916 alone, which was over when the rule began."""
    rule = rrule(
        "FREQ=MINUTELY;INTERVAL=12;BYMINUTE=16,26,37,42", "1950-01-29T00:05:21", "Europe/Dublin",
        exclude=[{"date_range": ["2024-01-01", "2030-01-01"]}],
    )  # fmt: skip
    assert calls(lambda: ask_everything(rule)) < CALLS_MAX
    assert rule.prev(NOW) is None


@pytest.mark.parametrize(
    "rare", ["FREQ=MONTHLY;INTERVAL=86327", "FREQ=WEEKLY;INTERVAL=52278", "FREQ=DAILY;INTERVAL=71300"]
)
def test_a_source_that_comes_once_in_many_years_is_searched_for_once(rare: str) -> None:
    starts = ["2020-01-29T00:05:21", "2020-01-29T00:05:21"]
    rules = [rare + ";BYMINUTE=1,8,20", "FREQ=WEEKLY;INTERVAL=97"]
    rrules = [{"dtstart": start, "rrule": text} for start, text in zip(starts, rules, strict=True)]
    rule = recurrence(rrules=rrules, time_zone="Europe/Dublin", exclude=[{"dates": ["2026-01-01"]}])
    assert calls(lambda: ask_everything(rule)) < CALLS_MAX


@pytest.mark.parametrize("unit", ["DAILY", "WEEKLY", "MONTHLY", "YEARLY"])
@pytest.mark.parametrize("interval", [11, 12, 13, 52, 53, 365, 366, 367, 400])
def test_long_intervals_agree_with_a_sum_of_days(unit: str, interval: int) -> None:
    rule = rrule(f"FREQ={unit};INTERVAL={interval}", "2020-12-25T09:00:00")
    days = {"DAILY": 1, "WEEKLY": 7}.get(unit)
    for number, firing in enumerate(rule.preview(9, 0)):
        month = 11 + interval * number * {"MONTHLY": 1, "YEARLY": 12}.get(unit, 0)
        shown = datetime(2020 + month // 12, month % 12 + 1, 25, 9)
        if days:
            shown = datetime(2020, 12, 25, 9) + timedelta(days=days * interval * number)
        assert datetime(1970, 1, 1) + timedelta(seconds=firing) == shown


COUNTED = [
    "FREQ=MINUTELY;INTERVAL=7;BYDAY=MO;BYHOUR=9;COUNT=5000",
    "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;BYHOUR=9;COUNT=5000",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=29;COUNT=1000000000",
    "FREQ=SECONDLY;INTERVAL=119;BYMONTHDAY=30;BYDAY=SA;BYHOUR=13;COUNT=10000",
    "FREQ=MINUTELY;INTERVAL=36000;BYMONTHDAY=29;COUNT=5000",
    "FREQ=DAILY;BYDAY=MO;COUNT=1000000000",
]


@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
@pytest.mark.parametrize("text", COUNTED)
def test_the_last_of_many_rare_occurrences_is_counted_to_and_not_visited(text: str, zone: str) -> None:
    assert calls(lambda: rrule(text, "2002-01-29T00:05:21", zone)) < CALLS_MAX


@pytest.mark.parametrize(
    ("text", "start", "last"),
    [
        ("FREQ=YEARLY;COUNT=7000", "2002-01-29T02:30:00", "9001-01-29T07:30:00Z"),
        # Days on which the clocks are set ahead: of these times none is left since 2007.
        ("FREQ=YEARLY;BYMONTH=3;BYDAY=2SU;COUNT=7000", "2002-03-10T02:30:00", "2006-03-12T07:30:00Z"),
        ("FREQ=MONTHLY;BYDAY=2SU;COUNT=80000", "2002-03-10T02:30:00", "9274-06-10T06:30:00Z"),
    ],
)
def test_what_gaps_drop_of_a_large_count_is_counted_gap_by_gap(text: str, start: str, last: str) -> None:
    def ask() -> None:
        rule = rrule(text, start, "America/New_York", dst={"gap": "skip"})
        assert rule.prev(at("9999-12-31T00:00:00Z")) == at(last)
        assert rule.count(at(last) - TEN_YEARS, at("9990-01-01T00:00:00Z")) > 0

    assert calls(ask) < 10 * CALLS_MAX


def test_exclusions_do_not_part_a_rule_of_many_minutes() -> None:
    """An hour of sixty parts is one rule, also where exclusions lie inside an hour and offsets half an hour apart."""
    every_minute = ",".join(map(str, range(60)))
    rule = rrule(
        f"FREQ=HOURLY;INTERVAL=7;BYMONTHDAY=31;BYMINUTE={every_minute}", "1890-01-29T00:05:21", "Australia/Lord_Howe",
        exclude=[{"cron": "3-7,40 * * * *"}],
    )  # fmt: skip
    assert calls(lambda: ask_everything(rule)) < CALLS_MAX
    minutes = {(time + rule.zone.offset_at(time)) // 60 % 60 for time in rule.preview(200, NOW)}
    assert minutes == set(range(60)) - {3, 4, 5, 6, 7, 40}


FILTERED = [
    ("FREQ=MINUTELY;INTERVAL=62;BYMINUTE=1,5,20,41;BYMONTH=1,3,4,10,11", 62),
    ("FREQ=MINUTELY;INTERVAL=97;BYHOUR=0,1,2,3,23;BYDAY=SU,MO", 97),
    ("FREQ=HOURLY;INTERVAL=14;BYHOUR=2,3,12", 840),
    ("FREQ=HOURLY;INTERVAL=12;BYHOUR=0,1,2,3;BYMONTH=1,4,7,12", 720),
    ("FREQ=MINUTELY;INTERVAL=1470;BYHOUR=0,23,2,3", 1470),
]


@pytest.mark.parametrize("start", ["1883-06-01T10:05:00", "1971-11-01T00:05:00", "2011-11-30T12:35:00"])
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("text", "minutes"), one_in(4, FILTERED))
def test_filtered_steps_are_those_whose_local_time_passes(text: str, minutes: int, zone: str, start: str) -> None:
    """Compared with a look at each step in turn, over some years with clock changes."""
    rule = rrule(text, start, zone)
    spec = dict(part.split("=") for part in text.split(";"))
    wanted = {name: set(map(int, spec[name].split(","))) for name in ("BYHOUR", "BYMINUTE", "BYMONTH") if name in spec}
    names = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
    weekdays = {names.index(name) for name in spec.get("BYDAY", ",".join(names)).split(",")}
    naive = (datetime.fromisoformat(start) - datetime(1970, 1, 1)) // timedelta(seconds=1)
    first = next(naive - ahead for ahead in offsets_near(rule, naive))
    expected = []
    for instant in range(first, first + 3 * 366 * 86_400, minutes * 60):
        shown = datetime(1970, 1, 1) + timedelta(seconds=instant + rule.zone.offset_at(instant))
        fields = {"BYHOUR": shown.hour, "BYMINUTE": shown.minute, "BYMONTH": shown.month}
        if shown.weekday() in weekdays and all(fields[name] in values for name, values in wanted.items()):
            expected.append(instant)
    end = first + 3 * 366 * 86_400
    assert rule.between(first, end) == expected
    for begin in range(first, end, 1_000_003 * 7):
        assert rule.count(begin, end) == len(expected) - bisect_left(expected, begin)
        before = bisect_left(expected, begin)
        assert rule.prev(begin) == (expected[before - 1] if before else None)
        after = bisect_right(expected, begin)
        assert after == len(expected) or rule.next(begin) == expected[after]


def offsets_near(rule: Recurrence, naive: int) -> list[int]:
    """The offsets under which a local time really occurs."""
    near = {rule.zone.offset_at(naive + hours * 3600) for hours in range(-30, 31)}
    return sorted(offset for offset in near if rule.zone.offset_at(naive - offset) == offset)

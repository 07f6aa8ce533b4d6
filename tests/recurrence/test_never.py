"""Never, ended, and next: three different answers, each of them exact."""

import random
from datetime import date, timedelta

import pytest

from evertick.recurrence.english.describe import describe
from evertick.recurrence.parse.cron import parse_cron
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.civil import DAY, SECOND_MAX, SECOND_MIN
from evertick.recurrence.spec.spec import Dialect, Spec
from tests.recurrence.asking import at, cron, local, recurrence, rrule
from tests.sampling import one_in

NEVER_CRON = ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 11 ?", "0 0 0 29 2 * 2023", "0 0 */20 * 1L", "0 0 L-30 2 *"]
NEVER_RRULE = [
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=SECONDLY;INTERVAL=60;BYSECOND=30",
    "FREQ=YEARLY;INTERVAL=2;BYYEARDAY=366;BYMONTH=1",
    "FREQ=DAILY;INTERVAL=14;BYDAY=SU",
    "FREQ=HOURLY;INTERVAL=168;BYDAY=SU",
    "FREQ=HOURLY;INTERVAL=84;BYDAY=MO",
    "FREQ=MINUTELY;INTERVAL=7;BYMINUTE=3;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MONTHLY;BYDAY=1MO;BYMONTHDAY=8",
    "FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6;BYDAY=MO",
    "FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=1;BYSETPOS=-2",
    "FREQ=DAILY;UNTIL=20191231T090000Z",
]


@pytest.mark.parametrize("line", NEVER_CRON)
@pytest.mark.parametrize("tz", ["UTC", "America/New_York"])
def test_a_cron_of_impossible_dates_never_fires(line: str, tz: str) -> None:
    rule = cron(line, tz)
    assert rule.is_empty()
    assert rule.next(0) is None
    assert rule.prev(4_000_000_000) is None
    assert rule.count(0, 4_000_000_000) == 0
    assert not rule.has_ended(0)


@pytest.mark.parametrize("rule", NEVER_RRULE)
@pytest.mark.parametrize("tz", ["UTC", "America/New_York"])
def test_an_rrule_without_any_occurrence_says_so(rule: str, tz: str) -> None:
    assert rrule(rule, tz=tz).is_empty()


def test_a_rule_that_was_cut_off_has_ended() -> None:
    rule = recurrence(calendars=[{"year": "2024"}])
    assert rule.has_ended(at("2026-01-01T00:00:00Z"))
    assert not rule.has_ended(at("2024-06-01T00:00:00Z"))
    assert not rule.is_empty()


def test_exclusions_that_leave_nothing_make_a_spec_empty() -> None:
    assert recurrence(crons=["*/5 * * * *"], exclude=[{"cron": "* * * * *"}]).is_empty()
    assert recurrence(crons=["0 9 * * 1"], exclude=[{"calendar": {"day_of_week": "Mon"}}]).is_empty()
    assert recurrence(intervals=["7h"], exclude=[{"calendar": {"month": "*"}}]).is_empty()
    assert recurrence(intervals=["1h"], exclude=[{"calendar": {"hour": "*", "minute": "*"}}]).is_empty()
    assert recurrence(intervals=["7m"], exclude=[{"calendar": {"hour": "*", "minute": "*"}}]).is_empty()
    assert not recurrence(crons=["0 9 * * 1-5"], exclude=[{"calendar": {"day_of_week": "Mon"}}]).is_empty()


def test_excluding_every_second_is_found_out_and_not_tried_out() -> None:
    everything = {"second": "*", "minute": "*", "hour": "*"}
    assert recurrence(calendars=[everything], exclude=[{"calendar": everything}]).is_empty()
    rule = recurrence(intervals=["1s"], exclude=[{"date_range": ["2026-01-01", "2096-12-31"]}])
    assert rule.next(at("2026-06-01T00:00:00Z")) == at("2097-01-01T00:00:00Z")
    assert rule.prev(at("2026-06-01T00:00:00Z")) == at("2025-12-31T23:59:59Z")


@pytest.mark.parametrize("years", ["2101/1", "2102/1", "2150-2160"])
def test_years_beyond_the_last_one_of_the_dialect_never_come(years: str) -> None:
    """Temporal's years end with 2100: such a source never fires, such an exclusion excludes nothing."""
    line = parse_cron(f"0 * * * * * {years}")
    spec = Spec(crons=(line,), dialect=Dialect.TEMPORAL)
    assert compile_spec(spec).is_empty()
    assert describe(spec) == "never (none of its years can come)"
    spec = Spec(crons=(parse_cron("0 9 * * *"),), excludes=(exclude.Cron(cron=line),), dialect=Dialect.TEMPORAL)
    assert compile_spec(spec).preview(2, 0) == [9 * 3_600, 33 * 3_600]
    assert describe(spec) == "at 09:00 every day"
    assert not compile_spec(Spec(crons=(line,))).is_empty()


def test_what_fires_once_in_many_years_is_found() -> None:
    rule = rrule("FREQ=SECONDLY;INTERVAL=86399;BYHOUR=0;BYMINUTE=0;BYSECOND=0", "2020-01-01T00:00:01")
    assert local(rule, [rule.next(0) or 0]) == ["2020-01-02T00:00:00+00:00"]
    assert local(rule, [rule.next(at("2020-01-02T00:00:00Z")) or 0]) == ["2256-07-22T00:00:00+00:00"]
    leap_mondays = cron("0 0 29 2 +MON")
    assert local(leap_mondays, leap_mondays.preview(2, at("2026-01-01T00:00:00Z"))) == [
        "2044-02-29T00:00:00+00:00",
        "2072-02-29T00:00:00+00:00",
    ]


def test_the_end_of_the_calendar_is_an_end() -> None:
    rule = cron("0 0 1 1 *", "America/New_York")
    last = rule.prev(at("9999-12-31T00:00:00Z"))
    assert last is not None
    assert rule.next(last) is None or rule.next(last) == last
    assert rule.next(1 << 60) is None
    assert rule.prev(-(1 << 60)) is None


@pytest.mark.parametrize("zone", ["Pacific/Niue", "America/New_York", "Europe/Berlin", "Pacific/Kiritimati"])
@pytest.mark.parametrize("line", ["0 */5 * * *", "0 23 * * *", "0 0 23 31 12 *", "*/7 30 * * * *", "0 1 1 1 *"])
def test_local_times_that_no_utc_date_has_lie_beyond_the_end(zone: str, line: str) -> None:
    """West of UTC the last local day ends in the year 10000, east of it the first one begins before the year 1."""
    rule, three_days = cron(line, zone), 3 * DAY
    latest = list(rule.iterate(SECOND_MAX - three_days))
    earliest = rule.between(SECOND_MIN - 9 * three_days, SECOND_MIN + three_days)
    back, before = [], rule.prev(1 << 60)
    while before is not None and before > SECOND_MAX - three_days:
        back.append(before)
        before = rule.prev(before)
    first = rule.prev(SECOND_MIN + three_days)
    while first is not None and (earlier := rule.prev(first)) is not None:
        first = earlier

    assert all(each <= SECOND_MAX for each in latest)
    assert all(each >= SECOND_MIN for each in earliest)
    assert back == latest[::-1]
    assert rule.count(SECOND_MAX - three_days + 1, SECOND_MAX + three_days) == len(latest)
    assert rule.count(SECOND_MIN - three_days, SECOND_MIN + three_days) == len(earliest)
    assert first == (earliest[0] if earliest else None)


def test_a_moment_past_the_last_one_in_utc_never_comes() -> None:
    assert recurrence(times=("9999-12-31T23:00:00",), time_zone="Pacific/Niue").is_empty()
    assert not recurrence(times=("9999-12-31T12:00:00",), time_zone="Pacific/Niue").is_empty()


def every_day_of_a_cycle() -> list[date]:
    return [date(2000, 1, 1) + timedelta(days=day) for day in range(146_097)]


@pytest.mark.parametrize("seed", one_in(4, range(12)))
def test_empty_means_that_no_day_of_four_hundred_years_matches(seed: int) -> None:
    """Rules of dates are compared with a walk over every day after which the calendar repeats."""
    chance = random.Random(seed)
    month, day = chance.randint(1, 12), chance.randint(28, 31)
    weekday = chance.randrange(7)
    interval = chance.choice([1, 2, 4])
    names = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
    rule = rrule(
        f"FREQ=YEARLY;INTERVAL={interval};BYMONTH={month};BYMONTHDAY={day};BYDAY={names[weekday]}",
        "2001-01-01T00:00:00",
    )
    days = [
        one
        for one in every_day_of_a_cycle()
        if (one.month, one.day, one.weekday()) == (month, day, weekday) and (one.year - 2001) % interval == 0
    ]
    begin, end = at("2001-01-01T00:00:00Z"), at("2400-01-01T00:00:00Z")
    wanted = [(one - date(1970, 1, 1)).days * 86_400 for one in days if one.year >= 2001]
    assert rule.between(begin, end) == wanted
    assert rule.is_empty() == (not wanted)
    assert rule.count(begin, end) == len(wanted)

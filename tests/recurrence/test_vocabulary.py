"""The Python words of time: what they say, and how they refuse."""

import doctest
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from evertick.base.errors import InvalidSpec
from evertick.recurrence import Dst, Gap, Spec, compile_spec
from evertick.recurrence import builders as vocabulary
from evertick.recurrence.builders import at, calendar, cron, daily, every, hourly, monthly, rrule, sentence, weekly
from evertick.recurrence.parse import duration
from evertick.recurrence.spec import exclude
from evertick.recurrence.wire.reading import spec_from_wire, spec_to_wire
from tests.recurrence import asking

words: Any = vocabulary
"""The vocabulary for mistakes that a type checker would not let through."""


@pytest.mark.parametrize("module", [vocabulary, duration])
def test_the_examples_in_the_docstrings_are_true(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)


def first(spec: Spec, after: str = "2026-05-20T12:00:00Z") -> str:
    rule = compile_spec(spec)
    return asking.local(rule, rule.preview(1, asking.at(after)))[0]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (every(minutes=1), "2026-05-20T12:01:00+00:00"),
        (every(hours=5, offset=timedelta(minutes=15)), "2026-05-20T13:15:00+00:00"),
        (every(weeks=1, anchor=datetime(2026, 1, 5, tzinfo=UTC)), "2026-05-25T00:00:00+00:00"),
        (hourly(minute=5), "2026-05-20T12:05:00+00:00"),
        (daily(hour=9, tz="Europe/Berlin"), "2026-05-21T09:00:00+02:00"),
        (daily(hour=9, tz=ZoneInfo("Europe/Berlin")), "2026-05-21T09:00:00+02:00"),
        (weekly(day_of_week="monday", hour=9, minute=30), "2026-05-25T09:30:00+00:00"),
        (weekly(day_of_week=["thursday", "Fri"], hour=9), "2026-05-21T09:00:00+00:00"),
        (monthly(day=1, hour=16), "2026-06-01T16:00:00+00:00"),
        (monthly(day="last", hour=16), "2026-05-31T16:00:00+00:00"),
        (calendar(day_of_week="Fri", hour=11, minute=3), "2026-05-22T11:03:00+00:00"),
        (calendar(month=12, day="24-26", hour=8), "2026-12-24T08:00:00+00:00"),
        (cron("0 9 * * 1-5", tz="America/New_York"), "2026-05-20T09:00:00-04:00"),
        (
            rrule("FREQ=MONTHLY;BYDAY=-1FR", dtstart=datetime(2026, 1, 1, 9), tz="Europe/Paris"),
            "2026-05-29T09:00:00+02:00",
        ),
        (rrule("DTSTART;TZID=Asia/Tokyo:20260101T090000\nRRULE:FREQ=DAILY"), "2026-05-21T09:00:00+09:00"),
        (at(datetime(2026, 12, 24, 9, tzinfo=ZoneInfo("Europe/Berlin"))), "2026-12-24T08:00:00+00:00"),
        (sentence("every weekday at 9am, New York time"), "2026-05-20T09:00:00-04:00"),
        (sentence("every weekday at 9am", tz=ZoneInfo("America/New_York")), "2026-05-20T09:00:00-04:00"),
        (sentence("every weekday at 9am, New York time", tz="America/New_York"), "2026-05-20T09:00:00-04:00"),
        (sentence("0 9 * * 1-5", tz="America/New_York"), "2026-05-20T09:00:00-04:00"),
        (sentence("every day at 9am except holidays in New York"), "2026-05-21T09:00:00+00:00"),
        (sentence("every day at noon, beginning 1 June 2026", tz="Asia/Tokyo"), "2026-06-01T12:00:00+09:00"),
    ],
)
def test_each_word_says_when(spec: Spec, expected: str) -> None:
    assert first(spec) == expected
    assert spec_from_wire(spec_to_wire(spec)) == spec


def test_the_common_keywords_are_kept() -> None:
    spec = daily(
        hour=9,
        tz="America/New_York",
        exclude=[calendar(month=12, day="24-26"), date(2027, 1, 1), (date(2026, 8, 1), date(2026, 8, 31))],
        start=datetime(2026, 1, 1, tzinfo=UTC),
        end=datetime(2027, 1, 1, tzinfo=UTC),
        jitter=timedelta(seconds=90),
        dst=Dst(gap=Gap.SHIFT),
    )
    assert (spec.time_zone, spec.jitter_ms, spec.dst) == ("America/New_York", 90_000, Dst(gap=Gap.SHIFT))
    assert [type(one).__name__ for one in spec.excludes] == ["Calendar", "Dates", "DateRange"]
    assert isinstance(spec.excludes[1], exclude.Dates)
    assert isinstance(spec.excludes[2], exclude.DateRange)
    assert first(spec, "2026-07-31T14:00:00Z") == "2026-09-01T09:00:00-04:00"


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            rrule("FREQ=MONTHLY;BYMONTHDAY=1", dtstart=datetime(2026, 1, 1, tzinfo=BERLIN)),
            ["2026-03-01T00:00:00+01:00", "2026-04-01T00:00:00+02:00"],
        ),
        (
            rrule("FREQ=DAILY", dtstart=datetime(2026, 3, 28, 2, 30, tzinfo=BERLIN), tz="Europe/Berlin"),
            ["2026-03-28T02:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"],
        ),
        (  # first met in the hour that the clock passes over
            rrule("FREQ=DAILY", dtstart=datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN)),
            ["2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"],
        ),
        (
            rrule("FREQ=DAILY", dtstart=datetime(2026, 3, 28, 8, tzinfo=UTC), tz="Europe/Berlin"),
            ["2026-03-28T09:00:00+01:00", "2026-03-29T09:00:00+02:00"],
        ),
        (
            rrule("FREQ=DAILY", dtstart="2026-03-28T09:00:00+01:00", tz="Europe/Berlin"),
            ["2026-03-28T09:00:00+01:00", "2026-03-29T09:00:00+02:00"],
        ),
        (
            rrule("FREQ=DAILY", dtstart=datetime(2026, 3, 28, 9, tzinfo=UTC)),
            ["2026-03-28T09:00:00+00:00", "2026-03-29T09:00:00+00:00"],
        ),
    ],
)
def test_an_rrule_is_counted_on_the_clock_that_its_dtstart_is_on(spec: Spec, expected: list[str]) -> None:
    rule = compile_spec(spec)
    times = rule.preview(len(expected), asking.at("2026-02-20T00:00:00Z"))

    assert asking.local(rule, times) == expected
    assert spec_from_wire(spec_to_wire(spec)) == spec


def test_an_exclusion_may_be_written_in_its_wire_form() -> None:
    """As the command line and the API write it: the holidays of a country, a calendar, days."""
    wire = {"holidays": {"country": "US", "subdivision": "CA"}}
    spec = cron("0 9 * * *", exclude=[wire, date(2026, 1, 2), {"calendar": {"month": "12"}}])

    assert spec.excludes[0] == spec_from_wire({"except": [wire]}).excludes[0]
    assert [type(each).__name__ for each in spec.excludes] == ["Holidays", "Dates", "Calendar"]
    assert first(spec, "2026-11-25T12:00:00Z").startswith("2026-11-28")
    with pytest.raises(InvalidSpec, match="holiday"):
        cron("0 9 * * *", exclude={"holiday": {"country": "US"}})


def test_a_wrong_zone_beside_a_sentence_is_no_mistake_of_the_sentence() -> None:
    with pytest.raises(InvalidSpec, match="no such time zone; did you mean Europe/Berlin") as refused:
        sentence("every day at 02:30, except holidays in Germany", tz="Europe/Berlinn")

    assert "cron line" not in str(refused.value)


def test_a_sentence_and_the_keywords_add_up() -> None:
    said = "every day at noon except weekends, ending 1 July 2026"
    spec = sentence(said, exclude=date(2026, 5, 25), start=datetime(2026, 5, 22, tzinfo=UTC), jitter=30)
    assert first(spec, "2026-01-01T00:00:00Z") == "2026-05-22T12:00:00+00:00"
    assert first(spec, "2026-05-22T12:00:00Z") == "2026-05-26T12:00:00+00:00"
    assert (spec.jitter_ms, spec.end) == (30_000, asking.at("2026-07-01T23:59:59Z"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (every, "length greater than 0"),
        (lambda: words.every(minutes=0), "length greater than 0"),
        (lambda: words.every(minutes=-1), "greater than 0"),
        (lambda: words.every(minutes=1.5), "whole number"),
        (lambda: words.every(minutes=True), "whole number"),
        (lambda: words.every(hours=1, offset=timedelta(hours=1)), "less than the interval"),
        (lambda: words.every(hours=1, offset=90), "timedelta"),
        (lambda: words.hourly(minute=60), "minute must be a whole number from 0 to 59"),
        (lambda: words.daily(hour=24), "hour must be a whole number from 0 to 23"),
        (lambda: words.daily(hour="9"), "hour must be a whole number"),
        (lambda: words.weekly(day_of_week="someday", hour=9), 'a string like "monday"'),
        (lambda: words.weekly(day_of_week=1, hour=9), 'a string like "monday"'),
        (lambda: words.weekly(day_of_week=[], hour=9), 'a string like "monday"'),
        (lambda: words.monthly(day=0, hour=9), "day must be a whole number from 1 to 31"),
        (lambda: words.monthly(day=32, hour=9), "day must be a whole number from 1 to 31"),
        (lambda: words.cron("61 * * * *"), "minute must lie between 0 and 59"),
        (lambda: words.cron("* * * * * 2027"), "ends with a year"),
        (lambda: words.cron("0 9 * * *", tz="Mars/Phobos"), "no such time zone"),
        (lambda: words.cron("0 9 * * *", tz=timedelta(0)), "tz must be the name"),
        (lambda: words.cron("0 9 * * *", zone="UTC"), "unknown keyword zone"),
        (lambda: words.cron("0 9 * * *", start=datetime(2026, 1, 1)), "no time zone"),
        (lambda: words.cron("0 9 * * *", jitter=timedelta(seconds=-1)), "must not be negative"),
        (lambda: words.cron("0 9 * * *", jitter="30s"), "timedelta or whole seconds"),
        (lambda: words.cron("0 9 * * *", exclude=words.every(hours=1)), "exclude takes"),
        (lambda: words.cron("0 9 * * *", exclude="2026-01-01"), "exclude takes"),
        (lambda: words.cron("0 9 * * *", exclude=datetime(2026, 1, 1, 9, tzinfo=UTC)), "a date without a time"),
        (lambda: words.calendar(hour=9.5), "a number or text"),
        (lambda: words.calendar(day=1, day_of_month=1), "not both"),
        (lambda: words.calendar(hour="25"), "hour must lie between 0 and 23"),
        (lambda: words.calendar(hours=9), "no field 'hours'"),
        (lambda: words.rrule("FREQ=DAILY"), "DTSTART"),
        *(
            (
                partial(words.rrule, lines, dtstart=datetime(2026, 1, 1)),
                "write DTSTART among them, and leave out dtstart=",
            )
            for lines in ("DTSTART:20260101T000000Z RRULE:FREQ=DAILY", "RRULE:FREQ=DAILY\nEXDATE:20260101T000000")
        ),
        (
            lambda: words.rrule("FREQ=DAILY", dtstart=datetime(2026, 1, 1, tzinfo=BERLIN), tz="America/New_York"),
            "the DTSTART is in the time zone Europe/Berlin, but tz= is America/New_York",
        ),
        (
            lambda: words.rrule("DTSTART;TZID=Asia/Tokyo:20260101T090000 RRULE:FREQ=DAILY", tz=BERLIN),
            "the DTSTART is in the time zone Asia/Tokyo, but tz= is Europe/Berlin",
        ),
        (
            lambda: words.rrule("FREQ=DAILY", dtstart=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
            "dtstart 2026-01-01 00:00:00+01:00 has an offset and no time zone",
        ),
        (lambda: words.rrule("FREQ=DAILY", dtstart="2026-01-01T00:00:00-05:00"), "has an offset and no time zone"),
        (
            lambda: words.sentence("every weakday at 9am"),
            "'weakday at 9am' is not understood after 'every'",
        ),
        (lambda: words.sentence("every weakday at 9am"), "has 4 fields"),
        (lambda: words.sentence("61 * * * *"), "Read as a cron line: minute must lie between 0 and 59"),
        (lambda: words.sentence(5), "must be text"),
        (
            lambda: words.sentence("every day at noon, Tokyo time", tz="Europe/Berlin"),
            "names the time zone Asia/Tokyo, but the time zone given with it is Europe/Berlin",
        ),
        (
            lambda: words.sentence("every day at noon, ending 1 May 2027", end=datetime(2028, 1, 1, tzinfo=UTC)),
            "end= differs from what the sentence says",
        ),
        (lambda: words.sentence("every day at noon, with up to 5 seconds of jitter", jitter=6), "jitter= differs"),
        (at, "at least one"),
        (lambda: words.at(datetime(2026, 1, 1)), "no time zone"),
    ],
)
def test_a_mistake_is_refused_where_it_is_made(wrong: Callable[[], Spec], message: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        wrong()
    assert message in str(refused.value)

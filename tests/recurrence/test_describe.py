"""Sentences for specs. The reference wordings are judged by sense; our own are pinned here."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from evertick.base.errors import InvalidSpec
from evertick.recurrence.english.describe import describe
from evertick.recurrence.english.meaning import meaning_of
from evertick.recurrence.english.parser.sentence import parse_sentence
from evertick.recurrence.parse.cron import parse_calendar, parse_cron, parse_temporal_cron
from evertick.recurrence.parse.duration import make_interval, parse_interval
from evertick.recurrence.parse.moments import parse_day, parse_instant, parse_moment
from evertick.recurrence.parse.rrule import parse_properties
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.sources import Interval
from evertick.recurrence.spec.spec import Dialect, Dst, Gap, Overlap, Spec

VECTORS: Final = [json.loads(line) for line in Path("tests/vectors/describe.jsonl").read_text().splitlines()]

# Where we say more than the reference: the first day of an RRULE and the phase of an interval decide when it fires.
WORDINGS: Final = {
    "d002": "every 5 minutes",
    "d004": "at 30 minutes past every hour",
    "d005": "at 15 and 45 minutes past every hour",
    "d006": "every 4 hours, on the hour",
    "d012": "at 09:00 on Mondays",
    "d013": "at 09:00 and 17:00 every day",
    "d016": "at 08:30 on the 1st of every month",
    "d018": "at 00:00 on the last day of every month",
    "d022": "at 09:00 on the last Friday of every month",
    "d023": "at 09:00 on the first Monday of every month",
    "d025": "at 00:00 on 1 January every year",
    "d027": "never (30 February does not exist)",
    "d031": "at 12:00 every day from June through August",
    "d032": "at 12:00 on Sundays in December",
    "d035": "at 00:00 every day",
    "d036": "at 00:00 on Sundays",
    "d041": "at 09:30:15 every day",
    "d043": "at 12:00 on Mondays from 2026 through 2028",
    "d045": "at 04:05 on Sundays",
    "d046": "at 00:00 every 2nd day of the month (1st, 3rd, 5th ...)",
    "d050": "every 5 hours, offset by 15 minutes",
    "d052": "every 24 hours, at 00:00 UTC",
    "d053": "every day at 09:00 UTC",
    "d054": "every 7 days, on Thursdays at 00:00 UTC",
    "d055": "every 6 hours",
    "d056": "every day at 09:00, starting 5 January 2026, New York time",
    "d057": "every 3 days at 09:00, starting 5 January 2026, 10 times",
    "d058": "weekly on Monday, Wednesday and Friday at 09:00, starting 5 January 2026",
    "d059": "on weekdays at 09:00, starting 5 January 2026",
    "d062": "monthly on the 1st and 15th at 12:00, starting 1 January 2026",
    "d063": "monthly on the last day at 12:00, starting 31 January 2026",
    "d065": "yearly on the fourth Thursday of November at 09:00, starting 26 November 2026",
    "d066": "yearly on 1 April at 00:00, starting 1 April 2026, until 1 April 2030",
    "d067": "every Friday the 13th at 00:00, starting 13 February 2026",
    "d069": "yearly on Monday of week 20 at 00:00, starting 1 January 2026",
    "d070": "never (30 February does not exist)",
    "d071": "weekly on Monday at 09:00, starting 5 January 2026, except 19 January 2026",
    "d073": ("every hour from 11:00 through 14:00 on the 1st and 15th of January, April, July and October in 2022"),
    "d076": "at 23:59 on 30 June every year",
}


def spec_of(vector: dict[str, Any]) -> Spec:
    kind, text, zone = vector["kind"], vector["text"], vector["tz"]
    if kind == "cron":
        return Spec(crons=(parse_cron(text),), time_zone=zone)
    if kind == "interval":
        return Spec(intervals=(parse_interval(text),), time_zone=zone)
    if kind == "calendar":
        snake = {"dayOfMonth": "day_of_month", "dayOfWeek": "day_of_week"}
        fields = {snake.get(name, name): value for name, value in json.loads(text).items()}
        return Spec(calendars=(parse_calendar(fields),), time_zone=zone)
    return Spec(rrules=(parse_properties(text)[0],), time_zone=zone)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
def test_the_reference_specs_read_well(vector: dict[str, Any]) -> None:
    assert describe(spec_of(vector)) == WORDINGS[vector["id"]]


def test_every_reference_spec_has_its_wording() -> None:
    assert {vector["id"] for vector in VECTORS} == set(WORDINGS)


CRONS = [
    ("* * * * *", "every minute"),
    ("*/7 * * * *", "at 0, 7, 14, 21, 28, 35, 42, 49 and 56 minutes past every hour"),
    ("0 * * * *", "every hour, on the hour"),
    ("1 * * * *", "at 1 minute past every hour"),
    ("0 * * * 1-5", "every hour on weekdays"),
    ("0 * * 6 *", "every hour in June"),
    ("*/15 9-17 * * *", "every 15 minutes from 09:00 through 17:45"),
    ("* 9 * * *", "every minute from 09:00 through 09:59"),
    ("*/10 9,11 * * *", "every 10 minutes of hours 9 and 11"),
    ("0 9-17 * * 1-5", "every hour from 09:00 through 17:00 on weekdays"),
    ("30 8-18/2 * * *", "every 2 hours from 08:30 through 18:30"),
    ("0 */5 * * *", "every 5 hours from 00:00 through 20:00"),
    ("30 */6 * * *", "every 6 hours, at 30 minutes past the hour"),
    ("5,10,20 9-17 * * *", "at 5, 10 and 20 minutes past each hour from 09:00 through 17:00"),
    ("0 22-2 * * *", "at 00:00, 01:00, 02:00, 22:00 and 23:00 every day"),
    ("0 9 * * 0,6", "at 09:00 on weekends"),
    ("0 9 * * FRI-MON", "at 09:00 on Fridays through Mondays"),
    ("0 9 * * 1-6", "at 09:00 on Mondays through Saturdays"),
    ("0 9 * * 0-5", "at 09:00 on Sundays through Fridays"),
    ("0 9 * * 0,1,3-5", "at 09:00 on Mondays, Wednesdays through Fridays and Sundays"),
    ("0 9 * * 0-2,4", "at 09:00 on Sundays through Tuesdays and Thursdays"),
    ("0 9 * * 6,0,1", "at 09:00 on Saturdays through Mondays"),
    ("0 9 * * 2#2,2#4", "at 09:00 on the second Tuesday and the fourth Tuesday of every month"),
    ("0 9 * * MON,FRI#1", "at 09:00 on Mondays and the first Friday of every month"),
    ("0 9 13 * 5", "at 09:00 on the 13th and on Fridays"),
    ("0 9 13 6 5", "at 09:00 on the 13th and on Fridays in June"),
    ("0 9 13 * +5", "at 09:00 every Friday the 13th"),
    ("0 9 1-7 * +1", "at 09:00 on Mondays falling on the 1st through 7th of every month"),
    ("0 0 */100,1-7 * MON", "at 00:00 on Mondays falling on the 1st through 7th of every month"),
    ("0 0 L-2 * *", "at 00:00 on the 3rd-to-last day of every month"),
    ("0 0 LW * *", "at 00:00 on the last weekday of every month"),
    (
        "0 0 15W,L-3W * *",
        "at 00:00 on the weekday nearest the 4th-to-last day and the weekday nearest the 15th of every month",
    ),
    ("0 0 1,L 1-6 *", "at 00:00 on the 1st and last day of every month from January through June"),
    ("0 0 24-26 12 *", "at 00:00 on 24 through 26 December every year"),
    ("0 0 29 2 *", "at 00:00 on 29 February every leap year"),
    ("0 0 31 4,6 *", "never (31 April and 31 June do not exist)"),
    ("0 0 0 29 2 * 2025-2027", "never (there is no 29 February in 2025, 2026 and 2027)"),
    ("0 0 0 1 1 * 2026", "at 00:00 on 1 January in 2026"),
    ("0 0 0 * * * 2000-2099/10", "at 00:00 every day in every 10th year from 2000 through 2090"),
    ("0,30 9,12 * * *", "at 09:00, 09:30, 12:00 and 12:30 every day"),
    ("0 0 */10 1-6 *", "at 00:00 every 10th day of the month (1st, 11th, 21st ...) from January through June"),
    ("0 0 */10 2 *", "at 00:00 on 1, 11 and 21 February every year"),
    ("0 0 */10 2,3 *", "at 00:00 every 10th day of the month (1st, 11th, 21st ...) in February and March"),
    ("0 0 */10 * +1", "at 00:00 on Mondays falling on every 10th day of the month (1st, 11th, 21st ...)"),
    ("*/15 * * * * *", "every 15 seconds"),
    ("*/10 * 9 * * *", "every 10 seconds from 09:00:00 through 09:59:50"),
    ("5 */10 * * * *", "at 5 seconds past the minute, every 10 minutes"),
    ("@every 90s", "every 90 seconds"),
    ("@every 5h/15m", "every 5 hours, offset by 15 minutes"),
    ("CRON_TZ=Europe/Berlin 0 9 * * *", "at 09:00 every day, Berlin time"),
]


@pytest.mark.parametrize(("line", "sentence"), CRONS)
def test_cron_lines(line: str, sentence: str) -> None:
    assert describe(Spec(crons=(parse_cron(line),))) == sentence


RRULES = [
    ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE", "every 2 weeks on Mondays and Wednesdays at 09:00, starting 5 January 2026"),
    ("FREQ=DAILY;COUNT=1", "every day at 09:00, starting 5 January 2026, once"),
    ("FREQ=DAILY;BYHOUR=10,16", "every day at 10:00 and 16:00, starting 5 January 2026 at 09:00"),
    ("FREQ=DAILY;BYMONTH=6", "every day in June at 09:00, starting 5 January 2026"),
    ("FREQ=DAILY;UNTIL=20260301T083000Z", "every day at 09:00, starting 5 January 2026, until 1 March 2026 at 08:30"),
    (
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
        "monthly on weekdays at 09:00, only the last of them in each month, starting 5 January 2026",
    ),
    (
        "FREQ=MONTHLY;BYMONTHDAY=31;RSCALE=GREGORIAN;SKIP=BACKWARD",
        "monthly on the 31st at 09:00, on the last day of months that are too short, starting 5 January 2026",
    ),
    ("FREQ=MONTHLY;BYDAY=TU", "weekly on Tuesday at 09:00, starting 5 January 2026"),
    (
        "FREQ=MONTHLY;BYDAY=-1SU,1SU",
        "monthly on the first Sunday and the last Sunday at 09:00, starting 5 January 2026",
    ),
    ("FREQ=YEARLY;BYMONTH=3;BYDAY=TH", "weekly on Thursday in March at 09:00, starting 5 January 2026"),
    ("FREQ=YEARLY;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA", "every day in January at 09:00, starting 5 January 2026"),
    ("FREQ=YEARLY;BYWEEKNO=-1;BYDAY=SU", "yearly on Sunday of the last week at 09:00, starting 5 January 2026"),
    ("FREQ=HOURLY;BYMINUTE=0,20", "every hour, at minutes 0 and 20, starting 5 January 2026 at 09:00"),
    (
        "FREQ=DAILY;BYHOUR=9,10,11,12,13;BYMINUTE=0,20,40",
        "every day, every 20 minutes from 09:00 through 13:40, starting 5 January 2026",
    ),
    ("FREQ=YEARLY;BYDAY=20MO", "yearly on the 20th Monday of the year at 09:00, starting 5 January 2026"),
    ("FREQ=YEARLY;BYYEARDAY=100,-1", "yearly on the last and 100th day of the year at 09:00, starting 5 January 2026"),
    (
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU;WKST=SU",
        "every 2 weeks on Sundays at 09:00, weeks starting on Sunday, starting 5 January 2026",
    ),
    (
        "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11;BYDAY=MO,TU,WE,TH,FR",
        "every 20 minutes on weekdays, in hours 9 through 11, starting 5 January 2026 at 09:00",
    ),
    (
        "FREQ=WEEKLY;BYDAY=MO RDATE:20260110T120000 EXDATE:20260112T090000",
        "weekly on Monday at 09:00, starting 5 January 2026, and also on 10 January 2026 at 12:00, "
        "skipping 12 January 2026 at 09:00",
    ),
    (
        "FREQ=DAILY EXRULE:FREQ=WEEKLY;BYDAY=SU",
        "every day at 09:00, starting 5 January 2026, skipping weekly on Sunday at 09:00",
    ),
]


@pytest.mark.parametrize(("rule", "sentence"), RRULES)
def test_rrules(rule: str, sentence: str) -> None:
    rrule, _ = parse_properties(f"DTSTART:20260105T090000 RRULE:{rule}")
    assert describe(Spec(rrules=(rrule,))) == sentence


def test_intervals_say_what_they_are_counted_from() -> None:
    start = parse_instant("2026-01-05T09:00:00Z")
    assert describe(Spec(intervals=(Interval(every=5_400, anchor=start),))) == (
        "every 90 minutes, counted from 5 January 2026 at 09:00"
    )
    assert describe(Spec(intervals=(make_interval("1w", "4d"),))) == "every 7 days, on Mondays at 00:00 UTC"
    assert describe(Spec(intervals=(make_interval("36h"),))) == "every 36 hours"
    assert describe(Spec(intervals=(make_interval("26h30m"),))) == "every 1 day, 2 hours and 30 minutes"
    assert describe(Spec(intervals=(make_interval("30m"),), time_zone="Asia/Kathmandu")) == (
        "every 30 minutes, counted in UTC, Kathmandu time"
    )


def test_unions_exclusions_and_bounds() -> None:
    spec = Spec(
        crons=(parse_cron("0 9 * * 1-5"), parse_cron("0 12 * * 6")),
        excludes=(
            exclude.Holidays(country="US", subdivision="NY"),
            exclude.Calendar(calendar=parse_calendar({"month": "12", "day_of_month": "24-26"})),
            exclude.Dates(days=(parse_day("2027-01-02"), parse_day("2027-01-01"))),
            exclude.DateRange(first=parse_day("2026-08-01"), last=parse_day("2026-08-31")),
            exclude.Cron(cron=parse_cron("* 12-13 * * 0")),
        ),
        start=parse_instant("2026-01-01T05:00:00Z"),
        end=parse_instant("2027-12-31T23:00:00Z"),
        jitter_ms=30_000,
        time_zone="America/New_York",
        dst=Dst(gap=Gap.SKIP, overlap=Overlap.LAST),
    )
    assert describe(spec) == (
        "at 09:00 on weekdays, and at 12:00 on Saturdays, except holidays in New York, "
        "except on 24 through 26 December every year, except 1 January 2027 and 2 January 2027, "
        "except from 1 August 2026 through 31 August 2026, except every minute from 12:00 through 13:59 on Sundays, "
        "beginning 1 January 2026 at 00:00, ending 31 December 2027 at 18:00, delayed by up to 30 seconds, "
        "skipped when clocks go forward, in the second pass when clocks go back, New York time"
    )


def test_times_of_the_same_days_become_one_list() -> None:
    spec = Spec(crons=(parse_cron("30 17 * * 1-5"), parse_cron("0 9 * * 1-5")))
    assert describe(spec) == "at 09:00 and 17:30 on weekdays"


def test_single_times_are_told_on_the_clock_of_the_zone() -> None:
    spec = Spec(times=(parse_moment("2026-12-24T09:00:00+01:00"),), time_zone="Europe/Berlin")
    assert describe(spec) == "on 24 December 2026 at 09:00, Berlin time"
    assert describe(Spec(times=spec.times)) == "on 24 December 2026 at 08:00"


def test_a_time_of_the_second_pass_is_told_in_utc() -> None:
    spec = Spec(times=(parse_moment("2026-10-25T01:30:00Z"),), time_zone="Europe/Berlin")
    assert describe(spec) == "on 25 October 2026 at 01:30 UTC, Berlin time"


def test_temporal_lines_follow_their_own_rules() -> None:
    spec = Spec(crons=(parse_temporal_cron("0 9 13 * 5"),), dialect=Dialect.TEMPORAL, time_zone="Europe/Berlin")
    assert describe(spec) == (
        "at 09:00 every Friday the 13th, skipped when clocks go forward, twice when clocks go back, Berlin time"
    )


def test_a_pattern_that_breaks_the_habit_of_its_words_says_so() -> None:
    """`*/60` is a 0 that follows real time, and a listed `0-59/15` is fixed: the words alone would say otherwise."""
    assert describe(Spec(crons=(parse_cron("*/60 9 * * *"),), time_zone="Europe/Berlin")) == (
        "at 09:00 every day, in real time, Berlin time"
    )
    assert describe(Spec(crons=(parse_cron("0-59/15 9 * * *"),), time_zone="Europe/Berlin")) == (
        "every 15 minutes from 09:00 through 09:45, by the clock, Berlin time"
    )


def test_a_spec_without_sources_waits_for_triggers() -> None:
    assert describe(Spec(time_zone="Europe/Berlin")) == "only when triggered, Berlin time"


def test_the_zone_may_come_from_outside() -> None:
    spec = Spec(crons=(parse_cron("0 9 * * *"),))
    assert describe(spec, zone="America/Argentina/Buenos_Aires") == (
        "at 09:00 every day, America/Argentina/Buenos_Aires time"
    )
    assert describe(spec, zone="Etc/UTC") == "at 09:00 every day"


def test_an_unknown_locale_and_an_unknown_zone_are_refused() -> None:
    with pytest.raises(InvalidSpec, match="locale 'fr' is not supported; use en"):
        describe(Spec(), locale="fr")
    with pytest.raises(InvalidSpec, match="Mars/Phobos"):
        describe(Spec(time_zone="Mars/Phobos"))


def test_a_spec_of_many_parts_is_cut() -> None:
    crons = tuple(parse_cron(f"{n % 60} {n // 60} * * 1#1") for n in range(1_000))
    excludes = tuple(exclude.Dates(days=(20_000 + n,)) for n in range(1_000))
    said = describe(Spec(crons=crons, excludes=excludes))
    assert ", and 900 more, except" in said
    assert said.endswith(", and 900 more exceptions")
    assert len(said) < 10_000


def test_long_lists_are_cut() -> None:
    days = tuple(range(20_000, 30_000))
    said = describe(Spec(crons=(parse_cron("0 9 * * *"),), excludes=(exclude.Dates(days=days),)))
    assert said.endswith("and 9950 more days")
    assert len(said) < 1_500


def test_every_set_of_weekdays_is_read_back() -> None:
    for mask in range(1, 128):
        days = ",".join(str(day) for day in range(7) if mask >> day & 1)
        spec = Spec(crons=(parse_cron(f"0 9 * * {days}"),))
        assert meaning_of(parse_sentence(describe(spec))) == meaning_of(spec), describe(spec)

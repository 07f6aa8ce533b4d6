"""Lints: what is legal and rarely meant, and what is left alone."""

import pytest

from evertick.base.errors import InvalidSpec
from evertick.recurrence.lint import CODES, LINTS_MAX, Lint, lint
from evertick.recurrence.parse.cron import parse_calendar, parse_cron, parse_temporal_cron
from evertick.recurrence.parse.duration import make_interval, parse_interval
from evertick.recurrence.parse.moments import parse_instant
from evertick.recurrence.parse.rrule import parse_properties
from evertick.recurrence.spec.spec import Dialect, Dst, Gap, Overlap, Spec

NOW = parse_instant("2026-11-21T12:00:00Z")


def of_cron(line: str, zone: str | None = None, dst: Dst | None = None) -> list[Lint]:
    return lint(Spec(crons=(parse_cron(line),), time_zone=zone, dst=dst), NOW)


def of_rrule(text: str, zone: str | None = None) -> list[Lint]:
    return lint(Spec(rrules=(parse_properties(text)[0],), time_zone=zone), NOW)


def codes(lints: list[Lint]) -> list[str]:
    return [remark.code for remark in lints]


CRON_LINES = [
    ("0 0 13 * 5", ["either_day_field"]),
    ("0 0 */2 * MON", ["both_day_fields", "uneven_step"]),
    ("0 0 13 * +5", []),
    ("*/7 * * * *", ["uneven_step"]),
    ("0-59/7 * * * *", ["uneven_step"]),
    ("0 */5 * * *", ["uneven_step"]),
    ("0 0 1 */5 *", ["uneven_step"]),
    ("*/15 * * * *", []),
    ("5-50/7 * * * *", []),
    ("*/61 * * * *", ["step_beyond_field"]),
    ("0 0 31 * *", ["missing_days"]),
    ("0 0 30 * *", ["missing_days"]),
    ("0 0 29 * *", ["missing_days"]),
    ("0 0 29 2 *", ["missing_days"]),
    ("0 0 31 1,3 *", []),
    ("0 0 25-31 * *", []),
    ("0 0 28 * *", []),
    ("* 9 * * *", ["every_minute"]),
    ("* 9-17 * * *", []),
    ("* 5 9 * * *", ["every_second"]),
    ("0 9 * * 1-5", []),
    ("@every 24h", []),
]


@pytest.mark.parametrize(("line", "expected"), CRON_LINES)
def test_cron_lines(line: str, expected: list[str]) -> None:
    assert codes(of_cron(line)) == expected


def test_calendars_are_looked_at_too() -> None:
    calendar = parse_calendar({"minute": "*/7", "hour": "2", "day_of_month": "31"})
    spec = Spec(calendars=(calendar,), time_zone="Europe/Berlin")
    assert codes(lint(spec, NOW)) == ["uneven_step", "missing_days"]


def test_a_remark_says_where_and_what_to_write_instead() -> None:
    remark = lint(Spec(crons=(parse_cron("0 9 * * *"), parse_cron("0 0 13 * 5"))), NOW)[0]
    assert remark == Lint(
        code="either_day_field",
        where="crons[1]",
        message=(
            "fires on the 13th and also on Fridays, since either day field suffices; "
            "for days that are both write '+5' as the day of week"
        ),
    )


# --- clock changes ------------------------------------------------------------------------------------------

GAPS = [
    (None, "02:30 on 14 March 2027 does not exist, the clocks go from 02:00 to 03:00: it fires at 03:00"),
    (Gap.SHIFT, "it fires later by as much as the clocks go forward"),
    (Gap.SKIP, "it does not fire that day"),
]


@pytest.mark.parametrize(("gap", "outcome"), GAPS)
def test_a_time_that_a_clock_change_skips(gap: Gap | None, outcome: str) -> None:
    (remark,) = of_cron("30 2 * * *", "America/New_York", Dst(gap=gap))
    assert remark.code == "clock_gap"
    assert outcome in remark.message


OVERLAPS = [
    (None, "01:30 on 7 November 2027 comes twice, the clocks go from 02:00 to 01:00: it fires in the first pass only"),
    (Overlap.BOTH, "it fires in both passes"),
    (Overlap.LAST, "it fires in the second pass only"),
]


@pytest.mark.parametrize(("overlap", "outcome"), OVERLAPS)
def test_a_time_that_a_clock_change_repeats(overlap: Overlap | None, outcome: str) -> None:
    (remark,) = of_cron("30 1 * * *", "America/New_York", Dst(overlap=overlap))
    assert remark.code == "clock_overlap"
    assert outcome in remark.message


def test_only_times_that_are_hit_are_named() -> None:
    assert of_cron("30 2 * * 1-5", "America/New_York") == []  # the clocks change on a Sunday
    assert of_cron("30 2 * 6 *", "America/New_York") == []
    assert of_cron("30 2 * * *", "Asia/Kolkata") == []
    assert of_cron("30 2 * * *") == []
    assert of_cron("*/30 2 * * *", "America/New_York") == []  # follows real time
    assert codes(of_cron("15 2 * * *", "Australia/Lord_Howe")) == ["clock_gap"]  # half an hour is enough


def test_excluded_days_and_times_outside_the_bounds_are_left_alone() -> None:
    cron = parse_cron("30 2 * * *")
    ended = Spec(crons=(cron,), time_zone="America/New_York", end=parse_instant("2027-01-01T00:00:00Z"))
    assert lint(ended, NOW) == []


def test_temporal_skips_and_repeats() -> None:
    cron = parse_temporal_cron("30 2 * * *")
    (remark,) = lint(Spec(crons=(cron,), time_zone="America/New_York", dialect=Dialect.TEMPORAL), NOW)
    assert "does not fire that day" in remark.message


# --- intervals and RRULEs -----------------------------------------------------------------------------------


def test_whole_days_of_real_time_drift_where_clocks_change() -> None:
    def of_interval(text: str, zone: str | None) -> list[str]:
        return codes(lint(Spec(intervals=(parse_interval(text),), time_zone=zone), NOW))

    assert of_interval("24h", "Europe/Berlin") == ["interval_not_daily"]
    assert of_interval("24h", "Asia/Kolkata") == []
    assert of_interval("24h", None) == []
    assert of_interval("23h", "Europe/Berlin") == []
    assert of_interval("1w", None) == ["interval_from_thursday"]
    assert of_interval("1w/4d", None) == []
    assert codes(of_rrule("DTSTART:20260105T090000 RRULE:FREQ=HOURLY;INTERVAL=24", "Europe/Berlin")) == [
        "interval_not_daily"
    ]


def test_an_anchor_answers_the_question_of_thursdays() -> None:
    interval = make_interval("1w", anchor=parse_instant("2026-01-05T00:00:00Z"))
    assert lint(Spec(intervals=(interval,)), NOW) == []


RRULES = [
    ("DTSTART:20260105T090000 RRULE:FREQ=WEEKLY;BYDAY=MO", []),
    ("DTSTART:20260105T090000 RRULE:FREQ=WEEKLY;BYDAY=TU", ["dtstart_off_rule"]),
    ("DTSTART:20260105T090000 RRULE:FREQ=DAILY;UNTIL=20270101T090000", ["until_local"]),
    ("DTSTART:20260105T090000 RRULE:FREQ=DAILY;UNTIL=20270101T080000Z", []),
    ("DTSTART:20260105T090000 RRULE:FREQ=DAILY EXDATE:20260112", ["exdate_date"]),
    ("DTSTART:20260105T090000 RRULE:FREQ=DAILY EXDATE:20260112T090000", []),
    ("DTSTART:20260105T090000 RRULE:FREQ=DAILY EXDATE:20260112T100000", ["exdate_unmatched"]),
    ("DTSTART:20260131T090000 RRULE:FREQ=MONTHLY", ["missing_days"]),
    ("DTSTART:20260131T090000 RRULE:FREQ=MONTHLY;BYMONTHDAY=-1", []),
    ("DTSTART:20260131T090000 RRULE:FREQ=MONTHLY;RSCALE=GREGORIAN;SKIP=BACKWARD", []),
    ("DTSTART:20260104T023000 RRULE:FREQ=DAILY", ["clock_gap", "clock_overlap"]),
    ("DTSTART:20260104T023000 RRULE:FREQ=HOURLY", []),
]


@pytest.mark.parametrize(("text", "expected"), RRULES)
def test_rrules(text: str, expected: list[str]) -> None:
    assert codes(of_rrule(text, "Europe/Berlin")) == expected


def test_the_first_time_is_told_when_dtstart_is_not_it() -> None:
    (remark,) = of_rrule("DTSTART:20260105T090000 RRULE:FREQ=WEEKLY;BYDAY=TU")
    assert "the first time is 6 January 2026 at 09:00" in remark.message


# --- the whole ----------------------------------------------------------------------------------------------


def test_remarks_are_bounded_and_their_codes_are_known() -> None:
    crons = tuple(parse_cron(f"*/7 * 31 * {day % 7}") for day in range(200))
    remarks = lint(Spec(crons=crons, time_zone="Europe/Berlin"), NOW)
    assert len(remarks) == LINTS_MAX
    assert {remark.code for remark in remarks} <= set(CODES)


def test_a_spec_that_does_not_compile_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="Mars"):
        lint(Spec(crons=(parse_cron("0 9 * * *"),), time_zone="Mars/Phobos"), NOW)

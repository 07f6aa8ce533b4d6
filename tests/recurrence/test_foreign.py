"""Notations of other schedulers: refused with the form to write instead, or read with a note on what differs."""

import re
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from evertick.base.errors import InvalidSpec
from evertick.recurrence.builders import at, cron, every, rrule, sentence
from evertick.recurrence.lint import lint
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.wire.reading import spec_from_wire

NOW = 1_774_000_000
"""20 March 2026."""

REFUSED: dict[str, tuple[Callable[[], Spec], str]] = {
    "cron of AWS": (lambda: cron("cron(0 12 ? * 2-6 *)"), "write '0 12 * * MON-FRI'"),
    "cron of AWS with a year": (lambda: sentence("cron(0 12 1 * ? 2027)"), "write '0 0 12 1 * * 2027'"),
    "the fields of AWS": (lambda: cron("0 12 ? * 2-6 *"), "whose sixth field is the year, write '0 12 * * MON-FRI'"),
    "rate of AWS": (lambda: cron("rate(5 minutes)"), r"write 'every 5 minutes', '@every 5m', or every(minutes=5)"),
    "one of AWS in a sentence": (lambda: sentence("rate(1 hour)"), "write 'every hour'"),
    "a start of the machine": (lambda: sentence("@reboot"), r"write app.scheduler.run_after(0, function)"),
    "the user of a crontab": (lambda: cron("17 * * * * root cd / && run-parts /etc"), r"write '17 * * * *'"),
    "the command of a crontab": (lambda: cron("0 9 * * 1-5 /usr/bin/report"), r"write '0 9 * * 1-5'"),
    "a Windows zone": (lambda: cron("0 9 * * *", tz="W. Europe Standard Time"), "write Europe/Berlin"),
    "a Windows zone in a file": (
        lambda: compile_spec(spec_from_wire({"crons": "0 9 * * *", "time_zone": "Pacific Standard Time"})).spec,
        "write America/Los_Angeles",
    ),
    "a whole event": (
        lambda: rrule("BEGIN:VEVENT\nUID:1\nDTSTART:20260101T090000Z\nRRULE:FREQ=DAILY\nEND:VEVENT"),
        r"give the lines of its times: 'DTSTART:20260101T090000Z RRULE:FREQ=DAILY'",
    ),
    "a backslash and an n": (
        lambda: rrule(r"DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY"),
        "a space: 'DTSTART:20260101T090000Z RRULE:FREQ=DAILY'",
    ),
    "an empty TZID": (
        lambda: rrule("DTSTART;TZID=:20260101T090000\nRRULE:FREQ=DAILY"), "has an empty TZID; name a zone",
    ),
    "months": (lambda: every(months=1), r"write the cron line '0 9 1 * *', monthly(day=1, hour=9)"),  # type: ignore[call-arg]
    "one day": (lambda: every(day=1), "takes days=, not day="),  # type: ignore[call-arg]
    "an interval of months": (lambda: spec_from_wire({"intervals": "1mo"}), "months and years differ in length"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_form_to_write(case: str) -> None:
    build, words = REFUSED[case]
    with pytest.raises(InvalidSpec, match=re.escape(words)):
        build()


def in_berlin(*times: str) -> Spec:
    return spec_from_wire({"times": list(times), "time_zone": "Europe/Berlin"})


NOTED: dict[str, tuple[Callable[[], Spec], set[str]]] = {
    "numbers of weekdays": (lambda: cron("0 0 9 * * 2-6"), {"weekday_numbers"}),
    "a question mark": (lambda: cron("0 0 9 ? * MON-FRI"), {"question_mark"}),
    "both, with a year": (lambda: cron("0 0 9 ? * 2 2027"), {"weekday_numbers", "question_mark"}),
    "neither": (lambda: cron("0 0 9 * * MON-FRI"), set()),
    "five fields": (lambda: cron("0 9 * * 2-6"), set()),
    "a range that wraps": (lambda: cron("0 9 * * 5-1/2"), {"wrapped_step"}),
    "a time that the clocks skip": (lambda: in_berlin("2026-03-29T02:30:00"), {"clock_gap"}),
    "a time that they repeat": (lambda: in_berlin("2026-10-25T02:30:00"), {"clock_overlap"}),
    "a time that is skipped years ahead": (lambda: sentence("on 26 March 2034 at 2:30am, Berlin time"), {"clock_gap"}),
    "a usual time": (lambda: in_berlin("2026-06-01T02:30:00", "2026-10-25T03:00:00"), set()),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTED)
def test_what_may_mean_something_else_is_noted(case: str) -> None:
    build, codes = NOTED[case]
    assert {each.code for each in lint(build(), NOW)} == codes


def test_the_note_on_a_range_that_wraps_says_what_it_means() -> None:
    [note] = lint(cron("0 9 * * 5-1/2"), NOW)
    assert "means Friday and Sunday" in note.message and "write '5,0'" in note.message


def test_a_moment_of_python_that_the_clocks_skip_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    at(
        datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2026, 3, 29, 4, tzinfo=ZoneInfo("Europe/Berlin")),
    )
    [record] = caplog.records
    assert "2026-03-29 02:30:00 does not exist in Europe/Berlin" in record.getMessage()

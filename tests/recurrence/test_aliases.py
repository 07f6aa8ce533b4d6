"""Other spellings of specs: what Temporal, calendars and people in a hurry write means what they mean by it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evertick.base.errors import InvalidSpec
from evertick.cli.schedule.preview import preview
from evertick.recurrence import compile_spec
from evertick.recurrence.wire.reading import spec_from_wire
from tests.recurrence.asking import at, local, recurrence

DAILY = {"dtstart": "2026-01-05T09:00:00", "rrule": "FREQ=DAILY"}

SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"cron": "0 9 * * *"}, {"crons": ["0 9 * * *"]}),
    ({"crons": "0 9 * * *", "tz": "Europe/Berlin"}, {"crons": ["0 9 * * *"], "time_zone": "Europe/Berlin"}),
    ({"crons": ["@daily"], "timezoneName": "Asia/Tokyo"}, {"crons": ["@daily"], "time_zone": "Asia/Tokyo"}),
    ({"interval": "5h/15m"}, {"intervals": [{"every": "5h", "offset": "15m"}]}),
    ({"interval": [{"interval": "5h", "phase": "15m"}]}, {"intervals": [{"every": "5h", "offset": "15m"}]}),
    ({"intervals": [5400]}, {"intervals": ["5400s"]}),
    (
        {"intervals": [{"every": 1.999999999}], "jitter": 1.5, "dialect": "temporal"},
        {"intervals": ["1.999999999s"], "jitter": "1500ms", "dialect": "temporal"},
    ),
    ({"calendar": {"dayOfWeek": "Fri"}}, {"calendars": [{"day_of_week": "Fri"}]}),
    (
        {"calendars": [{"dayOfWeek": ["Mon", 5], "hour": [9, 17]}]},
        {"calendars": [{"day_of_week": "Mon,5", "hour": "9,17"}]},
    ),
    ({"rrule": {**DAILY, "exdate": "2026-01-06"}}, {"rrules": [{**DAILY, "exdate": ["2026-01-06"]}]}),
    ({"times": "2026-02-01T09:00:00Z", "crons": None}, {"times": ["2026-02-01T09:00:00Z"]}),
    ({"cron": "@hourly", "exclude": [{"hour": "3"}]}, {"crons": ["@hourly"], "except": [{"calendar": {"hour": "3"}}]}),
    ({"cron": "@daily", "except": "2026-01-02"}, {"crons": ["@daily"], "except": [{"dates": ["2026-01-02"]}]}),
    ({"cron": "@daily", "except": "* * * * 0,6"}, {"crons": ["@daily"], "except": [{"cron": "* * * * 0,6"}]}),
    (
        {
            "structuredCalendar": [{"hour": [{"start": 9}]}],
            "calendar": {"hour": "10"},
            "cronString": ["0 11 * * *"],
            "excludeStructuredCalendar": [{"dayOfWeek": [{"start": 6}]}],
            "startTime": "2026-01-02T00:00:00Z",
            "endTime": "2027-01-02T00:00:00Z",
        },
        {
            "calendars": [{"hour": [{"start": 9}]}, {"hour": "10"}],
            "crons": ["0 11 * * *"],
            "except": [{"calendar": {"day_of_week": [{"start": 6}]}}],
            "start": "2026-01-02T00:00:00Z",
            "end": "2027-01-02T00:00:00Z",
        },
    ),
]


@pytest.mark.parametrize(("written", "plain"), SAME, ids=[f"same-{number}" for number in range(len(SAME))])
def test_another_spelling_is_the_same_spec(written: dict[str, Any], plain: dict[str, Any]) -> None:
    assert spec_from_wire(written) == spec_from_wire(plain)


WRONG: list[tuple[Any, str]] = [
    ({"tz": "UTC", "time_zone": "UTC"}, "given twice"),
    ({"time_zone": ""}, "empty"),
    ({"crons": ["@daily", "61 * * * *"]}, r"crons\[1\]: minute"),
    ({"crons": ["@daily"], "excpet": []}, "did you mean 'except'"),
    ({"calendars": [{"hour": [9, {"start": 10}]}]}, "mixes"),
    ({"crons": ["@daily"], "except": ["tomorrow"]}, "except 'tomorrow': write a date"),
    ({"intervals": [{"every": 1.5}]}, "not a whole number of seconds"),
    ({"intervals": [{"every": [5]}]}, r"intervals\[0\].every' must be text or a whole number"),
    ({"crons": ["CRON_TZ=Asia/Tokyo @daily", "0 9 * * *"], "dialect": "temporal"}, "all name the same time zone"),
    ({"crons": ["1 2 3 4"], "dialect": "temporal"}, r"6 \(the year last\)"),
    ({"calendars": [{"dayOfWeek": "Fri-Sun"}]}, "Sunday at its end is written 7"),
    ({"dst": "skip"}, "'dst' must be an object"),
    ({"dst": {"gap": "jump"}}, "'next', 'shift' or 'skip'"),
    ([], "a spec must be an object"),
    ({"crons": [""]}, "empty"),
    ({"crons": ["@reboot"]}, "has no times"),
    ({"crons": ["cron_tz=UTC 0 9 * * *"]}, "capitals"),
    ({"crons": ["0 9 * * 1-5 # weekdays"]}, "comment"),
    ({"crons": ["0 9 * * MON#-1"]}, "MON#-1"),
    ({"crons": ["0 9 * * monday"]}, "write MON"),
    ({"crons": ["0 9 ? * 6L,L"]}, "5L or FRIL"),
    ({"crons": ["H/15 * * * *"]}, "jitter"),
    ({"crons": ["*/100000 * * * *"]}, "from 1 to 9999"),
    ({"crons": ["@daily"], "time_zone": "UTC+2"}, r"Etc/GMT-2"),
    ({"crons": ["@daily"], "time_zone": "-05:30"}, "offset"),
    ({"rrules": ["FREQ=DAILY"]}, "needs a DTSTART"),
    ({"rrules": [{**DAILY, "rrule": "FREQ=DAILY;"}]}, "empty part"),
]


@pytest.mark.parametrize(("wire", "message"), WRONG, ids=[f"wrong-{number}" for number in range(len(WRONG))])
def test_a_mistake_is_told_with_what_to_do(wire: Any, message: str) -> None:
    with pytest.raises(InvalidSpec, match=message):
        compile_spec(spec_from_wire(wire))


def starts(count: int, **wire: Any) -> list[str]:
    found = recurrence(**wire)
    return local(found, found.preview(count, at("2026-01-01T00:00:00Z")))


def test_a_number_of_a_weekday_may_have_a_leading_zero_before_its_sign() -> None:
    assert starts(2, crons=["0 9 * * 05L"]) == starts(2, crons=["0 9 * * 5L"])
    assert starts(2, crons=["0 9 * * 01#2"]) == starts(2, crons=["0 9 * * 1#2"])


def test_dates_of_another_zone_than_dtstarts_are_that_zones() -> None:
    lines = [
        "DTSTART;TZID=Europe/Berlin:20260105T090000",
        "RRULE:FREQ=DAILY",
        "EXDATE;TZID=America/New_York:20260106T030000",
        "EXDATE;TZID=Europe/Berlin:20260107T090000",
        "RDATE;TZID=America/New_York:20260106T040000",
    ]
    expected = ["2026-01-05T09:00:00+01:00", "2026-01-06T10:00:00+01:00", "2026-01-08T09:00:00+01:00"]
    assert starts(3, rrules=["\n".join(lines)]) == expected


def test_icalendar_text_as_it_is_found_is_read() -> None:
    """Quoted TZIDs, lower case, folded lines, periods (their begin counts), a rule without its name."""
    plain = ["2026-01-05T09:00:00+00:00", "2026-01-06T09:00:00+00:00"]
    assert starts(3, rrules=['DTSTART;TZID="Etc/UTC":20260105T090000\nRRULE:FREQ=DAILY;COUNT=2']) == plain
    assert starts(3, rrules=["dtstart:20260105t090000z\r\nrrule:freq=da\r\n ily;count=2"]) == plain
    assert starts(3, rrules=["DTSTART:20260105T090000\nFREQ=DAILY;COUNT=2"]) == plain
    periods = "RDATE;VALUE=PERIOD:20260106T090000/PT1H,20260107T090000Z/20260107T100000Z"
    assert starts(3, rrules=[f"DTSTART:20260105T090000\n{periods}"]) == [*plain, "2026-01-07T09:00:00+00:00"]


def test_every_line_of_a_file_is_answered_under_its_id_however_broken(tmp_path: Path) -> None:
    lines = [
        '\ufeff{"id": "first", "spec": {"cron": "@daily"}, "after": "2026-01-01T00:00:00Z", "count": 1}',
        '{"id": "broken", "spec": {"crons": ["* * * * *"]},,}',
        '{"id": 17, "spec": ',
        '{"id": NaN, "spec": {}}',
        '{"id": "\\ud800", "spec": {}}',
        '{"id": "no spec"}',
        '{"id": "nulls", "spec": {"times": "2100-01-01T00:00:00Z"}, "after": null, "count": null}',
    ]
    path = tmp_path / "specs.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    result = CliRunner().invoke(preview, ["--file", str(path)], catch_exceptions=False)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["id"] for one in found] == ["first", "broken", 17, None, "\ud800", "no spec", "nulls"]
    assert found[0]["times"] == ["2026-01-02T00:00:00+00:00"]
    assert [("error" in one) for one in found] == [False, True, True, True, False, True, False]


def test_exceptions_need_no_json_on_the_command_line() -> None:
    flags = ["--cron", "0 9 * * *", "--except", "2026-12-25", "--except", "* * * * 0,6", "--after", "2026-12-23"]
    result = CliRunner().invoke(preview, [*flags, "-n", "3", "-o", "json"], catch_exceptions=False)
    times = [row["utc"][:10] for row in json.loads(result.stdout)["times"]]
    assert times == ["2026-12-23", "2026-12-24", "2026-12-28"]

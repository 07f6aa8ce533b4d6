"""A date as an end is the whole day on the schedule's clock, and a date as a start begins with its first second."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from evertick import cron, daily, every
from evertick.app.schedules.definition import bounded
from evertick.recurrence.english.parser.sentence import spec_of_text
from evertick.recurrence.parse.moments import format_instant, typed_moment
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.wire.reading import spec_from_wire
from evertick.recurrence.zones.names import zone_named

TZ = "America/New_York"
SPAN = {"start": date(2026, 6, 1), "end": date(2026, 6, 3)}
WIRE = {"start": "2026-06-01", "end": "2026-06-03", "crons": ["30 23 * * *"]}


@pytest.mark.parametrize(
    "spec",
    [
        daily(hour=23, minute=30, tz=TZ, start=SPAN["start"], end=SPAN["end"]),
        bounded(cron("30 23 * * *", tz=TZ), SPAN),
        bounded(cron(f"CRON_TZ={TZ} 30 23 * * *"), SPAN),
        spec_from_wire({**WIRE, "time_zone": TZ}),
        spec_from_wire({**WIRE, "crons": [f"CRON_TZ={TZ} 30 23 * * *"]}),
        spec_of_text(
            "every day at 23:30, New York time, beginning 1 June 2026, ending 3 June 2026",
        ),
        spec_from_wire({
            "rrules": [{"dtstart": "2026-06-01T23:30:00", "rrule": "FREQ=DAILY;UNTIL=20260603"}], "time_zone": TZ,
        }),
    ],
)  # fmt: skip
def test_the_last_day_runs_in_every_notation(spec: Spec) -> None:
    times = compile_spec(spec).preview(10, int(datetime(2026, 5, 1, tzinfo=UTC).timestamp()))

    local = [datetime.fromtimestamp(at, ZoneInfo(TZ)) for at in times]
    assert [(each.day, each.hour, each.minute) for each in local] == [(1, 23, 30), (2, 23, 30), (3, 23, 30)]


@pytest.mark.parametrize(
    ("tz", "day", "first", "last"),
    [
        ("UTC", "2026-06-03", "2026-06-03T00:00:00Z", "2026-06-03T23:59:59Z"),
        ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z"),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z", "2018-11-05T01:59:59Z"),  # begins at 01:00
        ("America/Sao_Paulo", "2018-02-17", "2018-02-17T02:00:00Z", "2018-02-18T02:59:59Z"),  # repeats an hour
        ("Asia/Beirut", "2022-03-26", "2022-03-25T22:00:00Z", "2022-03-26T21:59:59Z"),  # the next begins at 01:00
        ("Asia/Beirut", "2022-10-29", "2022-10-28T21:00:00Z", "2022-10-29T21:59:59Z"),
        ("America/Havana", "2026-10-31", "2026-10-31T04:00:00Z", "2026-11-01T03:59:59Z"),  # the next repeats 00:00
        ("America/St_Johns", "2010-11-06", "2010-11-06T02:30:00Z", "2010-11-07T03:29:59Z"),  # back over midnight
        ("Pacific/Apia", "2011-12-29", "2011-12-29T10:00:00Z", "2011-12-30T09:59:59Z"),
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z", "2011-12-30T09:59:59Z"),  # a day that never was
        ("UTC", "yesterday", "2026-06-09T00:00:00Z", "2026-06-09T23:59:59Z"),
    ],
)  # fmt: skip
def test_a_day_ends_where_its_date_is_shown_last(tz: str, day: str, first: str, last: str) -> None:
    zone, now = zone_named(tz), int(datetime(2026, 6, 10, 12, tzinfo=UTC).timestamp())

    found = [typed_moment(day, "a day", zone, now, edge) for edge in ("first", "last", "after")]

    assert [format_instant(each) for each in found[:2]] == [first, last]
    assert found[2] == found[1] + 1


def test_a_moment_as_an_end_is_that_moment() -> None:
    spec = every(hours=1, start=datetime(2026, 6, 1, tzinfo=UTC), end=datetime(2026, 6, 3, tzinfo=UTC))

    assert spec.end is not None and format_instant(spec.end) == "2026-06-03T00:00:00Z"

"""Whatever a door accepts can be read back: builders, sentences, cron lines and the wire form of files and requests.

A spec is stored as text. One that is accepted and cannot be read back would run until the next restart, and never
again.
"""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.app.schedules.definition import union
from evertick.base.errors import EvertickError, InvalidSpec
from evertick.recurrence.builders import at, calendar, cron, every, rrule, sentence
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.spec.spec import Dst, Gap, Spec
from evertick.recurrence.wire.reading import spec_from_wire
from evertick.recurrence.wire.writing import canonical
from tests.sampling import examples


class Named(tzinfo):
    """A zone of somebody else's, with a name of its own."""

    def __init__(self, key: object) -> None:
        self.key = key

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(0)


EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
TEXTS = st.text(max_size=8) | st.sampled_from(
    ["", " ", "\0", "\ud800", "é", "1\n", "*", "?", "L", "5-1", "5-1/2", "0", "nan"]
)
ODD = st.one_of(
    TEXTS, st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from([10**12, 10**30, b"UTC", [], {}]),
    st.timedeltas(), st.datetimes(timezones=st.sampled_from([UTC, EAST, WEST])), st.dates(),
)  # fmt: skip
ZONES = st.sampled_from(
    ["", " ", "UTC", "utc", "europe/berlin", "Europe/Berlin", "Europe/Berlin\n", "/etc/localtime", "localtime", "EST",
     "Factory", "posixrules", "right/UTC", "../UTC", "zone.tab", "Etc/GMT+14", "UTC+1", "\ud800", UTC, EAST,
     ZoneInfo("Asia/Tokyo"), Named(""), Named(" "), Named(None), Named("Europe/Berlin")]
)  # fmt: skip
MOMENTS = st.sampled_from(
    [datetime.min.replace(tzinfo=EAST), datetime.min.replace(tzinfo=UTC), LAST, LAST.replace(tzinfo=WEST),
     datetime(2027, 1, 1, tzinfo=timezone(timedelta(seconds=1))), datetime(2027, 1, 1)]
)  # fmt: skip
LENGTHS = st.sampled_from(
    [timedelta.max, timedelta(days=3_660_000, milliseconds=1), timedelta(microseconds=1), 10**12, 10**15, -1]
)
DSTS = st.sampled_from(
    [Dst(), Dst(gap=Gap.SKIP), Dst(gap="skip"), Dst(gap="later"), Dst(overlap=1), "skip", {"gap": "skip"}]  # type: ignore[arg-type]
)
EXCEPTED = st.sampled_from([date.min, (date.max, date.min), {"dates": ["2026-01-01"]}, cron("@daily")]) | ODD
COMMON = st.fixed_dictionaries(
    {},
    optional={
        "tz": ZONES | ODD, "start": MOMENTS | ODD, "end": MOMENTS | ODD, "jitter": LENGTHS | ODD, "dst": DSTS | ODD,
        "exclude": EXCEPTED,
    },
)  # fmt: skip
FIELDS = ("second", "minute", "hour", "day", "month", "year", "day_of_week", "comment")
WORDS = st.sampled_from(
    ["*", "?", "0", "5", "5-1", "5-1/2", "L", "15W", "LW", "5#3", "5L", "MON-FRI", "sun", "R", "H", "*/7", "1,2"]
)
LINES = st.one_of(
    st.lists(WORDS, min_size=4, max_size=8).map(" ".join),
    st.sampled_from(["@daily", "@every 5m", "@every 99999999h", "CRON_TZ=UTC 0 9 * * *", "CRON_TZ= 0 9 * * *",
                     "CRON_TZ=\ud800 @every 5m", "0 9 * * *\n", "0 9 * * * # why",
                     "DTSTART;TZID=:20260101T090000\nRRULE:FREQ=DAILY"]),
    TEXTS,
)  # fmt: skip
WIRES = st.fixed_dictionaries(
    {},
    optional={
        "crons": LINES, "intervals": st.sampled_from(["5h/15m", "0s", "1w", {"every": 1.5}, {"every": 10**15},
                                                      {"every": "1d", "anchor": "0001-01-01T00:00:00+14:00"}]),
        "calendars": st.dictionaries(st.sampled_from(FIELDS), WORDS | ODD, max_size=3),
        "times": st.sampled_from(["0001-01-01", "9999-12-31T23:59:59-14:00", "20260101T090000Z", ""]),
        "start": st.sampled_from(["0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00.5Z", ""]),
        "end": st.sampled_from(["9999-12-31T23:59:59.9-14:00", "9999-12-31T23:59:59Z"]),
        "jitter": st.sampled_from([0, -1, 1.5, 10**12, "5s", "1ms", float("nan"), float("inf")]),
        "time_zone": ZONES, "dst": st.sampled_from([{}, {"gap": "skip"}, {"gap": ""}]),
        "dialect": st.sampled_from(["temporal", "evertick"]),
        "except": st.sampled_from(["2026-01-01", "0 9 * * *", {"month": "12"}, {"dates": []}]),
    },
)  # fmt: skip
DOORS: dict[str, tuple[Callable[..., Spec], st.SearchStrategy[Any]]] = {
    "cron": (lambda given: cron(given[0], **given[1]), st.tuples(LINES, COMMON)),
    "every": (
        lambda given: every(**given[0], **given[1]),
        st.tuples(
            st.dictionaries(
                st.sampled_from(["weeks", "days", "hours", "seconds", "offset", "anchor"]),
                st.integers(0, 10) | MOMENTS | LENGTHS | ODD, min_size=1, max_size=3,
            ),
            COMMON,
        ),
    ),
    "calendar": (
        lambda given: calendar(**given[0], **given[1]),
        st.tuples(st.dictionaries(st.sampled_from(FIELDS), WORDS | ODD, max_size=3), COMMON),
    ),
    "at": (lambda given: at(*given[0], **given[1]), st.tuples(st.lists(MOMENTS | ODD, max_size=2), COMMON)),
    "rrule": (
        lambda given: rrule(given[0], dtstart=given[1], **given[2]),
        st.tuples(
            st.sampled_from(["FREQ=DAILY", "FREQ=YEARLY;COUNT=3", "FREQ=DAILY;UNTIL=20260101"]),
            MOMENTS | ODD, COMMON,
        ),
    ),
    "sentence": (
        lambda given: sentence(given[0], **given[1]),
        st.tuples(st.sampled_from(["every day at 9am", "every 5 hours"]) | LINES, COMMON),
    ),
    "wire": (spec_from_wire, WIRES),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
@examples(25)
@given(data=st.data())
def test_what_is_accepted_is_read_back(door: str, data: st.DataObject) -> None:
    """It is refused with an error of ours, or its text means the same when it is read."""
    build, values = DOORS[door]
    drawn = data.draw(values)
    try:
        spec = union(build(drawn))
        compile_spec(spec)
    except EvertickError:
        return
    text = canonical(spec)
    text.encode()
    read = spec_from_wire(json.loads(text))
    compile_spec(read)
    assert canonical(read) == text


REFUSED: dict[str, tuple[Callable[[], Spec], str]] = {
    "an empty zone": (lambda: cron("* * * * * *", tz=""), "time zone is empty"),
    "an empty zone of an object": (lambda: at(LAST, tz=Named("")), "time zone is empty"),
    "a start after all years": (lambda: cron("@daily", start=LAST), "years 1 to 9999"),
    "an anchor before all years": (lambda: every(hours=1, anchor=datetime.min.replace(tzinfo=EAST)), "years 1 to 9999"),
    "an end after all years in a file": (
        lambda: union(spec_from_wire({"crons": "@daily", "start": "9999-12-31T23:59:59.9Z"})), "years 1 to 9999",
    ),
    "a jitter beyond all times": (lambda: cron("@daily", jitter=timedelta.max), "longer than 10,000 years"),
    "a jitter beyond all numbers": (lambda: cron("@daily", jitter=10**15), "longer than 10,000 years"),
    "an interval beyond all times": (lambda: every(weeks=10**9), "longer than 10,000 years"),
    "an unknown policy for clock changes": (lambda: cron("@daily", dst=Dst(gap="later")), "words of Gap"),  # type: ignore[arg-type]
    "a policy that is a word": (lambda: cron("@daily", dst="skip"), "dst must be a Dst"),  # type: ignore[arg-type]
    "a lone surrogate": (lambda: calendar(hour=9, comment="\ud800"), "a lone surrogate"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_not_be_read_back_is_refused(case: str) -> None:
    build, words = REFUSED[case]
    with pytest.raises(InvalidSpec, match=words):
        compile_spec(build())

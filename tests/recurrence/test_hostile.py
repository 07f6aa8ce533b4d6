"""Hostile text: an error of ours or an exact answer, after a bounded amount of work.

The timeouts are far above what an answer takes; they are there for the endless loops that other engines have.
"""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.base.errors import InvalidSpec
from evertick.recurrence import compile_spec
from evertick.recurrence.wire.reading import canonical, spec_from_wire, spec_to_wire
from tests.recurrence.asking import rrule
from tests.sampling import examples

LONG = "1" * 1_000_000

REFUSED: list[Any] = [
    {"crons": [LONG]},
    {"crons": ["* " * 500_000]},
    {"crons": ["," * 900 + " * * * *"]},
    {"crons": ["0-59/99999 * * * *"]},
    {"crons": ["*/" + "9" * 900 + " * * * *"]},
    {"crons": ["\x00"]},
    {"crons": ["* * * * *\n* * * * *"]},
    {"crons": ["@every 99999999999999999999h"]},
    {"crons": ["* * * * *"] * 20_000},
    {"crons": [None]},
    {"crons": [["* * * * *"]]},
    {"intervals": ["0s"]},
    {"intervals": [{"every": -5}]},
    {"intervals": [{"every": 1.5}]},
    {"intervals": [{"every": "1h", "anchor": "yesterday"}]},
    {"intervals": [{"every": "9" * 100 + "h"}]},
    {"calendars": [{"minute": "1-" + LONG}]},
    {"calendars": [{"minute": [{"start": 10**30}]}]},
    {"calendars": [{"minute": [{"start": 1, "end": 2, "step": -1}]}]},
    {"calendars": [{"nonsense": "1"}]},
    {"calendars": [{"hour": True}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "FREQ=DAILY;INTERVAL=0"}]},
    {"rrules": [{"dtstart": "0000-01-01T00:00:00", "rrule": "FREQ=DAILY"}]},
    {"rrules": [{"dtstart": "2020-02-30T00:00:00", "rrule": "FREQ=DAILY"}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "FREQ=DAILY;BYHOUR=" + ",".join(["1"] * 5000)}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "RRULE:" * 1000 + "FREQ=DAILY"}]},
    {"rrules": [{"rrule": "FREQ=DAILY"}]},
    {"times": ["tomorrow"]},
    {"except": [{}]},
    {"except": [{"dates": ["2026-01-01"], "cron": "* * * * *"}]},
    {"except": [{"date_range": ["2026-01-01"]}]},
    {"except": [{"date_range": ["2026-02-01", "2026-01-01"]}]},
    {"except": [{"cron": "@every 5m"}]},
    {"time_zone": "../../etc/passwd"},
    {"time_zone": "/etc/localtime"},
    {"time_zone": "Europe/../Europe/Berlin"},
    {"time_zone": "right/UTC"},
    {"time_zone": "a" * 1_000_000},
    {"time_zone": "UTC\x00"},
    {"time_zone": "Europe"},
    {"time_zone": "EST"},
    {"time_zone_data": "AAAA"},
    {"time_zone_data": "not base64!"},
    {"time_zone_data": base64.b64encode(b"TZif2" + b"\xff" * 200).decode()},
    {"time_zone_data": "A" * 1_000_000},
    {"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"},
    {"start": "2026-01"},
    {"jitter": "-5s"},
    {"jitter": -5},
    {"dst": {"gap": "perhaps"}},
    {"dialect": "quartz"},
    {"unknown": 1},
    [],
    None,
    "0 9 * * *",
    12,
]

ANSWERED = [
    {"rrules": [{"dtstart": "9999-12-31T23:59:59", "rrule": "FREQ=SECONDLY"}]},
    {"rrules": [{"dtstart": "0001-01-01T00:00:00", "rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29"}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "FREQ=YEARLY;INTERVAL=999999999"}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "FREQ=SECONDLY;INTERVAL=999999937"}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "FREQ=DAILY;COUNT=1000000000"}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "FREQ=SECONDLY;COUNT=1000000000;BYDAY=MO,TU,WE,TH,FR"}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "FREQ=MINUTELY;COUNT=9999999999;BYHOUR=9"}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "FREQ=HOURLY;INTERVAL=8784;BYMONTH=2;BYMONTHDAY=29"}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "FREQ=SECONDLY;INTERVAL=2;BYSECOND=1,3,5,7,9,11,13"}]},
    {"rrules": [{"dtstart": "2020-01-01T00:00:00", "rrule": "FREQ=DAILY", "exrule": ["FREQ=DAILY"]}]},
    {"crons": ["59 59 23 31 12 * 2199"]},
    {"crons": ["* * * * * * 1970"]},
    {"intervals": ["300000d"]},
    {"intervals": [{"every": "86399s", "anchor": "9999-01-01T00:00:00Z"}], "except": [{"dates": ["2026-01-01"]}]},
    {"times": ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"]},
    {"crons": ["0 0 * * *"], "except": [{"date_range": ["0001-01-01", "9999-12-31"]}]},
    {"crons": ["0 0 29 2 *"], "except": [{"calendar": {"year": "2000-2100"}}, {"cron": "0 0 0 29 2 * 2101/1"}]},
    {},
]


@pytest.mark.parametrize("wire", REFUSED, ids=[f"refused-{number}" for number in range(len(REFUSED))])
@pytest.mark.timeout(20)
def test_it_is_refused_with_a_short_message(wire: Any) -> None:
    with pytest.raises(InvalidSpec) as refused:
        compile_spec(spec_from_wire(wire))
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize("tz", ["UTC", "America/New_York"])
@pytest.mark.parametrize("wire", ANSWERED, ids=[f"answered-{number}" for number in range(len(ANSWERED))])
@pytest.mark.timeout(20)
def test_it_is_answered(wire: dict[str, Any], tz: str) -> None:
    rule = compile_spec(spec_from_wire({**wire, "time_zone": tz}))
    for moment in (-62_000_000_000, 0, 1_800_000_000, 253_402_200_000):
        following, previous = rule.next(moment), rule.prev(moment)
        assert following is None or following > moment
        assert previous is None or previous < moment
    assert rule.is_empty() == (rule.next(-70_000_000_000) is None)


def test_a_count_that_cannot_be_counted_says_what_to_write_instead() -> None:
    with pytest.raises(InvalidSpec, match="UNTIL"):
        rrule("FREQ=MINUTELY;INTERVAL=1441;BYHOUR=9;COUNT=1000000")


@pytest.mark.parametrize(
    ("rule", "most", "complaint"),
    [
        ("FREQ=DAILY;INTERVAL={}", 100, r"at most 100 rules \(RRULE\), not 101"),
        ("FREQ=MINUTELY;INTERVAL=7919;BYMONTH={};COUNT=3", 10, "at most 100 rules with COUNT, and 10 of them"),
        ("FREQ=DAILY;COUNT={}\nEXRULE:FREQ=DAILY;INTERVAL=2;COUNT=3", 50, "at most 100 rules with COUNT"),
    ],
)
def test_a_spec_has_only_so_many_rules(rule: str, most: int, complaint: str) -> None:
    lines = [f"DTSTART:20260101T000000Z\nRRULE:{rule.format(n)}" for n in range(1, most + 1)]
    compile_spec(spec_from_wire({"rrules": lines}))
    with pytest.raises(InvalidSpec, match=complaint):
        compile_spec(spec_from_wire({"rrules": [*lines, lines[0]]}))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("tz", ["UTC", "America/New_York"])
def test_a_large_count_of_steps_that_do_not_divide_the_day_ends_where_it_says(tz: str) -> None:
    text = "FREQ=MINUTELY;INTERVAL=7;BYHOUR=9;BYDAY=MO"
    counted, endless = rrule(f"{text};COUNT=1000000", tz=tz), rrule(text, tz=tz)
    last = counted.prev(253_402_200_000)
    assert last is not None
    assert endless.count(0, last + 1) == 1_000_000
    assert endless.matches(last)


CRON_WORDS = "* ? L W # , - / + 0 1 5 7 12 31 59 60 99 2026 MON FRI JAN @daily @every 5m CRON_TZ=UTC \x00 é ５"
RRULE_WORDS = (
    "FREQ= DAILY HOURLY YEARLY ; INTERVAL= 1 0 -1 99999 BYDAY= MO 1MO -1SU , BYSETPOS= BYMONTHDAY= 31 COUNT= UNTIL= "
    "20260101T000000Z BYHOUR= WKST= RSCALE=GREGORIAN SKIP=FORWARD BYWEEKNO= 53 BYYEARDAY= 366 = RRULE:"
)
PIECES = st.sampled_from(CRON_WORDS.split())
RECUR = st.sampled_from(RRULE_WORDS.split())


@given(st.lists(PIECES, max_size=14).map(" ".join) | st.text(max_size=40))
@examples(400)
def test_any_text_is_a_cron_line_or_refused(text: str) -> None:
    check({"crons": [text]})
    check({"crons": [text], "dialect": "temporal"})
    check({"intervals": [text]})
    check({"calendars": [{"minute": text, "day_of_week": text}]})


@given(st.lists(RECUR, max_size=16).map("".join) | st.text(max_size=40))
@examples(400)
def test_any_text_is_an_rrule_or_refused(text: str) -> None:
    check({"rrules": [{"dtstart": "2026-01-01T00:00:00", "rrule": text}]})
    check({"rrules": [text]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = ["crons", "intervals", "calendars", "rrules", "times", "except", "start", "end", "jitter", "time_zone", "dst"]


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4) | JSON)
@examples(300)
def test_any_json_is_a_spec_or_refused(wire: Any) -> None:
    check(wire)


def check(wire: Any) -> None:
    """Refused by InvalidSpec, or a spec that survives the round trip and answers."""
    try:
        spec = spec_from_wire(wire)
        rule = compile_spec(spec)
    except InvalidSpec:
        return
    assert spec_from_wire(json.loads(canonical(spec))) == spec
    assert spec_from_wire(spec_to_wire(spec)) == spec
    following = rule.next(1_750_000_000)
    assert following is None or following > 1_750_000_000

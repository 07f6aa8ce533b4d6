"""The wire form: everything in, the same out, in one spelling."""

import base64
import json
import subprocess
import sys
from typing import Any

import pytest

from evertick.base.errors import InvalidSpec
from evertick.recurrence import compile_spec
from evertick.recurrence.wire.reading import canonical, schema, spec_from_wire, spec_to_wire
from evertick.recurrence.zones.names import zone_named
from tests.recurrence.asking import at, local

WHOLE: dict[str, Any] = {
    "crons": ["0 9 * * 1-5"],
    "intervals": [{"every": "90m", "offset": "15m"}],
    "calendars": [{"hour": "11", "minute": "3", "day_of_week": "Fri", "comment": "tea"}],
    "rrules": [{"dtstart": "1997-09-02T09:00:00", "rrule": "FREQ=DAILY;COUNT=10", "exdate": ["1997-09-03T09:00:00"]}],
    "times": ["2026-12-24T09:00:00+01:00"],
    "except": [
        {"calendar": {"day_of_month": "24-26", "month": "12"}},
        {"cron": "* * * * 0"},
        {"dates": ["2027-01-01"]},
        {"date_range": ["2026-08-01", "2026-08-31"]},
        {"holidays": {"country": "XX", "resolved": [["2026-07-04", "A Day"]], "source": "by hand"}},
    ],
    "start": "2026-01-01T00:00:00Z",
    "end": "2036-01-01T00:00:00Z",
    "jitter": "30s",
    "time_zone": "America/New_York",
    "dst": {"gap": "next", "overlap": "first"},
    "dialect": "temporal",
}


def test_a_whole_spec_survives_the_round_trip_word_for_word() -> None:
    spec = spec_from_wire(WHOLE)
    assert spec_to_wire(spec) == WHOLE
    assert spec_from_wire(json.loads(canonical(spec))) == spec
    assert compile_spec(spec).next(at("2026-06-01T00:00:00Z")) is not None


def test_what_is_null_or_left_out_says_nothing() -> None:
    spec = spec_from_wire({"crons": ["@daily"], "end": None, "dst": None, "time_zone_data": None, "jitter": None})
    assert spec_to_wire(spec) == {"crons": ["@daily"]}
    assert spec_to_wire(spec_from_wire({})) == {}


def test_canonical_is_the_same_for_every_spelling() -> None:
    ours = {"calendars": [{"day_of_week": "Fri", "hour": "11"}], "intervals": [{"every": "5h", "offset": "15m"}]}
    temporals = {"intervals": ["5h/15m"], "calendars": [{"hour": "11", "dayOfWeek": "Fri"}]}
    assert canonical(spec_from_wire(ours)) == canonical(spec_from_wire(temporals))
    assert canonical(spec_from_wire(ours)) != canonical(spec_from_wire({"crons": ["@daily"]}))


def test_structured_ranges_come_back_as_ranges() -> None:
    ranges = [{"start": 1, "end": 10, "step": 3}, {"start": 20}]
    spec = spec_from_wire({"calendars": [{"minute": ranges, "hour": [{"start": 9}]}]})
    assert spec_to_wire(spec)["calendars"] == [{"minute": ranges, "hour": [{"start": 9}]}]
    rule = compile_spec(spec)
    day = rule.between(at("2026-05-01T00:00:00Z"), at("2026-05-02T00:00:00Z"))
    assert [text[11:16] for text in local(rule, day)] == ["09:01", "09:04", "09:07", "09:10", "09:20"]


def test_zone_data_travels_inside_the_spec() -> None:
    data = base64.b64encode(zone_named("America/New_York").data).decode()
    spec = spec_from_wire({"crons": ["0 9 * * *"], "time_zone_data": data})
    rule = compile_spec(spec)
    assert local(rule, rule.preview(1, at("2026-07-01T00:00:00Z"))) == ["2026-07-01T09:00:00-04:00"]
    assert spec_to_wire(spec)["time_zone_data"] == data


def test_a_tzid_of_an_rrule_is_the_specs_zone() -> None:
    text = "DTSTART;TZID=America/New_York:19970902T090000\nRRULE:FREQ=DAILY;COUNT=10\nEXDATE:19970903T090000"
    spec = spec_from_wire({"rrules": [text]})
    assert spec.time_zone == "America/New_York"
    assert spec_from_wire(spec_to_wire(spec)) == spec
    with pytest.raises(InvalidSpec, match="contradicts"):
        spec_from_wire({"rrules": [text], "time_zone": "UTC"})


@pytest.mark.parametrize(
    ("wire", "where"),
    [
        ({"crons": ["0 9 * * *"], "zone": "UTC"}, "zone"),
        ({"calendars": [{"hours": "9"}]}, r"calendars\[0\].hours.*'hour'"),
        ({"intervals": [{"every": [1]}]}, r"intervals\[0\].every.* text or a whole number"),
        ({"except": [{"dates": ["2026-01-01"], "cron": "@daily"}]}, "exactly one"),
        ({"rrules": [{"rrule": "FREQ=DAILY"}]}, "dtstart"),
    ],
)
def test_a_mistake_is_named_with_its_place(wire: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidSpec, match=where):
        spec_from_wire(wire)


def test_crons_of_different_zones_are_refused() -> None:
    berlin, london = "CRON_TZ=Europe/Berlin 0 9 * * *", "CRON_TZ=Europe/London 0 9 * * *"
    assert compile_spec(spec_from_wire({"crons": [berlin]})).zone.name == "Europe/Berlin"
    with pytest.raises(InvalidSpec, match="different"):
        compile_spec(spec_from_wire({"crons": [berlin, london]}))
    with pytest.raises(InvalidSpec, match="contradicts"):
        compile_spec(spec_from_wire({"crons": [berlin], "time_zone": "UTC"}))


def test_the_schema_lists_every_key() -> None:
    assert set(schema()["properties"]) == {*WHOLE, "time_zone_data"}


def test_the_engine_is_imported_without_pydantic_or_the_rest_of_evertick() -> None:
    code = (
        "import sys, evertick.recurrence as r, evertick.recurrence.builders as v\n"
        "assert r.compile_spec(v.cron('0 9 * * *')).next(0) == 32400\n"
        "names = {n.split('.')[1] for n in sys.modules if n.startswith('evertick.')}\n"
        "assert names <= {'base', 'recurrence', '_version'}, names\n"
        "assert 'pydantic' not in sys.modules and 'zoneinfo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": "src", "PATH": ""})

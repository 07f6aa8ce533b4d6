"""Every vector: fire times that independent engines, standards and Temporal's own tests agree on.

Where engines disagree a vector has `recommend`, which is what this project promises.
"""

from typing import Any

import pytest

from evertick.base.errors import InvalidSpec
from evertick.recurrence import Recurrence, compile_spec, jitter_ms
from evertick.recurrence.english.describe import describe
from evertick.recurrence.wire.reading import spec_from_wire, spec_to_wire
from tests.recurrence.asking import at, cron, ids, local, recurrence, rrule, vectors

CRON, RRULE = vectors("cron"), vectors("rrule")
CALENDAR, INTERVAL, INVALID = vectors("calendar"), vectors("interval"), vectors("invalid")
TEMPORAL, DIALECT = vectors("temporal_spec"), vectors("temporal_dialect")


def check(found: Recurrence, vector: dict[str, Any]) -> None:
    """The next times are the expected ones, and when the rule is complete nothing follows them."""
    expected = [at(time) for time in vector.get("recommend", vector.get("expect", []))]
    ends = vector.get("complete") or not expected
    got = found.preview(len(expected) + bool(ends), at(vector["after"]))
    assert local(found, got) == local(found, expected)


@pytest.mark.parametrize("vector", CRON, ids=ids(CRON))
def test_cron_lines_fire_when_they_should(vector: dict[str, Any]) -> None:
    found = cron(vector["cron"], vector["tz"])
    check(found, vector)
    if vector.get("never"):
        assert found.is_empty()


@pytest.mark.parametrize("vector", RRULE, ids=ids(RRULE))
def test_rrules_fire_when_they_should(vector: dict[str, Any]) -> None:
    one = {"dtstart": vector["dtstart"], "rrule": vector["rrule"], "exdate": vector.get("exdate", [])}
    check(recurrence(rrules=[one], time_zone=vector["tz"]), vector)


@pytest.mark.parametrize("vector", CALENDAR, ids=ids(CALENDAR))
def test_calendars_fire_when_they_should(vector: dict[str, Any]) -> None:
    excluded = [{"calendar": calendar} for calendar in vector["exclude"]]
    check(recurrence(calendars=[vector["calendar"]], exclude=excluded, time_zone=vector["tz"]), vector)


@pytest.mark.parametrize("vector", INTERVAL, ids=ids(INTERVAL))
def test_intervals_fire_when_they_should(vector: dict[str, Any]) -> None:
    check(recurrence(intervals=[{"every": vector["interval"], "offset": vector["phase"]}]), vector)
    check(recurrence(intervals=[f"{vector['interval']}/{vector['phase']}"]), vector)


@pytest.mark.parametrize("vector", INVALID, ids=ids(INVALID))
def test_what_is_invalid_is_refused_with_a_message(vector: dict[str, Any]) -> None:
    text = vector["text"]
    with pytest.raises(InvalidSpec) as refused:
        match vector["kind"]:
            case "cron":
                cron(text)
            case "rrule":
                rrule(text)
            case "interval":
                recurrence(intervals=[text])
            case "tz":
                recurrence(time_zone=text, crons=["0 9 * * *"])
    assert len(str(refused.value)) > 15


def temporal(vector: dict[str, Any]) -> Recurrence:
    """The spec of one of Temporal's vectors, by Temporal's rules."""
    spec = vector["spec"]
    intervals = [
        {"every": f"{one['every_s']}s", "offset": f"{one['phase_s']}s" if "phase_s" in one else None}
        for one in spec.get("intervals", [])
    ]
    wire = {
        "crons": spec.get("crons", []),
        "intervals": intervals,
        "calendars": spec.get("calendars", []),
        "except": [{"calendar": calendar} for calendar in spec.get("exclude", [])],
        "start": spec.get("start"),
        "end": spec.get("end"),
        "jitter": spec.get("jitter_s"),
        "time_zone": spec.get("time_zone"),
        "dialect": "temporal",
    }
    return compile_spec(spec_from_wire(wire))


@pytest.mark.parametrize("vector", TEMPORAL, ids=ids(TEMPORAL))
def test_temporals_own_cases_hold_in_its_dialect(vector: dict[str, Any]) -> None:
    if "expect_error" in vector:
        if "limits" in vector:
            # Temporal gives up after so many excluded candidates; here "never" is found out, not tried out.
            assert temporal(vector).is_empty()
        else:
            with pytest.raises(InvalidSpec):
                temporal(vector)
        return
    found = temporal(vector)
    expected = [text_ms(time) for time in vector.get("expect", [])]
    until = at(vector["until"]) if "until" in vector else None
    ends = vector.get("expect_end") or vector.get("expect_none")
    got: list[int] = []
    after = at(vector["after"])
    while len(got) < len(expected) + bool(ends) and (nominal := found.next(after)) is not None:
        if until is not None and nominal > until:
            break
        seed = vector.get("jitter_seed", "")
        delay = jitter_ms(seed, nominal, found.following_nominal(nominal), found.spec.jitter_ms)
        got.append(nominal * 1000 + delay)
        after = got[-1] // 1000
    assert got == expected


@pytest.mark.parametrize("vector", DIALECT, ids=ids(DIALECT))
def test_temporals_dialect_accepts_its_forms_and_keeps_our_rules(vector: dict[str, Any]) -> None:
    """A vector with `theirs` says what Temporal does otherwise; its documentation, or no harm, is on our side."""
    wire = {**vector["spec"], "dialect": "temporal"}
    if "expect_error" in vector:
        with pytest.raises(InvalidSpec, match=vector["expect_error"]):
            spec_from_wire(wire)
        return
    spec = spec_from_wire(wire)
    check(compile_spec(spec), vector)
    assert spec.jitter_ms == vector.get("jitter_ms", 0)
    assert spec_from_wire(spec_to_wire(spec)) == spec
    describe(spec)


@pytest.mark.parametrize(
    "wire",
    [
        {"crons": ["0 9 * * *"], "time_zone": "EST"},
        {"crons": ["CRON_TZ= 0 9 * * *"]},
        {"crons": ["0 9 * * *"], "time_zone": ""},
        {"crons": ["@every .5h"]},
        {"intervals": ["90000000us"]},
        {"intervals": ["+5m"]},
        {"crons": ["*/20000 * * * *"]},
        {"intervals": ["1h"], "jitter": "1.0009s"},
    ],
)
def test_forms_that_only_temporal_accepts_are_refused_by_our_own_rules(wire: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        compile_spec(spec_from_wire(wire))


def text_ms(text: str) -> int:
    """An instant with up to three digits of a second, in milliseconds."""
    whole, point, fraction = text.removesuffix("Z").partition(".")
    return at(whole + "Z") * 1000 + (int(fraction.ljust(3, "0")) if point else 0)

"""Named holidays: looked up once, kept as plain days with their source."""

import builtins
import time
from collections.abc import Callable
from typing import Any

import pytest

from evertick.base import time_limit
from evertick.base.errors import InvalidSpec
from evertick.recurrence import Spec, compile_spec
from evertick.recurrence.builders import weekly
from evertick.recurrence.parse import holidays
from evertick.recurrence.spec import exclude
from evertick.recurrence.wire.reading import spec_from_wire, spec_to_wire
from tests.recurrence.asking import at, local


def test_each_monday_at_noon_except_for_holidays() -> None:
    spec = weekly(day_of_week="monday", hour=12, tz="America/New_York", exclude=holidays.resolve("US", "NY"))
    rule = compile_spec(spec)
    days = [text[5:10] for text in local(rule, rule.preview(4, at("2026-05-15T00:00:00Z")))]
    assert days == ["05-18", "06-01", "06-08", "06-15"]  # 25 May is Memorial Day


def test_named_holidays_are_resolved_when_a_spec_is_read_and_then_stay() -> None:
    spec = spec_from_wire({"crons": ["0 9 * * *"], "except": [{"holidays": {"country": "DE", "years": [2026, 2027]}}]})
    kept = spec.excludes[0]
    assert isinstance(kept, exclude.Holidays)
    assert kept.resolved is not None
    assert len(kept.resolved) == 18
    assert kept.source is not None
    assert kept.source.startswith("holidays ")
    assert spec_from_wire(spec_to_wire(spec)) == spec
    rule = compile_spec(spec)
    assert not rule.matches(at("2026-12-25T09:00:00Z"))
    assert rule.matches(at("2028-12-25T09:00:00Z"))  # outside the years that were looked up


@pytest.mark.parametrize("place", [("ZZ", None), ("US", "Nowhere"), ("", None), ("../..", None)])
def test_unknown_places_are_refused(place: tuple[str, str | None]) -> None:
    with pytest.raises(InvalidSpec):
        holidays.resolve(*place)
    with pytest.raises(InvalidSpec, match="years"):
        holidays.resolve("US", years=range(1, 9999))


def test_without_the_package_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "holidays":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidSpec, match=r"evertick\[holidays\]"):
        holidays.resolve("US")


def test_holidays_that_were_never_resolved_are_not_guessed() -> None:
    with pytest.raises(InvalidSpec, match="not resolved"):
        compile_spec(Spec(excludes=(exclude.Holidays(country="US"),)))


def test_loading_the_package_does_not_count_against_the_limit_of_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first import may take longer than a mutation may run."""
    real, passed_s = time_limit.function_time, 0.0

    def load(country: str) -> None:
        nonlocal passed_s
        passed_s += 7_200

    monkeypatch.setattr(time_limit, "function_time", lambda: real() + passed_s)
    monkeypatch.setattr(holidays, "_load", load)

    found = time_limit.TimeLimits().call(time_limit.Limit(3_600), holidays.resolve, "US")

    assert found.resolved
    with pytest.raises(time_limit.FunctionTimeout):  # what the function itself takes counts
        time_limit.TimeLimits().call(time_limit.Limit(3_600), lambda: _until_struck(lambda: load("US")))


def _until_struck(begin: Callable[[], None]) -> None:
    begin()
    for _ in range(6_000):
        time.sleep(0.01)

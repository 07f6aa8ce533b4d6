"""The rate of a tenant's starts: a generic cell rate algorithm."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.base.instants import Instant
from evertick.base.records.limits import StartLimit
from evertick.rules.jobs.start_limits import after_starts, next_start_at, starts_allowed

NOW = Instant(1_790_000_000_000)
MINUTE_MS = 60_000


def rate(per_minute: int, used_until_us: int = 0) -> StartLimit:
    """A limit of starts only."""
    return StartLimit(None, per_minute, used_until_us)


def test_without_a_limit_nothing_is_held_back() -> None:
    nothing = StartLimit(None, None, 0)

    assert starts_allowed(nothing, running=99, now=NOW) is None
    assert next_start_at(nothing, now=NOW) is None
    assert after_starts(nothing, 5, now=NOW) == 0


@pytest.mark.parametrize(("running", "allowed"), [(0, 3), (2, 1), (3, 0), (7, 0)])
def test_what_runs_takes_places(running: int, allowed: int) -> None:
    assert starts_allowed(StartLimit(3, None, 0), running=running, now=NOW) == allowed


def test_an_idle_tenant_starts_a_tenth_of_its_minute_at_once_and_then_evenly() -> None:
    assert starts_allowed(rate(60), running=0, now=NOW) == 6

    used = rate(60, after_starts(rate(60), 6, now=NOW))
    assert starts_allowed(used, running=0, now=NOW) == 0
    assert next_start_at(used, now=NOW) == NOW + 1_000
    assert starts_allowed(used, running=0, now=Instant(NOW + 999)) == 0
    assert starts_allowed(used, running=0, now=Instant(NOW + 1_000)) == 1


def test_a_rate_of_fewer_than_ten_a_minute_starts_one_at_a_time() -> None:
    once = rate(1, after_starts(rate(1), 1, now=NOW))

    assert starts_allowed(rate(1), running=0, now=NOW) == 1
    assert next_start_at(once, now=NOW) == NOW + MINUTE_MS


def test_the_smaller_of_both_limits_counts() -> None:
    assert starts_allowed(StartLimit(2, 60, 0), running=0, now=NOW) == 2
    assert starts_allowed(StartLimit(200, 60, 0), running=0, now=NOW) == 6


@pytest.mark.parametrize("ahead_ms", [90_000, 3_600_000, 86_400_000])
@pytest.mark.parametrize("per_minute", [1, 60, 6_000])
def test_a_clock_that_was_ahead_holds_nothing_back_when_it_is_set_right(per_minute: int, ahead_ms: int) -> None:
    """Real once: the moment that it had written went on before the present, and nothing started for as long again."""
    now, limit, starts = NOW, rate(per_minute, (NOW + ahead_ms) * 1_000), 0
    while now < NOW + MINUTE_MS:
        allowed = starts_allowed(limit, running=0, now=now)
        assert allowed
        limit, starts = rate(per_minute, after_starts(limit, allowed, now=now)), starts + allowed
        now = next_start_at(limit, now=now) or Instant(now + 1)

    assert per_minute <= starts <= per_minute + 1


@given(
    per_minute=st.integers(1, 5_000),
    waits=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 200)), max_size=60),
)
def test_no_minute_has_more_starts_than_the_rate_and_a_tenth(per_minute: int, waits: list[tuple[int, int]]) -> None:
    now, limit, starts = NOW, rate(per_minute), []
    for wait, wanted in waits:
        now = Instant(now + wait)
        count = min(wanted, starts_allowed(limit, running=0, now=now) or 0)
        limit = rate(per_minute, after_starts(limit, count, now=now)) if count else limit
        starts += [now] * count

    for i, start in enumerate(starts):
        within = bisect_left(starts, start + MINUTE_MS) - i
        assert within <= per_minute + max(1, per_minute // 10) + 1


@given(per_minute=st.integers(1, 100_000), used=st.integers(-200_000, 6_000))
def test_when_the_rate_says_that_the_next_may_start_it_may(per_minute: int, used: int) -> None:
    limit = rate(per_minute, (NOW + used) * 1_000)
    at = next_start_at(limit, now=NOW)

    if at is None:
        assert starts_allowed(limit, running=0, now=NOW)
    else:
        assert at > NOW
        assert starts_allowed(limit, running=0, now=NOW) == 0
        assert starts_allowed(limit, running=0, now=at)

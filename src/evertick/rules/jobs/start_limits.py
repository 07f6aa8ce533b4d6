"""The number of jobs that a tenant or a pool with a limit may start now, and when the next one may start.

The rate is a *generic cell rate algorithm* (ITU-T I.371): each start uses `60 s / starts_per_minute`, one after the
other. The time up to which the rate has been used may be a tenth of a minute ahead of the present. So one that was
idle may start a tenth of its minute at once, and from then on starts are evenly spread.
"""

from typing import Final

from evertick.base.instants import Instant
from evertick.base.records.limits import StartLimit

MINUTE_US: Final = 60_000_000
AHEAD_US: Final = MINUTE_US // 10
"""How far ahead of the present the rate may be used."""
CLOCKS_DIFFER_US: Final = 1_000_000
"""The maximum assumed difference between clocks of workers."""


def starts_allowed(limit: StartLimit, *, running: int, now: Instant) -> int | None:
    """The number of jobs that may start. None if there is no limit."""
    allowed = [] if limit.running is None else [max(0, limit.running - running)]
    if limit.per_minute is not None:
        each = _each(limit.per_minute)
        ahead = max(AHEAD_US, each)  # at least one start, if a minute has fewer than ten
        allowed.append(max(0, (now * 1_000 + ahead - _used_until(limit, now)) // each))
    return min(allowed, default=None)


def after_starts(limit: StartLimit, count: int, *, now: Instant) -> int:
    """The time up to which the rate is used after this many starts, in microseconds since the epoch."""
    if limit.per_minute is None:
        return limit.used_until_us
    return _used_until(limit, now) + count * _each(limit.per_minute)


def next_start_at(limit: StartLimit, *, now: Instant) -> Instant | None:
    """When the rate allows the next job to start. None if it does now, or if there is no rate."""
    if limit.per_minute is None:
        return None
    each = _each(limit.per_minute)
    at = -(-(_used_until(limit, now) + each - max(AHEAD_US, each)) // 1_000)
    return Instant(at) if at > now else None


def _each(per_minute: int) -> int:
    """Microseconds that one start uses."""
    return max(1, MINUTE_US // per_minute)


def _used_until(limit: StartLimit, now: Instant) -> int:
    """The time up to which the rate is used, at least `now`. Starts alone cannot bring it beyond `ahead`.

    Beyond that, a clock was ahead or the rate was lower: one job may start now, which corrects it, others at the rate.
    """
    assert limit.per_minute is not None  # noqa: S101
    each = _each(limit.per_minute)
    ahead = max(AHEAD_US, each)
    if limit.used_until_us > now * 1_000 + ahead + CLOCKS_DIFFER_US:
        return now * 1_000 + ahead - each
    return max(limit.used_until_us, now * 1_000)

"""A second opinion on clock changes: slow, by definition, on the standard library's zoneinfo.

For every local time a rule names it asks which instants really show that time, and what the policy makes of none or
of two. It shares no code with the engine: not the zones, not the calendar, not the search.
"""

import io
import zoneinfo
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAIVE_EPOCH = datetime(1970, 1, 1)


def zone_data(name: str) -> bytes:
    """The file of a zone in the `tzdata` package, which the engine prefers to the system's."""
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


@cache
def zone(name: str) -> zoneinfo.ZoneInfo:
    """The zone as the standard library reads the `tzdata` package."""
    return zoneinfo.ZoneInfo.from_file(io.BytesIO(zone_data(name)), key=name)


def instant(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(seconds=1)


def offset_at(zone: zoneinfo.ZoneInfo, at: int) -> int:
    found = (EPOCH + timedelta(seconds=at)).astimezone(zone).utcoffset()
    assert found is not None
    return found // timedelta(seconds=1)


def transitions(zone: zoneinfo.ZoneInfo, begin: int, end: int) -> list[int]:
    """The instants in [begin, end) at which the offset changes, found by looking every six hours."""
    found, step = [], 6 * 3600
    before = offset_at(zone, begin)
    for at in range(begin, end, step):
        after = offset_at(zone, at + step)
        if after != before:
            found.append(first_with_other_offset(zone, at, at + step))
            before = after
    return found


def first_with_other_offset(zone: zoneinfo.ZoneInfo, low: int, high: int) -> int:
    """The instant in (low, high] at which the offset changes once."""
    before = offset_at(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


def firings(local: int, zone: zoneinfo.ZoneInfo, gap: str, overlap: str) -> set[int]:
    """What one local time (seconds on the wall clock) becomes."""
    naive = NAIVE_EPOCH + timedelta(seconds=local)
    earlier = instant(naive.replace(tzinfo=zone, fold=0).astimezone(UTC))
    later = instant(naive.replace(tzinfo=zone, fold=1).astimezone(UTC))
    real = {at for at in (earlier, later) if at + offset_at(zone, at) == local}
    if not real:
        # In a gap fold=0 uses the offset before it and fold=1 the one after: they straddle the change.
        if gap == "skip":
            return set()
        return {earlier} if gap == "shift" else {first_with_other_offset(zone, later, earlier)}
    return {"first": {min(real)}, "last": {max(real)}, "both": real}[overlap]


def expected(
    times_of_day: Iterable[int], zone: zoneinfo.ZoneInfo, begin: int, end: int, gap: str, overlap: str
) -> list[int]:
    """All firings in [begin, end) of a rule that names these times on every day."""
    found: set[int] = set()
    times = list(times_of_day)
    for day in range(begin // 86_400 - 2, end // 86_400 + 3):
        for time in times:
            found |= firings(day * 86_400 + time, zone, gap, overlap)
    return sorted(at for at in found if begin <= at < end)

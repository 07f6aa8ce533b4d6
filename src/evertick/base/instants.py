"""Instants and durations: integers of milliseconds, UTC. Evertick uses no other times internally.

`datetime` and `timedelta` appear only in the public API; the functions here convert them.
"""

import math
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NewType

from evertick.base.errors import InvalidDelay

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

Instant = NewType("Instant", int)
"""A point in time: milliseconds since 1970-01-01T00:00:00Z. Names end in `_at`; the current one is `now`."""

LONG_AGO: Final = Instant(0)
"""Before everything that can be due."""
NEVER: Final = Instant(253_402_300_799_000)
"""The due time of a run that only an event can wake: the last second of the year 9999."""
MILLISECOND: Final = timedelta(milliseconds=1)
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

HORIZON_MS: Final = 5 * 366 * DAY_MS
"""The largest distance of a job's time from now, in the past or the future: five years."""

DURATION_MAX_S: Final = 86_399_999_999_999
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def span_begin(at: int, span_ms: int) -> Instant:
    """The start of the span (for example the minute) that contains `at`. Spans of `span_ms` count from the epoch."""
    return Instant(at // span_ms * span_ms)


def to_datetime(instant: Instant) -> datetime:
    """The instant as an aware `datetime` in UTC; the first or last instant of the calendar if it is beyond that."""
    try:
        return _EPOCH + timedelta(milliseconds=instant)
    except OverflowError:  # 31 December 9999 in the evening in New York, or a damaged row
        return datetime.max.replace(tzinfo=UTC) if instant > 0 else datetime.min.replace(tzinfo=UTC)


def to_zone(moment: datetime, zone: tzinfo | None = None) -> datetime:
    """An aware datetime in another zone, by default this machine's; unchanged if its year would be out of range."""
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):  # also if the C library does not know the local zone for that year
        return moment


def to_datetime_or_none(instant: Instant | None) -> datetime | None:
    """As `to_datetime`; None for None."""
    return None if instant is None else to_datetime(instant)


def to_iso(instant: Instant) -> str:
    """The instant in RFC 3339: `2026-03-29T00:55:00Z`, with milliseconds only where there are any."""
    moment = to_datetime(instant)
    return moment.isoformat(timespec="milliseconds" if instant % 1000 else "seconds").replace("+00:00", "Z")


def from_datetime(moment: datetime, name: str = "a time") -> Instant:
    """An aware `datetime` as an instant (rounded down to the millisecond).

    `name` is the parameter that the message mentions.
    Raises InvalidDelay if `moment` is not a datetime or has no time zone.
    """
    if not isinstance(moment, datetime):
        raise not_aware(name, moment)
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidDelay(
            f"{moment.isoformat(sep=' ')} has no time zone; "
            'write datetime(..., tzinfo=ZoneInfo("Europe/Berlin")) or datetime(..., tzinfo=UTC)'
        )
    return Instant((in_packaged_zone(moment) - _EPOCH) // _MILLISECOND)


def in_packaged_zone(moment: datetime) -> datetime:
    """The same wall clock time in the zone of the package `tzdata`, which crons and RRULEs use.

    `ZoneInfo` reads the operating system's data first, which may be older. Then one local time would be two instants.
    """
    key = getattr(moment.tzinfo, "key", None)
    if not isinstance(key, str) or type(moment.tzinfo).__module__.partition(".")[0] != "zoneinfo":
        return moment
    zone = _packaged_zone(key)
    return moment if zone is None else moment.replace(tzinfo=zone)


def to_local(instant: Instant) -> datetime:
    """The instant in this machine's time zone; by the data of the package `tzdata` if that zone has a name."""
    name = os.environ.get("TZ")
    if name is None:
        name = os.path.realpath("/etc/localtime").rpartition("zoneinfo/")[2]
    return to_zone(to_datetime(instant), _packaged_zone(name.removeprefix(":")) if name else None)


def warn_of_gaps(moments: Iterable[datetime]) -> None:
    """Log a warning for each local time that its zone skips; it is read as if the clocks had not changed."""
    import logging  # keeps the import of modules that only register functions fast

    for moment in moments:
        plain = in_packaged_zone(moment)
        shown = plain.astimezone(UTC).astimezone(plain.tzinfo)
        if shown.replace(tzinfo=None, fold=0) != plain.replace(tzinfo=None, fold=0):
            logging.getLogger("evertick.schedules").warning(
                "%s does not exist in %s, where the clocks go forward then; it is taken as %s",
                f"{plain:%Y-%m-%d %H:%M:%S}", plain.tzinfo, f"{shown:%H:%M:%S}",
            )  # fmt: skip


@lru_cache(maxsize=128)
def _packaged_zone(key: str) -> "ZoneInfo | None":
    """A zone of the package `tzdata`; None for an unknown name."""
    from importlib import resources  # slow to import, as is zoneinfo; UTC needs neither
    from zoneinfo import ZoneInfo

    try:
        with resources.files("tzdata").joinpath("zoneinfo", *key.split("/")).open("rb") as file:
            return ZoneInfo.from_file(file, key=key)
    except (ModuleNotFoundError, OSError, ValueError):
        return None


def not_aware(name: str, value: object, or_else: str = "") -> InvalidDelay:
    """The error for a parameter that takes an aware datetime (or `or_else`) and got something else."""
    read = '; datetime.fromisoformat("2026-01-01T09:00:00Z") reads one' if isinstance(value, str) else ""
    return InvalidDelay(f"{name} takes an aware datetime{or_else}, not {type(value).__name__}{read}")


def duration_ms(value: float | timedelta, *, name: str) -> int:
    """A duration in seconds or a `timedelta` as whole milliseconds (rounded half to even).

    `name` is the parameter that the message mentions.
    Raises InvalidDelay if it is negative, not finite, or neither a number nor a `timedelta`.
    """
    if isinstance(value, timedelta):
        milliseconds = value // _MILLISECOND
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidDelay(f"{name} must be seconds (a number) or a timedelta, not {type(value).__name__}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidDelay(f"{name} must be a finite number of seconds, not {value}")
    elif value > DURATION_MAX_S:
        raise InvalidDelay(f"{name} must be at most {DURATION_MAX_S} seconds, the longest that a timedelta can be")
    elif value < 0:
        raise InvalidDelay(f"{name} must not be negative, got {max(value, -DURATION_MAX_S)}")
    else:
        milliseconds = round(value * 1000)
    if milliseconds < 0 or (not isinstance(value, timedelta) and value < 0):  # a tiny negative number rounds to 0
        raise InvalidDelay(f"{name} must not be negative, got {value}")
    return milliseconds

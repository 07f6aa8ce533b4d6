"""Intervals: `every` seconds, shifted by an offset, counted from an anchor. Temporal's `5h/15m`.

The anchor is the Unix epoch unless told otherwise, so `7d` falls on Thursdays; say `anchor` to choose.
"""

from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.parse.duration import parse_duration, parse_nanoseconds
from evertick.recurrence.spec.quoting import shown
from evertick.recurrence.spec.sources import Interval
from evertick.recurrence.spec.text import bounded

EVERY_MIN: Final = 1
ANCHOR_START: Final = "start"


def parse_interval(text: str, *, temporal: bool = False) -> Interval:
    """Read `5h/15m`: a duration, and after a slash the offset. Raises InvalidSpec.

    >>> parse_interval("5h/15m").offset
    900
    """
    bounded(text, "an interval", 128)
    every, slash, offset = text.partition("/")
    return make_interval(every, offset if slash else None, temporal=temporal)


def make_interval(
    every: str, offset: str | None = None, *, anchor: int | str | None = None, temporal: bool = False
) -> Interval:
    """Build an interval from its written parts. Raises InvalidSpec.

    `temporal` reads durations as Temporal does; fractions of a second are compared, then dropped.
    """
    if temporal:
        every_ns = parse_nanoseconds(every, temporal=True)
        offset_ns = parse_nanoseconds(offset, temporal=True) if offset is not None else 0
        if offset_ns >= every_ns > 0:
            raise InvalidSpec(_offset_message(f"{every}/{offset}"))
        every_s, offset_s = every_ns // 1_000_000_000, offset_ns // 1_000_000_000
    else:
        every_s = parse_duration(every)
        offset_s = parse_duration(offset) if offset is not None else 0
    check_interval(every_s, offset_s, f"{every}/{offset}" if offset is not None else every)
    return Interval(every=every_s, offset=offset_s, anchor=anchor, every_text=every, offset_text=offset)


def check_interval(every: int, offset: int, text: str) -> None:
    """Raise InvalidSpec unless the interval is at least a second and the offset within it."""
    if every < EVERY_MIN:
        raise InvalidSpec(f"the interval {shown(text)} is shorter than one second")
    if not 0 <= offset < every:
        raise InvalidSpec(_offset_message(text))


def _offset_message(text: str) -> str:
    return f"the offset of the interval {shown(text)} must be at least 0 and less than the interval itself"

"""Intervals: `every` seconds, shifted by an offset, counted from an anchor. Temporal's `5h/15m`.

The anchor is the Unix epoch unless told otherwise, so `7d` falls on Thursdays; say `anchor` to choose.
"""

from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.rules.recurrence.duration import parse_duration, parse_microseconds
from evertick.rules.recurrence.source import Interval
from evertick.rules.recurrence.text import bounded, shown

EVERY_MIN: Final = 1
ANCHOR_START: Final = "start"


def parse_interval(text: str, *, cut_fractions: bool = False) -> Interval:
    """Read `5h/15m`: a duration, and after a slash the offset. Raises InvalidSpec.

    >>> parse_interval("5h/15m").offset
    900
    """
    bounded(text, "an interval", 128)
    every, slash, offset = text.partition("/")
    return make_interval(every, offset if slash else None, cut_fractions=cut_fractions)


def make_interval(
    every: str, offset: str | None = None, *, anchor: int | str | None = None, cut_fractions: bool = False
) -> Interval:
    """Build an interval from its written parts. Raises InvalidSpec.

    `cut_fractions` is Temporal's way with fractions of a second: they are compared, then dropped.
    """
    if cut_fractions:
        every_us = parse_microseconds(every)
        offset_us = parse_microseconds(offset) if offset is not None else 0
        if offset_us >= every_us > 0:
            raise InvalidSpec(_offset_message(f"{every}/{offset}"))
        every_s, offset_s = every_us // 1_000_000, offset_us // 1_000_000
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

"""From the wall clock to instants and back, for date-times as they are written.

RFC 5545 (3.3.5) says what a written local time means: one that is skipped is read with the offset before the
gap, one that is repeated is its first occurrence.
"""

from bisect import bisect_right

from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.spec.sources import Moment, MomentKind
from evertick.recurrence.zones.zones import Zone


def instant_of(zone: Zone, local: int) -> int:
    """The instant of a local time: the first of two, or shifted by the gap if there is none."""
    starts, offsets, *_ = zone.covering(local + 2 * DAY)
    segment = max(0, bisect_right(starts, local - 2 * DAY) - 1)
    while segment + 1 < len(offsets) and local - offsets[segment] >= starts[segment + 1]:
        segment += 1
    instant = local - offsets[segment]
    return local - offsets[segment - 1] if instant < starts[segment] else instant


def local_of(zone: Zone, instant: int) -> int:
    """The local time at an instant."""
    return instant + zone.offset_at(instant)


def moment_instant(zone: Zone, moment: Moment) -> int:
    """The instant a written moment means in a zone; a date alone is its midnight."""
    if moment.kind is MomentKind.INSTANT:
        return moment.value
    return instant_of(zone, moment.value * DAY if moment.kind is MomentKind.DATE else moment.value)

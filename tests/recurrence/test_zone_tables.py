"""Every zone of the `tzdata` package against the standard library reading the same files, from 1900 to 2110.

Compared just before, at and just after each transition that the file lists or the engine's table has, and every five
weeks; with EVERTICK_TEST_DEPTH=full every week.
"""

import struct
from datetime import timedelta
from itertools import pairwise

import pytest

from evertick.recurrence.zones.names import zone_names
from evertick.recurrence.zones.zones import Zone
from tests.recurrence import brute
from tests.recurrence.asking import at
from tests.sampling import FULL_DEPTH

PARTS = 4
BEGIN, END = at("1900-01-01T00:00:00Z"), at("2110-01-01T00:00:00Z")
REGULARLY = range(BEGIN, END, (1 if FULL_DEPTH else 5) * 7 * 86_400)
DISTINCT = sorted({brute.zone_data(name): name for name in zone_names()}.items(), key=lambda one: one[1])


def listed(data: bytes) -> tuple[int, ...]:
    """The transitions that a TZif file lists (RFC 8536), those that leave the offset unchanged among them."""
    isut, isstd, leaps, times, types, chars = struct.unpack_from(">6I", data, 20)
    second = 44 + times * 5 + types * 6 + chars + leaps * 8 + isstd + isut
    (times,) = struct.unpack_from(">I", data, second + 32)
    return struct.unpack_from(f">{times}q", data, second + 44)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_every_zone_has_the_offsets_of_the_standard_library(part: int) -> None:
    moments = [(instant, brute.EPOCH + timedelta(seconds=instant)) for instant in REGULARLY]
    for data, name in DISTINCT[part::PARTS]:
        ours, theirs = Zone(name, data), brute.zone(name)
        table = ours.covering(END)
        for instant, moment in moments:
            assert timedelta(seconds=ours.offset_at(instant)) == moment.astimezone(theirs).utcoffset(), (name, instant)
        for change in {*listed(data), *table.starts[1:-1]}:
            for instant in range(max(change - 1, BEGIN), min(change + 2, END)):
                assert ours.offset_at(instant) == brute.offset_at(theirs, instant), (name, instant)
        assert all(before != after for before, after in pairwise(table.offsets)), name

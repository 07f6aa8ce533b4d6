"""TZif files (RFC 8536): transitions, offsets, and the POSIX footer that says what follows them."""

import re
import struct
from typing import Final, NamedTuple

from evertick.base.errors import InvalidSpec
from evertick.recurrence.spec.civil import DAY, day_number, is_leap, jan1, month_length, weekday_of
from evertick.recurrence.spec.text import shown

FOREVER: Final = 1 << 62
"""Later than any instant; its negative is earlier than any."""
DATA_MAX: Final = 128 * 1024
"""Largest TZif data of one zone."""

UTC: Final = (
    b"TZif2" + bytes(15) + struct.pack(">6I", 1, 1, 0, 0, 1, 4) + struct.pack(">i2x", 0) + b"UTC\0\0\0"
    b"TZif2" + bytes(15) + struct.pack(">6I", 1, 1, 0, 0, 1, 4) + struct.pack(">i2x", 0) + b"UTC\0\0\0"
    b"\nUTC0\n"
)  # fmt: skip


class Listed(NamedTuple):
    """What a TZif file says.

    `offsets[i]` holds from `starts[i]`, the first of which is before everything. The footer holds from `last`, the last
    transition in the file. A transition that changes only the name of the zone's time has no start, so `last` can be
    later than all of them.
    """

    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    last: int
    footer: "Footer | None"


def read_tzif(data: bytes, name: str) -> Listed:
    """Read a TZif file of version 2 or later. Raises InvalidSpec."""
    try:
        version, counts = _header(data, 0)
        if version < b"2":
            raise InvalidSpec(f"time zone {shown(name)}: its data is TZif version 1; version 2 or later is needed")
        isut, isstd, leaps, times, types, chars = counts
        second = 44 + times * 5 + types * 6 + chars + leaps * 8 + isstd + isut
        _, (isut, isstd, leaps, times, types, chars) = _header(data, second)
        at = second + 44
        transitions = struct.unpack_from(f">{times}q", data, at)
        indexes = data[at + times * 8 : at + times * 9]
        at += times * 9
        kinds = [struct.unpack_from(">i", data, at + n * 6)[0] for n in range(types)]
        at += types * 6 + chars + leaps * 12 + isstd + isut
        ends = data.index(b"\n", at + 1)
        footer = data[at + 1 : ends].decode("ascii")
        starts, offsets, last = [-FOREVER], [kinds[0]], -FOREVER
        for transition, index in zip(transitions, indexes, strict=True):
            if not last < transition < FOREVER or abs(kinds[index]) > 26 * 3600:
                raise ValueError
            last = transition
            if kinds[index] != offsets[-1]:
                starts.append(transition)
                offsets.append(kinds[index])
    except (struct.error, IndexError, ValueError):
        raise InvalidSpec(f"time zone {shown(name)}: its data is not a valid TZif file") from None
    return Listed(tuple(starts), tuple(offsets), last, Footer.parse(footer, name) if footer else None)


def _header(data: bytes, at: int) -> tuple[bytes, tuple[int, int, int, int, int, int]]:
    magic, version, isut, isstd, leaps, times, types, chars = struct.unpack_from(">4sc15x6I", data, at)
    if magic != b"TZif" or not types or max(isut, isstd, leaps, times, types, chars) > DATA_MAX:
        raise ValueError
    return version, (isut, isstd, leaps, times, types, chars)


_POSIX_NAME: Final = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_POSIX_TIME: Final = r"[+-]?[0-9]{1,3}(?::[0-9]{2}){0,2}"
_POSIX_RULE: Final = rf"(?:M[0-9]{{1,2}}\.[1-5]\.[0-6]|J[0-9]{{1,3}}|[0-9]{{1,3}})(?:/{_POSIX_TIME})?"
_POSIX: Final = re.compile(
    rf"{_POSIX_NAME}({_POSIX_TIME})(?:{_POSIX_NAME}({_POSIX_TIME})?(?:,({_POSIX_RULE}),({_POSIX_RULE}))?)?"
)


class Footer:
    """The POSIX TZ string at the end of a TZif file: what holds after its last transition."""

    __slots__ = ("dst", "dst_end", "dst_start", "std")

    def __init__(self, std: int, dst: int, dst_start: str | None, dst_end: str | None) -> None:
        self.std, self.dst, self.dst_start, self.dst_end = std, dst, dst_start, dst_end

    @classmethod
    def parse(cls, text: str, name: str) -> "Footer":
        found = _POSIX.fullmatch(text)
        if found is None:
            raise InvalidSpec(f"time zone {shown(name)}: its footer {shown(text)} is not understood")
        std = -_posix_seconds(found[1])
        dst = -_posix_seconds(found[2]) if found[2] else std + 3600
        return cls(std, dst, found[3], found[4])

    def transitions(self, first_year: int, last_year: int) -> list[tuple[int, int]]:
        """(instant, offset from then on) for every year asked for, in order."""
        found = []
        for year in range(first_year, last_year + 1):
            if self.dst_start is not None and self.dst_end is not None:
                found.append((_posix_instant(self.dst_start, year) - self.std, self.dst))
                found.append((_posix_instant(self.dst_end, year) - self.dst, self.std))
        found.sort()
        return found


def _posix_seconds(text: str) -> int:
    negative = text.startswith("-")
    hours, minutes, seconds = ([int(part) for part in text.lstrip("+-").split(":")] + [0, 0])[:3]
    total = hours * 3600 + minutes * 60 + seconds
    return -total if negative else total


def _posix_instant(rule: str, year: int) -> int:
    """The local time, in that year, that a rule such as `M3.2.0/2` names."""
    date, slash, time = rule.partition("/")
    second = _posix_seconds(time) if slash else 7200
    if date[0] == "M":
        month, week, weekday = (int(part) for part in date[1:].split("."))
        first = day_number(year, month, 1)
        day = first + (weekday - weekday_of(first)) % 7 + 7 * (week - 1)
        if day >= first + month_length(year, month):
            day -= 7
    elif date[0] == "J":  # 1 to 365, 29 February never counted
        number = int(date[1:])
        day = jan1(year) + number - 1 + (is_leap(year) and number > 59)
    else:
        day = jan1(year) + int(date)
    return day * DAY + second

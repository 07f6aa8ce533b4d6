"""Time zones: the offset from UTC at any instant.

A `Zone` has a table of transitions and offsets. Transitions after those in its TZif data follow from the footer and
are computed when they are needed. `names` loads the zones.

The functions at the end convert between local times and instants, by RFC 5545 (3.3.5): a skipped local time is read
with the offset before the gap, a repeated one means its first occurrence.
"""

import re
import struct
from bisect import bisect_left, bisect_right
from typing import Final, Literal, NamedTuple

from evertick.base.errors import InvalidSpec
from evertick.recurrence.spec.civil import (
    CYCLE_YEARS,
    DAY,
    SECOND_MAX,
    YEAR_MAX,
    day_number,
    is_leap,
    jan1,
    month_length,
    weekday_of,
    year_of,
)
from evertick.recurrence.spec.sources import Moment, MomentKind, shown

# -- TZif files (RFC 8536): transitions, offsets, and the POSIX footer with the rules for later transitions.

FOREVER: Final = 1 << 62
"""Later than any instant; its negative is earlier than any."""
DATA_MAX: Final = 128 * 1024
"""The size limit of the TZif data of one zone."""

UTC: Final = (
    b"TZif2" + bytes(15) + struct.pack(">6I", 1, 1, 0, 0, 1, 4) + struct.pack(">i2x", 0) + b"UTC\0\0\0"
    b"TZif2" + bytes(15) + struct.pack(">6I", 1, 1, 0, 0, 1, 4) + struct.pack(">i2x", 0) + b"UTC\0\0\0"
    b"\nUTC0\n"
)  # fmt: skip


class TzifData(NamedTuple):
    """The content of a TZif file.

    `offsets[i]` is valid from `starts[i]`; the first start is before everything. The footer is valid from `last`, the
    last transition in the file. A transition that changes only the name of the zone's time has no start, so `last` can
    be later than all of them.
    """

    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    last: int
    footer: "Footer | None"


def read_tzif(data: bytes, name: str) -> TzifData:
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
    return TzifData(tuple(starts), tuple(offsets), last, Footer.parse(footer, name) if footer else None)


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
    """The POSIX TZ string at the end of a TZif file: the rules after its last transition."""

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
        """(instant, offset from then on) for the given years, in order."""
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
    """The local time of a rule such as `M3.2.0/2` in a year."""
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


_COVERED_AT_FIRST: Final = 2100
_CYCLE: Final = 146_097 * DAY
_FAR: Final = 2 * DAY
"""More than the largest difference between local time and UTC."""

Edge = Literal["first", "last", "after"]
"""The second that a date alone means: its first one, its last one, or the first one after it."""
_CHANGE_MAX: Final = 3 * 3600
"""More than clocks are ever set back, except where the date line moved."""

Stretch = tuple[int, int, int]
"""Begin and end of a part of a local year, in seconds since 00:00 UTC of its 1 January, and the offset."""


class Table(NamedTuple):
    """Offsets from UTC in seconds, and the instants from which they are valid.

    `offsets[i]` is valid from `starts[i]` until just before `starts[i + 1]`; that is a segment. The first start is
    before everything; the last one is the end of the table. From `settled[i]` on, no local time of the segment has
    occurred in, or been moved by, an earlier one. Up to `unsettled[i]` none recurs. `ends[i]` is `starts[i + 1]`.
    """

    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    settled: tuple[int, ...]
    unsettled: tuple[int, ...]
    ends: tuple[int, ...]


class Zone:
    """One time zone. Its table is extended when needed, see `covering`."""

    __slots__ = ("_listed", "_years", "data", "name", "settled", "table")

    settled: int
    """From this year on the zone repeats every 400 years."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.data = data
        self._listed = read_tzif(data, name)
        self.table = _filled(self._listed, _COVERED_AT_FIRST)
        last = max(self._listed.last, 0)
        self.settled = min(year_of(last // DAY) + 2, YEAR_MAX) if last < SECOND_MAX else YEAR_MAX
        self._years: dict[int, tuple[Stretch, ...]] = {}

    @property
    def digest(self) -> str:
        """A fingerprint of the zone's rules: store it with computed times, recompute them when it changes."""
        import hashlib  # slow to import, and only needed by schedulers that store times

        return hashlib.sha256(self.data).hexdigest()[:16]

    def covering(self, instant: int) -> Table:
        """The table, extended to at least two years after `instant`."""
        table = self.table
        if instant + 800 * DAY >= table.starts[-1]:
            # At most twice: up to a whole cycle, which is computed, and then to the end, which consists of copies of
            # it.
            cycle = year_of(max(self._listed.last, 0) // DAY) + CYCLE_YEARS + 2
            year = cycle if instant + 1600 * DAY < jan1(min(cycle, YEAR_MAX)) * DAY else YEAR_MAX + 2
            table = self.table = _filled(self._listed, year)
        return table

    def stretches(self, year: int) -> tuple[Stretch, ...]:
        """The parts of a local year with a constant offset, in order."""
        if year > self.settled:
            year = self.settled + (year - self.settled) % CYCLE_YEARS
        found = self._years.get(year)
        if found is None:
            begin, end = jan1(year) * DAY, jan1(year + 1) * DAY
            starts, offsets, *_ = self.covering(end)
            parts = []
            for at in range(bisect_right(starts, begin - _FAR) - 1, bisect_right(starts, end + _FAR)):
                low, high = max(starts[at], begin - offsets[at]), min(starts[at + 1], end - offsets[at])
                if low < high:
                    parts.append((low - begin, high - begin, offsets[at]))
            found = self._years[year] = tuple(parts)
        return found

    def offsets_from(self, instant: int) -> frozenset[int]:
        """Every offset that is valid at the instant or later."""
        repeating = max(instant, jan1(self.settled) * DAY)
        starts, offsets, *_ = self.covering(repeating)
        return frozenset(offsets[bisect_right(starts, instant) - 1 : bisect_right(starts, repeating + 800 * DAY)])

    def offset_at(self, instant: int) -> int:
        """Seconds east of UTC at that instant."""
        table = self.covering(instant)
        return table.offsets[bisect_right(table.starts, instant) - 1]


# --- tables -------------------------------------------------------------------------------------------------


def _filled(listed: TzifData, year: int) -> Table:
    """The table with the footer's transitions up to the end of `year`, which is its last start."""
    starts, offsets, last, footer = listed
    if footer is not None and footer.dst_start is None and footer.std != offsets[-1]:
        raise InvalidSpec("time zone data: its footer contradicts its last transition")
    if footer is None or footer.dst_start is None:
        return _table([*starts, FOREVER], list(offsets))
    begun, held = list(starts), list(offsets)
    first_year = 1970 if last == -FOREVER else year_of(last // DAY)
    # A footer repeats every 400 years: later transitions are copies of one such cycle.
    for at, offset in footer.transitions(first_year, min(year, first_year + CYCLE_YEARS + 2)):
        if at > last and offset != held[-1]:
            begun.append(at)
            held.append(offset)
    # Nothing is needed after the last year of a spec.
    end = FOREVER if year > YEAR_MAX + 1 else jan1(year + 1) * DAY
    table = _table([*begun, end], held)
    return _copied(table, first_year, year, end) if year > first_year + CYCLE_YEARS + 2 else table


def _copied(table: Table, first_year: int, year: int, end: int) -> Table:
    """The table with its first full cycle of 400 years repeated up to `year`."""
    low = bisect_left(table.starts, jan1(first_year + 1) * DAY)
    high = bisect_left(table.starts, jan1(first_year + 1 + CYCLE_YEARS) * DAY)
    shifts = [n * _CYCLE for n in range((year - first_year) // CYCLE_YEARS + 1)]
    starts = [*table.starts[:low], *(at + shift for shift in shifts for at in table.starts[low:high])]
    kept = bisect_left(starts, jan1(year + 1) * DAY)
    settled = [*table.settled[:low], *(at + shift for shift in shifts for at in table.settled[low:high])]
    unsettled = [*table.unsettled[:low], *(at + shift for shift in shifts for at in table.unsettled[low:high])]
    offsets = [*table.offsets[:low], *(table.offsets[low:high] * len(shifts))]
    begins = (*starts[:kept], end)
    return Table(begins, tuple(offsets[:kept]), tuple(settled[:kept]), tuple(unsettled[:kept]), begins[1:])


def _table(starts: list[int], offsets: list[int]) -> Table:
    """The table with the stable interval of each segment; more than three neighbours never matter."""
    settled, unsettled = [], []
    for i, offset in enumerate(offsets):
        begin, end = starts[i], starts[i + 1]
        for k in range(max(1, i - 2), i + 1):
            before = offsets[k - 1]
            begin = max(begin, starts[k] + abs(offsets[k] - before), starts[k] + before - offset)
        for k in range(i + 1, min(len(offsets), i + 3)):
            end = min(end, starts[k] + offsets[k] - offset)
        settled.append(begin)
        unsettled.append(end)
    return Table(tuple(starts), tuple(offsets), tuple(settled), tuple(unsettled), tuple(starts[1:]))


def instant_of(zone: Zone, local: int) -> int:
    """The instant of a local time: the first of a repeated one, shifted by the gap for a skipped one."""
    starts, offsets, *_ = zone.covering(local + 2 * DAY)
    segment = max(0, bisect_right(starts, local - 2 * DAY) - 1)
    while segment + 1 < len(offsets) and local - offsets[segment] >= starts[segment + 1]:
        segment += 1
    instant = local - offsets[segment]
    return local - offsets[segment - 1] if instant < starts[segment] else instant


def local_of(zone: Zone, instant: int) -> int:
    """The local time at an instant."""
    return instant + zone.offset_at(instant)


def moment_instant(zone: Zone, moment: Moment, edge: Edge = "first") -> int:
    """The instant of a moment in a zone. For a date alone, `edge` selects the second as in `day_edge`."""
    if moment.kind is MomentKind.INSTANT:
        return moment.value
    if moment.kind is MomentKind.LOCAL:
        return instant_of(zone, moment.value)
    return day_edge(zone, moment.value, edge)


def day_edge(zone: Zone, day: int, edge: Edge) -> int:
    """The first or last second of a day on the clock of a zone, or the second after the last, as `edge` says.

    If clocks are set back over midnight, the day ends when its date ends for the last time.
    """
    if edge == "first":
        return instant_of(zone, day * DAY)
    midnight = (day + 1) * DAY
    after = instant_of(zone, midnight)
    again = midnight - zone.offset_at(after + _CHANGE_MAX)
    if again > after and local_of(zone, again - 1) < midnight:
        after = again
    return after - 1 if edge == "last" else after

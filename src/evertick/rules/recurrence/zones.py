"""Time zones: TZif files (RFC 8536) read into two tuples, transitions and offsets.

A zone comes by name from the directories of `PYTHONTZPATH` or the system, else from the `tzdata` package, or
as bytes that travel inside a spec. Transitions that the file does not list follow from its POSIX footer and
are filled in as far as somebody asks. Nothing here looks at the machine's own zone.
"""

import re
import struct
from bisect import bisect_left, bisect_right
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from evertick.base.errors import InvalidSpec
from evertick.rules.recurrence.civil import (
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
from evertick.rules.recurrence.text import shown

FOREVER: Final = 1 << 62
"""Later than any instant; its negative is earlier than any."""
NAME_MAX: Final = 64
DATA_MAX: Final = 128 * 1024
"""Largest TZif data of one zone."""

_NAME: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
_OFFSET: Final = re.compile(r"(?:UTC|GMT|Z)?([+-])([01]?[0-9])(?::?[0-5][0-9])?", re.IGNORECASE)
_NO_ZONES: Final = {"localtime", "posixrules", "Factory", "leapseconds"}
_ABBREVIATIONS: Final = {"EST": "America/Panama", "MST": "America/Phoenix", "HST": "Pacific/Honolulu"}
_COVERED_AT_FIRST: Final = 2100
_CYCLE: Final = 146_097 * DAY
_FAR: Final = 2 * DAY
"""More than local time and UTC differ by."""


Stretch = tuple[int, int, int]
"""Begin and end of a part of a local year, in seconds since 00:00 UTC of its 1 January, and the offset."""


class Table(NamedTuple):
    """Offsets from UTC in seconds, and the instants from which they hold.

    `offsets[i]` holds from `starts[i]` until just before `starts[i + 1]`; that is a segment. The first start is
    before everything; the last one ends the part of the table that is filled in. From `settled[i]` on no local
    time of the segment has occurred, or been moved, by an earlier one; up to `unsettled[i]` none occurs again;
    `ends[i]` is `starts[i + 1]`.
    """

    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    settled: tuple[int, ...]
    unsettled: tuple[int, ...]
    ends: tuple[int, ...]


class Zone:
    """One time zone. Its table is filled in as far as somebody asks, see `covering`."""

    __slots__ = ("_footer", "_listed", "_years", "data", "name", "settled", "table")

    settled: int
    """From this year on the zone does the same every 400 years."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.data = data
        starts, offsets, footer = _read_tzif(data, name)
        self._footer = footer
        self._listed = starts, offsets
        self.table = _filled(starts, offsets, footer, _COVERED_AT_FIRST)
        last = max(starts[-1], 0)
        self.settled = min(year_of(last // DAY) + 2, YEAR_MAX) if last < SECOND_MAX else YEAR_MAX
        self._years: dict[int, tuple[Stretch, ...]] = {}

    @property
    def digest(self) -> str:
        """A fingerprint of the zone's rules: store it with computed times, recompute them when it changes."""
        import hashlib  # slow to import, and only schedulers that store times ask

        return hashlib.sha256(self.data).hexdigest()[:16]

    def covering(self, instant: int) -> Table:
        """The table, filled in beyond `instant` and at least two years more."""
        table = self.table
        if instant + 800 * DAY >= table.starts[-1]:
            # Twice at most: up to a whole cycle, which must be worked out, and then to the end, which is copies of it.
            starts, offsets = self._listed
            cycle = year_of(max(starts[-1], 0) // DAY) + CYCLE_YEARS + 2
            year = cycle if instant + 1600 * DAY < jan1(min(cycle, YEAR_MAX)) * DAY else YEAR_MAX + 2
            table = self.table = _filled(starts, offsets, self._footer, year)
        return table

    def stretches(self, year: int) -> tuple[Stretch, ...]:
        """What a local year is made of: the stretches in which one offset holds, in order."""
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
        """Every offset that holds at the instant or later."""
        repeating = max(instant, jan1(self.settled) * DAY)
        starts, offsets, *_ = self.covering(repeating)
        return frozenset(offsets[bisect_right(starts, instant) - 1 : bisect_right(starts, repeating + 800 * DAY)])

    def offset_at(self, instant: int) -> int:
        """Seconds east of UTC at that instant."""
        table = self.covering(instant)
        return table.offsets[bisect_right(table.starts, instant) - 1]


# --- where zones come from
# -----------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def zone_named(name: str) -> Zone:
    """The zone of an IANA name, from the system or the `tzdata` package.

    Raises InvalidSpec for anything that is not the exact name of a zone, with the nearest names.
    """
    problem = _name_problem(name)
    if problem is None:
        data = _find(name)
        if data is not None:
            return Zone(name, data)
        problem = "no such time zone"
    if isinstance(name, str) and (offset := _OFFSET.fullmatch(name)):
        sign = "+" if offset[1] == "-" else "-"
        raise InvalidSpec(
            f"time zone {shown(name)}: an offset is not the name of a time zone; for whole hours write "
            f"Etc/GMT{sign}{int(offset[2])} (the sign is the other way round there), or name a place"
        )
    near = _nearest(name)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; zones have names such as Europe/Berlin or UTC"
    raise InvalidSpec(f"time zone {shown(name)}: {problem}{hint}")


def zone_from_data(data: bytes, name: str | None = None) -> Zone:
    """A zone from TZif bytes. Raises InvalidSpec if they are none."""
    if len(data) > DATA_MAX:
        raise InvalidSpec(f"time zone data of {len(data)} bytes; at most {DATA_MAX} are read")
    return _zone_of_data(bytes(data), name or "embedded")


@lru_cache(maxsize=64)
def _zone_of_data(data: bytes, name: str) -> Zone:
    return Zone(name, data)


def zone_names() -> tuple[str, ...]:
    """Every name the `tzdata` package knows, in alphabetical order."""
    from importlib import resources  # as zoneinfo below: slow to import, and UTC needs neither

    listing = resources.files("tzdata").joinpath("zones").read_text("ascii")
    return tuple(sorted(set(listing.split()) - _NO_ZONES - _ABBREVIATIONS.keys()))


def _name_problem(name: str) -> str | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > NAME_MAX:
        return "not the name of a time zone"
    if name in _ABBREVIATIONS:
        return f"abbreviations are ambiguous, use the place ({_ABBREVIATIONS[name]})"
    if name in _NO_ZONES or name.startswith(("right/", "posix/")):
        return "a data file, not a time zone"
    return None


def _find(name: str) -> bytes | None:
    if name == "UTC":
        return _UTC
    import zoneinfo
    from importlib import resources

    parts = name.split("/")
    for root in zoneinfo.TZPATH:
        data = _read_exact(Path(root), parts)
        if data is not None:
            return data
    try:
        packaged = resources.files("tzdata").joinpath("zoneinfo", *parts)
        data = packaged.read_bytes() if packaged.is_file() else None
    except (ModuleNotFoundError, OSError):
        return None
    return data if data is not None and data[:4] == b"TZif" and name in zone_names() else None


def _read_exact(directory: Path, parts: list[str]) -> bytes | None:
    """The TZif bytes below `directory`, or None; upper and lower case count even on disks where they do not."""
    path = directory.joinpath(*parts)
    try:
        if not path.is_file():
            return None
        for part in parts:
            if part not in {entry.name for entry in directory.iterdir()}:
                return None
            directory = directory / part
        data = path.read_bytes()
    except OSError:
        return None
    return data if data[:4] == b"TZif" and len(data) <= DATA_MAX else None


def _nearest(name: object) -> list[str]:
    if not isinstance(name, str) or not name or len(name) > NAME_MAX:
        return []
    try:
        names = zone_names()
    except (ModuleNotFoundError, OSError):
        return []
    wanted = name.strip().replace(" ", "_").lower()
    same = [known for known in names if known.lower() == wanted]
    same = same or [known for known in names if known.lower().rsplit("/", 1)[-1] == wanted]
    if same:
        return same[:2]
    import difflib

    return difflib.get_close_matches(name, names, n=2, cutoff=0.75)


# --- TZif
# ----------------------------------------------------------------------------------------------------


def _read_tzif(data: bytes, name: str) -> tuple[list[int], list[int], "_Footer | None"]:
    """Transitions, offsets and footer of a TZif file of version 2 or later."""
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
    return starts, offsets, _Footer.parse(footer, name) if footer else None


def _header(data: bytes, at: int) -> tuple[bytes, tuple[int, int, int, int, int, int]]:
    magic, version, isut, isstd, leaps, times, types, chars = struct.unpack_from(">4sc15x6I", data, at)
    if magic != b"TZif" or not types or max(isut, isstd, leaps, times, types, chars) > DATA_MAX:
        raise ValueError
    return version, (isut, isstd, leaps, times, types, chars)


def _filled(
    starts: list[int] | tuple[int, ...], offsets: list[int] | tuple[int, ...], footer: "_Footer | None", year: int
) -> Table:
    """The table with the footer's transitions up to the end of `year`, closed by its end."""
    if footer is not None and footer.dst_start is None and footer.std != offsets[-1]:
        raise InvalidSpec("time zone data: its footer contradicts its last transition")
    if footer is None or footer.dst_start is None:
        return _table([*starts, FOREVER], list(offsets))
    begun, held = list(starts), list(offsets)
    last = begun[-1]
    first_year = 1970 if last == -FOREVER else year_of(last // DAY)
    # A footer says the same every 400 years: what lies further than one such cycle is a copy of it.
    for at, offset in footer.transitions(first_year, min(year, first_year + CYCLE_YEARS + 2)):
        if at > last and offset != held[-1]:
            begun.append(at)
            held.append(offset)
    # Past the last year that a spec can name nobody asks any more.
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
    """The table with the calm part of each segment worked out; three neighbours are more than ever matter."""
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


_POSIX_NAME: Final = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_POSIX_TIME: Final = r"[+-]?[0-9]{1,3}(?::[0-9]{2}){0,2}"
_POSIX_RULE: Final = rf"(?:M[0-9]{{1,2}}\.[1-5]\.[0-6]|J[0-9]{{1,3}}|[0-9]{{1,3}})(?:/{_POSIX_TIME})?"
_POSIX: Final = re.compile(
    rf"{_POSIX_NAME}({_POSIX_TIME})(?:{_POSIX_NAME}({_POSIX_TIME})?(?:,({_POSIX_RULE}),({_POSIX_RULE}))?)?"
)


class _Footer:
    """The POSIX TZ string at the end of a TZif file: what holds after its last transition."""

    __slots__ = ("dst", "dst_end", "dst_start", "std")

    def __init__(self, std: int, dst: int, dst_start: str | None, dst_end: str | None) -> None:
        self.std, self.dst, self.dst_start, self.dst_end = std, dst, dst_start, dst_end

    @classmethod
    def parse(cls, text: str, name: str) -> "_Footer":
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


_UTC: Final = (
    b"TZif2" + bytes(15) + struct.pack(">6I", 1, 1, 0, 0, 1, 4) + struct.pack(">i2x", 0) + b"UTC\0\0\0"
    b"TZif2" + bytes(15) + struct.pack(">6I", 1, 1, 0, 0, 1, 4) + struct.pack(">i2x", 0) + b"UTC\0\0\0"
    b"\nUTC0\n"
)  # fmt: skip

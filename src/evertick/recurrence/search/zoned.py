"""A wall-clock rule in a zone: converts its local times to instants, with clock changes.

Most of the time the zone's offset is constant and an instant is a local time minus an offset. That case uses a cached
*stable interval*: a range of instants with one offset and without any effect of a clock change. Around a change the
zone is searched segment by segment (a segment is the time between two changes), and each has two kinds of firings:

- local times that occur in it, except those that the overlap policy assigns to another segment, and
- local times that were skipped at the start of the segment, moved by the gap policy.

`gap=skip, overlap=both` is real time: every local time fires each time it occurs.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Literal

from evertick.recurrence.search.local import LocalRule
from evertick.recurrence.spec.civil import DAY, SECOND_MAX, SECOND_MIN
from evertick.recurrence.spec.spec import Gap, Overlap
from evertick.recurrence.zones.zones import Table, Zone

_SLACK = 2 * DAY
"""More than the largest difference between two offsets."""


class ZonedRule:
    """The instants of a wall-clock rule in a zone, in order."""

    __slots__ = ("_begins", "_covers", "_ends", "_gap", "_local", "_overlap", "_stable", "_zone")

    def __init__(
        self,
        local: LocalRule,
        zone: Zone,
        gap: Gap,
        overlap: Overlap,
        covers: Callable[[int], bool] | None = None,
    ) -> None:
        """`covers` returns whether a local time is excluded; it is called for firings that a clock change has moved."""
        self._local = local
        self._zone = zone
        self._gap = gap
        self._overlap = overlap
        # The columns of the zone's table that bound the stable interval of a segment.
        real_time = gap is Gap.SKIP and overlap is Overlap.BOTH
        self._begins: Literal[0, 2] = 0 if real_time else 2
        self._ends: Literal[3, 4] = 3 if overlap is Overlap.LAST else 4
        self._covers = covers
        self._stable: tuple[int, int, int] = (0, 0, 0)

    # --- forwards

    def next(self, after: int) -> int | None:
        """The first firing later than the instant `after`, or None."""
        begin, end, offset = self._stable
        if not begin <= after < end:
            table = self._zone.covering(after)
            segment = bisect_right(table.starts, after) - 1
            begin, end, offset = self._interval(table, segment)
            if not begin <= after < end:
                return self._next_carefully(after)
            self._stable = (begin, end, offset)
        found = self._local.next_local(after + offset)
        if found is not None:
            if found - offset < end:
                return found - offset
            if after < end - _SLACK and (leap := self._leap(found)) is not None:
                return leap
        elif after < end - _SLACK:
            return None
        return self._next_carefully(after)

    def _leap(self, local: int) -> int | None:
        """The instant of a local time after some clock changes; None if it is near a change."""
        table = self._zone.table
        if local + _SLACK >= table.starts[-1]:
            table = self._zone.covering(local)
        segment = bisect_right(table.starts, local) - 1  # as if local time were UTC: wrong only near a change
        begin, end, offset = self._interval(table, segment)
        instant = local - offset
        if table.settled[segment] <= instant < end:
            self._stable = (begin, end, offset)
            return instant
        return None

    def _next_carefully(self, after: int) -> int | None:
        found = None if after >= SECOND_MAX else self._next_by_segments(max(after, SECOND_MIN - 1))
        return found if found is None or found <= SECOND_MAX else None

    def _next_by_segments(self, after: int) -> int | None:
        best: int | None = None
        starts, offsets, *_ = self._zone.covering(after)
        origin = bisect_right(starts, after) - 1
        segment = max(0, origin - 2)  # an earlier gap may have shifted times into this segment
        while segment < len(offsets):
            firing, coming = self._gap_after(starts, offsets, segment, after), None
            if segment >= origin:
                real, coming = self._real_after(starts, offsets, segment, after)
                firing = _earlier(firing, real)
            best = _earlier(best, firing)
            end = starts[segment + 1]
            if segment >= origin and best is not None and best < end:
                return best
            if segment > origin and end - starts[segment] > _SLACK:
                if coming is None and best is None:
                    return None
                if coming is not None:
                    # There is no firing before `coming`: skip the segments that end well before it.
                    starts, offsets, *_ = self._zone.covering(coming)
                    segment = max(segment, bisect_right(starts, coming - _SLACK) - 2)
            segment += 1
            starts, offsets, *_ = self._zone.covering(max(after, starts[segment - 1]))
        return best

    def _real_after(
        self, starts: tuple[int, ...], offsets: tuple[int, ...], segment: int, after: int
    ) -> tuple[int | None, int | None]:
        """The first firing of a segment that a gap has not moved, and the first local time after its end."""
        offset, end = offsets[segment], starts[segment + 1]
        local = self._local
        other_ranges = self._ranges_of_others(starts, offsets, segment)
        found = local.next_local(max(after, starts[segment] - 1) + offset)
        while found is not None and found - offset < end:
            hop = next((high for low, high in other_ranges if low <= found < high), None)
            if hop is None:
                return found - offset, None
            found = local.next_local(hop - 1)
        return None, found if found is None else found - offset

    def _gap_after(self, starts: tuple[int, ...], offsets: tuple[int, ...], segment: int, after: int) -> int | None:
        """The first firing later than `after` among those that the gap before a segment moves."""
        if segment == 0 or self._gap is Gap.SKIP or offsets[segment] <= offsets[segment - 1]:
            return None
        start, before = starts[segment], offsets[segment - 1]
        low, high = start + before, start + offsets[segment]
        local = self._local
        if self._gap is Gap.NEXT:
            if after >= start or self._is_covered(high):
                return None
            found = self._skipped(local.next_local(low - 1), high, starts, offsets, segment)
            return None if found is None else start
        found = self._skipped(local.next_local(max(low - 1, after + before)), high, starts, offsets, segment)
        while found is not None and self._is_covered(found - low + high):
            found = self._skipped(local.next_local(found), high, starts, offsets, segment)
        return None if found is None else found - before

    def _skipped(
        self, found: int | None, high: int, starts: tuple[int, ...], offsets: tuple[int, ...], segment: int
    ) -> int | None:
        """`found` or the next local time below `high` that occurs in no neighbouring segment."""
        real = [
            (starts[k] + offsets[k], starts[k + 1] + offsets[k])
            for k in range(max(0, segment - 3), min(len(offsets), segment + 3))
        ]
        while found is not None and found < high:
            hop = next((end for begin, end in real if begin <= found < end), None)
            if hop is None:
                return found
            found = self._local.next_local(hop - 1)
        return None

    # --- backwards

    def prev(self, before: int) -> int | None:
        """The last firing earlier than the instant `before`, or None."""
        begin, end, offset = self._stable
        if begin < before <= end:
            found = self._local.prev_local(before + offset)
            if found is not None and found - offset >= begin:
                return found - offset
        return self._prev_slowly(before)

    def _prev_slowly(self, before: int) -> int | None:
        before = min(before, SECOND_MAX + 1)
        table = self._zone.covering(before)
        segment = bisect_right(table.starts, before - 1) - 1
        begin, end, offset = self._interval(table, segment)
        if begin < before <= end:
            self._stable = (begin, end, offset)
            found = self._local.prev_local(before + offset)
            if found is not None and found - offset >= begin:
                return found - offset
        found = self._prev_carefully(before, segment, table.starts, table.offsets)
        return found if found is None or found >= SECOND_MIN else None

    def _prev_carefully(
        self, before: int, segment: int, starts: tuple[int, ...], offsets: tuple[int, ...]
    ) -> int | None:
        best: int | None = None
        origin = segment
        while segment >= 0:
            firing, coming = self._real_before(starts, offsets, segment, before)
            for earlier in (segment, segment - 1, segment - 2):
                if earlier > 0:
                    firing = _later(firing, self._gap_before(starts, offsets, earlier, before))
            best = _later(best, firing)
            begin = starts[segment]
            if best is not None and best >= begin:
                return best
            if segment < origin and starts[segment + 1] - begin > _SLACK and best is None:
                if coming is None:
                    return None
                segment = min(segment, bisect_right(starts, coming + _SLACK) + 1)
            segment -= 1
        return best

    def _real_before(
        self, starts: tuple[int, ...], offsets: tuple[int, ...], segment: int, before: int
    ) -> tuple[int | None, int | None]:
        offset, begin = offsets[segment], starts[segment]
        local = self._local
        other_ranges = self._ranges_of_others(starts, offsets, segment)
        found = local.prev_local(min(before, starts[segment + 1]) + offset)
        while found is not None and found - offset >= begin:
            hop = next((low for low, high in other_ranges if low <= found < high), None)
            if hop is None:
                return found - offset, None
            found = local.prev_local(hop)
        return None, found if found is None else found - offset

    def _gap_before(self, starts: tuple[int, ...], offsets: tuple[int, ...], segment: int, before: int) -> int | None:
        """The last firing earlier than `before` among those that the gap before a segment moves."""
        start = starts[segment]
        if self._gap is Gap.SKIP or offsets[segment] <= offsets[segment - 1] or before <= start:
            return None
        if self._gap is Gap.NEXT:
            return self._gap_after(starts, offsets, segment, start - 1)
        gap = offsets[segment] - offsets[segment - 1]
        found, last_found = self._gap_after(starts, offsets, segment, start - 1), None
        if before >= start + gap:  # the usual case: search the last one directly
            last = self._local.prev_local(start + offsets[segment])
            if last is not None and last >= start + offsets[segment - 1]:
                candidate = last - offsets[segment - 1]
                if self._gap_after(starts, offsets, segment, candidate - 1) == candidate:
                    return candidate
        while found is not None and found < before:
            last_found = found
            found = self._gap_after(starts, offsets, segment, found)
        return last_found

    # --- counting

    def count(self, begin: int, end: int) -> int:
        """The number of firings in [begin, end)."""
        total, begin, end = 0, max(begin, SECOND_MIN), min(end, SECOND_MAX + 1)
        while begin < end:
            table = self._zone.covering(begin)
            starts = table.starts
            segment = bisect_right(starts, begin) - 1
            stable_begin, stable_end, offset = self._interval(table, segment)
            if stable_begin <= begin < stable_end:
                stop = min(stable_end, end)
                total += self._local.count_local(begin + offset, stop + offset)
            else:
                stop = min(stable_begin if begin < stable_begin else starts[segment + 1], end)
                firing = self.next(begin - 1)
                while firing is not None and firing < stop:
                    total += 1
                    firing = self.next(firing)
                stop = end if firing is None else firing  # there is no firing before it, even after clock changes
            begin = stop
        return total

    def dropped(self, begin: int, end: int) -> int:
        """The number of local times in [begin, end) that the zone skips."""
        zone, total = self._zone, 0
        starts, offsets, *_ = zone.covering(end + _SLACK)
        segment = max(1, bisect_right(starts, begin - _SLACK) - 1)
        while segment < len(offsets) and starts[segment] < end + _SLACK:
            start, before, offset = starts[segment], offsets[segment - 1], offsets[segment]
            if offset > before:
                high = min(start + offset, end)
                found = self._local.next_local(max(start + before, begin) - 1)
                while (found := self._skipped(found, high, starts, offsets, segment)) is not None:
                    total += 1
                    found = self._local.next_local(found)
                begin = max(begin, high)
            segment += 1
        return total

    # --- explaining

    def moved_from(self, instant: int) -> list[int]:
        """The local times that a gap skipped and moved to this instant."""
        starts, offsets, *_ = self._zone.covering(instant)
        segment = bisect_right(starts, instant) - 1
        for k in range(segment, max(0, segment - 3), -1):
            if self._gap_after(starts, offsets, k, instant - 1) == instant:
                before, high = offsets[k - 1], starts[k] + offsets[k]
                if self._gap is Gap.SHIFT:
                    return [instant + before]
                low = starts[k] + before
                found = self._skipped(self._local.next_local(low - 1), high, starts, offsets, k)
                return [] if found is None else [found]
        return []

    # --- segments

    def _interval(self, table: Table, segment: int) -> tuple[int, int, int]:
        """The stable interval of a segment, limited to instants with a date in UTC, and its offset.

        The first and the last local day are partly outside: midnight in Auckland on 1 January of the year 1, and noon
        in Niue on 31 December 9999.
        """
        begin, end = table[self._begins][segment], table[self._ends][segment]
        return max(begin, SECOND_MIN), min(end, SECOND_MAX + 1), table.offsets[segment]

    def _ranges_of_others(
        self, starts: tuple[int, ...], offsets: tuple[int, ...], segment: int
    ) -> list[tuple[int, int]]:
        """The ranges of local time that the overlap policy assigns to earlier or later segments."""
        if self._overlap is Overlap.BOTH:
            return []
        if self._overlap is Overlap.FIRST:
            others = range(max(0, segment - 3), segment)
        else:
            others = range(segment + 1, min(len(offsets), segment + 4))
        return [(starts[k] + offsets[k], starts[k + 1] + offsets[k]) for k in others]

    def _is_covered(self, local: int) -> bool:
        return self._covers is not None and self._covers(local)


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or (other is not None and other < one):
        return other
    return one


def _later(one: int | None, other: int | None) -> int | None:
    if one is None or (other is not None and other > one):
        return other
    return one

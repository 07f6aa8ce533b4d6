"""The timeline of a run: a bar for each step, over one axis of time in which idle time is folded.

The moments at which steps begin and end cut the axis into pieces. A piece in which nothing but sleeps and waits goes on
is idle; where it would take more than its share, it is folded to a few columns, drawn as `┄`. So a sleep of three days
leaves steps of ten milliseconds their room. All other pieces are as wide as they are long.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

FOLDED: Final = 3.0
"""Columns of a piece that is folded; fewer where there are many."""
SHARE: Final = 0.15
"""Of the unfolded axis: an idle piece that would take more is folded."""
WORKS, WAITS, FOLD = "█", "░", "┄"


class Span(NamedTuple):
    """A step in milliseconds, and whether it only waits: for a time or an event."""

    start: int
    end: int
    waits: bool


def bars(spans: Sequence[Span], width: int) -> list[str]:
    """A bar of at most `width` columns for each span."""
    axis = _Axis(spans, width)
    return [axis.bar(span) for span in spans]


class _Axis:
    """Columns by moments."""

    def __init__(self, spans: Sequence[Span], width: int) -> None:
        self._width = width
        self._moments = sorted({moment for span in spans for moment in (span.start, span.end)})
        pieces = [end - start for start, end in pairwise(self._moments)]
        self._folded = _folded(pieces, _idle(spans, self._moments))
        fold = min(FOLDED, width / 2 / max(1, len(self._folded)))
        linear = sum(length for place, length in enumerate(pieces) if place not in self._folded)
        scale = (width - fold * len(self._folded)) / linear if linear else 0.0
        self._columns = [0.0]
        for place, length in enumerate(pieces):
            self._columns.append(self._columns[-1] + (fold if place in self._folded else length * scale))

    def bar(self, span: Span) -> str:
        """The bar of a span. Every span has a column, however short it is."""
        start, end = (self._columns[bisect_left(self._moments, at)] for at in (span.start, span.end))
        first = min(int(start), self._width - 1)
        last = max(first + 1, min(round(end), self._width))
        mark = WAITS if span.waits else WORKS
        drawn = (FOLD if span.waits and self._is_folded(column + 0.5) else mark for column in range(first, last))
        return " " * first + "".join(drawn)

    def _is_folded(self, column: float) -> bool:
        return bisect_right(self._columns, column) - 1 in self._folded


def _idle(spans: Sequence[Span], moments: Sequence[int]) -> list[int]:
    """The pieces in which no step works."""
    places = {moment: place for place, moment in enumerate(moments)}
    change = [0] * len(moments)
    for span in spans:
        if not span.waits:
            change[places[span.start]] += 1
            change[places[span.end]] -= 1
    at_work, found = 0, []
    for place in range(len(moments) - 1):
        at_work += change[place]
        if not at_work:
            found.append(place)
    return found


def _folded(pieces: Sequence[int], idle: Sequence[int]) -> set[int]:
    """The idle pieces that are folded: the longest, as long as one would take more than its share."""
    linear = sum(pieces)
    folded: set[int] = set()
    for place in sorted(idle, key=lambda place: pieces[place], reverse=True):
        if pieces[place] <= SHARE * linear:
            break
        folded.add(place)
        linear -= pieces[place]
    return folded

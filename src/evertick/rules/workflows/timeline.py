"""The axis of a run's timeline, in which idle time is folded.

The times at which steps begin and end divide the axis into pieces. A piece that contains only sleeps and waits is idle.
If it would take more than its share, it is folded to a small width. So next to a sleep of three days there is still
space for steps of ten milliseconds. The width of all other pieces is proportional to their duration.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

SHARE: Final = 0.15
"""The share of the unfolded axis above which an idle piece is folded."""


class Span(NamedTuple):
    """The time of a step in milliseconds, and whether it only waits for a time or an event."""

    start: int
    end: int
    waits: bool


class Piece(NamedTuple):
    """A part of the axis: its start and end time, and the places between which it is drawn."""

    start: int
    end: int
    left: float
    right: float
    folded: bool


class Axis:
    """Converts times to places from 0 to `width`. `fold` is the width of a folded piece, less if there are many."""

    def __init__(self, spans: Sequence[Span], width: float, fold: float) -> None:
        instants = sorted({instant for span in spans for instant in (span.start, span.end)})
        lengths = [end - start for start, end in pairwise(instants)]
        folded = _folded(lengths, _idle(spans, instants)) if fold else set[int]()
        narrow = min(fold, width / 2 / max(1, len(folded)))
        linear = sum(length for place, length in enumerate(lengths) if place not in folded)
        scale = (width - narrow * len(folded)) / linear if linear else 0.0
        self._instants = instants
        self.pieces: list[Piece] = []
        """The parts of the axis, from left to right."""
        left = 0.0
        for place, (start, end) in enumerate(pairwise(instants)):
            right = left + (narrow if place in folded else lengths[place] * scale)
            self.pieces.append(Piece(start, end, left, right, place in folded))
            left = right
        self.scale = scale
        """Width of a millisecond that is not folded; 0 if everything is folded."""
        self._lefts = [piece.left for piece in self.pieces]

    def at(self, instant: int) -> float:
        """The place of a time; the end of the axis for a time beyond it."""
        if not self.pieces:
            return 0.0
        piece = self.pieces[max(0, min(bisect_right(self._instants, instant), len(self.pieces)) - 1)]
        within = min(max(instant, piece.start), piece.end) - piece.start
        return piece.left + (piece.right - piece.left) * within / (piece.end - piece.start)

    def is_folded(self, place: float) -> bool:
        """Whether the axis is folded at a place."""
        piece = bisect_right(self._lefts, place) - 1
        return 0 <= piece < len(self.pieces) and self.pieces[piece].folded and place < self.pieces[piece].right


def _idle(spans: Sequence[Span], instants: Sequence[int]) -> list[int]:
    """The pieces in which no step works."""
    places = {instant: place for place, instant in enumerate(instants)}
    change = [0] * len(instants)
    for span in spans:
        if not span.waits:
            change[places[span.start]] += 1
            change[places[span.end]] -= 1
    at_work, found = 0, []
    for place in range(len(instants) - 1):
        at_work += change[place]
        if not at_work:
            found.append(place)
    return found


def _folded(pieces: Sequence[int], idle: Sequence[int]) -> set[int]:
    """The idle pieces to fold: the longest ones, until every other takes at most `SHARE` of the remaining time."""
    linear = sum(pieces)
    folded: set[int] = set()
    for place in sorted(idle, key=lambda place: pieces[place], reverse=True):
        if pieces[place] <= SHARE * linear:
            break
        folded.add(place)
        linear -= pieces[place]
    return folded

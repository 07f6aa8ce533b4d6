"""The timeline of a run in the terminal: a bar for each step, over one axis of time in which idle time is folded.

A folded piece of the axis has a few columns, drawn as `┄`.
"""

from collections.abc import Sequence
from typing import Final

from evertick.rules.workflows.timeline import Axis, Span

FOLDED: Final = 3.0
"""Columns of a piece that is folded; fewer where there are many."""
WORKS, WAITS, FOLD = "█", "░", "┄"


def bars(spans: Sequence[Span], width: int) -> list[str]:
    """A bar of at most `width` columns for each span."""
    axis = Axis(spans, width, FOLDED)
    return [_bar(axis, span, width) for span in spans]


def _bar(axis: Axis, span: Span, width: int) -> str:
    """The bar of a span. Every span has a column, however short it is."""
    start, end = axis.at(span.start), axis.at(span.end)
    first = min(int(start), width - 1)
    last = max(first + 1, min(round(end), width))
    mark = WAITS if span.waits else WORKS
    drawn = (FOLD if span.waits and axis.is_folded(column + 0.5) else mark for column in range(first, last))
    return " " * first + "".join(drawn)

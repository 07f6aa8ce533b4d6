"""Strips: the outcomes of a schedule's last times as bars, the oldest first. One path for each outcome."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from evertick.dashboard.markup.filling import filled

WIDTH: Final = 4
HEIGHT: Final = 18
BARS: Final = 30
WIDE_BARS: Final = 60
"""For how many bars a wide strip has room at least: few ones would be blocks."""
SHAPES: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "ok": ((8, 10),),
    "late": ((3, 3), (8, 10)),
    "failed": ((1, 17),),
    "missed": ((1, 10), (14, 4)),
    "skipped": ((14, 4),),
    "canceled": ((10, 4),),
    "running": ((4, 14),),
    "queued": ((4, 14),),
}
"""Top and height of the parts of a bar. Each outcome differs by its shape, too, and not by colour alone."""


def strip(outcomes: Sequence[str], *, label: str | None = None, wide: bool = False) -> Markup:
    """A strip of outcomes, right-aligned to `BARS`; with `wide`, as wide as its place, from the left."""
    if not outcomes:
        return Markup()
    first = 0 if wide else BARS - len(outcomes)
    paths: dict[str, list[str]] = {}
    for position, outcome in enumerate(outcomes):
        for top, height in SHAPES[outcome]:
            bar = f"M{(first + position) * WIDTH} {top}h3v{height}h-3z"
            paths.setdefault("skipped" if outcome == "canceled" else outcome, []).append(bar)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in Counter(outcomes).items())
    drawn = Markup().join(filled('<path class="{}" d="{}"/>', css, "".join(d)) for css, d in paths.items())
    width = (max(len(outcomes), WIDE_BARS) if wide else BARS) * WIDTH
    return filled(
        '<svg class="strip{}" viewBox="0 0 {} {}"{} role="img" aria-label="{}: {}">{}</svg>',
        " wide" if wide else "",
        width,
        HEIGHT,
        Markup(' preserveAspectRatio="none"') if wide else "",
        label or f"last {len(outcomes)}",
        counts,
        drawn,
    )

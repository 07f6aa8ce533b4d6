"""Charts of what ended in a span, and the numbers in the tables next to them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from evertick.api.insight import ActivityView, MinuteView
from evertick.base.instants import HOUR_MS, MINUTE_MS, Instant, from_datetime
from evertick.dashboard.markup.filling import filled

POINT_MS: Final = 10 * MINUTE_MS
"""Width of a point in the charts of a day."""
BAR_MS: Final = HOUR_MS
"""Width of a bar in the small charts in the rows of a list."""
BAR_WIDTH: Final = 4
BAR_HEIGHT: Final = 18


YOUNG_MS: Final = 6 * HOUR_MS
"""If nothing ended before the last hours of a day, only these are drawn; they would be a line at the edge."""


class Charted(NamedTuple):
    """A span of time: the series of a chart in points of ten minutes, and how many attempts ended and failed in all.

    `since` is the start of the series if nothing ended before, otherwise None.
    """

    series: dict[str, list[Any]]
    ended: int
    failed: int
    since: Instant | None = None


def charted(activity: ActivityView) -> Charted:
    """The chart of an activity."""
    minutes, since = activity.minutes, _since(activity)
    start = from_datetime(activity.start) if since is None else since
    return Charted(
        _series(activity, start), sum(each.ended for each in minutes), sum(each.failed for each in minutes), since
    )


def _since(activity: ActivityView) -> Instant | None:
    """The start of a chart in which only the last hours have data; it covers at least an hour."""
    start, end = from_datetime(activity.start), from_datetime(activity.end)
    first = min((from_datetime(each.at) for each in activity.minutes), default=start)
    if first < end - YOUNG_MS:
        return None
    return Instant(max(start, min(first // POINT_MS * POINT_MS - POINT_MS, end - HOUR_MS)))


def _series(activity: ActivityView, start: Instant) -> dict[str, list[Any]]:
    """The series of a chart: for each ten minutes the seconds since the epoch, the number per minute that ended and
    failed, and how late they began (seconds; None if nothing began).
    """
    first = start // POINT_MS * POINT_MS
    points: dict[int, list[MinuteView]] = {at: [] for at in range(first, from_datetime(activity.end) + 1, POINT_MS)}
    for minute in activity.minutes:
        points.setdefault(from_datetime(minute.at) // POINT_MS * POINT_MS, []).append(minute)
    minutes = POINT_MS // MINUTE_MS
    chosen = sorted(points.items())
    return {
        "at": [at // 1000 for at, _ in chosen],
        "ended": [round(sum(each.ended for each in found) / minutes, 2) for _, found in chosen],
        "failed": [round(sum(each.failed for each in found) / minutes, 2) for _, found in chosen],
        "p50": [_most(each.late_p50_ms for each in found) for _, found in chosen],
        "p99": [_most(each.late_p99_ms for each in found) for _, found in chosen],
    }


def _most(values: Iterable[int | None]) -> float | None:
    known = [each for each in values if each is not None]
    return max(known) / 1000 if known else None


def spark(activity: ActivityView) -> Markup:
    """A bar for each hour of a span: its height is what ended, and its lower part is what failed."""
    first, last = (from_datetime(each) // BAR_MS for each in (activity.start, activity.end))
    ended, failed = ([0] * (last - first + 1) for _ in range(2))
    for minute in activity.minutes:
        position = from_datetime(minute.at) // BAR_MS - first
        ended[position] += minute.ended
        failed[position] += minute.failed
    most = max(ended) or 1
    drawn = Markup().join(
        filled('<path class="{}" d="{}"/>', css, "".join(_bar(at, count, most) for at, count in enumerate(counts)))
        for css, counts in (("ended", ended), ("failed", failed))
        if any(counts)
    )
    return filled(
        '<svg class="strip spark" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>',
        len(ended) * BAR_WIDTH,
        BAR_HEIGHT,
        f"{sum(ended):,} ended in the last 24 hours, {sum(failed):,} of them failed; at most {max(ended):,} in an hour",
        drawn,
    )


def _bar(position: int, count: int, most: int) -> str:
    """A bar, at least a pixel high unless the count is 0."""
    height = max(1, round(count / most * BAR_HEIGHT)) if count else 0
    return f"M{position * BAR_WIDTH} {BAR_HEIGHT - height}h3v{height}h-3z" if height else ""


# -- Upcoming runs as bars, one for each few minutes; drawn on the server, so that no script is needed.

HEIGHT = 100
TOP = 16
"""Space above the bars for the number of the highest bar."""
BARS_A_LABEL = 3
SCHEDULES, JOBS = "k2", "k1"
"""The CSS classes of the parts of a bar."""
LONG = 4
"""Numbers with so many characters need a wide bar."""


def density(
    starts: Sequence[int], jobs: Sequence[int], label_of: Callable[[int], str], href_of: Callable[[int], str]
) -> Markup:
    """Bars with the numbers of schedules in `starts`, and those of `jobs` stacked on them; each bar is a link.

    `label_of` and `href_of` get the position of a bar.
    """
    both = [sum(each) for each in zip(starts, jobs, strict=True)]
    most, width = max(both, default=0) or 1, 100 / max(len(both), 1)
    drawn = [Markup('<path class="axis" d="M0 {}H4000"/>').format(TOP + part * (HEIGHT - TOP) / 4) for part in range(4)]
    highest = both.index(most) if most in both else -1
    for position, count in enumerate(both):
        x, height = position * width, count / most * (HEIGHT - TOP)
        upper = jobs[position] / most * (HEIGHT - TOP)
        parts = ((SCHEDULES, HEIGHT - height + upper, height - upper), (JOBS, HEIGHT - height, upper))
        bar = Markup().join(
            Markup('<rect class="{}" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}"/>').format(
                css, x + 0.25, top, width - 0.5, high
            )
            for css, top, high in parts
            if high
        )
        hit = Markup('<rect class="hit" x="{:.2f}%" y="0" width="{:.2f}%" height="{}"/>').format(x, width, HEIGHT)
        words = f"{label_of(position)}: {_said(starts[position], jobs[position])}"
        drawn.append(Markup('<a href="{}" aria-label="{}">{}{}</a>').format(href_of(position), words, bar, hit))
        if count and (position == highest or count >= most / 2):
            number = f"{count:,}"
            css = "hi" if position == highest else "hi other long" if len(number) >= LONG else "hi other"
            drawn.append(_text(css, position, len(both), HEIGHT - height - 4, number))
        if position % BARS_A_LABEL == 0:
            css = "other" if position >= len(both) - 2 else ""
            drawn.append(_text(css, position, len(both), HEIGHT + 14, label_of(position)))
    drawn.append(Markup('<path class="axis" d="M0 100.5H4000"/>'))
    return Markup('<svg class="chart low" role="group" aria-label="Coming starts">{}</svg>').format(
        Markup().join(drawn)
    )


def _said(starts: int, jobs: int) -> str:
    """The contents of a bar as text."""
    due = f"{jobs:,} job{'' if jobs == 1 else 's'} due"
    return f"{starts:,} start{'' if starts == 1 else 's'}{f', {due}' if jobs else ''}" if starts or not jobs else due


def _text(css: str, position: int, bars: int, y: float, words: str) -> Markup:
    """Text at a bar: aligned to its start, and for the last two bars to its end, so that it fits."""
    width = 100 / bars
    x, anchor = (position * width + 0.25, "start") if position < bars - 2 else ((position + 1) * width - 0.25, "end")
    place = (x, y, css, anchor, words)
    return Markup('<text x="{:.2f}%" y="{:.0f}" class="{}" text-anchor="{}">{}</text>').format(*place)


def crowd(starts: Sequence[int]) -> int | None:
    """The position of a bar with so many starts that they should be spread; None if there is none."""
    most = max(starts, default=0)
    others = (sum(starts) - most) / max(len(starts) - 1, 1)
    return starts.index(most) if most >= 100 and most >= 4 * others else None


# -- Strips: the outcomes of a schedule's last times as bars, oldest first. There is one path for each outcome.

WIDTH: Final = 4
STRIP_HEIGHT: Final = 18
BARS: Final = 30
WIDE_BARS: Final = 60
"""Minimum number of bars in the width of a wide strip, because few bars would be too wide."""
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
"""Top and height of the parts of a bar. Outcomes also differ by shape, not only by color."""


def strip(outcomes: Sequence[str], *, label: str | None = None, wide: bool = False) -> Markup:
    """A strip of outcomes, right-aligned to `BARS`; with `wide`, left-aligned in the full width."""
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
        STRIP_HEIGHT,
        Markup(' preserveAspectRatio="none"') if wide else "",
        label or f"last {len(outcomes)}",
        counts,
        drawn,
    )

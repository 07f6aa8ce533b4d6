"""What ended in a span, as its charts and the tables beside them show it."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from evertick.api.insight import ActivityView, MinuteView
from evertick.base.instants import HOUR_MS, MINUTE_MS, Instant, from_datetime
from evertick.dashboard.markup.filling import filled

POINT_MS: Final = 10 * MINUTE_MS
"""Of the charts of a day."""
BAR_MS: Final = HOUR_MS
"""Of the small ones in the rows of a list."""
BAR_WIDTH: Final = 4
BAR_HEIGHT: Final = 18


YOUNG_MS: Final = 6 * HOUR_MS
"""Of a day in which nothing ended before its last hours, these alone are drawn: they would be a line at the edge."""


class Charted(NamedTuple):
    """A span of time: points of ten minutes by what is drawn of them, and how many attempts ended and failed in all.

    `since` is where they begin if nothing ended before, else None.
    """

    series: dict[str, list[Any]]
    ended: int
    failed: int
    since: Instant | None = None


def charted(activity: ActivityView) -> Charted:
    """Activity as it is drawn."""
    minutes, since = activity.minutes, _since(activity)
    start = from_datetime(activity.start) if since is None else since
    return Charted(
        _series(activity, start), sum(each.ended for each in minutes), sum(each.failed for each in minutes), since
    )


def _since(activity: ActivityView) -> Instant | None:
    """Where a chart begins of which only the last hours have something; an hour is shown at least."""
    start, end = from_datetime(activity.start), from_datetime(activity.end)
    first = min((from_datetime(each.at) for each in activity.minutes), default=start)
    if first < end - YOUNG_MS:
        return None
    return Instant(max(start, min(first // POINT_MS * POINT_MS - POINT_MS, end - HOUR_MS)))


def _series(activity: ActivityView, start: Instant) -> dict[str, list[Any]]:
    """What happened, as charts draw it: for each ten minutes the seconds since the epoch, what ended and failed in a
    minute, and how late it began (seconds; None where nothing began).
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
    """A bar for each hour of a span, as high as what ended in it, with what failed of it at its foot."""
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
    """A bar, at least a pixel high if there is anything to show."""
    height = max(1, round(count / most * BAR_HEIGHT)) if count else 0
    return f"M{position * BAR_WIDTH} {BAR_HEIGHT - height}h3v{height}h-3z" if height else ""

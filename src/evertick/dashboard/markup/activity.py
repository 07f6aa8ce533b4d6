"""What ended in a span, as its charts and the tables beside them show it."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from evertick.api.insight import ActivityView, MinuteView
from evertick.base.instants import MINUTE_MS, from_datetime

POINT_MS: Final = 10 * MINUTE_MS
"""Of the charts of a day."""


class Charted(NamedTuple):
    """A span of time: points of ten minutes by what is drawn of them, and how many attempts ended and failed in all."""

    series: dict[str, list[Any]]
    ended: int
    failed: int


def charted(activity: ActivityView) -> Charted:
    """Activity as it is drawn."""
    minutes = activity.minutes
    return Charted(_series(activity), sum(each.ended for each in minutes), sum(each.failed for each in minutes))


def _series(activity: ActivityView) -> dict[str, list[Any]]:
    """What happened, as charts draw it: for each ten minutes the seconds since the epoch, what ended and failed in a
    minute, and how late it began (seconds; None where nothing began).
    """
    first = from_datetime(activity.start) // POINT_MS * POINT_MS
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

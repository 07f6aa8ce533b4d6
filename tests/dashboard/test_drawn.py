"""What is drawn of a few outcomes, and of a day of which only the last hours have something."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from evertick.api.insight import ActivityView, MinuteView
from evertick.base.instants import from_datetime
from evertick.dashboard.markup.charts import WIDE_BARS, WIDTH, charted, strip
from tests.dashboard.conftest import Site

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(("count", "places"), [(1, WIDE_BARS), (WIDE_BARS, WIDE_BARS), (100, 100)])
def test_bars_of_a_wide_strip_are_never_wider_than_one_of_sixty(count: int, places: int) -> None:
    drawn = str(strip(["ok"] * count, wide=True))
    assert f'viewBox="0 0 {places * WIDTH} ' in drawn
    assert re.findall("M(\\d+) 8h3", drawn)[0] == "0"


def day(*hours_ago: float) -> ActivityView:
    """A day in which something ended so long ago."""
    minutes = tuple(
        MinuteView(
            at=NOW - timedelta(hours=each), ended=1, failed=0, canceled=0, retried=0, late_p50_ms=1, late_p99_ms=1
        )
        for each in sorted(hours_ago, reverse=True)
    )
    return ActivityView(start=NOW - timedelta(days=1), end=NOW, minutes=minutes)


@pytest.mark.parametrize(
    ("hours_ago", "since"),
    [((), None), ((20.0,), None), ((20.0, 0.5), None), ((3.0, 0.5), 190), ((0.5,), 60), ((0.0,), 60)],
)
def test_a_chart_begins_where_something_begins(hours_ago: tuple[float, ...], since: int | None) -> None:
    found = charted(day(*hours_ago))
    first = NOW - (timedelta(days=1) if since is None else timedelta(minutes=since))
    assert found.series["at"][0] * 1_000 == from_datetime(first)
    assert found.since == (None if since is None else from_datetime(first))
    assert found.ended == len(hours_ago)


def test_the_page_of_the_search_has_one_field(site: Site) -> None:
    assert len(site.page("search?q=x").select("input[type=search]")) == 1
    assert len(site.page("workers").select("input[type=search]")) == 1

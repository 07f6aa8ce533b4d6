"""The timeline of a run: bars in proportion, idle time folded."""

import pytest

from evertick.cli.workflow.history import bars
from evertick.rules.workflows.timeline import Span

DAY = 24 * 3600 * 1000


def test_bars_are_as_wide_as_steps_are_long() -> None:
    assert bars([Span(0, 10, False), Span(10, 40, False), Span(20, 40, False)], 8) == ["██", "  ██████", "    ████"]


def test_a_sleep_of_days_leaves_short_steps_their_room() -> None:
    drawn = bars([Span(0, 10, False), Span(10, 3 * DAY, True), Span(3 * DAY, 3 * DAY + 10, False)], 13)

    assert drawn == ["█████", "     ┄┄┄", "        █████"]


def test_a_wait_beside_a_step_that_works_is_not_idle() -> None:
    assert bars([Span(0, DAY, False), Span(0, DAY, True), Span(DAY, 2 * DAY, False)], 8) == ["████", "░░░░", "    ████"]


def test_a_short_wait_is_not_folded() -> None:
    assert bars([Span(0, 90, False), Span(90, 100, True)], 10) == ["█████████", "         ░"]


@pytest.mark.parametrize("count", [0, 1, 500])
def test_every_step_has_a_column_and_none_goes_beyond_the_last(count: int) -> None:
    spans = [Span(n * DAY, n * DAY + n % 2 * DAY, n % 3 == 0) for n in range(count)]

    for bar in bars(spans, 20):
        assert bar.strip()
        assert len(bar) <= 20

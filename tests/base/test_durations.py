"""Durations in words."""

import pytest

from evertick.base.durations import full_length


@pytest.mark.parametrize(
    ("duration_ms", "words"),
    [
        (0, "0 ms"), (999, "999 ms"), (1_500, "1.5 s"), (9_999, "10 s"), (12_900, "12 s"), (2_520_000, "42 min"),
        (4_320_000, "1 h 12 min"), (3_599_999, "59 min 59 s"), (3_600_000, "1 h"), (86_405_000, "1 d"),
        (194_400_000, "2 d 6 h"), (365 * 86_400_000, "365 d"),
    ],
)  # fmt: skip
def test_a_full_length_has_two_units_and_is_rounded_down(duration_ms: int, words: str) -> None:
    assert full_length(duration_ms) == words

"""The axis of a timeline: moments in proportion, idle time folded."""

from evertick.rules.workflows.timeline import Axis, Span

DAY = 24 * 3600 * 1000


def test_moments_stand_in_proportion() -> None:
    axis = Axis([Span(0, 10, False), Span(10, 40, False)], 100.0, 5.0)

    assert [axis.at(moment) for moment in (-5, 0, 10, 25, 40, 99)] == [0.0, 0.0, 25.0, 62.5, 100.0, 100.0]
    assert not any(piece.folded for piece in axis.pieces)
    assert axis.scale == 2.5


def test_idle_time_is_folded_to_a_width_and_moments_in_it_keep_their_order() -> None:
    axis = Axis([Span(0, 10, False), Span(10, DAY, True), Span(DAY, DAY + 10, False)], 100.0, 4.0)

    assert [(piece.left, piece.right, piece.folded) for piece in axis.pieces] == [
        (0.0, 48.0, False),
        (48.0, 52.0, True),
        (52.0, 100.0, False),
    ]
    assert 48.0 < axis.at(DAY // 2) < 52.0
    assert [axis.is_folded(place) for place in (47.9, 48.0, 51.9, 52.0, 100.0)] == [False, True, True, False, False]


def test_without_a_fold_idle_time_has_its_length() -> None:
    axis = Axis([Span(0, 10, False), Span(10, 90, True), Span(90, 100, False)], 100.0, 0.0)
    assert [axis.at(moment) for moment in (10, 90)] == [10.0, 90.0]


def test_an_axis_of_nothing_is_empty() -> None:
    assert Axis([], 100.0, 5.0).pieces == []
    assert Axis([Span(5, 5, False)], 100.0, 5.0).at(5) == 0.0

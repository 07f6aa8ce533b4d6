"""What the editor says of catch-up is what happens after an outage, with each overlap policy and limit of runs."""

import pytest

from evertick import CatchUp, Overlap
from evertick.dashboard.editor.words import catch_ups
from evertick.testing import World, minutes, moment, seconds

LATE = [moment(f"00:0{minute}:00") for minute in range(2, 7)]


@pytest.mark.parametrize(
    ("overlap", "limit", "words", "runs"),
    [
        (Overlap.SKIP, 1, "only the oldest starts", LATE[:1]),
        (Overlap.SKIP, 2, "only the oldest 2 start;", LATE[:2]),
        (Overlap.BUFFER_ONE, 1, "the oldest starts and the next one waits", LATE[:2]),
        (Overlap.BUFFER_ONE, 2, "the oldest 2 start and the next one waits", LATE[:3]),
        (Overlap.BUFFER_ALL, 1, "Every time inside the window runs, the oldest first, one at a time", LATE),
        (Overlap.BUFFER_ALL, 2, "Every time inside the window runs, the oldest first, at most 2 at a time", LATE),
        (Overlap.CANCEL_OTHER, 1, "only the newest starts", LATE[-1:]),
        (Overlap.CANCEL_OTHER, 2, "only the newest 2 start,", LATE[-2:]),
        (Overlap.TERMINATE_OTHER, 1, "only the newest starts", LATE[-1:]),
        (Overlap.TERMINATE_OTHER, 2, "only the newest 2 start,", LATE[-2:]),
        (Overlap.ALLOW_ALL, 1, "Every time inside the window starts, all at once", LATE),
    ],
)
def test_catch_up_all_runs_what_the_editor_says(overlap: Overlap, limit: int, words: str, runs: list[object]) -> None:
    """A run takes 20 s, and no worker lives from 00:01:30 to 00:06:30."""
    with World() as world:
        report = world.schedule(
            every=minutes(1), takes=seconds(20), overlap=overlap, concurrency_limit=limit, catch_up=CatchUp.ALL
        )
        world.advance(seconds(90))
        world.outage(minutes(5))
        world.advance(minutes(3))
        started = [each.nominal for each in world.occurrences(report) if each.started is not None]
    assert sorted(each for each in started if each in LATE) == runs
    assert words in catch_ups(overlap, limit)[CatchUp.ALL]


@pytest.mark.parametrize("overlap", list(Overlap))
def test_the_other_policies_of_catch_up_do_not_depend_on_it(overlap: Overlap) -> None:
    for catch_up, runs in ((CatchUp.LATEST, LATE[-1:]), (CatchUp.NONE, [])):
        with World() as world:
            report = world.schedule(every=minutes(1), takes=seconds(20), overlap=overlap, catch_up=catch_up)
            world.advance(seconds(90))
            world.outage(minutes(5))
            world.advance(seconds(45))
            started = [each.nominal for each in world.occurrences(report) if each.started is not None]
        assert [each for each in started if each in LATE] == runs, catch_up
    assert "recorded as missed. The newest starts" in catch_ups(overlap, 1)[CatchUp.LATEST]

"""Every figure of docs/policies.md is what the engine does: it is drawn again from a run, and compared."""

import re
from collections.abc import Callable
from typing import Final

import pytest

from evertick import CatchUp, Overlap
from evertick.base.ids import ScheduleId
from evertick.testing import World, minutes, moment, seconds
from tests.docs.pages import ROOT

PAGE: Final = ROOT / "docs" / "policies.md"
FIGURE: Final = re.compile(r"^```\n(time .*?)\n```$", re.MULTILINE | re.DOTALL)

Scene = Callable[[World], ScheduleId]


def overlap(policy: Overlap, until: float, *, takes: float = 2.5, cleans_up: float = 0, limit: int = 1) -> Scene:
    """Times 1, 2, 3 and 4 under an overlap policy."""

    def play(world: World) -> ScheduleId:
        schedule = world.schedule(
            every=minutes(1),
            end=moment("00:04"),
            takes=minutes(takes),
            cleans_up=minutes(cleans_up),
            overlap=policy,
            concurrency_limit=limit,
        )
        world.advance(minutes(until))
        return schedule

    return play


def outage(
    policy: CatchUp, takes: float = 0, catch_up_window: float | None = None, meets: Overlap = Overlap.BUFFER_ALL
) -> Scene:
    """No worker runs from 1.5 to 4.5."""

    def play(world: World) -> ScheduleId:
        schedule = world.schedule(
            every=minutes(1),
            takes=minutes(takes),
            overlap=meets,
            catch_up=policy,
            catch_up_window=None if catch_up_window is None else minutes(catch_up_window),
        )
        world.advance(seconds(90))
        world.outage(minutes(3))
        world.advance(minutes(1))
        return schedule

    return play


def pause(world: World) -> ScheduleId:
    """Paused from 1.5 to 3.5."""
    schedule = world.schedule(every=minutes(1), takes=seconds(40))
    world.advance(seconds(90))
    world.app.schedules.pause(schedule)
    world.advance(minutes(2))
    world.app.schedules.resume(schedule)
    world.advance(minutes(2))
    return schedule


def pause_while_waiting(world: World) -> ScheduleId:
    """Paused when a time waits already, and resumed before its turn comes."""
    schedule = world.schedule(every=minutes(1), takes=minutes(2.5), overlap=Overlap.BUFFER_ONE)
    world.advance(minutes(2.2))
    world.app.schedules.pause(schedule)
    world.advance(minutes(1))
    world.app.schedules.resume(schedule)
    world.advance(minutes(1.5))
    return schedule


def failure(world: World) -> ScheduleId:
    """The worker dies at 2.5, and with it the run; the schedule is resumed at 4.5."""
    schedule = world.schedule(every=minutes(1), takes=seconds(40), pause_on_failure=True)
    world.advance(minutes(2.5))
    world.restart()
    world.advance(minutes(2))
    world.app.schedules.resume(schedule)
    world.advance(minutes(0.9))
    return schedule


def limit(world: World) -> ScheduleId:
    """Two actions, and a trigger."""
    schedule = world.schedule(every=minutes(1), takes=seconds(20), remaining_actions=2)
    world.advance(minutes(3.5))
    world.app.schedules.trigger(schedule)
    world.advance(minutes(1))
    world.app.schedules.pause(schedule)
    return schedule


def trigger(world: World) -> ScheduleId:
    """Three triggers while the run of 1 is open."""
    schedule = world.schedule(every=minutes(1), takes=minutes(2.5), end=moment("00:01"))
    for policy in (None, Overlap.BUFFER_ONE, Overlap.ALLOW_ALL):
        world.advance(minutes(1.5 if policy is None else 0.5))
        world.app.schedules.trigger(schedule, overlap=policy)
    world.advance(minutes(3.2))
    return schedule


def backfill(world: World) -> ScheduleId:
    """A backfill of 1, 2 and 3 at 5.2, one after the other, beside the time 6."""
    world.advance(minutes(5.2))
    schedule = world.schedule(every=minutes(1), takes=seconds(40), overlap=Overlap.BUFFER_ALL)
    world.app.schedules.backfill(schedule, moment("00:01"), moment("00:03"))
    world.advance(minutes(2.6))
    return schedule


SCENES: Final[list[tuple[str, list[Scene]]]] = [
    ("An outage of three days", [outage(CatchUp.ALL, takes=0.4, meets=Overlap.SKIP)]),
    ("skip (the default)", [overlap(Overlap.SKIP, 7)]),
    ("buffer_one", [overlap(Overlap.BUFFER_ONE, 7)]),
    ("buffer_all", [overlap(Overlap.BUFFER_ALL, 10)]),
    ("cancel_other", [overlap(Overlap.CANCEL_OTHER, 6, takes=60, cleans_up=2.5)]),
    ("terminate_other", [overlap(Overlap.TERMINATE_OTHER, 7)]),
    ("allow_all", [overlap(Overlap.ALLOW_ALL, 7)]),
    ("A concurrency limit", [overlap(Overlap.BUFFER_ALL, 7, takes=3.5, limit=2)]),
    ("For one request", [trigger]),
    (
        "Catch-up: no worker was running",
        [outage(CatchUp.ALL, takes=0.5), outage(CatchUp.LATEST, takes=0.5), outage(CatchUp.NONE, takes=0.5),
         outage(CatchUp.ALL, takes=0.5, catch_up_window=2)],
    ),
    ("Pause, and pause on failure", [pause, pause_while_waiting, failure]),
    ("A limited number of actions", [limit]),
    ("Backfill", [backfill]),
]  # fmt: skip
"""The figures under each title of the page, in their order."""


def figures_of(text: str) -> list[tuple[str, list[str]]]:
    """The figures of a page under each of its titles that has some."""
    found = []
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        figures = [figure for figure in FIGURE.findall(section) if "---" not in figure]
        if figures:
            found.append((title, figures))
    return found


def drawn(scene: Scene) -> str:
    """What happens in a scene."""
    with World() as world:
        return world.timeline(scene(world))


@pytest.mark.parametrize(("title", "scenes"), SCENES, ids=[title for title, _ in SCENES])
def test_a_figure_is_what_the_engine_does(title: str, scenes: list[Scene]) -> None:
    shown = dict(figures_of(PAGE.read_text(encoding="utf-8")))[title]

    assert shown == [drawn(scene) for scene in scenes]


def test_every_figure_of_the_page_has_its_scene() -> None:
    shown = figures_of(PAGE.read_text(encoding="utf-8"))

    assert [title for title, _ in shown] == [title for title, _ in SCENES]

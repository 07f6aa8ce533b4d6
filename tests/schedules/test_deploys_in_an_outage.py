"""A deploy after an outage: what is due runs as the new code says, and what the deploy drops is missed."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from evertick import App, CatchUp, Overlap, SyncActionCtx, daily
from evertick.schedules import Reason
from evertick.testing import World, days, hours, seconds
from tests.schedules.conftest import SetClock

OpenApp = Callable[..., App]
ALL: dict[str, Any] = {"overlap": Overlap.BUFFER_ALL, "catch_up": CatchUp.ALL}


def before(app: App, **options: Any) -> App:
    """The release that an outage ends: a cron at three in the night."""

    @app.action(name="app.night")
    def night(ctx: SyncActionCtx, depot: str) -> None: ...

    app.crons.using(**options).add("night", daily(hour=3), night, "north")
    return app


def after(app: App, cron: str = "night", **options: Any) -> App:
    """The next release: the function has another name, and its parameter too."""

    @app.action(name="app.run_night")
    def run_night(ctx: SyncActionCtx, site: str) -> None: ...

    app.crons.using(**options).add(cron, daily(hour=3), run_night, "north")
    return app


def down(world: World, deployed: App) -> None:
    """Three days without a worker, from five in the morning on, and then the next release."""
    world.advance(hours(5))
    world.kill()
    world.advance(days(3))
    world.deploy(deployed)


@pytest.mark.parametrize(("options", "runs"), [({}, 1), (ALL, 3)])
def test_late_times_of_a_cron_run_as_the_new_code_says(options: dict[str, Any], runs: int) -> None:
    with World(before(App("shop"), **options)) as world:
        down(world, after(App("shop"), **options))
        world.advance(days(1))

        assert [job.state for job in world.jobs("app.night")] == ["success"]
        late = world.jobs("app.run_night")
        assert [(job.state, job.args) for job in late] == [("success", {"site": "north"})] * (runs + 1)
        assert len(world.missed("night")) == 3 - runs


def test_what_is_due_when_a_cron_or_a_schedule_changes_starts_with_the_new_target(
    open_app: OpenApp, clock: SetClock
) -> None:
    old = before(open_app(), **ALL)
    old.migrate()
    old.sync_crons()
    night = old.functions.resolve("app.night")
    old.schedules.create("plain", when=daily(hour=3), do=night.with_args("north"), overlap=Overlap.ALLOW_ALL)
    clock.advance(timedelta(days=2, hours=5))
    new = after(open_app(), **ALL)
    new.sync_crons()
    new.schedules.update("plain", do=new.functions.resolve("app.run_night").with_args("south"))

    started = [(job.function, job.args["site"]) for job in new.jobs.list(newest_first=False).jobs]
    assert started == [("app.run_night", "north"), *[("app.run_night", "south")] * 3]
    assert [row.fate for row in new.schedules.occurrences("night").occurrences] == ["started", "buffered", "buffered"]


@pytest.mark.parametrize("options", [{}, ALL])
def test_late_times_of_a_cron_that_a_deploy_renames_are_missed(options: dict[str, Any]) -> None:
    with World(before(App("shop"), **options)) as world:
        down(world, after(App("shop"), cron="the night"))
        schedules = world.app.schedules

        assert world.jobs("app.run_night") == []
        missed = schedules.audit(schedule_id="night").missed
        assert [row.nominal.day for row in missed] == [2, 3, 4]
        assert {row.reason for row in missed} == {Reason.CATCH_UP_DROPPED}
        assert missed[0].detail == "2 d 2 h late; the schedule was deleted"
        overview = world.app.insight.overview()
        assert (overview.missed_day.number, overview.outages[0].missed) == (3, 3)

        schedules.backfill("the night", missed[0].nominal, missed[-1].nominal, overlap=Overlap.BUFFER_ALL)
        world.advance(seconds(5))
        assert len(world.jobs("app.run_night", state="success")) == 3


@pytest.mark.parametrize("drop", ["delete", "pause"])
def test_a_late_time_that_is_dropped_while_it_waits_is_missed(drop: str) -> None:
    with World() as world:
        report = world.schedule(when=daily(hour=3), takes=hours(1), **ALL)
        world.outage(days(2) + hours(3) + seconds(30))
        world.app.schedules.trigger(report)
        getattr(world.app.schedules, drop)(report)
        world.advance(hours(3))

        rows = world.occurrences(report)
        assert [row.reason for row in rows if row.origin == "schedule"] == ["caught_up", *["catch_up_dropped"] * 2]
        assert rows[1].detail.startswith("waited 1 d ")
        [by_hand] = [row.reason for row in rows if row.origin == "trigger"]
        assert by_hand == ("deleted" if drop == "delete" else "after_wait")

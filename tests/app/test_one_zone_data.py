"""One local time is one instant, also where the system's time zone data are older than those of the package `tzdata`.

`ZoneInfo` reads the system first. Here the system has a Berlin that is always nine hours east.
"""

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from evertick import MutationCtx, at, cron, every, rrule
from evertick.base.instants import Instant, from_datetime, to_local
from evertick.testing import World
from tests.app.conftest import OpenApp

NINE = datetime(2026, 7, 1, 7, tzinfo=UTC)
"""Nine o'clock in Berlin."""


@pytest.fixture
def berlin(tmp_path: Path) -> Iterator[ZoneInfo]:
    other = resources.files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").write_bytes(other)
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    yield ZoneInfo.no_cache("Europe/Berlin")
    zoneinfo.reset_tzpath(to=before)


def test_every_door_reads_the_same_data(berlin: ZoneInfo) -> None:
    nine = datetime(2026, 7, 1, 9, tzinfo=berlin)
    assert nine.utcoffset() == timedelta(hours=9)  # what the system says
    second = int(NINE.timestamp())

    assert at(nine).times[0].value == second
    assert every(hours=5, anchor=nine).intervals[0].anchor == second
    bounded = cron("0 9 * * *", tz="Europe/Berlin", start=nine, end=nine)
    assert (bounded.start, bounded.end) == (second, second)
    assert rrule("FREQ=DAILY", dtstart=nine).rrules[0].dtstart.text == "2026-07-01T09:00:00"
    assert from_datetime(nine) == second * 1000
    assert from_datetime(nine.replace(month=10, day=25, hour=2, fold=1)) == from_datetime(
        datetime(2026, 10, 25, 1, tzinfo=UTC)
    )


def test_a_job_at_nine_and_a_cron_at_nine_are_due_together(open_app: OpenApp, berlin: ZoneInfo) -> None:
    app = open_app()

    @app.mutation(name="note")
    def note(ctx: MutationCtx) -> None: ...

    with World(app, at="2026-07-01T00:00:00Z") as world:
        job = world.app.scheduler.run_at(datetime(2026, 7, 1, 9, tzinfo=berlin), "note")
        made = world.app.schedules.create("daily", when=cron("0 9 * * *", tz="Europe/Berlin"), do="note")
        assert world.app.jobs.get(job).due_at == made.next == NINE


def test_the_machine_s_own_clock_follows_the_package(berlin: ZoneInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert to_local(Instant(int(NINE.timestamp()) * 1000)).hour == 9

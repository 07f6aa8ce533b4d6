"""The buttons of a simulated clock."""

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from evertick import App, every
from evertick.app.database_clock import Simulation, simulation_of, write_simulation
from evertick.base.clock import SystemClock
from evertick.base.instants import HOUR_MS, Instant
from tests.dashboard.conftest import Site, site_of, text_of
from tests.server.conftest import order_of, shop_on

START = Instant(1_774_746_000_000)  # 2026-03-29T01:00:00Z


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[Site]:
    """The shop, on a night in March, its clock standing still."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    now = SystemClock().now()
    write_simulation(url, Simulation(start=START, real_start=now, speed=0.0))
    app = shop_on(lambda name, **options: App(name, database_url=url, **options))
    yield site_of(app)
    app.close()


def test_the_clock_stands_still_goes_and_goes_ahead(simulated: Site) -> None:
    e = simulated.app.environment
    assert e.clock.now() == START == e.clock.now()
    shown = text_of(simulated.page("schedules?tz=Europe/Berlin"))
    assert "Simulated clock: Sun 29 Mar 03:00 Europe/Berlin, stands still" in shown

    simulated.send("clock", do="play", speed="60", next="/t/default/schedules")
    written = simulation_of(e.store.url)
    assert written is not None and written.speed == 60.0
    simulated.send("clock", do="pause", next="/")
    stood = e.clock.now()
    assert START <= stood == e.clock.now()

    simulated.send("clock", do="hour", next="/")
    end = time.monotonic() + 60
    while e.clock.now() < stood + HOUR_MS:
        assert time.monotonic() < end, "an hour is a second"
    assert simulated.request("GET", "clock").json()["speed"] == 0.0, "then it stands again"


def test_the_next_run_is_gone_to(simulated: Site) -> None:
    no_run = simulated.send("clock", do="next", next="/t/default/schedules")
    assert "No%20schedule" in no_run.headers["set-cookie"]
    simulated.app.schedules.create("s", when=every(minutes=10), do=order_of(simulated.app))
    [each] = simulated.app.schedules.list().schedules
    assert each.next is not None
    said = unquote(simulated.send("clock", do="next", next="/").headers["set-cookie"])
    assert "runs ahead to Sun 29 Mar 01:10 UTC" in said
    clock = simulated.app.environment.clock
    assert each.next.timestamp() * 1000 <= clock.now() == clock.now(), "then it stands again"


@pytest.mark.parametrize(
    "fields", [{"do": "back"}, {"do": "play", "speed": "fast"}, {"do": "play", "speed": "1e9"}, {}]
)
def test_what_a_clock_cannot_do_is_refused(simulated: Site, fields: dict[str, str]) -> None:
    simulated.send("clock", status=422, **fields)
    assert simulated.app.environment.clock.now() == START


def test_a_server_by_the_machines_clock_has_no_buttons(site: Site) -> None:
    assert "Simulated" not in text_of(site.page("schedules"))
    site.send("clock", status=409, do="pause")

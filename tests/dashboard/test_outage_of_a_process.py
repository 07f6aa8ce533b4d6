"""An outage of a real server: it is killed and comes back, and the overview says within ten seconds what was missed."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import pytest
from bs4 import BeautifulSoup

from evertick import App
from tests.cli.programs import DEADLINE_S, Program, Start, programs_in
from tests.dashboard.conftest import text_of
from tests.dashboard.test_outage import sent

pytestmark = pytest.mark.processes

T = TypeVar("T")
BOUND_S = 10.0
"""From the moment at which the server is back to the overview that says so."""
AWAY_S = 60
"""How long it is away. The server that is killed has a clock that is so much behind, so that the test need not wait."""
APP = """
import os

from evertick import App, every
from evertick.base.clock import SystemClock


class Behind(SystemClock):
    def now(self):
        return super().now() - int(os.environ["BEHIND_S"]) * 1_000


app = App("shop", clock=Behind())


@app.mutation
def order(ctx) -> None: ...


app.crons.using(catch_up="all", catch_up_window=10, overlap="allow_all").add("tick", every(seconds=1), order)
"""


class Visitor:
    """Reads the pages of a server with a token, as a browser without script."""

    def __init__(self, program: Program, secret: str) -> None:
        found = re.search(r"serves shop at (http\S+)", program.wait_for(r"serves shop at http"))
        assert found is not None
        self.origin, self.headers = found[1], {"Cookie": f"evertick_token={secret}; evertick_zone=UTC"}

    def ask(self, path: str, form: dict[str, list[str]] | None = None) -> tuple[int, BeautifulSoup]:
        """The status and the page of a reply."""
        connection = HTTPConnection(urlsplit(self.origin).netloc, timeout=30)
        if form is None:
            connection.request("GET", path, headers=self.headers)
        else:
            media = {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", path, urlencode(form, doseq=True), self.headers | media)
        reply = connection.getresponse()
        found = reply.status, BeautifulSoup(reply.read(), "html.parser")
        connection.close()
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers; whatever still runs after the test is killed."""
    (tmp_path / "app.py").write_text(APP)
    with programs_in(tmp_path) as begin:
        yield begin


def until(look: Callable[[], T | None], bound_s: float) -> T:
    """What a look returns once it is something, within so many seconds."""
    end = time.monotonic() + bound_s
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def times_of(app: App, origin: str, *fates: str) -> set[datetime]:
    """The times of the ledger with this origin and one of these fates."""
    rows = app.schedules.occurrences("tick", limit=1_000).occurrences
    return {row.nominal for row in rows if row.origin == origin and row.fate in fates}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """The servers' database, to look into it. It is SQLite: PostgreSQL sets the clocks of its workers by its own."""
    with contextlib.closing(App("shop", database_url=f"sqlite:///{tmp_path}/shop.db")) as opened:
        opened.open()
        yield opened


def test_a_server_that_comes_back_says_what_was_missed_and_runs_it(app: App, start: Start) -> None:
    words = ("serve", "app.py", "--db", str(app.environment.store.url), "--port", "0", "--worker")
    killed = start(*words, BEHIND_S=str(AWAY_S))
    secret = re.search(r"evt_\w+", killed.wait_for(r"evt_\w+"))
    assert secret is not None
    visitor = Visitor(killed, secret[0])
    until(lambda: times_of(app, "schedule", "started"), DEADLINE_S)
    assert "Outage" not in text_of(visitor.ask("/t/default")[1])

    killed.kill_everything()
    visitor = Visitor(start(*words, BEHIND_S="0"), secret[0])
    banner = until(lambda: visitor.ask("/t/default")[1].select_one(".banner.missed"), BOUND_S)
    missed = times_of(app, "schedule", "missed")
    assert len(missed) > AWAY_S - 20
    assert f"{len(missed)} times of 1 schedule were missed" in text_of(banner)
    assert "no worker looked at it from" in app.schedules.explain("tick", min(missed)).sentence

    [button] = banner.select("a.b")
    status, plan = visitor.ask(str(button["href"]))
    assert (status, f"Backfill {len(missed)} missed times" in text_of(plan)) == (200, True)
    assert visitor.ask("/t/default/bulk/schedules/backfill", sent(plan))[0] == 303
    until(lambda: times_of(app, "backfill", "started") == missed, DEADLINE_S)

"""An outage of a real server: it is killed and comes back, and the overview says within ten seconds what was missed."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlencode, urlsplit

import psycopg
import pytest
from bs4 import BeautifulSoup

from evertick import App
from evertick.store.open import open_store
from tests.cli.programs import DEADLINE_S, Program, Start, programs_in
from tests.dashboard.conftest import text_of
from tests.dashboard.test_outage import sent

pytestmark = [pytest.mark.processes, pytest.mark.long]

T = TypeVar("T")
BOUND_S = 10.0
"""From the moment at which the server is back to the overview that says so."""
AWAY_S = 60
"""How long it is away. The server that is killed has a clock that is so much behind, so that the test need not wait."""
BEHIND: Final = f"""
create function clock_timestamp() returns timestamptz language sql volatile
as $$ select pg_catalog.clock_timestamp() - interval '{AWAY_S} seconds' $$
"""
"""PostgreSQL sets the clocks of its workers by its own, so there it is the database's that is behind."""
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


@dataclass
class Place:
    """A database whose clock, or that of the first server on it, is behind at first."""

    url: str
    behind_s: int = AWAY_S
    """What the first server's own clock is behind."""

    def set_clock(self) -> None:
        """From now on the time is the true one for whoever connects."""


class PostgresPlace(Place):
    def __init__(self, url: str) -> None:
        super().__init__(url, behind_s=0)
        with contextlib.closing(open_store(url)) as store:
            store.migrate()
        self._run("alter database {} set search_path = public, pg_catalog", BEHIND)

    def set_clock(self) -> None:
        self._run("drop function clock_timestamp()")

    def _run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for each in statements:
                connection.execute(each.format(urlsplit(self.url).path.lstrip("/")))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The servers' database, of each kind."""
    if request.param == "sqlite":
        return Place(f"sqlite:///{tmp_path}/shop.db")
    return PostgresPlace(request.getfixturevalue("postgres_url"))


@contextlib.contextmanager
def looking_into(place: Place) -> Iterator[App]:
    """The servers' database, to look into it."""
    with contextlib.closing(App("shop", database_url=place.url)) as opened:
        opened.open()
        yield opened


def test_a_server_that_comes_back_says_what_was_missed_and_runs_it(place: Place, start: Start) -> None:
    words = ("serve", "app.py", "--db", place.url, "--port", "0", "--worker")
    with looking_into(place) as app:
        secret = app.tokens.create("visitor", scope="admin").secret
    killed = start(*words, BEHIND_S=str(place.behind_s))
    visitor = Visitor(killed, secret)
    with looking_into(place) as app:
        until(lambda: times_of(app, "schedule", "started"), DEADLINE_S)
    assert "Outage" not in text_of(visitor.ask("/t/default")[1])

    killed.kill_everything()
    place.set_clock()
    visitor = Visitor(start(*words, BEHIND_S="0"), secret)
    back = time.monotonic()
    banner = until(lambda: visitor.ask("/t/default")[1].select_one(".banner.missed"), BOUND_S)
    print(f"the overview said what was missed {time.monotonic() - back:.1f} s after the server was back")
    with looking_into(place) as app:
        missed = times_of(app, "schedule", "missed")
        assert len(missed) > AWAY_S - 20
        assert f"{len(missed)} times of 1 schedule were missed" in text_of(banner)
        assert "no worker evaluated it from" in app.schedules.explain("tick", min(missed)).sentence

        [button] = banner.select("a.b")
        status, plan = visitor.ask(str(button["href"]))
        assert (status, f"Backfill {len(missed)} missed times" in text_of(plan)) == (200, True)
        assert visitor.ask("/t/default/bulk/schedules/backfill", sent(plan))[0] == 303
        until(lambda: times_of(app, "backfill", "started") == missed, DEADLINE_S)

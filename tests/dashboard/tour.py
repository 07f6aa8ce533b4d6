"""A tour of every page, in a real browser, over the week of the demonstration: `python -m tests.dashboard.tour`.

It begins at the first page and follows links until it has seen a page of each route: in light wide, in dark and in
forced colours narrow at a zoom of 200 %, each in a zone of its own. Each must load without an error of a script, ask no
other host, pass axe, and not scroll sideways.
`--pictures FOLDER` keeps a picture of each.
"""

import argparse
import contextlib
import logging
import re
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import urlsplit

from fastapi.routing import APIRoute
from playwright.sync_api import Browser
from starlette.routing import Match

from evertick.api.gateway_fleet import Registration
from evertick.api.gateways import GatewayCron
from evertick.base.instants import to_iso
from evertick.base.records.gateways import SyncResult
from evertick.dashboard.application import Dashboard
from evertick.demo import shop, week
from evertick.server.application import Server
from evertick.server.limits import Limits, Rate
from evertick.store.open import open_settled
from tests.dashboard.browser import PATIENCE_MS, Window, chromium, open_window

LOOKS: Final = (
    (False, 1280, "America/New_York", False),
    (True, 400, "Asia/Kathmandu", False),
    (False, 400, "UTC", True),
)
"""Whether a look is in the dark, how wide, in which zone, and whether in forced colours: each value at least once."""
VIEWS_MAX: Final = 4
"""Views of one thing, such as the tabs of its page."""
VISITS_MAX: Final = 12
"""Pages of one route whose links are followed: a schedule of the code has others than one that was made at run time."""
LINKED: Final = "a[href], form[action]:not([method=post])"
LINKS: Final = (
    "found => found.map(each => new URL(each.getAttribute('href') ?? each.getAttribute('action'), location.href).href)"
)
REACHED_BY_BUTTONS: Final = (
    "download_logs",
    "export_many",
    "show_commands",
    "show_progress",
    "show_cancel",
    "show_batch",
    "show_new_view",
    "show_view",
    "show_delete_view",
)
"""They are about the rows that are ticked, or the words that are typed; tests of their own look at them."""
SKIPPED: Final = frozenset(
    {"stream_hints", "send_file", "missing", "show_login", "home", "show_clock", *REACHED_BY_BUTTONS}
)
"""Routes that are no pages with links to them."""
UNSTUCK: Final = """() => {
    const sheet = new CSSStyleSheet()
    sheet.replaceSync(".savebar, .bulk, thead th, .rail > div { position: static !important }")
    document.adoptedStyleSheets = [sheet]
}"""
"""A picture of a whole page shows at its end what sticks to the window's edge, as paper would."""
SHOWN: Final = {
    "show_job": ("functions?state=failed&function=shop.render_report", "a[href*='/jobs/job_']"),
    "show_run": ("workflows?workflow=shop.fulfil", ".c-run-id a"),
}
"""Of these the first that is found says little: the list and the link of a better one."""


@contextlib.contextmanager
def demonstration(folder: Path) -> Iterator[Server]:
    """The server of the demonstration, as `evertick dev --demo` has it; its clock stands still."""
    path = folder / "evertick-demo.db"
    week.simulate(shop.app, path, speed=0.0, report=lambda day: print(f"  simulated until {day}", flush=True))
    app, store = shop.app, open_settled(f"sqlite:///{path}")
    app.open_on(store)
    app.scripts.enable()
    try:
        with app.running():
            _run_scripts(app)
            _add_gateway(app)
            # An event that its run does not wait for, so that there is one to withdraw.
            app.workflows.signal(app.workflows.list(limit=2).runs[1].id, "returned")
            yield _served(app)
    finally:
        app.close()
        store.close()


CARTS: Final = """// Mail customers whose cart was not touched since yesterday.
export default async function (ctx) {
  ctx.log("reminding after", ctx.input.days, "days")
  await ctx.kv.set("reminded", ctx.input)
  return { reminded: 1 }
}
"""


def _run_scripts(app: Any) -> None:
    """Scripts of a customer: one that runs by a schedule, one that is too slow, one that is only a draft."""
    scripts = app.scripts
    parameters = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
    scripts.create("open-carts", CARTS, language="javascript", parameters=parameters, note="as agreed with sales")
    scripts.publish("open-carts")
    scripts.edit("open-carts", CARTS.replace("yesterday", "the day before"), note="a clearer comment")
    scripts.publish("open-carts")
    app.schedules.create("customer carts", when="every day at 9:00", do=scripts.call("open-carts", {"days": 1}))
    slow = "def main(ctx):\n    while True:\n        ctx.input\n"
    scripts.create("weekly-totals", slow, language="python", note="sums of the week")
    scripts.publish("weekly-totals")
    scripts.create("cases", CARTS, language="javascript")
    for job in (scripts.start("open-carts", {"days": 1}), scripts.start("weekly-totals")):
        while app.jobs.get(job).completed_at is None:
            time.sleep(0.05)


def _add_gateway(app: Any) -> None:
    """A gateway that was last seen ten minutes ago, with a cron that is ours and one of its own."""
    store, now = app.environment.store, app.environment.clock.now()
    token = app.gateways.join_token("warehouse").token
    app.gateways.joining.register(Registration(join_token=token, name="warehouse", instance_id="i", runtime="evertick"))
    schedule = {"type": "cron", "expression": "0 3 * * *", "timezone": "Europe/Berlin"}
    common = {
        "schedule": schedule, "enabled": True, "action": {"type": "builtin", "name": "purge_cache"}, "revision": "1",
        "next_run_at": to_iso(now), "last_run_at": None, "last_status": None, "last_error": None, "running": False,
        "consecutive_errors": 0,
    }  # fmt: skip
    crons = [
        GatewayCron.model_validate({"id": key, "key": key, "name": key, "managed": ours, "system": not ours, **common})
        for key, ours in (("purge cache", True), ("heartbeat", False))
    ]
    found = SyncResult("degraded", '["the disk is nearly full"]', "1", "d", "[]", '["purge_cache", "reindex"]')

    def write(tx: Any) -> None:
        row = tx.claim_gateway(tx.get_gateway("warehouse", tenant="default").id, until=now)
        tx.note_sync(row, found, crons, now=now)
        row = tx.get_gateway("warehouse", tenant="default")
        tx.save_gateway(row._replace(last_seen_at=now - 600_000))

    store.write(write)


def _served(app: Any) -> Server:
    server = Server(app, asks_tokens=False, limits=Limits(requests=Rate(100_000, 1.0)))
    server.show(Dashboard())
    return server


class Tour:
    """What has been seen of a server's pages, and what was wrong with it."""

    def __init__(self, server: Server, browser: Browser, pictures: Path | None) -> None:
        self._routes = [each for router in Dashboard.routes for each in router.routes if isinstance(each, APIRoute)]
        self._server = server
        self._browser = browser
        self._pictures = pictures
        self.seen: dict[str, str] = {}
        self.faults: list[str] = []

    def names(self) -> set[str]:
        """The pages that there are."""
        return {each.name for each in self._routes if each.methods == {"GET"}} - SKIPPED

    def crawl(self) -> None:
        """Find a page of each route by following links."""
        with self._window() as window:
            left = deque([window.address + "/t/default"])
            known, visits, paths = set(left), Counter[str](), Counter[str]()
            while left and self.names() - self.seen.keys():
                url = left.popleft()
                name = self._name_of(url)
                path = urlsplit(url).path
                if name is None or visits[name] >= VISITS_MAX or paths[path] >= VIEWS_MAX:
                    continue
                visits[name] += 1
                paths[path] += 1
                reply = window.page.request.get(url)
                if reply.status >= 400:
                    self.faults.append(f"{url}: status {reply.status}")
                    continue
                is_page = reply.headers.get("content-type", "").startswith("text/html")
                self.seen.setdefault(name, url.removeprefix(window.address) if is_page else "")
                if not is_page:
                    continue
                window.page.goto(url)
                for href in window.page.eval_on_selector_all(LINKED, LINKS):
                    plain = href.partition("#")[0]
                    if plain.startswith(window.address) and plain not in known:
                        known.add(plain)
                        left.append(plain)

        self._choose()

    def _choose(self) -> None:
        with self._window() as window:
            for name, (path, link) in SHOWN.items():
                page = window.go(path)
                self.seen[name] = page.locator(f"main {link}").first.get_attribute("href") or ""

    def look(self, *, dark: bool, width: int, zone: str, forced: bool = False) -> None:
        """Look at every page that was found; narrow ones at a zoom of 200 %, `forced` ones in forced colours."""
        how = "forced" if forced else f"{'dark' if dark else 'light'}{'' if width > 1_000 else width}"
        with self._window(dark=dark, width=width, zone=zone, forced=forced) as window:
            for name, path in sorted(self.seen.items()):
                if path:
                    self._look_at(window, name, path, how)

    def follow_backfills(self) -> None:
        """Look at a backfill in each of its states: planned, running, about to be stopped, stopped, ended."""
        with self._window() as window:
            page = window.go("schedules/prices north/backfill?start=2026-03-18&end=2026-03-25")
            self._judge(window, "backfill_planned")
            page.get_by_role("button", name="Start", exact=False).click()
            page.locator(".legend.prl .ok").get_by_text(" ok").wait_for()
            page.locator(".legend.prl .running").first.wait_for()
            self._judge(window, "backfill_running", full_page=False)
            page.get_by_text("Stop…", exact=True).click()
            page.locator("dialog").get_by_text("Let it run").wait_for()
            self._judge(window, "backfill_stop", full_page=False)
            page.locator("dialog").get_by_role("button", name="Stop, leaving out", exact=False).click()
            page.locator(".st.big").get_by_text("stopped").wait_for()
            self._judge(window, "backfill_stopped", full_page=False)
            page = window.go("schedules/clear carts/backfill?start=2026-03-22&end=2026-03-24&rerun=on")
            page.get_by_role("button", name="Start", exact=False).click()
            page.locator(".st.big").get_by_text("ended").wait_for()
            self._judge(window, "backfill_ended")
            window.go("schedules/prices north/backfills")
            self._judge(window, "backfills")

    def _look_at(self, window: Window, name: str, path: str, how: str) -> None:
        window.page.goto(window.address + path)
        self._judge(window, name, how, path)

    def _judge(self, window: Window, name: str, how: str = "light", path: str = "", *, full_page: bool = True) -> None:
        report = window.axe()
        if report:
            self.faults.append(f"{name} ({how}) {path}:\n{report}")
        beyond = window.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if beyond > 0:
            self.faults.append(f"{name} ({how}) {path}: scrolls {beyond} px sideways")
        if self._pictures is not None:
            window.page.evaluate(UNSTUCK)
            window.page.screenshot(path=self._pictures / f"{name.removeprefix('show_')}-{how}.png", full_page=full_page)

    @contextlib.contextmanager
    def _window(
        self, *, dark: bool = False, width: int = 1280, zone: str = "Europe/Berlin", forced: bool = False
    ) -> Iterator[Window]:
        how: Any = {
            "color_scheme": "dark" if dark else "light",
            "viewport": {"width": width, "height": 900},
            "timezone_id": zone,
            "forced_colors": "active" if forced else "none",
            "device_scale_factor": 1 if width > 1_000 else 2,
        }
        try:
            with open_window(self._browser, self._server, None, **how) as window:
                yield window
        except AssertionError:
            self.faults += window.complaints

    def _name_of(self, url: str) -> str | None:
        path = urlsplit(url).path
        scope = {"type": "http", "path": re.sub(r"%2F", "_", path), "method": "GET"}
        for route in self._routes:
            if route.matches(scope)[0] is Match.FULL:
                return None if route.name in SKIPPED else route.name
        return None


def main() -> int:
    """Make the tour; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, help="where to keep a picture of each page")
    asked = parser.parse_args()
    if asked.pictures is not None:
        asked.pictures.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    logging.disable(logging.WARNING)  # the shop's own lines
    patient = patch("evertick.dashboard.page.SLOW_S", PATIENCE_MS / 1_000)
    with patient, tempfile.TemporaryDirectory() as folder, demonstration(Path(folder)) as server:
        for browser in chromium():
            tour = Tour(server, browser, asked.pictures)
            tour.crawl()
            for dark, width, zone, forced in LOOKS:
                tour.look(dark=dark, width=width, zone=zone, forced=forced)
            tour.follow_backfills()  # the last: it leaves runs behind
    unseen = sorted(tour.names() - tour.seen.keys())
    for fault in tour.faults:
        print(fault)
    if unseen:
        print("no link leads to:", ", ".join(unseen))
    print(f"{len(tour.seen)} pages, {len(tour.faults) + len(unseen)} faults, {time.monotonic() - began:.0f} s")
    return 1 if tour.faults or unseen else 0


if __name__ == "__main__":
    sys.exit(main())

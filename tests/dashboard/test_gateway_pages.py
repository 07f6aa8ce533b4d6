"""The pages of gateways, and the list of everything that is scheduled."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from bs4 import Tag
from playwright.sync_api import Browser

from evertick import cron as cron_line
from evertick import every
from evertick.app.gateways.all_schedules import everything
from evertick.base.clock import ManualClock
from evertick.base.errors import InvalidArguments, Misuse
from evertick.base.ids import DEFAULT_TENANT
from evertick.dashboard.markup.templates import action_words, plain_text
from evertick.gateway_client import Request
from tests.app.conftest import OpenApp
from tests.dashboard.browser import open_window
from tests.dashboard.commands import commands_in
from tests.dashboard.conftest import Site, site_of, text_of
from tests.dashboard.fields import fields_sent
from tests.dashboard.test_every_form import TYPED, complained, form_of, texts_in
from tests.dashboard.test_narrow_pages import sideways
from tests.gateways.conftest import BEGAN, Platform, Played, cron
from tests.server.conftest import order_of, shop_on

HOSTILE = "<img src=x>\u202e"
PAGES = (
    "everything", "gateways", "gateways/edge-1", "gateways/edge-1/crons/c1", "gateways/edge-1/crons/c1/edit",
    "gateways/edge-1/new-cron", "gateways/edge-1/crons/c1/remove", "gateways/edge-1/rotate", "new-gateway",
)  # fmt: skip


class Edge(Played):
    """A played gateway whose crons can be changed, and which keeps runs; `refusal` is what it says to changes."""

    def __init__(self, name: str = "edge-1") -> None:
        super().__init__(name)
        self.refusal: tuple[int, str, str] | None = None
        self.output = "\x1b[31mred\x1b[0m\x07 <b>done</b>\r\n\tend"

    def _reply(self, request: Request) -> tuple[int, Any]:
        path = request.path.partition("?")[0]
        if self.refusal is not None and request.method != "GET":
            status, code, message = self.refusal
            return status, {"code": code, "detail": message}
        if path.endswith("/runs"):
            return 200, {"runs": [self._run(path.split("/")[3], "succeeded"), self._run(path.split("/")[3], "failed")]}
        if request.method == "PATCH":
            [found] = [each for each in self.crons if path == f"/v1/crons/{each['id']}"]
            wanted = request.headers.get("If-Match", "").strip('"')
            if wanted and wanted != found["revision"]:
                return 409, {"code": "revision_conflict", "detail": "the cron changed"}
            given = {name: value for name, value in request.body.items() if value is not None}
            found |= {**given, "revision": f"{found['revision']}+"}
            return 200, found
        return super()._reply(request)

    def _run(self, cron_id: str, status: str) -> dict[str, Any]:
        return {
            "run_id": f"run-{status}", "cron_id": cron_id, "occurrence": "2026-03-02T08:59:00Z",
            "started_at": "2026-03-02T08:59:00Z", "ended_at": "2026-03-02T08:59:01Z", "duration_ms": 1_000,
            "status": status, "trigger": "schedule", "error": f"exit 3 {HOSTILE}" if status == "failed" else None,
            "output": self.output,
        }  # fmt: skip


def shop_with_edge(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """The shop with the gateway `edge-1`: a cron of ours, a disabled, a foreign and a hostile system one."""
    clock = ManualClock(BEGAN)
    platform = Platform(shop_on(partial(open_app, clock=clock)), clock, monkeypatch)
    edge = platform.played["edge-1"] = Edge()
    action = {"type": "command", "name": "hello", "arguments": {"days": "7"}}
    edge.crons = [
        cron("c1", 60, name="purge", schedule={"type": "cron", "expression": "1 9 * * *", "timezone": "Asia/Tokyo"}),
        cron("c2", 120, name="paused", enabled=False, action=action),
        cron("c3", 180, name="theirs", managed=False, key=None, last_status="failed",
             last_run_at="2026-03-02T08:00:00Z", action={"type": "agent"}),
        cron("c4", 7_200, name=HOSTILE, managed=False, system=True, key=None,
             schedule={"type": "event", "detail": HOSTILE}),
    ]  # fmt: skip
    platform.join()
    platform.gateways().check("edge-1")
    return platform


@pytest.fixture
def platform(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> Platform:
    return shop_with_edge(open_app, monkeypatch)


@pytest.fixture
def site(platform: Platform) -> Iterator[Site]:
    yield site_of(platform.app)


def edge_of(platform: Platform) -> Edge:
    found = platform.played["edge-1"]
    assert isinstance(found, Edge)
    return found


def names_in(site: Site, path: str) -> list[str]:
    return [text_of(each) for each in site.page(path).select(".evs tbody th a")]


def row_of(site: Site, name: str, path: str = "everything") -> Tag:
    [found] = [each for each in site.page(path).select(".evs tbody tr") if text_of(each.th or each).startswith(name)]
    return found


def add_schedules(platform: Platform) -> None:
    """One that runs before the crons of the gateway, one between them, and one that is paused."""
    app = platform.app
    app.schedules.create("first", when=every(seconds=30), do=order_of(app))
    app.schedules.create("third", when=every(seconds=90), do=order_of(app))
    app.schedules.create("rests", when=cron_line("0 12 * * *"), do=order_of(app))
    app.schedules.pause("rests", "maintenance")


def test_the_page_of_gateways_says_how_the_first_one_joins(site: Site, platform: Platform) -> None:
    platform.gateways().remove("edge-1")
    assert site.page("").select('.rail a[href$="/gateways"]')
    assert "There is no gateway in default yet" in text_of(site.page("gateways"))


def test_everything_is_one_list_by_next_time(site: Site, platform: Platform) -> None:
    add_schedules(platform)

    assert names_in(site, "everything")[:4] == ["first", "purge", "third", "theirs"]
    assert set(names_in(site, "everything")[4:]) == {"rests", "paused", "<img src=x>\\u202e"}
    row = text_of(row_of(site, "purge"))
    assert "gateway cron edge-1 healthy 1 9 * * * Asia/Tokyo enabled 09:01" in row
    assert "schedule" in text_of(row_of(site, "first")) and "UTC" not in text_of(row_of(site, "first"))
    tokyo = site.page("everything?tz=Asia/Tokyo")
    assert "18:01" in text_of(next(each for each in tokyo.select(".evs tr") if "purge" in text_of(each)))


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("kind=schedule", {"first", "third", "rests"}), ("kind=cron", set()), ("status=paused", {"rests"}),
        ("kind=gateway", {"purge", "theirs", "paused", "<img src=x>\\u202e"}),
        ("gateway=edge-1&status=enabled", {"purge", "theirs", "<img src=x>\\u202e"}), ("status=disabled", {"paused"}),
        ("status=enabled", {"first", "third", "purge", "theirs", "<img src=x>\\u202e"}), ("status=removed", set()),
        ("status=offline", set()), ("status=overdue", set()),
    ],
)  # fmt: skip
def test_filters_choose_rows_of_both_kinds(site: Site, platform: Platform, asked: str, names: set[str]) -> None:
    add_schedules(platform)
    assert set(names_in(site, f"everything?{asked}")) == names


def test_what_is_overdue_offline_or_removed_says_so(site: Site, platform: Platform) -> None:
    add_schedules(platform)
    platform.wait(125)
    platform.beat()
    assert names_in(site, "everything?status=overdue") == ["first", "purge"]
    platform.beat()
    edge_of(platform).crons.pop()
    platform.gateways().check("edge-1")
    assert names_in(site, "everything?status=removed") == ["<img src=x>\\u202e"]

    platform.silence(100)

    assert set(names_in(site, "everything?status=offline")) == {"purge", "theirs", "paused"}
    platform.beat()
    assert names_in(site, "everything?status=offline") == []
    platform.gateways().joining.deregister(platform.secrets["edge-1"], "i1")
    assert set(names_in(site, "everything?status=offline")) == {"purge", "theirs", "paused"}
    assert names_in(site, "everything?status=overdue") == ["first"]
    row = row_of(site, "purge")
    assert "grey" in (row["class"] if row.has_attr("class") else "") and "as of 09:02:05" in text_of(row)
    assert "offline" in text_of(site.page("gateways/edge-1")) and "The gateway is offline" in text_of(
        site.page("gateways/edge-1/crons/c1")
    )


def test_pages_of_both_kinds_follow_each_other_without_a_gap(platform: Platform) -> None:
    add_schedules(platform)
    app, now = platform.app, platform.clock.now()

    def read(**how: Any) -> list[str]:
        names, cursor = [], None
        while True:
            page = app.environment.store.read(everything(DEFAULT_TENANT, now, cursor=cursor, **how))
            names += [each.cron.id if hasattr(each, "cron") else each.id for each in page.rows]
            if (cursor := page.cursor) is None:
                return names

    whole = read()
    assert len(whole) == 7 and [read(limit=limit) for limit in (1, 2, 3, 7)] == [whole] * 4
    assert read(limit=1, status="enabled") == read(status="enabled")
    for cursor in ("x", "W10=", "WzEsMiwzLDQsNV0="):
        with pytest.raises(InvalidArguments):
            everything(DEFAULT_TENANT, now, cursor=cursor)
    with pytest.raises(Misuse):
        everything(DEFAULT_TENANT, now, status="odd")


def test_unknown_filters_are_refused_with_their_names(site: Site) -> None:
    assert "kind must be one of schedule, cron, gateway" in text_of(site.page("everything?kind=odd", status=422))
    assert "no gateway 'none'" in text_of(site.page("everything?gateway=none", status=404))


def test_foreign_and_system_crons_have_no_actions(site: Site, platform: Platform) -> None:
    add_schedules(platform)
    ours, theirs = row_of(site, "purge"), row_of(site, "theirs")
    assert [text_of(each) for each in ours.select(".menu .b")][1:] == [
        "Run now…",
        "Disable…",
        "Edit",
        "Runs",
        "Remove…",
    ]
    assert [text_of(each) for each in theirs.select(".acts-c .b")] == ["Runs"]
    assert [text_of(each) for each in row_of(site, "first").select(".menu .b")][1:] == [
        "Run now…", "Pause…", "Runs", "Remove…",
    ]  # fmt: skip
    for each in site.page("everything").select(".menu a[href]"):
        site.page(str(each["href"]))
    page = site.page("gateways/edge-1/crons/c4")
    assert page.select(".head .acts") == [] and "read-only here" in text_of(page)


def test_a_cron_is_added_changed_run_and_removed_at_its_gateway(site: Site, platform: Platform) -> None:
    edge = edge_of(platform)
    refused = site.refused("gateways/edge-1/new-cron", when="interval", does="http")
    assert {"f-key-e", "f-every-e", "f-url-e"} <= {str(each["id"]) for each in refused.select(".err[id]")}

    fields = {"key": "fresh", "when": "interval", "every": "15m", "does": "command", "command": "hello"}
    arguments = '{"days": "7"}'
    shown = site.preview("gateways/edge-1/new-cron", **fields, arguments=arguments)
    assert commands_in(shown) == [
        'evertick gateway cron add edge-1 fresh --every 15m --command hello --arguments \'{"days": "7"}\''
    ]
    place = site.send("gateways/edge-1/new-cron", **fields, arguments=arguments).headers["location"]
    made = platform.gateways().cron("edge-1", "fresh")
    assert place.endswith(f"/crons/{made.cron.id}")
    assert made.cron.schedule.every_ms == 900_000 and made.cron.action.arguments == {"days": "7"}

    once = {"key": "once", "when": "once", "at": "2999-12-01 09:00", "does": "command", "command": "hello"}
    site.send("gateways/edge-1/new-cron", **once, zone="Asia/Tokyo")
    at = platform.gateways().cron("edge-1", "once").cron.schedule.at
    assert at is not None and f"{at:%F %H:%M}" == "2999-12-01 00:00"
    assert "zone" in site.refused("gateways/edge-1/new-cron", **once, zone="Nowhere").text

    form = form_of(site, "gateways/edge-1/crons/c1/edit")
    sent = {name: values[0] for name, values in fields_sent(form).items()}
    assert (sent["cron"], sent["zone"], sent["builtin"]) == ("1 9 * * *", "Asia/Tokyo", "health_probe")
    assert "Nothing has changed" in text_of(site.refused("gateways/edge-1/crons/c1/edit", **sent))
    site.send("gateways/edge-1/crons/c1/edit", **sent | {"cron": "5 9 * * *"})
    [patch] = [each for each in edge.asked if each.method == "PATCH"]
    changed = {name for name, value in patch.body.items() if value is not None}
    assert changed == {"schedule"} and patch.body["schedule"]["expression"] == "5 9 * * *"
    assert patch.headers["If-Match"].strip('"') == "1"

    for action, count in (("run", 1), ("disable", 0), ("enable", 0), ("remove", 0)):
        asked = site.page(f"gateways/edge-1/crons/c1/{action}")
        assert len(commands_in(asked)) == 1, count
        site.send(f"gateways/edge-1/crons/c1/{action}")
    assert not [each for each in edge.crons if each["id"] == "c1"]
    done = [each.action for each in platform.app.audit_log.list(tenant="default").changes]
    assert {f"gateway.cron.{each}" for each in ("add", "update", "run", "remove")} <= set(done)
    assert action_words("gateway.cron.add") == "added the gateway cron"


def test_a_form_that_is_sent_twice_starts_one_run(site: Site, platform: Platform) -> None:
    for _ in range(2):
        site.send("gateways/edge-1/crons/c1/run", request="the same")
    assert len(edge_of(platform).runs) == 1


def test_what_a_gateway_says_against_a_change_is_shown_at_the_form(site: Site, platform: Platform) -> None:
    edge = edge_of(platform)
    fields = {"key": "fresh", "when": "cron", "cron": "99 9 * * *", "does": "command", "command": "sh"}
    new = "gateways/edge-1/new-cron"
    for status, code, words, field in (
        (400, "invalid_cron", "schedule: the minute 99 is out of range", "cron"),
        (400, "unknown_command", "there is no command 'sh'", "command"),
    ):
        edge.refusal = (status, code, words)
        back = site.refused(new, **fields)
        assert words in text_of(back.select_one(f"#f-{field}-e") or back), text_of(back)
    edge.refusal = None
    edge.is_down = True
    back = site.send(new, status=503, **fields)
    assert "edge-1 does not reply" in back.text and "99 9 * * *" in back.text, "what was typed stays"
    assert "edge-1 does not reply" in site.send("gateways/edge-1/crons/c1/remove", status=503).text
    assert "The runs could not be read: edge-1 does not reply" in text_of(site.page("gateways/edge-1/crons/c1"))
    edge.is_down = False
    platform.silence(100)
    assert "is offline" in site.send("gateways/edge-1/crons/c1/disable", status=503).text


def test_a_cron_that_someone_else_has_changed_is_not_replaced_unseen(site: Site, platform: Platform) -> None:
    sent = {"name": "purge", "when": "cron", "cron": "7 9 * * *", "zone": "Asia/Tokyo", "does": "builtin",
            "builtin": "health_probe", "revision": "1"}  # fmt: skip
    edge_of(platform).crons[0] |= {"revision": "2"}
    back = site.send("gateways/edge-1/crons/c1/edit", status=409, **sent)
    assert "Someone else has changed this cron" in back.text and "7 9 * * *" in back.text
    assert re.search(r'name="revision" value="2"', back.text), "sent again it replaces theirs"


def test_output_and_names_are_text(site: Site, platform: Platform) -> None:
    edge_of(platform).output += HOSTILE
    for path in ("gateways/edge-1/crons/c3", "gateways/edge-1/crons/c4", "everything", "gateways/edge-1"):
        html = site.request("GET", path).text
        assert "<img" not in html and "<b>done" not in html and not {"\u202e", "\x1b", "\x07"} & set(html), path
    pre = site.page("gateways/edge-1/crons/c1").select_one(".gruns pre")
    assert pre is not None
    assert pre.get_text() == "red <b>done</b>\n        end<img src=x>\\u202e"
    assert plain_text("a\x1b]0;title\x07b\x00c\x9bd") == "abcd"


def test_a_gateway_is_checked_rotated_and_forgotten(site: Site, platform: Platform) -> None:
    page = text_of(site.page("gateways/edge-1"))
    assert "healthy" in page and "played 1" in page and "hello" in page
    platform.played["edge-1"].commands = ["later"]
    site.send("gateways/edge-1/check")
    assert "later" in text_of(site.page("gateways/edge-1"))
    site.page("gateways/edge-1/rotate")
    site.send("gateways/edge-1/rotate")
    assert platform.beat()
    site.send("gateways/edge-1/remove")
    site.page("gateways/edge-1", status=404)


def test_a_join_token_is_shown_once_and_lets_a_gateway_register(site: Site, platform: Platform) -> None:
    assert "Enter a name" in text_of(site.refused("new-gateway", name="", expires="1h"))
    assert "Choose how long" in text_of(site.refused("new-gateway", name="edge-2", expires="9y"))
    assert commands_in(site.preview("new-gateway", name="edge-2", expires="1d")) == [
        "evertick gateway join-token edge-2 --expires-in 86400"
    ]
    shown = site.send("new-gateway", status=200, name="edge-2", expires="1h")
    assert shown.headers["cache-control"] == "no-store"
    [token] = re.findall(r"evgj_[\w-]+", shown.text)
    from evertick.api.gateway_fleet import Registration

    platform.gateways().joining.register(Registration(join_token=token, name="edge-2", instance_id="i"))
    assert names_of_gateways(site) == ["edge-1", "edge-2"]


def names_of_gateways(site: Site) -> list[str]:
    return [text_of(each) for each in site.page("gateways").select(".gws tbody th")]


@pytest.mark.parametrize(
    ("scope", "may"), [("read", set()), ("operate", {"run", "check"}), ("edit", {"run", "check", "edit", "remove"})]
)
def test_each_scope_does_what_it_may(site: Site, scope: str, may: set[str]) -> None:
    visitor = site.by(scope)
    visitor.page("everything")
    visitor.page("gateways/edge-1")
    for name, path in (
        ("check", "gateways/edge-1/check"), ("run", "gateways/edge-1/crons/c1/run"),
        ("edit", "gateways/edge-1/crons/c1/edit"), ("remove", "gateways/edge-1/crons/c1/remove"),
        ("rotate", "gateways/edge-1/rotate"), ("join", "new-gateway"),
    ):  # fmt: skip
        status = visitor.request("POST", path, data={}).status_code
        assert (status != 403) == (name in may), (name, status)
    assert site.by("admin", "acme").request("GET", "/t/acme/gateways/edge-1").status_code == 404


def test_a_form_from_another_site_is_refused(site: Site, platform: Platform) -> None:
    sent = site.request("POST", "gateways/edge-1/crons/c1/remove", headers={"Origin": "https://evil.example"}, data={})
    assert sent.status_code == 403 and "c1" in [each["id"] for each in edge_of(platform).crons]


def test_what_was_typed_stays_next_to_a_complaint(site: Site) -> None:
    for where in ("new-gateway", "gateways/edge-1/new-cron", "gateways/edge-1/crons/c1/edit"):
        form = form_of(site, where)
        names = texts_in(form)
        complaints = [complained(site, form, names, turn) for turn in range(len(TYPED))]
        assert any(complaints), where


@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_fits_and_can_be_used_by_everyone(
    site: Site, platform: Platform, browser: Browser, width: int
) -> None:
    add_schedules(platform)
    with open_window(browser, site.server, site.secret, viewport={"width": width, "height": 900}) as window:
        for path in PAGES:
            page = window.go(path)
            assert sideways(page) == 0, path
            assert window.axe() == "", path
        page = window.go("everything")
        row = page.locator(".evs tbody tr").filter(has_text="purge")
        row.locator(".menu summary").click()
        row.get_by_role("link", name="Run now…").click()
        page.get_by_role("dialog").get_by_role("heading", name="Run purge now?").wait_for()

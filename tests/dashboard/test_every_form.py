"""Every form of the table of routes, with what people mistype in each of its fields: it is refused or kept, never lost.

A form that is refused comes back with a complaint and with what was typed, in every field, as text.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import pytest
from bs4 import BeautifulSoup, Tag
from pydantic import BaseModel

from evertick import App, Step, every
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.dashboard.commands import soup_of
from tests.dashboard.conftest import Site, site_of, text_of
from tests.dashboard.fields import fields_sent
from tests.dashboard.test_pages import TABLE
from tests.sampling import one_in
from tests.server.conftest import order_of, shop_on

TYPED: Final = ("<b>x</b>\u202e", "\x00", "9" * 400)
"""Markup with a mark that turns the direction of text, NUL, and a number out of any range, longer than any name."""
TYPES: Final = ("text", "search", "number")
WITHOUT_FIELDS: Final = {"logout", "zone", "tenants", "clock", "preview", "query", "login"}
"""The last part of addresses that have a form on other pages; tests of their own send these."""


OF_SCRIPTS: Final = {
    "new-script", "script-limits/change", "scripts/{name}", "scripts/{name}/delete", "scripts/{name}/run",
    "scripts/{name}/versions/{version}/rollback",
}  # fmt: skip
"""Forms that need an app with scripts: test_script_pages.py fills them in."""
OF_GATEWAYS: Final = {
    "new-gateway", "gateways/{name}/check", "gateways/{name}/new-cron", "gateways/{name}/{action}",
    "gateways/{name}/crons/{cron}/edit", "gateways/{name}/crons/{cron}/run", "gateways/{name}/crons/{cron}/{action}",
}  # fmt: skip
"""Forms that need a gateway: test_gateway_pages.py fills them in."""
TAKES_ANYTHING: Final = {"schedules/s/resume", "bulk/schedules/resume", "pools/default/pause"}
"""A note, which is any text."""


class Decision(BaseModel):
    """The value of an event that a workflow declares."""

    approved: bool
    by: str


@dataclass
class Things:
    """What there is to fill forms about."""

    site: Site
    ids: dict[str, str] = field(default_factory=dict)


def things_of(open_app: OpenApp) -> Things:
    app = shop_on(open_app)
    site = site_of(app)
    order = app.functions.resolve("shop.order")
    for name in ("s", "t"):
        app.schedules.create(name, when=every(hours=1), do=order_of(app), overlap="buffer_all")
    failed = app.scheduler.run_after(0, app.functions.resolve("shop.fail"), how="plain")

    @app.workflow(name="shop.approve", events={"decision": Decision})
    async def approve(step: Step) -> None:
        await step.wait_for("decision")

    asked = app.workflows.start(approve)
    run = app.workflows.start("shop.fulfil", order_id="7")
    with Engine(app) as engine:
        engine.wait(failed)
        engine.until(lambda: app.workflows.history(run).steps or None)
    pending = app.scheduler.run_after(3_600, order, item="later")
    view = app.views.create("schedules", "Mine", {"q": "x"}, shared=True)
    token = app.tokens.create("other", scope="read", tenant="default")
    backfill = app.schedules.backfill("t", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
    ids = {
        "backfill": backfill.id,
        "failed": failed,
        "pending": pending,
        "run": run,
        "asked": asked,
        "view": view.id,
        "token": token.id,
    }
    return Things(site, ids)


FORMS: Final[dict[str, tuple[str, ...]]] = {
    "functions/{name}/run": ("functions/shop.order/run", "functions/shop.fail/run"),
    "schedules/{schedule_id}/backfill": ("schedules/s/backfill?start=2026-01-01&end=2026-01-02",),
    "new-schedule": ("new-schedule?function=shop.order",),
    "schedules/{schedule_id}/edit": ("schedules/s/edit",),
    "jobs/{action}-all": ("jobs/cancel-all?state=pending", "jobs/retry-all?state=failed"),
    "jobs/{job_id}/retry": ("jobs/{failed}/retry",),
    "jobs/{job_id}/{action}": ("jobs/{pending}/reschedule", "jobs/{pending}/cancel"),
    "bulk/schedules/backfill": ("bulk/schedules/backfill?row=s&start=2026-01-01&end=2026-01-02",),
    "bulk/schedules/delete": ("bulk/schedules/delete",),
    "bulk/schedules/{action}": ("bulk/schedules/pause", "bulk/schedules/resume"),
    "views/new": ("views/new?list=schedules&params=%7B%22q%22%3A%22y%22%7D",),
    "views/{view_id}": ("views/{view}",),
    "views/{view_id}/delete": ("views/{view}/delete",),
    "schedules/{schedule_id}/pause": ("schedules/s/pause",),
    "schedules/{schedule_id}/resume": ("schedules/s/resume",),
    "schedules/{schedule_id}/trigger": ("schedules/s/trigger",),
    "schedules/{schedule_id}/delete": ("schedules/s/delete",),
    "workflow-batch/{action}": ("workflow-batch/cancel?row={run}", "workflow-batch/restart?row={run}"),
    "workflow-start": ("workflow-start?workflow=shop.fulfil",),
    "workflow-types/{name}/{action}": ("workflow-types/shop.fulfil/pause",),
    "workflows/{run_id}/signal": ("workflows/{run}/signal", "workflows/{asked}/signal"),
    "workflows/{run_id}/restart": ("workflows/{run}/restart",),
    "workflows/{run_id}/withdraw": ("workflows/{run}/withdraw?event=left",),
    "workflows/{run_id}/{action}": ("workflows/{run}/terminate",),
    "pools/{name}/limits": ("pools/default/limits",),
    "pools/{name}/{action}": ("pools/default/pause", "pools/default/delete"),
    "settings/tokens/new": ("settings/tokens/new",),
    "settings/tokens/{token_id}/{action}": ("settings/tokens/{token}/rotate", "settings/tokens/{token}/revoke"),
    "settings/tenants/{name}": ("settings/tenants/default",),
    "schedules/{schedule_id}/backfills/{backfill_id}/cancel": ("schedules/t/backfills/{backfill}/cancel",),
}
"""Where each form of the table is filled in."""


FIELDS: Final[dict[str, dict[str, str]]] = {
    "functions/shop.order/run": {"a.item": "bread"},
    "functions/shop.fail/run": {"a.how": "plain"},
    "jobs/cancel-all?state=pending": {"typed": "cancel 3"},
    "new-schedule?function=shop.order": {"id": "new", "s.0.cron": "0 9 * * *", "a.item": "bread", "do": "save"},
    "schedules/s/edit": {"note": "x"},
    "jobs/{pending}/reschedule": {"at": "now+2h"},
    "schedules/s/delete": {"typed": "s"},
    "schedules/s/pause": {"note": "maintenance"},
    "bulk/schedules/pause": {"note": "maintenance"},
    "bulk/schedules/delete": {"typed": "delete 2"},
    "bulk/schedules/backfill?row=s&start=2026-01-01&end=2026-01-02": {"typed": "backfill 48"},
    "views/new?list=schedules&params=%7B%22q%22%3A%22y%22%7D": {"name": "Other"},
    "views/{view}": {"name": "Another"},
    "workflow-batch/cancel?row={run}": {"typed": "cancel 1"},
    "workflow-batch/restart?row={run}": {"typed": "restart 1", "from": "beginning"},
    "workflow-start?workflow=shop.fulfil": {"a.order_id": "8"},
    "workflows/{run}/signal": {"event": "paid"},
    "workflows/{asked}/signal": {"event": "decision", "a.value.approved": "true", "a.value.by": "ada"},
    "pools/default/limits": {"running": "5"},
    "pools/default/pause": {"note": "maintenance"},
    "settings/tokens/new": {"name": "reports"},
    "settings/tenants/default": {"jobs": "50"},
}
"""What is typed into a form, beside what stands there at first."""
BEGIN: Final[dict[str, Callable[[App], object]]] = {
    "bulk/schedules/resume": lambda app: app.schedules.pause("s", "maintenance"),
    "pools/default/delete": lambda app: app.pools.set("default", running=5),
    "workflows/{run}/withdraw?event=left": lambda app: app.workflows.signal(app.workflows.list().runs[0].id, "left"),
}
"""Without which there is nothing to do."""
ENDS: Final = {"jobs/{failed}/retry", "bulk/schedules/pause", "bulk/schedules/resume"}
"""Forms that change nothing more once they have done what they do."""
BESIDE: Final = {"s.0.interval": "s.0.every"} | {
    f"retry.{each}": "retry.attempts" for each in ("first", "factor", "cap", "jitter")
}
"""Fields that another one has to be filled in for, where that is said; the first one has the name of a kind."""


def test_every_form_of_the_table_is_filled_in() -> None:
    forms = {
        route.path.removeprefix("/t/{tenant}/")
        for route in TABLE
        if route.methods == {"POST"} and route.path.rpartition("/")[2] not in WITHOUT_FIELDS
    }
    assert forms == FORMS.keys() | OF_SCRIPTS | OF_GATEWAYS


@pytest.mark.long
def test_what_was_typed_stays_beside_a_complaint(open_app: OpenApp) -> None:
    """In turn, each field has each text. No text is an error of the server, or markup on the page."""
    things = things_of(open_app)
    for where in [each for places in FORMS.values() for each in places]:
        form = form_of(things.site, where.format(**things.ids))
        names = texts_in(form)
        complaints = [complained(things.site, form, names, turn) for turn in range(len(TYPED))] if names else [True]
        assert any(complaints) or where in TAKES_ANYTHING, where


def test_a_field_that_no_form_has_is_refused(open_app: OpenApp) -> None:
    """A field that is mistyped is not ignored, as a parameter of an address is not."""
    things = things_of(open_app)
    for path in ("schedules/s/pause", "pools/default/limits", "zone", "schedules/s/edit/preview"):
        face = text_of(things.site.send(path, status=422, noet="x", next="/").text)
        assert "no form has a field 'noet'; did you mean 'note'" in face, path
    assert not things.site.app.schedules.get("s").paused


def complained(site: Site, form: Tag, names: list[str], turn: int) -> bool:
    """Send a form with other texts in its fields; returns whether it was refused."""
    sent = sent_of(form)
    for number, name in enumerate(names):
        sent |= chosen_with(form, name) | {name: [TYPED[(number + turn) % len(TYPED)]]}
    reply = site.request("POST", str(form["action"]), data=sent)
    where = (form["action"], sent)
    assert reply.status_code in (200, 303, 409, 422), (where, text_of(reply.text))
    if reply.headers.get("content-type", "").startswith("text/html"):
        assert_harmless(reply.text, where)
    if reply.status_code != 422:
        return False
    assert_kept(soup_of(reply.text), form, sent)
    return True


def form_of(site: Site, path: str) -> Tag:
    """The form of a page that changes something, as it is shown at first; that of many is what a list is sent for."""
    if path.startswith("bulk/schedules/") and "backfill" not in path:
        page = soup_of(site.send(path, status=200, row=["s", "t"]).text)
    else:
        page = site.page(path)
    [form, *_] = [each for each in page.select("main form[method=post]") if each.get("action")]
    return form


def sent_of(form: Tag) -> dict[str, list[str]]:
    """What a browser would send of a form with its main button."""
    found = fields_sent(form)
    button = form.select_one("button.go[name]")
    return found if button is None else found | {str(button["name"]): [str(button["value"])]}


def chosen_with(form: Tag, name: str) -> dict[str, list[str]]:
    """The choice that a field belongs to, such as a moment to \"at\"."""
    part = name.rpartition(".")[2]
    found = [each for each in form.select("input[type=radio]") if each["value"] == part]
    belongs = form.select_one(f"[data-chooses]:has([name='{name}'])")
    if belongs is not None:
        found += form.select(f"input[type=radio][id='{belongs['data-chooses']}']")
    return {str(each["name"]): [str(each["value"])] for each in found}


def texts_in(form: Tag) -> list[str]:
    """The fields into which one types."""
    fields = form.find_all(["input", "textarea"])
    typed = [each for each in fields if each.name == "textarea" or each.get("type", "text") in TYPES]
    return list(dict.fromkeys(str(each["name"]) for each in typed if each.get("name")))


def assert_kept(back: BeautifulSoup, form: Tag, sent: dict[str, list[str]]) -> None:
    """A refused form has a complaint, and in each field what was sent."""
    where = (form["action"], sent)
    assert back.select(".err"), (where, text_of(back))
    again = [each for each in back.select("form[method=post]") if each.get("action") == form["action"]]
    assert again, (where, text_of(back))
    now = sent_of(again[0])
    for name in set(texts_in(form)) & now.keys():
        assert now[name] == [each.strip() for each in sent[name]], (where, name)


def assert_harmless(html: str, where: object) -> None:
    """Outside of fields, which have exactly what was typed, a page has no markup of others and nothing unseen."""
    assert "<b>x</b>" not in html, where
    page = soup_of(html)
    for each in page.find_all(["input", "textarea"]):
        each.decompose()
    assert not {"\u202e", "\x00"} & set(str(page)), where


@pytest.mark.parametrize("where", one_in(4, [each for places in FORMS.values() for each in places]))
def test_what_is_wrong_with_a_field_is_said_beside_it(open_app: OpenApp, where: str) -> None:
    """One field after the other is wrong, and all others are right."""
    things = things_of(open_app)
    BEGIN.get(where, lambda app: None)(things.site.app)
    form = form_of(things.site, where.format(**things.ids))
    shown = sent_of(form)
    for name in texts_in(form):
        chosen = chosen_with(form, name)
        for number, wrong in enumerate(TYPED):
            right = shown | {each: [value] for each, value in FIELDS.get(where, {}).items()}
            more = {name: [wrong], "request": [f"{name} {number}"]} | chosen
            if name.endswith(".anchor_at"):
                more[name.removesuffix("_at")] = ["at"]
            elif where.startswith("new-schedule") and name != "id":
                more["id"] = [f"new {name} {number}"]
            reply = things.site.request("POST", str(form["action"]), data=right | more)
            if reply.status_code == 422:
                said = said_beside(soup_of(reply.text))
                assert BESIDE.get(name, name) in said, (name, wrong, said)
            elif where in ENDS:
                return
            elif where.startswith("schedules/s/edit"):
                form = form_of(things.site, where)
                shown = sent_of(form)


def said_beside(page: BeautifulSoup) -> dict[str, str]:
    """What a page says of its fields, by the names of these: it is tied to them for those who do not see it."""
    said = {str(each["id"]): text_of(each) for each in page.select(".err[id]")}
    wrong = page.select("[aria-invalid=true]")
    return {str(each["name"]): said[str(each["aria-describedby"])] for each in wrong}

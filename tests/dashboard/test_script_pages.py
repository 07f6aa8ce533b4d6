"""The pages of scripts: writing, testing and publishing them, what their runs did, and what they may use."""

from collections.abc import Iterator

import pytest

from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.dashboard.commands import commands_in
from tests.dashboard.conftest import Site, site_of, text_of
from tests.dashboard.test_every_form import TYPED, complained, form_of, texts_in
from tests.server.conftest import shop_on
from tests.walls import level

CART = """export default async function (ctx) {
  ctx.log("carts of", ctx.tenant.id)
  await ctx.kv.set("seen", ctx.input)
  return { days: ctx.input.days }
}
"""
DAYS = '{"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}'


@pytest.fixture
def site(open_app: OpenApp) -> Iterator[Site]:
    """The shop, whose customers write scripts."""
    app = shop_on(open_app)
    app.scripts.enable()
    yield site_of(app)


def revision(site: Site, path: str = "scripts/cart") -> str:
    """Which state of the draft the form is about, as it sends it back."""
    [field] = site.page(path).select("#draft [name=revision]")
    return str(field["value"])


def sent(site: Site, do: str, *, source: str = CART, status: int = 200, **fields: str) -> str:
    """Send the form of a draft; returns what is to be read."""
    form = {
        "do": do,
        "source": source,
        "parameters": DAYS,
        "input": '{"days": 2}',
        "note": "",
        "revision": revision(site),
    }
    return text_of(site.send("scripts/cart", status=status, **(form | fields)).text)


@pytest.fixture
def cart(site: Site) -> Site:
    """There is a published script."""
    site.send("new-script", name="cart", language="javascript", source=CART, parameters=DAYS, note="first")
    sent(site, "publish", status=303, note="first")
    return site


def test_the_rail_names_scripts_only_where_the_app_runs_them(site: Site, open_app: OpenApp) -> None:
    plain = site_of(shop_on(open_app))

    assert site.page("scripts").select_one('.rail a[aria-current="page"]').get_text().startswith("Scripts")  # type: ignore[union-attr]
    assert plain.page("").select('.rail a[href$="/scripts"]') == []
    assert "runs no scripts" in text_of(plain.page("scripts", status=404))


def test_a_script_is_written_tested_and_published(site: Site) -> None:
    assert "There is no script yet" in text_of(site.page("scripts"))
    refused = site.refused("new-script", name="", language="javascript", source="export default (", parameters="{")
    assert "Enter a name" in text_of(refused) and "This is not JSON" in text_of(refused)
    refused = site.refused("new-script", name="cart", language="javascript", source="export default (", parameters="")
    assert "line 1" in text_of(refused.select_one("#f-source-e")), "what the sandbox says"  # type: ignore[arg-type]
    assert refused.select(".frame .hit"), "with the line"

    site.send("new-script", name="cart", language="javascript", source=CART.replace("\n", "\r\n"), parameters=DAYS)
    assert site.app.scripts.get("cart").source == CART
    tested = sent(site, "test")
    assert "ok" in tested and '{ "days": 2 }' in tested and "kv.set" in tested and "carts of" in tested
    assert site.app.scripts.runs() == [], "a test is no run"
    assert "days" in sent(site, "test", input='{"days": "two"}'), "the input does not fit the parameters"
    failed = sent(site, "test", source="export default function () {\n  null.x\n}\n")
    assert "TypeError" in failed and "line 2" in failed

    sent(site, "publish", status=303, note="the first one")
    assert "version 1 runs" in text_of(site.page("scripts/cart"))
    made = site.app.scripts.version("cart", 1)
    assert (made.note, made.source) == ("the first one", CART)
    changes = site.app.audit_log.list(tenant="default").changes
    assert {"script.create", "script.edit", "script.publish"} <= {each.action for each in changes}


def test_a_draft_that_someone_else_has_changed_is_not_replaced_unseen(cart: Site) -> None:
    opened = revision(cart)
    cart.app.scripts.edit("cart", note="mine")

    said = sent(cart, "save", revision=opened, status=409, note="yours")

    assert "Someone else has changed this draft" in said
    assert cart.app.scripts.get("cart").note == "mine"


def test_runs_are_listed_with_what_they_used_and_have_a_page(cart: Site) -> None:
    app = cart.app
    refused = cart.refused("scripts/cart/run", input="{}")
    assert "days" in text_of(refused.select_one("#f-input-e")), "it does not fit"  # type: ignore[arg-type]
    with Engine(app) as engine:
        place = cart.send("scripts/cart/run", input='{"days": 3}').headers["location"]
        job = place.rpartition("/")[2]
        engine.wait(job)
        sent(cart, "publish", status=303, source="export default function () {\n  while (true) {}\n}\n", note="loop")
        stuck = app.scripts.start("cart", {"days": 1})
        engine.wait(stuck)

    listed = cart.page("script-runs?script=cart").select("table.sruns tbody tr:not(.note)")
    assert [text_of(row).split()[0] for row in listed] == ["timeout", "ok"]
    page = text_of(cart.page(place))
    assert '{ "days": 3 }' in page and "carts of default" in page and "ctx.kv.set 1" in page and "Writes 1" in page
    assert "cpu_ms" in text_of(cart.page(f"script-runs/{stuck}"))
    cart.page(f"script-runs/{job[:-1]}{'1' if job[-1] == '0' else '0'}", status=404)
    sent(cart, "test", source="export default () => 1", note="loop")
    [row] = cart.page("scripts").select("#s-cart")
    assert "timeout" in text_of(row) and " 2 none" in text_of(row), "both ran today, and a test is no run"
    # Its job leads to the form of a run with the same input.
    again = cart.request("GET", f"functions/evertick.script/run?job={job}").headers["location"]
    assert cart.page(again).select_one("#f-input").get_text().strip() == '{"days": 3}'  # type: ignore[union-attr]


def test_versions_show_what_differs_and_run_again(cart: Site) -> None:
    sent(cart, "publish", status=303, source=CART.replace("return", "// <b>\n  return"), note="a comment")

    page = cart.page("scripts/cart/versions/2")
    assert [text_of(each) for each in page.select(".sdiff .added")] == ["+ // <b>"]
    cart.send("scripts/cart/versions/1/rollback")
    assert cart.app.scripts.get("cart").published == 1
    cart.page("scripts/cart/versions/3", status=404)


def test_a_schedule_runs_a_script_that_is_chosen_from_those_published(cart: Site) -> None:
    cart.app.scripts.create("draft", CART, language="javascript")
    form = cart.page("new-schedule?function=evertick.script&script=cart")
    assert [text_of(each) for each in form.select("[name='a.script'] option")] == ["choose", "cart"]
    fields = {
        "id": "carts", "function": "evertick.script", "s": "0", "s.0.kind": "cron", "s.0.cron": "0 9 * * *",
        "zone": "UTC", "args_as": "fields", "a.script": '"cart"', "a.input": '{"days": 1}',
    }  # fmt: skip
    shown = text_of(cart.preview("new-schedule", **fields))
    assert "At 09:00" in shown or "at 09:00" in shown
    refused = cart.refused("new-schedule", **{**fields, "a.input": "{}"}, do="save")
    assert "days" in text_of(refused), "the input must fit the parameters"

    cart.send("new-schedule", **fields, do="save")

    assert cart.app.schedules.get("carts").target.args == {"script": "cart", "input": {"days": 1}}
    assert "script cart" in text_of(cart.page("schedules/carts"))
    assert "Schedules run it" in text_of(cart.page("scripts/cart/delete"))
    assert "is used by the schedules carts" in text_of(cart.send("scripts/cart/delete", status=409).text)
    cart.send("schedules/carts/delete", typed="carts")
    cart.send("scripts/cart/delete")
    assert [each.name for each in cart.app.scripts.list()] == ["draft"]


def test_limits_are_shown_and_set_by_those_of_all_tenants(cart: Site) -> None:
    page = text_of(cart.page("script-limits"))
    assert "CPU time cpu_ms 1 s" in page and "Memory memory_bytes 64 MiB" in page and f"JavaScript {level()}" in page
    assert "Enter a whole number" in text_of(cart.refused("script-limits/change", cpu_ms="much"))
    assert "cpu_ms=" in text_of(cart.refused("script-limits/change", cpu_ms="0"))

    cart.send("script-limits/change", cpu_ms="500", hosts="api.example.com\r\n*.example.org")
    assert cart.app.scripts.limits().own == ("cpu_ms", "hosts")
    assert "cpu_ms 500 ms" not in page and "0.5 s own" in text_of(cart.page("script-limits"))
    cart.send("script-limits/change", hosts="")
    assert cart.app.scripts.limits().own == ()
    assert "without scheme, port and path" in text_of(cart.refused("script-limits/change", hosts="https://a.example"))
    call = cart.app.scripts.call("cart", {"days": 1})
    cart.app.schedules.create("daily", when="every day at 9:00", do=call)
    cart.send("script-limits/change", interval_ms="86400001")
    assert "the times of daily are less than 86400 s apart" in text_of(cart.page("script-limits"))

    acme = cart.by("admin", "acme")
    acme.page("script-limits")
    acme.page("script-limits/change", status=403)
    acme.send("script-limits/change", status=403, cpu_ms="60000")


def test_a_reader_sees_scripts_and_changes_none_and_no_tenant_sees_those_of_others(cart: Site) -> None:
    reader = cart.by("read")
    page = reader.page("scripts/cart")
    assert page.select("#draft button") == [] and "needs a token with the scope edit" in text_of(page)
    reader.send("scripts/cart", status=403, do="publish")

    acme = cart.by("admin", "acme")
    for path in ("scripts/cart", "scripts/cart/versions/1", "scripts/cart/run"):
        acme.page(path, status=404)
    assert "cart" not in text_of(acme.page("script-runs"))


def test_what_was_typed_stays_beside_a_complaint(cart: Site) -> None:
    for where in ("new-script", "scripts/cart", "scripts/cart/run", "script-limits/change"):
        form = form_of(cart, where)
        names = texts_in(form)
        complaints = [complained(cart, form, names, turn) for turn in range(len(TYPED))]
        assert any(complaints), where


def test_forms_say_their_commands(cart: Site) -> None:
    cart.app.scripts.edit("cart", note="other")
    cart.app.scripts.publish("cart")
    said = {
        "evertick script delete cart": cart.page("scripts/cart/delete"),
        "evertick script rollback cart 1": cart.page("scripts/cart/versions/1/rollback"),
        """evertick script run cart --input '{"days": 1}'""": cart.preview("scripts/cart/run", input='{"days": 1}'),
        "evertick script limits cpu_ms=5 hosts=a.example,b.example": cart.preview(
            "script-limits/change", cpu_ms="5", hosts="a.example b.example"
        ),
        """evertick script create totals FILE --language python --parameters '{"type": "object"}'""": cart.preview(
            "new-script", name="totals", language="python", source="x", parameters='{"type": "object"}'
        ),
    }
    for line, page in said.items():
        assert commands_in(page) == [line]
    assert commands_in(cart.preview("script-limits/change", cpu_ms="much")) == []


def test_what_customers_write_is_text(site: Site) -> None:
    source = (
        "export default function () { throw new Error('<img src=x>\u202e') }\n// </textarea><script>alert(1)</script>"
    )
    site.app.scripts.create("</h1><script>", source, language="javascript", note="<b>note</b>")
    site.app.scripts.publish("</h1><script>")

    path = "scripts/%3C%2Fh1%3E%3Cscript%3E"
    for each in ("scripts", path, f"{path}/versions/1", f"{path}/delete", "script-limits"):
        page = site.page(each)
        assert page.select("script:not([src])") == [] and page.select("main b:not(time b)") == []
    form = {"do": "test", "parameters": "", "input": "", "note": "", "revision": revision(site, path)}
    shown = site.request("POST", path, data=form | {"source": source}).text
    assert "<img" not in shown and "</b>: &lt;img src=x&gt;\\u202e" in shown

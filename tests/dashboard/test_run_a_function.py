"""Running a function by hand: a form from its signature, what it returns, and jobs for later."""

import json
import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import expect
from pydantic import BaseModel

from evertick import MutationCtx
from tests.dashboard.browser import Window
from tests.dashboard.commands import commands_in, soup_of
from tests.dashboard.conftest import Site, text_of


def test_functions_are_there_to_choose(site: Site) -> None:
    shown = text_of(site.page("run"))
    assert "shop.order mutation, exactly once" in shown
    assert "shop.fail action, at most once" in shown
    assert "shop.secret internal" in shown
    assert "shop.fulfil" not in shown, "a workflow is started, not called"
    assert "shop.secret" not in text_of(site.by("edit").page("run"))
    assert site.by("edit").page("functions/shop.secret/run", status=404)
    assert site.request("GET", "run?function=shop.order").headers["location"] == ("/t/default/functions/shop.order/run")


def test_a_mutation_runs_now_and_once(site: Site) -> None:
    form = site.page("functions/shop.order/run")
    once = form.select_one("input[name=request]")["value"]  # type: ignore[index]
    for _ in range(2):
        shown = site.send("functions/shop.order/run", status=200, request=once, when="now", **{"a.item": "bread"}).text
        assert "orders_" in text_of(shown)
    assert site.app.call("shop.count") == 1
    assert commands_in(soup_of(shown)) == ["""evertick run shop.order --json '{"item": "bread"}'"""]


def test_a_query_needs_the_scope_read_alone(site: Site) -> None:
    reader = site.by("read")
    assert "returned" in text_of(reader.send("functions/shop.count/query", status=200).text)
    refused = reader.page("functions/shop.order/run")
    button = refused.find("button", string="Run")
    assert button is not None and button["aria-disabled"] == "true"  # type: ignore[index]
    assert "scope edit" in button["title"]  # type: ignore[index]
    reader.send("functions/shop.order/run", status=403, **{"a.item": "x"})
    reader.send("functions/shop.order/query", status=403, **{"a.item": "x"})
    assert site.app.call("shop.count") == 0


def test_an_error_of_the_function_is_shown(site: Site) -> None:
    shown = text_of(site.send("functions/shop.fail/run", status=200, **{"a.how": "<b>bang"}).text)
    assert "ValueError" in shown and "<b>bang" in shown


def test_a_call_is_scheduled_for_later(site: Site) -> None:
    site.send("functions/shop.order/run", status=200, when="after", after="1h30m", **{"a.item": "x"})
    shown = site.send(
        "functions/shop.order/run?tz=Asia/Kathmandu", status=200, when="at", at="2027-01-01 09:00", **{"a.item": "y"}
    )
    later, first = site.app.jobs.list().jobs
    assert later.due_at == datetime(2027, 1, 1, 3, 15, tzinfo=UTC)
    assert abs(first.due_at - datetime.now(UTC) - timedelta(minutes=90)) < timedelta(minutes=5)
    assert later.id in text_of(shown.text)
    [line] = commands_in(soup_of(shown.text))
    assert line.startswith("evertick run shop.order --at 2027-01-01T03:15:00Z --json"), (
        "a command knows no zone of a page"
    )


def test_bad_input_comes_back_beside_its_field(site: Site) -> None:
    back = site.refused("functions/shop.order/run", when="after", after="soon", **{"a.item": "", "a.n": "many"})
    fields = {each["name"]: each for each in back.select("[aria-invalid]")}
    assert fields.keys() == {"a.item", "a.n", "after"}
    assert (fields["a.n"]["value"], fields["after"]["value"]) == ("many", "soon")
    assert "valid integer" in text_of(back.find(id="f-a.n-e"))  # type: ignore[arg-type]
    assert "Field required" in text_of(back.find(id="f-a.item-e"))  # type: ignore[arg-type]
    assert "not a duration" in text_of(back.find(id="f-after-e"))  # type: ignore[arg-type]
    for when, value, field in (("after", "", "after"), ("at", "2199-01-01", "at"), ("at", "29 Feb", "at")):
        back = site.refused("functions/shop.order/run", when=when, **{when: value, "a.item": "x"})
        assert [each["name"] for each in back.select("[aria-invalid]")] == [field]
    site.refused("functions/shop.order/run", when="never", **{"a.item": "x"})
    assert not site.app.jobs.list().jobs


def test_a_time_that_was_typed_is_not_ignored(site: Site) -> None:
    for field, typed in (("after", "2h"), ("at", "2099-01-01 09:00")):
        back = site.refused("functions/shop.order/run", when="now", **{field: typed, "a.item": "x"})
        [wrong] = back.select("[aria-invalid]")
        assert (wrong["name"], wrong["value"]) == (field, typed)
        assert "but Now is chosen" in text_of(back.select_one(f"#f-{field}-e"))  # type: ignore[arg-type]
    back = site.refused("functions/shop.order/run", when="at", at="2027-01-01", after="2h", **{"a.item": "x"})
    assert [each["name"] for each in back.select("[aria-invalid]")] == ["after"]
    assert site.app.call("shop.count") == 0 and not site.app.jobs.list().jobs


def test_typing_a_time_chooses_it(site: Site, window: Window) -> None:
    page = window.go("functions/shop.order/run")
    page.get_by_label("item").fill("bread")
    page.get_by_label("How long from now").fill("2h")
    expect(page.get_by_role("radio", name="After")).to_be_checked()
    page.get_by_role("radio", name="Now").check()
    page.get_by_label("How long from now").fill("")
    expect(page.get_by_role("radio", name="Now")).to_be_checked()
    page.get_by_label("How long from now").fill("2h")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Scheduled as")).to_be_visible()
    assert site.app.call("shop.count") == 0 and len(site.app.jobs.list().jobs) == 1


def test_a_workflow_is_not_called(site: Site) -> None:
    site.send("functions/shop.fulfil/run", status=422, **{"a.order_id": "x"})


def test_arguments_to_begin_with_stand_in_the_fields(site: Site) -> None:
    form = site.page("functions/shop.order/run?args=" + '{"item":"\u202e<b>","n":3}')
    assert json.loads(form.find(id="f-args").text) == {"item": "\u202e<b>", "n": 3}  # type: ignore[union-attr]
    form = site.page('functions/shop.order/run?args={"item":"<b>","n":3}')
    assert form.find(id="f-a.item").text == "<b>"  # type: ignore[union-attr]
    assert "not JSON" in text_of(site.page("functions/shop.order/run?args={"))


def test_a_function_is_run_by_keyboard(site: Site, window: Window) -> None:
    page = window.go("functions/shop.order/run")
    assert not window.axe()
    page.get_by_label("item").focus()
    page.keyboard.type("bread")
    expect(page.get_by_label("The same as a command")).to_have_text(
        """evertick run shop.order --json '{"item": "bread"}'"""
    )
    page.get_by_role("button", name="as JSON").press("Enter")
    expect(page.get_by_label("Arguments", exact=True)).to_have_value(re.compile("bread"))
    page.get_by_role("button", name="as fields").press("Enter")
    expect(page.get_by_label("item")).to_have_value("bread")
    page.get_by_role("button", name="Run", exact=True).press("Enter")
    expect(page.get_by_role("heading", name="returned")).to_be_visible()
    assert site.app.call("shop.count") == 1


def test_a_model_that_may_be_none_is_chosen_and_typed(site: Site) -> None:
    class Address(BaseModel):
        street: str

    @site.app.mutation(name="shop.send")
    def send(ctx: MutationCtx, to: Address | None = None) -> str:
        return "nowhere" if to is None else to.street

    send_to = "functions/shop.send/run"
    choice = site.page(send_to).select_one("select[name='a.to?']")
    assert choice is not None
    assert text_of(choice) == "None, unless a field below is filled in None the fields below"
    assert "nowhere" in text_of(site.send(send_to, status=200, when="now").text)
    assert "Main St" in text_of(site.send(send_to, status=200, when="now", **{"a.to.street": "Main St"}).text)
    both = site.refused(send_to, when="now", **{"a.to?": "none", "a.to.street": "Main St"})
    assert "clear them" in text_of(both.select_one("[id='f-a.to?-e']"))  # type: ignore[arg-type]
    assert both.select_one("option[value=none]").has_attr("selected")  # type: ignore[union-attr]

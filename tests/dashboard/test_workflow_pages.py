"""The pages of workflows: lists, one run, what is done to it, and the workflows themselves."""

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, expect

from evertick import ActionCtx, MutationCtx, Retry, Step
from evertick.testing import replay
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until
from tests.dashboard.browser import open_window
from tests.dashboard.commands import commands_in, soup_of
from tests.dashboard.conftest import Site, site_of, text_of
from tests.server.conftest import shop_on


@pytest.fixture
def site(open_app: OpenApp) -> Iterator[Site]:
    """The shop, with a workflow that does something of each kind."""
    app = shop_on(open_app)
    tries: list[int] = []

    @app.mutation(name="shop.note")
    def note(ctx: MutationCtx, text: str) -> str:
        return text

    @app.action(name="shop.mail", pool="mail")
    async def mail(ctx: ActionCtx, to: str) -> int:
        tries.append(1)
        ctx.log.info("mailing %s", to)
        if len(tries) < 2:
            raise ConnectionError("SMTP 421")
        return 250

    @app.workflow(name="shop.onboard")
    async def onboard(step: Step, user: str) -> str:
        step.set_attributes(plan="pro", seats=3, paid=True)
        step.log.warning("<i>%s</i> is new", user)
        await step.run(note, user)
        await step.using(retry=Retry(3, first=timedelta(milliseconds=1), jitter=0.0)).run(mail, to=user)
        return str(await step.wait_for("verified", timeout=timedelta(days=3)))

    @app.mutation(name="shop.refuse")
    def refuse(ctx: MutationCtx) -> None:
        raise ValueError("not now")

    @app.workflow(name="shop.undoes")
    async def undoes(step: Step) -> None:
        await step.run(note, "first")
        try:
            await step.run(refuse)
        finally:
            await step.run(note, "undone")

    @app.workflow(name="shop.batch")
    async def batch(step: Step, users: list[str]) -> None:
        for user in users:
            await step.workflow(onboard, user)

    @app.workflow(name="shop.many")
    async def many(step: Step, users: list[str]) -> None:
        await asyncio.gather(*(step.workflow(onboard, user) for user in users))

    @app.workflow(name="shop.fails")
    async def fails(step: Step) -> None:
        raise ValueError("<b>no</b> stock")

    yield site_of(app)


def start(site: Site, name: str, key: str, **args: Any) -> str:
    """Start a run and wait until it waits, or has ended."""
    workflows = site.app.workflows
    run_id = workflows.using(key=key).start(site.app.functions.resolve(name), **args)  # type: ignore[arg-type]
    with Engine(site.app):
        until(lambda: workflows.get(run_id).completed_at is not None or _waits_for_event(site, run_id))
    return run_id


def _waits_for_event(site: Site, run_id: str) -> bool:
    return any(each.kind == "event" for each in site.app.workflows.timeline(run_id).waits_for)


@pytest.mark.long
def test_the_list_says_what_each_run_waits_for(site: Site) -> None:
    assert "No run of a workflow yet" in text_of(site.page("workflows"))
    run_id = start(site, "shop.onboard", "onboarding/ada", user="ada")
    start(site, "shop.fails", "bad")

    page = site.page("workflows")

    [row] = page.select("tbody tr")
    assert row.select_one("th a")["href"] == f"/t/default/workflows/{run_id}"  # type: ignore[index]
    assert "the event “verified” until" in text_of(row)
    assert "paid=true, plan=pro, seats=3" in text_of(row)
    assert "Open 1 Failed 1 Done 0 Canceled 0" in text_of(page.select_one(".tabs"))  # type: ignore[arg-type]
    failed = site.page("workflows?state=failed")
    assert "ValueError: <b>no</b> stock" in text_of(failed)
    assert failed.find("b", string="no") is None


def test_children_can_be_left_out_of_the_list(site: Site) -> None:
    workflows = site.app.workflows
    run_id = workflows.using(key="batch-7").start(site.app.functions.resolve("shop.batch"), users=["ada"])  # type: ignore[arg-type]
    with Engine(site.app):
        until(lambda: any(child.state == "running" for child in workflows.timeline(run_id).children))

    assert len(site.page("workflows").select("tbody tr")) == 2
    page = site.page("workflows?roots=yes")
    [row] = page.select("tbody tr")
    assert row.select_one("th a")["href"] == f"/t/default/workflows/{run_id}"  # type: ignore[index]
    assert page.select_one("input[name=roots]").has_attr("checked")  # type: ignore[union-attr]
    assert "Open 2" not in text_of(page.select_one(".tabs")), "the counts are of all runs"  # type: ignore[arg-type]
    form = text_of(site.page("workflow-batch/cancel?all=yes&roots=yes"))
    assert "Cancel 1 run?" in form and "All open runs: without children ." in form
    assert "without children ( remove )" in text_of(site.page("workflows?state=failed&roots=yes"))
    [child] = workflows.children(run_id)
    assert "Parent run batch-7 shop.batch" in text_of(site.page(f"workflows/{child.id}"))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=onboarding/", 1),
        ("q=other", 0),
        ("workflow=shop.onboard", 1),
        ("workflow=shop.fulfil", 0),
        ("attribute=seats%3D3", 1),
        ("attribute=seats%3D4", 0),
        ("attribute=paid%3Dtrue", 1),
        ("attribute=paid%3Dtrue+plan%3Dpro", 1),
        ("attribute=paid%3Dtrue+plan%3Dfree", 0),
        ("since=1h", 1),
        ("state=paused", 0),
        ("state=canceled", 0),
        ("state=all", 1),
    ],
)
def test_the_list_is_filtered_by_its_address(site: Site, query: str, found: int) -> None:
    start(site, "shop.onboard", "onboarding/ada", user="ada")
    page = site.page(f"workflows?{query}")
    assert len(page.select("tbody tr[id]")) == found
    if not found and query != "state=canceled":
        assert "No run matches these filters" in text_of(page)
        assert page.find("a", string="Clear filters") is not None


def test_a_bad_filter_is_said_beside_its_field(site: Site) -> None:
    page = site.page("workflows?attribute=plan", status=422)
    assert "an attribute is name=value" in text_of(page)
    assert page.find(id="rows").find("section") is None  # type: ignore[union-attr]
    assert page.find("input", attrs={"name": "attribute"})["value"] == "plan"  # type: ignore[index]


def test_each_of_several_attributes_can_be_taken_away(site: Site) -> None:
    page = site.page("workflows?attribute=paid%3Dtrue+plan%3Dpro")
    left = [str(link["href"]) for link in page.find_all("a", string="remove")]
    assert left == ["?attribute=plan%3Dpro", "?attribute=paid%3Dtrue"]
    assert "is there twice" in text_of(site.page("workflows?attribute=plan%3Da+plan%3Db", status=422))


def test_pages_of_the_list_follow_each_other(site: Site) -> None:
    fulfil = site.app.functions.resolve("shop.fulfil")
    ids = [site.app.workflows.start(fulfil, order_id=str(n)) for n in range(101)]  # type: ignore[arg-type]

    first = site.page("workflows")

    assert [row["id"] for row in first.select("tbody tr")] == [f"r-{each}" for each in reversed(ids[1:])]
    onward = first.find("a", string="older ›")["href"]  # type: ignore[index]
    second = site.page(f"workflows{onward}")
    assert [row["id"] for row in second.select("tbody tr")] == [f"r-{ids[0]}"]


def test_a_run_shows_its_steps_and_what_it_waits_for(site: Site) -> None:
    run_id = start(site, "shop.onboard", "onboarding/ada", user="ada")

    page = site.page("workflows/onboarding%2Fada?step=2")

    words = text_of(page.find(id="main"))  # type: ignore[arg-type]
    assert "onboarding/ada running" in words
    assert "Waiting for the event “verified” until" in words
    assert "paid=true" in words and "plan=pro" in words
    rows = [text_of(row) for row in page.select("table.tl tbody tr")]
    assert [row.split(" ")[:2] for row in rows] == [["1", "shop.note"], ["2", "shop.mail"], ["3", "verified"]]
    assert rows[1].endswith("2 ok, try 2")
    panel = text_of(page.find(id="step-2"))  # type: ignore[arg-type]
    assert "1 failed ConnectionError: SMTP 421" in panel
    assert '"to": "ada"' in panel
    assert "mailing ada" in panel
    assert "Output 250" in panel
    assert page.find(style=True) is None
    assert len(page.select("table.tl svg")) == 4
    assert "No such view" not in words
    for view, expected in (
        ("events", "call job"),
        ("log", "warning <i>ada</i> is new"),
        ("io", '"user": "ada"'),
        ("json", '"waits_for"'),
    ):
        assert expected in text_of(site.page(f"workflows/{run_id}?view={view}")), view
    assert "no run 'gone'" in text_of(site.page("workflows/gone", status=404))


def test_a_run_that_nothing_serves_says_so(site: Site) -> None:
    run_id = site.app.workflows.start(site.app.functions.resolve("shop.fulfil"), order_id="1")  # type: ignore[arg-type]
    assert "It has not begun." in text_of(site.page(f"workflows/{run_id}"))


def test_a_history_can_be_downloaded_and_replayed(site: Site) -> None:
    run_id = start(site, "shop.onboard", "ada", user="ada")
    reply = site.request("GET", f"workflows/{run_id}/history.json")
    assert f'filename="{run_id}-history.json"' in reply.headers["content-disposition"]
    assert replay(site.app.functions.resolve("shop.onboard"), reply.text) is None  # type: ignore[arg-type]


def test_an_event_is_checked_by_its_declaration(site: Site) -> None:
    @site.app.workflow(name="shop.decides", events={"decision": bool, "note": str})
    async def decides(step: Step) -> bool:
        return bool(await step.wait_for("decision"))

    run_id = start(site, "shop.decides", "d")
    where = f"workflows/{run_id}/signal"
    form = site.page(where)
    assert [text_of(each) for each in form.select("#f-event option")] == ["Choose one", "decision", "note"]
    assert [each["value"] for each in form.select('select[name="a.value"] option')] == ["", "true", "false"]
    perhaps = {"args_as": "json", "args": '"perhaps"'}
    assert "valid boolean" in text_of(site.refused(where, event="decision", **perhaps).find(id="f-args-e"))  # type: ignore[arg-type]
    assert "Field required" in text_of(site.refused(where, event="decision"))
    wrong = site.refused(where, event="decison", **{"a.value": "true"})
    assert "takes no event 'decison'" in text_of(wrong.find(id="f-event-e"))  # type: ignore[arg-type]
    site.send(where, event="decision", **{"a.value": "true"})
    assert site.app.workflows.get(run_id).waiting_event_count == 1


@pytest.mark.long
def test_an_event_is_sent_from_a_form(site: Site) -> None:
    run_id = start(site, "shop.onboard", "ada", user="ada")
    form = site.page(f"workflows/{run_id}/signal")
    assert form.find(id="f-event")["value"] == "verified"  # type: ignore[index]

    wrong = site.refused(f"workflows/{run_id}/signal", event="verified", value="{yes")
    assert "This is not JSON" in text_of(wrong.find(id="f-value-e"))  # type: ignore[arg-type]
    assert text_of(wrong.find(id="f-value")) == "{yes"  # type: ignore[arg-type]
    assert "Enter the name of the event" in text_of(site.refused(f"workflows/{run_id}/signal", event="", value=""))
    assert not commands_in(wrong), "a text that is no JSON would be sent as text"
    [line] = commands_in(site.preview(f"workflows/{run_id}/signal", event="verified", value='{"ok": true}'))
    assert line == f"""evertick workflow signal {run_id} verified '{{"ok": true}}'"""

    unasked = site.send(f"workflows/{run_id}/signal", event="verifeid", value="")
    assert "Sent verifeid. Its code does not wait for that now" in unquote(unasked.headers["set-cookie"])
    for path in (f"workflows/{run_id}", f"workflows/{run_id}/signal"):
        assert "1 event waits that its code has not taken: “verifeid”, sent " in text_of(site.page(path)), path
    [waits] = site.app.workflows.get(run_id).waiting_events
    assert (waits.sent_by or "").startswith("token ")
    assert "“verifeid”, sent " in text_of(site.page(f"workflows/{run_id}"))
    [link] = site.page(f"workflows/{run_id}").select(".banner a")
    form = site.page(str(link["href"]).partition("/t/default/")[2])
    assert "Withdraw verifeid?" in text_of(form)
    assert commands_in(form) == [f"evertick workflow withdraw {run_id} verifeid"]
    done = site.send(f"workflows/{run_id}/withdraw", event="verifeid", id=waits.id)
    assert "Withdrew verifeid." in unquote(done.headers["set-cookie"])
    assert site.app.workflows.get(run_id).waiting_event_count == 0
    gone = site.send(f"workflows/{run_id}/withdraw", status=409, event="verifeid", id=waits.id)
    assert "no event 'verifeid' with the id" in text_of(gone.text)
    sent = site.send(f"workflows/{run_id}/signal", event="verified", value='"yes"')
    assert sent.headers["location"].endswith(run_id) and "kept" not in unquote(sent.headers["set-cookie"])
    with Engine(site.app):
        until(lambda: site.app.workflows.get(run_id).state == "success")
    done = site.page(f"workflows/{run_id}")
    assert "Done after" in text_of(done)
    assert f"Sent by {waits.sent_by}" in text_of(site.page(f"workflows/{run_id}?step=3"))
    assert f'"yes" by {waits.sent_by}' in text_of(site.page(f"workflows/{run_id}?view=events"))
    again = site.app.workflows.restart(run_id)
    assert f"It is the restart of {run_id}" in text_of(site.page(f"workflows/{again}"))
    assert done.find("a", string="Signal…")["title"] == "The run has ended"  # type: ignore[index]


@pytest.mark.parametrize(("action", "state"), [("cancel", "canceled"), ("terminate", "canceled"), ("pause", "paused")])
def test_a_run_is_ended_or_held_from_a_form(site: Site, action: str, state: str) -> None:
    run_id = start(site, "shop.onboard", "ada", user="ada")
    assert commands_in(site.page(f"workflows/{run_id}/{action}"))
    site.send(f"workflows/{run_id}/{action}")
    with Engine(site.app):
        until(lambda: site.app.workflows.get(run_id).state == state)
    [line] = site.app.audit_log.list().changes[:1]
    assert (line.action, line.target) == (f"workflow.{action}", "ada")
    if action == "pause":
        assert "Paused: it takes no further step" in text_of(site.page(f"workflows/{run_id}"))
        site.send(f"workflows/{run_id}/resume")
        assert site.app.workflows.get(run_id).state == "running"
    else:
        again = site.send(f"workflows/{run_id}/{action}", status=409)
        assert "It has ended meanwhile." in text_of(again.text)


def test_a_run_is_restarted_from_a_step(site: Site) -> None:
    run_id = start(site, "shop.onboard", "ada", user="ada")
    form = site.page(f"workflows/{run_id}/restart?step=2")
    assert form.select_one("#f-step option[selected]")["value"] == "2"  # type: ignore[index]
    assert commands_in(form)
    assert "has not made a step" in text_of(site.refused(f"workflows/{run_id}/restart", step="77"))
    assert "Enter the number of a step" in text_of(site.refused(f"workflows/{run_id}/restart", step="x"))

    to = site.send(f"workflows/{run_id}/restart", step="3").headers["location"]

    again = site.app.workflows.timeline(to.rpartition("/")[2])
    assert [step.name for step in again.steps] == ["shop.note", "shop.mail"]
    assert site.app.workflows.get(run_id).state == "canceled"


def test_steps_that_a_page_does_not_list_are_counted_and_can_be_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflows = site.app.workflows
    run_id = workflows.using(key="batch-9").start(site.app.functions.resolve("shop.many"), users=["a", "b", "c", "d"])  # type: ignore[arg-type]
    with Engine(site.app):
        until(lambda: len(workflows.timeline(run_id).children) == 4)
    monkeypatch.setattr("evertick.dashboard.routes.workflow_changes.STEPS", 1)
    monkeypatch.setattr("evertick.dashboard.routes.workflows.STEPS", 1)

    assert "and 1 more" in text_of(site.page(f"workflows/{run_id}").select_one(".facts"))  # type: ignore[arg-type]
    form = site.page(f"workflows/{run_id}/restart?step=2")
    field = form.find(id="f-step")
    assert (field.name, field["value"]) == ("input", "2")  # type: ignore[union-attr, index]
    assert "of 4" in text_of(form) and "Again" in text_of(form)
    again = site.send(f"workflows/{run_id}/restart", step="2").headers["location"]
    assert workflows.get(again.rpartition("/")[2]).function == "shop.many"


def test_a_restart_begins_at_the_failed_step_of_a_failed_run_and_says_what_runs_again(site: Site) -> None:
    failed = site.page(f"workflows/{start(site, 'shop.undoes', 'undone')}/restart")
    assert failed.select_one("#f-step option[selected]")["value"] == "2"  # type: ignore[index]
    assert "Kept 1 shop.note : with the outcomes they have" in text_of(failed)
    assert "Again 2 shop.refuse , 3 shop.note , and what follows" in text_of(failed)

    waits = start(site, "shop.onboard", "ada", user="ada")
    page = site.page(f"workflows/{waits}")
    [link] = [str(each["href"]) for each in page.find_all("a", string="Restart…")]
    form = site.page(link)
    assert form.select_one("#f-step option[selected]") is None, "from the beginning"
    assert "Kept" not in text_of(form)
    assert "Again 1 shop.note , 2 shop.mail , 3 verified , and what follows" in text_of(form)
    other = site.send(f"workflows/{waits}/restart", status=200, step="2", choose="yes")
    assert "Kept 1 shop.note" in text_of(other.text)
    assert site.app.workflows.get(waits).state == "running", "nothing was restarted"


def test_a_run_is_started_from_a_form_or_like_another_one(site: Site) -> None:
    run_id = start(site, "shop.onboard", "ada", user="ada")
    like = site.page(f"workflow-start?like={run_id}")
    assert like.find(id="f-a.user").get_text().strip() == "ada"  # type: ignore[union-attr]
    assert text_of(like.find(id="f-attributes")) == "paid=true plan=pro seats=3"  # type: ignore[arg-type]
    assert commands_in(like)

    for field, value, why in (
        ("args", "[1]", "not a JSON object"),
        ("args", '{"nobody": 1}', "nobody"),
        ("workflow", "", "Choose a workflow"),
        ("workflow", "shop.none", "no function 'shop.none'"),
        ("attributes", "plan", "an attribute is name=value"),
        ("key", "ada", "ada"),
    ):
        fields = {"workflow": "shop.onboard", "args": '{"user": "ben"}'} | {field: value}
        wrong = site.refused("workflow-start", **fields)
        assert why in text_of(wrong.find(id=f"f-{field}-e")), (field, text_of(wrong))  # type: ignore[arg-type]

    to = site.send(
        "workflow-start", workflow="shop.onboard", args='{"user": "ben"}', key="ben", attributes="plan=free\nn=1"
    ).headers["location"]
    made = site.app.workflows.get(to.rpartition("/")[2])
    assert (made.key, made.args, made.attributes) == ("ben", {"user": "ben"}, {"plan": "free", "n": 1})


def test_the_arguments_of_a_run_are_fields_of_its_workflow(site: Site) -> None:
    assert site.page("workflow-start").find(id="f-args") is not None, "no workflow is chosen yet"
    shown = soup_of(site.send("workflow-start", status=200, workflow="shop.onboard", choose="yes").text)
    assert shown.find(id="f-a.user") is not None and shown.find(id="f-args") is None
    as_json = soup_of(
        site.send("workflow-start", status=200, workflow="shop.onboard", args_switch="json", **{"a.user": "eve"}).text
    )
    assert json.loads(as_json.find(id="f-args").get_text()) == {"user": "eve"}  # type: ignore[union-attr]
    back = site.refused("workflow-start", workflow="shop.onboard", args_as="fields")
    assert "required" in text_of(back.find(id="f-a.user-e"))  # type: ignore[arg-type]
    to = site.send("workflow-start", workflow="shop.onboard", args_as="fields", **{"a.user": "eve"})
    assert site.app.workflows.get(to.headers["location"].rpartition("/")[2]).args == {"user": "eve"}


def test_all_runs_that_match_are_ended_after_their_count_was_typed(site: Site) -> None:
    fulfil, onboard = (site.app.functions.resolve(f"shop.{name}") for name in ("fulfil", "onboard"))
    ids = [site.app.workflows.start(fulfil, order_id=str(n)) for n in range(3)]  # type: ignore[arg-type]
    other = site.app.workflows.start(onboard, user="ada")  # type: ignore[arg-type]
    page = site.page("workflows?workflow=shop.fulfil")
    [link] = [a["href"] for a in page.select(".acts a") if text_of(a) == "Terminate all…"]
    form = site.page(str(link))
    assert "Terminate 3 runs?" in text_of(form) and "workflow shop.fulfil" in text_of(form)
    assert len(commands_in(form)) == 1
    asked = {"all": "yes", "workflow": "shop.fulfil", "shown": "3"}
    site.app.workflows.start(fulfil, order_id="late")  # type: ignore[arg-type]
    refused = site.refused("workflow-batch/terminate", typed="terminate 3", **asked)
    assert "There are 4 now, and were 3; nothing was done. Type terminate 4" in text_of(refused)
    assert {site.app.workflows.get(each).state for each in ids} == {"pending"}
    site.send("workflow-batch/terminate", typed="terminate 4", **asked)
    assert {site.app.workflows.get(each).state for each in ids} == {"canceled"}
    assert site.app.workflows.get(other).state == "pending"
    site.page("workflow-batch/cancel?all=yes&state=done", status=422)
    assert "Terminate all" not in text_of(site.page("workflows?state=failed"))


def test_a_form_about_many_runs_names_them_as_people_do(site: Site) -> None:
    fulfil = site.app.functions.resolve("shop.fulfil")
    for n in range(3):
        site.app.workflows.using(key=f"doc-bulk-{n}").start(fulfil, order_id=str(n))  # type: ignore[arg-type]
    page = site.page("workflows?q=doc-bulk")
    [link] = [a["href"] for a in page.select(".acts a") if text_of(a) == "Cancel all…"]
    for path in (str(link), f"workflow-batch/cancel?row={site.app.workflows.get('doc-bulk-1').id}"):
        form = site.page(path)
        assert "doc-bulk-1 job_" in text_of(form)
        assert "with q" not in text_of(form)
    assert "All open runs: key or id begins with doc-bulk ." in text_of(site.page(str(link)))


def test_search_and_the_page_of_its_function_say_of_a_run_what_its_own_page_says(site: Site) -> None:
    run_id = start(site, "shop.onboard", "ada-17", user="ada")
    found = site.page("search?q=ada-")
    [row] = [each for each in found.select("tbody tr") if run_id in text_of(each)]
    assert text_of(row) == f"ada-17 shop.onboard, running {run_id}"
    function = text_of(site.page("functions/shop.onboard").select_one("main") or "")
    assert "Runs 1 open · 0 failed · 0 done" in function
    assert "pending" not in function and "waits" in function


def test_several_runs_are_ended_after_their_count_was_typed(site: Site) -> None:
    fulfil = site.app.functions.resolve("shop.fulfil")
    ids = [site.app.workflows.start(fulfil, order_id=str(n)) for n in range(3)]  # type: ignore[arg-type]
    query = "&".join(f"row={each}" for each in ids)
    form = site.page(f"workflow-batch/terminate?{query}")
    assert "Terminate 3 runs?" in text_of(form)
    assert commands_in(form)
    assert "no run is chosen" in text_of(site.page("workflow-batch/cancel", status=422))
    assert "Type terminate 3" in text_of(site.refused("workflow-batch/terminate", row=ids, typed="terminate 2"))
    assert all(site.app.workflows.get(each).state == "pending" for each in ids)

    site.send("workflow-batch/terminate", row=ids, typed="terminate 3")

    assert all(site.app.workflows.get(each).state == "canceled" for each in ids)
    partly = site.refused("workflow-batch/cancel", row=[ids[0], "gone"], typed="cancel 2")
    assert "no run 'gone'" in text_of(partly)


def test_workflows_are_paused_and_resumed(site: Site) -> None:
    assert "shop.onboard active" in text_of(site.page("workflow-types"))
    form = site.page("workflow-types/shop.onboard/pause")
    assert commands_in(form)
    site.send("workflow-types/shop.onboard/pause")
    assert "shop.onboard paused since" in text_of(site.page("workflow-types"))
    [line] = site.app.audit_log.list().changes[:1]
    assert (line.action, line.target, line.tenant) == ("workflow_type.pause", "shop.onboard", None)
    site.send("workflow-types/shop.onboard/resume")
    assert str(site.app.workflows.types.get("shop.onboard").status) == "active"

    acme = site.by("admin", tenant="acme")
    assert "the same for all tenants" in text_of(acme.page("workflow-types"))
    assert acme.request("POST", "workflow-types/shop.onboard/pause").status_code == 403
    assert acme.request("GET", "workflow-types/shop.onboard/pause").status_code == 403


def test_who_may_only_read_sees_why_buttons_do_nothing(site: Site) -> None:
    run_id = start(site, "shop.onboard", "ada", user="ada")
    reader = site.by("read")
    for path in (f"workflows/{run_id}", "workflows", "workflow-types"):
        page = reader.page(path)
        acts = page.select("main .acts a, main .acts-c a, main .bulk button")
        assert acts, path
        for each in acts:
            assert each["aria-disabled"] == "true", (path, each)
            assert "needs a token with the scope" in str(each["title"])


def test_a_run_in_a_browser(browser: Browser, site: Site) -> None:
    run_id = start(site, "shop.onboard", "ada", user="ada")
    with open_window(browser, site.server, site.secret) as window:
        page = window.go("workflows")
        page.get_by_label("Select ada").check()
        expect(page.get_by_text("1 selected")).to_be_visible()
        page.get_by_role("button", name="Terminate…").click()
        expect(page.get_by_role("heading", name="Terminate 1 run?")).to_be_visible()
        window.press("Escape")
        page.get_by_role("link", name="ada", exact=True).click()
        page.get_by_role("link", name="2 shop.mail").click()
        expect(page.get_by_role("heading", name="Step 2 shop.mail")).to_be_visible()
        assert window.axe() == ""
        page.emulate_media(color_scheme="dark")
        assert window.axe() == ""
        page.get_by_role("link", name="Signal…").click()
        page.get_by_label("Value").fill('"yes"')
        site.app.workflows.pause(run_id)
        page.get_by_role("button", name="Send").press("Enter")
        expect(page.get_by_text("Sent verified.")).to_be_visible()
        page.get_by_role("link", name="Resume…").press("Enter")
        page.get_by_role("button", name="Resume the run").press("Enter")
        expect(page.get_by_text(f"Resumed {run_id}.")).to_be_visible()
        with Engine(site.app):
            expect(page.get_by_text("Done after")).to_be_visible()
        assert site.app.workflows.get(run_id).result == "yes"


def test_runs_that_cannot_go_on_need_attention(site: Site) -> None:
    run_id = site.app.workflows.start(site.app.functions.resolve("shop.onboard"), user="ada")  # type: ignore[arg-type]
    for _ in range(2):
        site.app.scheduler.run_after(3_600, site.app.functions.resolve("shop.order"), item="x")
    site.app.tenants.set("default", jobs=2)
    with Engine(site.app):
        until(lambda: site.app.workflows.get(run_id).error is not None)
        until(lambda: site.app.insight.overview().attention != ())
        page = site.page("")
    [row] = page.select(".att tbody tr")
    assert "1 run cannot continue" in text_of(row) and "QuotaExceeded: " in text_of(row)
    assert [str(link["href"]) for link in row.select("a")] == [
        "/t/default/workflows?workflow=shop.onboard",
        f"/t/default/workflows/{run_id}",
    ]
    assert "every run of a workflow can go on" not in text_of(page)

"""Many runs restarted from the list of those that failed."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from evertick import MutationCtx, Step
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until
from tests.dashboard.commands import commands_in
from tests.dashboard.conftest import Site, site_of, text_of


@pytest.fixture
def made() -> list[int]:
    """The steps that were made."""
    return []


@pytest.fixture
def site(open_app: OpenApp, made: list[int]) -> Iterator[Site]:
    """A shop whose workflow fails at its second step."""
    app = open_app("shop")

    @app.mutation(name="shop.step")
    def make(ctx: MutationCtx, n: int) -> int:
        made.append(n)
        if n == 2:
            raise ValueError("out of stock")
        return n

    @app.workflow(name="shop.flow")
    async def flow(step: Step) -> None:
        step.set_attributes(customer="ada")
        await step.run(make, 1)
        await step.run(make, 2)

    @app.workflow(name="shop.parent")
    async def parent(step: Step) -> None:
        await step.workflow(flow)

    app.migrate()
    app.open()
    yield site_of(app)


def failed(site: Site, *keys: str) -> list[str]:
    """Runs that have failed."""
    workflows = site.app.workflows
    flow = site.app.functions.resolve("shop.flow")
    ids = [str(workflows.using(key=key).start(flow)) for key in keys]  # type: ignore[arg-type]
    end(site, ids)
    return ids


def end(site: Site, ids: list[str]) -> None:
    """Let runs end."""
    with Engine(site.app):
        until(lambda: all(site.app.workflows.get(each).has_ended for each in ids))


def again(site: Site, ids: list[str]) -> list[str]:
    """The runs as which they were restarted."""
    return [str(found) for each in ids if (found := site.app.workflows.get(each).retried_as) is not None]


def test_all_failed_runs_are_restarted_after_their_count_was_typed(site: Site, made: list[int]) -> None:
    ids = failed(site, "a", "b", "c")
    site.app.workflows.restart(ids[2])
    page = site.page("workflows?state=failed&workflow=shop.flow&attribute=customer%3Dada")
    [link] = [str(a["href"]) for a in page.select(".acts a") if text_of(a) == "Restart all…"]

    form = site.page(link)

    assert "Restart 2 runs?" in text_of(form)
    words = text_of(form)
    assert "All failed runs that were not run again" in words and "workflow shop.flow" in words
    chosen = "evertick workflow restart --workflow shop.flow --attribute customer=ada"
    assert commands_in(form) == [f"{chosen} --from-failed --yes"]
    asked = {"all": "yes", "state": "failed", "workflow": "shop.flow", "shown": "2"}
    refused = text_of(site.refused("workflow-batch/restart", typed="restart 3", **asked, **{"from": "failed"}))
    assert "Type restart 2 to confirm." in refused and again(site, ids[:2]) == []
    assert "Choose where" in text_of(site.refused("workflow-batch/restart", typed="restart 2", **asked))

    sent = site.send("workflow-batch/restart", typed="restart 2", **asked, **{"from": "failed"})

    assert quote("Restarted 2 runs.") in sent.headers["set-cookie"]
    made.clear()
    end(site, again(site, ids))
    assert sorted(made) == [1, 2, 2, 2], "one began at its beginning before"
    lines = [each.action for each in site.app.audit_log.list().changes]
    assert lines.count("workflow.restart") == 2


def test_runs_that_were_run_again_say_so_and_can_be_left_out(site: Site) -> None:
    one, two = failed(site, "a", "b")
    new = site.app.workflows.restart(one)

    page = site.page("workflows?state=failed")
    assert page.select_one(f"#r-{one} small a")["href"] == f"/t/default/workflows/{new}"  # type: ignore[index]
    assert [each["value"] for each in page.select("input[name=row]")] == [two], "the other was run again"
    assert "not run again 1" in text_of(page.select_one("form.filters"))  # type: ignore[arg-type]
    left = site.page("workflows?state=failed&not_retried=true")
    assert [each["id"] for each in left.select("tbody tr")] == [f"r-{two}"]
    assert f"It was run again as {new}" in text_of(site.page(f"workflows/{one}"))
    site.app.workflows.restart(two)
    none = text_of(site.page("workflows?state=failed&not_retried=true"))
    assert "No run matches these filters" in none and "not run again yes" in none
    assert "workflow-batch/restart" not in str(site.page("workflows?state=done"))


def test_ticked_runs_are_restarted_from_the_beginning(site: Site, made: list[int]) -> None:
    ids = failed(site, "a", "b")
    site.app.workflows.using(key="b").start(site.app.functions.resolve("shop.flow"))  # type: ignore[arg-type]
    form = site.page("workflow-batch/restart?" + "&".join(f"row={each}" for each in ids))
    assert commands_in(form) == [f"evertick workflow restart {ids[0]} {ids[1]} --from-failed"]

    partly = site.refused("workflow-batch/restart", row=ids, typed="restart 2", **{"from": "beginning"})

    said = text_of(partly)
    assert "1 of 2 were changed." in said and "holds the key 'b'" in said
    assert [each["value"] for each in partly.select("input[name=row]")] == [ids[1]], "what runs again is not sent again"
    made.clear()
    end(site, again(site, ids[:1]))
    assert made[:2].count(1) >= 1


def test_canceled_runs_are_restarted_too(site: Site) -> None:
    ids = [str(site.app.workflows.start(site.app.functions.resolve("shop.flow"))) for _ in range(2)]  # type: ignore[arg-type]
    for each in ids:
        site.app.workflows.terminate(each)
    link = "workflow-batch/restart?all=yes&state=canceled"
    assert commands_in(site.page(link)) == ["evertick workflow restart --state canceled --from-failed --yes"]

    site.send("workflow-batch/restart", all="yes", state="canceled", typed="restart 2", **{"from": "failed"})

    assert len(again(site, ids)) == 2
    assert "no run is chosen" in text_of(site.page(link, status=422))
    assert "have not failed" in text_of(site.page("workflow-batch/restart?all=yes&state=done", status=422))


def test_children_are_left_to_the_runs_that_called_them(site: Site, made: list[int]) -> None:
    run = site.app.workflows.start(site.app.functions.resolve("shop.parent"))  # type: ignore[arg-type]
    end(site, [str(run)])
    ids = {str(each.id) for each in site.app.workflows.list(state="failed").runs}
    assert len(ids) == 2

    assert "Restart 1 run?" in text_of(site.page("workflow-batch/restart?state=failed&all=yes"))
    site.send("workflow-batch/restart", typed="restart 1", row=sorted(ids), shown="1", **{"from": "failed"})
    assert len(again(site, sorted(ids))) == 2, "the child says so, too: its run calls it again"
    made.clear()
    end(site, [str(site.app.workflows.get(run).retried_as)])

    assert made == [1, 2]


def test_filters_that_are_not_understood_have_a_face(site: Site) -> None:
    for path in ("workflow-batch/restart", "workflow-batch/restart/preview"):
        page = site.send(path, state="lost", all="1", status=422)
        assert "not understood" in text_of(page.text) and "state:" in text_of(page.text)

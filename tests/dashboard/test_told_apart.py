"""What has one name and is not the same, and what has two names and is: steps, functions, lines of charts."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import pytest

from evertick import ActionCtx, MutationCtx, Step, every
from evertick.base.instants import DAY_MS, Instant
from evertick.base.records.jobs import FunctionKind
from tests.app.conftest import OpenApp
from tests.app.engine import Engine
from tests.app.workflows.test_on_both_databases import until
from tests.dashboard.browser import Window
from tests.dashboard.conftest import Site, site_of, text_of
from tests.server.conftest import order_of, shop_on
from tests.store.rows import new_job

LEFT: Final = "cells => new Set(cells.map(each => Math.round(each.getBoundingClientRect().left))).size"
HEIGHTS: Final = "rows => rows.map(each => each.getBoundingClientRect().height)"


@pytest.fixture
def site(open_app: OpenApp) -> Iterator[Site]:
    """The shop, with a workflow that was called otherwise, and does the same several times."""
    app = shop_on(open_app)

    @app.action(name="shop.render")
    async def render(ctx: ActionCtx, meter: str, pages: int) -> None:
        """Render a document."""

    @app.mutation(name="shop.note")
    def note(ctx: MutationCtx, text: str) -> None:
        """Note a text."""

    @app.workflow(name="shop.group")
    async def group(step: Step, name: str) -> None:
        step.set_attributes(group=name)

    @app.workflow(name="shop.bill", aliases=["shop.invoice"])
    async def bill(step: Step) -> None:
        for meter in ("M-1", "M-2"):
            await step.run(render, meter, 3)
        for name in ("household", "trade"):
            await step.workflow(group, name)
        await step.run(note, "done")
        await step.wait_for("approval", timeout=timedelta(days=3))

    yield site_of(app)


def billed(site: Site) -> str:
    """The id of a run that has done all."""
    workflows = site.app.workflows
    run_id = workflows.start(site.app.functions.resolve("shop.bill"))  # type: ignore[arg-type]
    with Engine(site.app):
        until(lambda: any(each.kind == "event" for each in workflows.timeline(run_id).waits_for))
        workflows.signal(run_id, "approval", "yes")
        until(lambda: workflows.get(run_id).completed_at is not None)
    return run_id


def test_steps_of_one_name_say_what_they_are_about(site: Site) -> None:
    page = site.page(f"workflows/{billed(site)}")
    assert [text_of(each) for each in page.select(".tl tbody th")] == [
        "1 shop.render M-1",
        "2 shop.render M-2",
        "3 shop.group group=household",
        "4 shop.group group=trade",
        "5 shop.note",
        "6 approval",
    ]


def test_a_wait_that_has_ended_does_not_end_later(site: Site) -> None:
    page = site.page(f"workflows/{billed(site)}?step=6")
    panel = text_of(page.select_one("#step-6"))  # type: ignore[arg-type]
    latest = panel.partition("At the latest ")[2].partition("Ended")[0]
    assert latest and " in " not in f" {latest}", panel


def test_a_former_name_says_what_it_is_now(site: Site) -> None:
    """Its counts are told apart; whether runs start is that of the present name."""
    old = new_job(
        7, name="shop.invoice", kind=FunctionKind.WORKFLOW, due_at=Instant(site.app.environment.clock.now() + DAY_MS)
    )
    site.app.environment.store.write(lambda tx: tx.insert_jobs([old]))
    with Engine(site.app):
        until(lambda: "shop.bill" in text_of(site.page("workflow-types")))
    [listed] = [
        text_of(each) for each in site.page("functions-by-name").select("tbody th") if "invoice" in text_of(each)
    ]
    assert listed == "shop.invoice now shop.bill"
    rows = {text_of(each.th): each for each in site.page("workflow-types").select("tbody tr")}  # type: ignore[arg-type]
    assert "Pause…" in text_of(rows["shop.bill"])
    if former := [each for name, each in rows.items() if "invoice" in name]:
        assert "now shop.bill" in text_of(former[0]) and "Pause…" not in text_of(former[0])


def test_the_legend_of_a_dashed_line_is_dashed(site: Site, window: Window) -> None:
    site.app.schedules.create("hourly", when=every(hours=1), do=order_of(site.app))
    page = window.go("")
    drawn = "each => getComputedStyle(each, '::before').backgroundImage"
    assert "repeating-linear-gradient" in page.locator(".lk4").first.evaluate(drawn)
    assert page.locator(".lk1").first.evaluate(drawn) == "none"


def test_what_is_found_stands_in_two_columns(site: Site, window: Window) -> None:
    site.app.schedules.create("s", when=every(hours=1), do=order_of(site.app))
    site.app.scheduler.run_after(3600, site.app.functions.resolve("shop.order"), item="s")
    page = window.go("search?q=o")
    assert page.locator(".found").count() > 1
    assert page.locator(".found td").evaluate_all(LEFT) == 1


def test_events_stand_on_one_line_each(site: Site, window: Window) -> None:
    page = window.go(f"workflows/{billed(site)}?view=events")
    assert len(set(page.locator(".ev tbody tr").evaluate_all(HEIGHTS))) == 1
    assert window.axe() == ""

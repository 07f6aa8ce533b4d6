"""Names, errors and values of one long word wrap: no page scrolls sideways for them, on a desk or on a telephone."""

from typing import Final

import pytest

from evertick import MutationCtx, Step, every
from tests.app.engine import Engine
from tests.dashboard.browser import Window
from tests.dashboard.conftest import Site
from tests.server.conftest import order_of

WORD: Final = "w" * 180
WIDTHS: Final = (400, 800, 1280)


@pytest.fixture
def long(site: Site) -> list[str]:
    """Addresses of pages about things with such names."""
    app = site.app

    @app.mutation(name=f"shop.{WORD}", pool=app.pool("p" * 100, running=5))
    def fail(ctx: MutationCtx, value: str) -> None:
        raise ValueError("e" * 2_000)

    @app.workflow(name=f"flow.{WORD}")
    async def flow(step: Step, value: str) -> None:
        step.progress("p" * 1_000)
        await step.wait_for("v" * 100)

    app.schedules.create(WORD, when=every(hours=1), do=order_of(app))
    app.schedules.create(f"f{WORD}", when=every(hours=1), do=fail.with_args(WORD))
    with Engine(app) as engine:
        app.schedules.trigger(f"f{WORD}")
        job = app.scheduler.using(key=WORD, limit_key=WORD).run_after(0, fail, WORD)
        run = app.workflows.using(key=f"r{WORD}", attributes={"a" * 60: WORD}).start(flow, WORD)
        engine.wait(job)
    app.schedules.pause(WORD, "n" * 900)
    app.pools.pause("p" * 100, "n" * 500)
    named = [f"functions/shop.{WORD}", f"functions/shop.{WORD}/run", f"functions/flow.{WORD}", f"pools/{'p' * 100}"]
    of_one = [f"jobs/{job}", f"workflows/{run}", f"workflows/{run}?view=events", f"workflows/{run}/restart"]
    lists = ["", "schedules", "functions?state=failed", "functions-by-name", "workflows?state=all", "workflow-types"]
    schedules = [f"schedules/{WORD}", f"schedules/f{WORD}", f"schedules/{WORD}/edit", f"schedules/{WORD}/trigger"]
    return [*named, *of_one, *lists, *schedules, "pools", "logs", "audit", "settings", f"search?q={WORD}"]


@pytest.mark.long
def test_no_page_scrolls_sideways(long: list[str], window: Window) -> None:
    found = {}
    for path in long:
        page = window.go(path)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if beyond > 0:
                found[path[:40], width] = beyond
    assert found == {}

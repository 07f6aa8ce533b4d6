"""The jobs that call functions, by state, as people choose them."""

from typing import Annotated, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.jobs import JobPage
from evertick.api.schema import Count
from evertick.app.functions.function import Workflow
from evertick.app.insight.jobs import JobList
from evertick.base.ids import JOB_PREFIX
from evertick.base.records.access import Scope
from evertick.base.records.history import JobCounts
from evertick.base.records.jobs import FunctionKind
from evertick.dashboard.job_lists import ID_CHARS, TABS, Filters, Listed
from evertick.dashboard.markup.jobs import has_begun
from evertick.dashboard.page import Page, Shown, page_routes
from evertick.dashboard.saved_views import saved_tabs
from evertick.server.routes.views import views_of

routes = page_routes()

ROWS: Final = 50
"""Of a page."""
USUAL: Final = {"state": "pending", "order": "newest"}
"""What the address of the list need not say."""
OWN: Final = [{}, *({"state": name} for name in TABS)]
"""The views that the list has by itself."""
LIVE_HEADER: Final = "x-evertick-live"
"""With which a list that is open is read again."""


class Asked(Filters):
    """A page of the list."""

    cursor: str | None = Field(None, max_length=1_000)
    order: str = Field("newest", pattern="^(newest|oldest|due)$")
    """`due`: those that wait for their time, the soonest first."""
    tz: str | None = None

    @property
    def shown_order(self) -> str:
        """The order that there is: only jobs that wait for their time are in the order of it."""
        is_without = self.state != "pending" or self.due == "late" or self.blocked
        return "newest" if self.order == "due" and is_without else self.order


@routes.page("/functions", Scope.READ)
async def list_jobs(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """A page of jobs."""
    text = asked.q or ""
    is_typing = LIVE_HEADER in page.request.headers
    if text.startswith(f"{JOB_PREFIX}_") and len(text) == ID_CHARS and not is_typing:
        return page.done(page.url("jobs", text))
    found, parents, counts = await _found(page, asked)
    others = asked.given()
    has_counts = not others.keys() - {"fn", "not_retried"}
    return page.render(
        "functions/list.html",
        listed=Listed(found, parents),
        asked=asked,
        all_begun=found.cursor is None and all(has_begun(each) for each in found.jobs),
        tabs={name: _counted(counts, asked.fn, state.value) for name, (_, state) in TABS.items()} if has_counts else {},
        not_retried=_counted(counts, asked.fn, "not_retried") if has_counts else None,
        functions=_names(page, counts),
        pools=sorted({each.served.pool.rpartition("/")[2] for each in page.known.app.functions}),
        others=others,
        runs=_runs(page, asked, found, counts if has_counts else {}) if asked.state == "pending" else 0,
        saved=saved_tabs(page, "jobs", await views_of(page.known).list("jobs"), USUAL, OWN),
    )


async def _found(page: Page, asked: Asked) -> JobList:
    where = asked.where(page.now)
    if asked.shown_order == "due":
        del where["state"]
        return await page.access.insight.upcoming_list(limit=ROWS, cursor=asked.cursor, **where)
    return await page.access.insight.job_list(
        limit=ROWS, cursor=asked.cursor, newest_first=asked.shown_order == "newest", **where
    )


def _counted(counts: dict[str, JobCounts], function: str | None, which: str) -> Count:
    chosen = counts.values() if function is None else [counts.get(function, JobCounts())]
    return Count.of(sum(getattr(each, which) for each in chosen))


def _runs(page: Page, asked: Asked, found: JobPage, counts: dict[str, JobCounts]) -> int:
    """How many of the pending jobs are open runs of workflows, as far as is known which functions are workflows."""
    shown = [each.function for each in found.jobs if each.kind is FunctionKind.WORKFLOW]
    names = {*shown, *(each.name for each in page.known.app.functions if isinstance(each, Workflow))}
    if not counts:
        return len(shown)
    return sum(each.pending for name, each in counts.items() if name in names and asked.fn in (None, "", name))


def _names(page: Page, counts: dict[str, JobCounts]) -> list[str]:
    """The functions to choose from: those of the app, and those that have jobs."""
    return sorted({*counts, *(each.name for each in page.known.app.functions)})

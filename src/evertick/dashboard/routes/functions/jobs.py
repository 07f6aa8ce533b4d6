"""The jobs that call functions, by state, as people choose them."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.jobs import JobPage, JobView
from evertick.api.schema import Count
from evertick.app.insight.functions import Failures
from evertick.app.insight.jobs import JobList
from evertick.base.ids import JOB_PREFIX
from evertick.base.records.access import Scope
from evertick.base.records.history import JobCounts
from evertick.base.records.jobs import FunctionKind
from evertick.dashboard.job_lists import ID_CHARS, TABS, Filters, Listed
from evertick.dashboard.page import LIVE_HEADER, Page, Shown, page_routes
from evertick.dashboard.saved_views import saved_tabs
from evertick.server.routes.views import views_of

routes = page_routes()

ROWS: Final = 50
"""Of a page."""
USUAL: Final = {"state": "pending", "order": "newest"}
"""What the address of the list need not say."""
OWN: Final = [{}, *({"state": name} for name in TABS)]
"""The views that the list has by itself."""
"""With which a list that is open is read again."""


class Asked(Filters):
    """A page of the list."""

    cursor: str | None = Field(None, max_length=1_000)
    order: str = Field("newest", pattern="^(newest|oldest|due)$")
    """`due`: those that wait for their time, the soonest first."""
    each: bool = False
    """Whether failures that are alike are listed one by one."""
    tz: str | None = None

    @property
    def is_grouped(self) -> bool:
        """Whether failures that are alike are shown together."""
        is_narrowed = bool(self.error or self.q or self.cursor)
        return self.state == "failed" and not (self.each or is_narrowed) and self.order == "newest"

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
    failures, listed, counts = await _failed(page, asked) if asked.is_grouped else (None, None, {})
    if listed is None:
        found, parents, counts = await _found(page, asked)
        listed = Listed(found, parents)
    others = asked.given()
    has_counts = not others.keys() - {"function", "not_retried"}
    workflows = _workflows(page)
    return page.render(
        "functions/list.html",
        listed=listed,
        failures=failures,
        asked=asked,
        tabs=_tabs(counts, asked.function, workflows) if has_counts else {},
        not_retried=_counted(counts, asked.function, "not_retried") if has_counts else None,
        functions=_names(page, counts, workflows if asked.state == "pending" else ()),
        is_workflow=asked.function in workflows,
        pools=sorted({each.served.pool.rpartition("/")[2] for each in page.known.app.functions}),
        others=others,
        saved=saved_tabs(page, "jobs", await views_of(page.known).list("jobs"), USUAL, OWN),
    )


async def _failed(page: Page, asked: Asked) -> tuple[Failures[JobView] | None, Listed | None, dict[str, JobCounts]]:
    """Failed jobs by function and error; None for the groups if no two are alike, for both if there are many such."""
    found, parents, counts = await page.access.insight.failed_jobs(**asked.where(page.now))
    if found.more and not found.repeats:
        return None, None, counts
    newest = tuple(each for group in found.groups for each in group.newest)
    return found if found.repeats else None, Listed(JobPage(jobs=newest, cursor=None), parents), counts


async def _found(page: Page, asked: Asked) -> JobList:
    where = asked.where(page.now)
    if asked.shown_order == "due":
        del where["state"]
        return await page.access.insight.upcoming_list(limit=ROWS, cursor=asked.cursor, **where)
    return await page.access.insight.job_list(
        limit=ROWS, cursor=asked.cursor, newest_first=asked.shown_order == "newest", workflows=_workflows(page), **where
    )


def _workflows(page: Page) -> list[str]:
    """The workflows of the app, whoever may start them."""
    return [each.name for each in page.known.app.functions if each.kind is FunctionKind.WORKFLOW]


def _counted(counts: dict[str, JobCounts], function: str | None, which: str) -> Count:
    chosen = counts.values() if function is None else [counts.get(function, JobCounts())]
    return Count.of(sum(getattr(each, which) for each in chosen))


def _tabs(counts: dict[str, JobCounts], function: str | None, workflows: Sequence[str]) -> dict[str, Count]:
    """How many jobs each tab has. Runs of workflows that wait are in their own list."""
    waiting = {name: each for name, each in counts.items() if name not in workflows}
    return {
        name: _counted(waiting if name == "pending" else counts, function, state.value)
        for name, (_, state) in TABS.items()
    }


def _names(page: Page, counts: dict[str, JobCounts], without: Sequence[str]) -> list[str]:
    """The functions to choose from: those of the app, and those that have jobs."""
    return sorted({*counts, *(each.name for each in page.known.app.functions)} - {*without})

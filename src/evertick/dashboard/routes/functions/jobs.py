"""The jobs that call functions, by state, as people choose them."""

from typing import Annotated, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.schema import Count
from evertick.base.ids import JOB_PREFIX
from evertick.base.records.access import Scope
from evertick.base.records.jobs import JobState
from evertick.dashboard.job_lists import ID_CHARS, TABS, Filters, Listed, parents_of
from evertick.dashboard.page import Page, Shown, page_routes
from evertick.dashboard.saved_views import saved_tabs
from evertick.server.routes.views import views_of

routes = page_routes()

USUAL: Final = {"state": "pending", "order": "newest"}
"""What the address of the list need not say."""
OWN: Final = [{}, *({"state": name} for name in TABS)]
"""The views that the list has by itself."""
LIVE_HEADER: Final = "x-evertick-live"
"""With which a list that is open is read again."""


class Asked(Filters):
    """A page of the list."""

    cursor: str | None = Field(None, max_length=1_000)
    order: str = Field("newest", pattern="^(newest|oldest)$")
    tz: str | None = None


@routes.page("/functions", Scope.READ)
async def list_jobs(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """A page of jobs."""
    where = asked.where(page.now)
    text = asked.q or ""
    is_typing = LIVE_HEADER in page.request.headers
    if text.startswith(f"{JOB_PREFIX}_") and len(text) == ID_CHARS and not is_typing:
        return page.done(page.url("jobs", text))
    jobs = page.access.jobs
    found = await jobs.list(limit=50, cursor=asked.cursor, newest_first=asked.order == "newest", **where)
    counts = await jobs.counts_by_function()
    others = asked.given()
    has_counts = not others.keys() - {"fn"}
    return page.render(
        "functions/list.html",
        listed=Listed(found, await parents_of(page.access, found.jobs)),
        asked=asked,
        tabs={name: _counted(counts, asked.fn, state) for name, (_, state) in TABS.items()} if has_counts else {},
        functions=_names(page, counts),
        pools=sorted({each.served.pool.rpartition("/")[2] for each in page.known.app.functions}),
        others=others,
        saved=saved_tabs(page, "jobs", await views_of(page.known).list("jobs"), USUAL, OWN),
    )


def _counted(counts: dict[str, dict[str, int]], function: str | None, state: JobState) -> Count:
    chosen = counts.values() if function is None else [counts.get(function, {})]
    return Count.of(sum(each.get(state.value, 0) for each in chosen))


def _names(page: Page, counts: dict[str, dict[str, int]]) -> list[str]:
    """The functions to choose from: those of the app, and those that have jobs."""
    return sorted({*counts, *(each.name for each in page.known.app.functions)})

"""The list of schedules: everything that starts by itself."""

import asyncio
from typing import Annotated, Final

from fastapi import Query
from starlette.responses import Response

from evertick.api.schedules import DetailedSchedulePage
from evertick.base.records.access import Scope
from evertick.dashboard.page import Page, Shown, page_routes
from evertick.dashboard.saved_views import saved_tabs
from evertick.dashboard.schedules.choice import COLUMNS, NEXT_HOUR, SORTED, USUAL_COLUMNS, Asked, chosen
from evertick.dashboard.zones import COMMON
from evertick.server.routes.views import views_of

routes = page_routes()

VIEWS: Final[tuple[tuple[str, str, str, dict[str, str]], ...]] = (
    ("All", "matching", "", {}),
    ("Failing", "failing", "failed", {"health": "failing"}),
    ("Late", "late", "late", {"health": "late"}),
    ("Missed", "missed", "missed", {"health": "missed"}),
    ("Paused", "paused", "", {"state": "paused"}),
    ("Next hour", "next_hour", "", {"q": NEXT_HOUR}),
)
"""The tabs: name, count, the state that colours a count above 0, and filters."""

USUAL: Final = {"sort": "next", "columns": ",".join(USUAL_COLUMNS)}
"""What the address of the list need not say."""
OWN: Final = [filters for _, _, _, filters in VIEWS]


@routes.page("/schedules", Scope.READ)
async def list_schedules(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """A page of schedules."""
    where, wrong = chosen(asked, page.now)
    schedules = page.access.schedules

    async def rows() -> DetailedSchedulePage:
        if wrong is not None:
            return DetailedSchedulePage(schedules=(), cursor=None)
        return await schedules.list_detailed(sort=asked.sort, limit=asked.limit, cursor=asked.cursor, **where)

    # Side by side: with a filter that few schedules pass, each of the two looks at all of them.
    found, counts, kept = await asyncio.gather(
        rows(), schedules.counts(**where), views_of(page.known).list("schedules")
    )
    is_empty = not found.schedules and not asked.query and asked.cursor is None
    return page.render(
        "schedules/list.html",
        status=200 if wrong is None else 422,
        found=found,
        asked=asked,
        counts=counts,
        wrong=wrong,
        is_empty=is_empty,
        views=[(name, count, css, page.url("schedules", **filters), _is_view(asked, filters))
               for name, count, css, filters in VIEWS],
        zones=_zones(page, asked, found),
        columns=COLUMNS,
        sorted_by=SORTED,
        saved=saved_tabs(page, "schedules", kept, USUAL, OWN),
    )  # fmt: skip


def _is_view(asked: Asked, filters: dict[str, str]) -> bool:
    now = {"q": asked.q.strip(), "kind": asked.kind, "state": asked.state, "health": asked.health, "zone": asked.zone}
    return {name: value for name, value in now.items() if value} == filters


def _zones(page: Page, asked: Asked, found: DetailedSchedulePage) -> list[str]:
    """The zones to choose from: those on this page, and well-known ones."""
    here = sorted({each.time_zone for each in found.schedules})
    chosen_zone = [] if asked.zone is None else [asked.zone]
    return list(dict.fromkeys([*chosen_zone, *here, page.zone.name, *COMMON]))

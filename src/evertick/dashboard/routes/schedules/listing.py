"""The list of schedules: everything that starts by itself."""

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from evertick.base.records.access import Scope
from evertick.dashboard.page import Shown, page_routes
from evertick.server.routes import schedules as api

routes = page_routes()


class Asked(api.SchedulesAsked):
    """A page of the list."""

    tz: str | None = None


@routes.page("/schedules", Scope.READ)
async def list_schedules(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """A page of schedules."""
    found = await page.access.schedules.list(sort=asked.sort, limit=asked.limit, cursor=asked.cursor, **asked.where())
    return page.render("schedules/list.html", found=found, asked=asked)

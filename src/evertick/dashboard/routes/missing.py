"""Addresses below a tenant at which there is no page."""

from starlette.responses import Response

from evertick.base.records.access import Scope
from evertick.dashboard.page import Shown, page_routes
from evertick.server.problems import Problem

routes = page_routes()


@routes.page("/{rest:path}", Scope.READ)
async def missing(page: Shown, rest: str) -> Response:
    """Say that there is no such page."""
    raise Problem(404, "not_found", "The rail beside this names the pages that there are.")

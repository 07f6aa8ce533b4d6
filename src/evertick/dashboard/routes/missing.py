"""Unknown addresses below a tenant."""

from starlette.responses import RedirectResponse, Response

from evertick.base.records.access import Scope
from evertick.dashboard.page import Shown, page_routes
from evertick.server.problems import Problem

routes = page_routes()


@routes.page("/{rest:path}", Scope.READ)
async def missing(page: Shown, rest: str) -> Response:
    """Raise the error for an unknown address; an address with a trailing slash redirects to the page without it."""
    if page.path.endswith("/"):
        return RedirectResponse(page.path.rstrip("/"), status_code=308)
    raise Problem(404, "not_found", "The navigation lists the existing pages.")

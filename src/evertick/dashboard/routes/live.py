"""Live updates of open pages: hints that something has changed, after which a page reloads its content."""

from starlette.responses import Response

from evertick.base.records.access import Scope
from evertick.dashboard.page import Shown, page_routes
from evertick.server.routes.events import hint_stream

routes = page_routes()


@routes.page("/events", Scope.READ)
async def stream_hints(page: Shown) -> Response:
    """Server-sent events: `jobs`, `schedules` or `logs` when any of these has changed."""
    return hint_stream(page.request, page.known)

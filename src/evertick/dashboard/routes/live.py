"""What keeps open pages up to date: hints that something has changed, upon which they read themselves again."""

from starlette.responses import Response

from evertick.base.records.access import Scope
from evertick.dashboard.page import Shown, page_routes
from evertick.server.routes.events import hint_stream

routes = page_routes()


@routes.page("/events", Scope.READ)
async def stream_hints(page: Shown) -> Response:
    """Server-sent events: `jobs`, `schedules` or `logs` when something of these has changed."""
    return hint_stream(page.request, page.known)

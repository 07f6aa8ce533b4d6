"""The routes of all pages. `Server.show(Dashboard())` adds them to a server."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from evertick.dashboard.error_pages import LOST
from evertick.dashboard.page import shown_face
from evertick.dashboard.routes import (
    backfills,
    clock,
    data,
    files,
    fleet,
    functions,
    gateways,
    home,
    jobs,
    live,
    logs,
    missing,
    overview,
    schedules,
    schedules_bulk,
    scripts,
    search,
    settings,
    views,
    workflow_changes,
    workflows,
)

ROUTES: Final[Sequence[APIRouter]] = (
    files.routes,
    home.routes,
    live.routes,
    clock.routes,
    overview.routes,
    search.routes,
    functions.routes,
    backfills.routes,  # before the other bulk actions, whose path parameter would match it
    schedules_bulk.routes,
    views.routes,
    schedules.routes,
    jobs.routes,
    scripts.routes,
    gateways.routes,
    logs.routes,
    data.routes,
    workflows.routes,
    workflow_changes.routes,
    fleet.routes,
    settings.routes,
    missing.routes,  # last: matches every other address
)
API: Final = "/api/"
PREFIXES: Final = ("/t/", "/login", "/logout")


class Dashboard:
    """The pages of a server."""

    routes = ROUTES

    def takes_forms(self, path: str) -> bool:
        """Whether a request to `path` may have the body of a form."""
        return path.startswith(PREFIXES)

    def face_of(self, request: Request, status: int) -> Response | None:
        """The page for an unknown address or another method; None for the JSON of the API.

        Browsers ask for HTML, and clients of the API do not.
        """
        accepts_pages = "text/html" in request.headers.get("accept", "")
        is_api = request.scope["path"].removeprefix(request.scope["root_path"]).startswith(API)
        return None if is_api or not accepts_pages or status not in LOST else shown_face(request, LOST[status])

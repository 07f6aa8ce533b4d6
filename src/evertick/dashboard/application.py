"""Which pages there are, and where they begin. `Server.show(Dashboard())` adds them to a server."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from evertick.dashboard.faces import LOST
from evertick.dashboard.page import shown_face
from evertick.dashboard.routes import (
    clock,
    data,
    files,
    gateways,
    home,
    live,
    logs,
    missing,
    overview,
    scripts,
    search,
    views,
)
from evertick.dashboard.routes.fleet import audit, pools, settings, workers
from evertick.dashboard.routes.functions import calling, named
from evertick.dashboard.routes.functions import jobs as jobs_list
from evertick.dashboard.routes.jobs import changing, many, one
from evertick.dashboard.routes.schedules import (
    backfilling,
    backfilling_many,
    bulk,
    detail,
    editing,
    listing,
    pausing,
    triggering,
)
from evertick.dashboard.routes.workflows import changes, run, runs, starting, types

ROUTES: Final[Sequence[APIRouter]] = (
    files.routes,
    home.routes,
    live.routes,
    clock.routes,
    overview.routes,
    search.routes,
    calling.routes,
    backfilling.routes,
    editing.routes,
    jobs_list.routes,
    named.routes,
    many.routes,
    one.routes,
    changing.routes,
    scripts.routes,
    gateways.routes,
    logs.routes,
    data.routes,
    listing.routes,
    backfilling_many.routes,  # before the other bulk actions, which have a word in its place
    bulk.routes,
    views.routes,
    pausing.routes,
    triggering.routes,
    detail.routes,  # after all that has a name of its own below /schedules
    runs.routes,
    starting.routes,
    types.routes,
    run.routes,
    changes.routes,
    pools.routes,
    workers.routes,
    audit.routes,
    settings.routes,
    missing.routes,  # the last one: every other address
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
        """The page for an address that no route has, or that takes another method; None for the JSON of the API.

        Browsers say that they want HTML, and clients of the API do not.
        """
        accepts_pages = "text/html" in request.headers.get("accept", "")
        is_api = request.scope["path"].removeprefix(request.scope["root_path"]).startswith(API)
        return None if is_api or not accepts_pages or status not in LOST else shown_face(request, LOST[status])

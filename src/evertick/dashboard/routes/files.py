"""The route of the static files."""

from typing import Final

from fastapi import Request
from starlette.responses import Response

from evertick.dashboard.assets import FILES, asset, content_of
from evertick.dashboard.page import page_routes
from evertick.server.problems import Problem

routes = page_routes(prefix="/assets")

TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


@routes.page("/{digest}/{name}", None)
async def send_file(request: Request, digest: str, name: str) -> Response:
    """A static file. A request for another release's file gets the current one, which is not cached."""
    if name not in FILES:
        raise Problem(404, "not_found", "no such file")
    keeps = "public, max-age=31536000, immutable" if asset(name).split("/")[2] == digest else "no-store"
    media = TYPES[name.rpartition(".")[2]]
    return Response(content_of(name), media_type=media, headers={"Cache-Control": keeps})

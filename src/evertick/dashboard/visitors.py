"""Visitors: authentication of pages. Visitors log in with a token of the HTTP API, which the browser keeps in a cookie.

Scripts cannot read the cookie, and it is sent only to pages of this site (`SameSite=Strict`). Requests that change
something must also come from a page of this site; browsers say where a request comes from.
"""

from typing import Any, Final
from urllib.parse import quote, urlsplit

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from evertick.app.access_control.tokens import verified
from evertick.base.errors import Unavailable
from evertick.base.records.access import AccessToken
from evertick.server.limits import SLASH
from evertick.server.problems import Problem, has_own_words

COOKIE: Final = "evertick_token"
KEPT_S: Final = 30 * 24 * 3600
"""Seconds for which a browser keeps a token or a zone, unless the token ends earlier."""
SAFE: Final = ("GET", "HEAD")


def secret_in(request: Request) -> str | None:
    """The token in the request's cookie; None if there is none."""
    return request.cookies.get(COOKIE)


def address_of(request: Request) -> str:
    """The address of a request as the browser sent it: with the server's prefix, its parameters, and escapes.

    The path from ASGI is decoded: a `%2F` in the id of a schedule would read as a slash there.
    """
    path = quote(request.scope["path"]).replace(quote(SLASH), "%2F")
    return f"{path}?{request.url.query}" if request.url.query else path


def check_origin(request: Request) -> None:
    """Refuse changes requested from another site. Raises Problem."""
    if request.method in SAFE:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        is_own = site == "same-origin"
    else:
        origin = request.headers.get("origin", "")
        is_own = bool(origin) and urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
    if not is_own:
        raise Problem(403, "foreign_origin", "this form was sent from another site; nothing was done")


async def token_of(request: Request, secret: str) -> AccessToken | None:
    """The token with the typed secret; None if there is none, or it has expired or was revoked."""
    e = request.app.state.evertick.environment
    found: AccessToken | None = await e.executors.read(verified(secret.strip(), e.clock.now()))
    return found


def to_login(request: Request) -> Response:
    """A redirect to the login page, which leads back to this page."""
    prefix = request.scope.get("root_path", "")
    back = f"?next={quote(address_of(request), safe='')}" if request.method in SAFE else ""
    return RedirectResponse(f"{prefix}/login{back}", status_code=303)


def keep(response: Response, request: Request, name: str, value: str, **how: Any) -> None:
    """Set a cookie that scripts cannot read and that is sent only to this site."""
    path = request.scope.get("root_path", "") or "/"
    secure = request.url.scheme == "https"
    response.set_cookie(name, value, httponly=True, samesite="strict", path=path, secure=secure, **how)


def is_outage(error: Exception) -> bool:
    """Whether an error means that the database cannot be read or written now."""
    return isinstance(error, Unavailable) and not has_own_words(error)

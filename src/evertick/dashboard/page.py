"""Pages: the common part of all requests for HTML, from the authentication to error pages.

    routes = page_routes()

    @routes.page("/schedules", Scope.READ)
    async def list_schedules(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
        return page.render("schedules/list.html", found=await page.access.schedules.list())

    @routes.form("/schedules/{schedule_id}/pause", Scope.OPERATE)
    async def pause(page: Shown, schedule_id: Named) -> Response:
        form = await page.form()
        ...
        return page.done(page.url("schedules", schedule_id), "Paused.")

A form is its own page, which works without script. With script it is shown as a dialog over the previous page; only its
part of the template is then sent (`page.in_dialog`).

Below its fields a form shows the command that does the same. The handler that opens the form creates it from the fields
(`page.same`). While people type, it is called again at `.../preview`, with the contents so far as `page.typed`.

    @routes.asks("/schedules/{schedule_id}/pause", Scope.OPERATE)
    async def show_pause(page: Shown, schedule_id: Named) -> Response:
        form = page.typed or Form()
        ...
        return page.render("schedules/pause.html", form=form, command=page.same(read, line))
"""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import HTMLResponse, RedirectResponse, Response

from evertick._version import __version__
from evertick.app.access import AsyncAccess
from evertick.app.database_clock import Pace, pace_of
from evertick.base.errors import EvertickError, Misuse
from evertick.base.ids import DEFAULT_TENANT, TenantId
from evertick.base.instants import Instant, to_iso
from evertick.base.records.access import Scope
from evertick.dashboard.error_pages import Face, face_of
from evertick.dashboard.forms.form import Form, SentBefore, checked_new, kept_reply
from evertick.dashboard.markup.commands import SameCommand, command, complaints
from evertick.dashboard.markup.templates import environment
from evertick.dashboard.markup.times import Times
from evertick.dashboard.visitors import address_of, check_origin, is_outage, keep, secret_in, to_login
from evertick.dashboard.zones import choices, offset_words, zone_of
from evertick.recurrence.zones.names import zone_named
from evertick.server.callers import Called, Caller, Routes, ScopedRoute
from evertick.server.problems import Problem

# -- The pages in the navigation rail, in three groups.


class Place(NamedTuple):
    """A page in the rail: its name, its path below the tenant, and the key after `g` that opens it."""

    name: str
    path: str
    key: str = ""
    scope: Scope = Scope.READ
    of_scripts: bool = False
    """Whether it is shown only if the app runs scripts."""


PLACES: Final[tuple[tuple[Place, ...], ...]] = (
    (
        Place("Overview", "", "o"),
        Place("Schedules", "schedules", "s"),
        Place("Functions", "functions", "f"),
        Place("Scripts", "scripts", "c", of_scripts=True),
        Place("Logs", "logs", "l"),
        Place("Workflows", "workflows", "w"),
        Place("Data", "data", "d"),
        Place("Gateways", "gateways"),
    ),
    (Place("Pools", "pools"), Place("Workers", "workers")),
    (Place("Audit", "audit"), Place("Settings", "settings")),
)


__all__ = ["Form", "Page", "PageRoute", "PageRoutes", "Public", "Shown", "file_of", "page_routes", "saved_as", "utf8"]

_logger: Final = logging.getLogger("evertick.server")

SLOW_S: Final = 2.0
"""A page that takes longer is stopped and says so; the data that it shows is not affected."""
FIELDS_MAX: Final = 2_000
SAID_COOKIE: Final = "evertick_said"
DIALOG_HEADER: Final = "x-evertick-dialog"
TO_HEADER: Final = "x-evertick-to"
LIVE_HEADER: Final = "x-evertick-live"
"""Sent by a page that reloads after a hint; PAUSE_HEADER of the reply has the milliseconds to wait before the next."""
PAUSE_HEADER: Final = "x-evertick-pause"
PREVIEW: Final = "/preview"
"""The suffix of the address at which a form is shown with its contents so far."""
URL_SAFE: Final = ":/%#?=@[]!$&'()*+,;"
"""Characters that are not escaped in an address that is sent back; headers must be ASCII."""
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


class Page:
    """One request for a page: the visitor, the time, the zone, and what was sent."""

    def __init__(self, request: Request, caller: Caller | None) -> None:
        self.request = request
        self.caller = caller
        e = request.app.state.evertick.environment
        self.now: Instant = e.clock.now()
        self.zone = zone_of(request)
        self.times = Times(self.now, self.zone)
        self.in_dialog = DIALOG_HEADER in request.headers
        """Whether only the form is requested, to be shown over another page."""
        self.typed: Form | None = None
        """The contents of the form so far, if its preview is requested; otherwise None."""

    @property
    def tenant(self) -> TenantId:
        """The tenant whose data is shown."""
        return (None if self.caller is None else self.caller.tenant) or DEFAULT_TENANT

    @property
    def access(self) -> AsyncAccess:
        """The tenant's data, as in the HTTP API."""
        return self.known.access

    @property
    def known(self) -> Caller:
        """The visitor, on a page that needs a token."""
        assert self.caller is not None, "this page has a scope"  # noqa: S101
        return self.caller

    @property
    def reaches_all(self) -> bool:
        """Whether the visitor's token is for all tenants, so that it can also access what belongs to no tenant."""
        return self.known.token.tenant is None

    @property
    def uses_scripts(self) -> bool:
        """Whether the app runs scripts of its customers."""
        return self.known.app.uses_scripts

    @property
    def fleet(self) -> Caller:
        """The visitor, for what belongs to no tenant: pools, workers, workflow types. Raises Problem."""
        if not self.reaches_all:
            raise Problem(403, "not_allowed", "this belongs to no tenant, but your token is for one tenant only")
        return replace(self.known, tenant=None)

    @property
    def prefix(self) -> str:
        """The path prefix of the server."""
        return str(self.request.scope.get("root_path", ""))

    @property
    def here(self) -> str:
        """The address of this page with its parameters; for a preview, that of its form."""
        path, mark, query = address_of(self.request).partition("?")
        return f"{path.removesuffix(PREVIEW) if is_preview(self.request) else path}{mark}{query}"

    @property
    def path(self) -> str:
        """The address of this page without parameters."""
        return self.here.partition("?")[0]

    @property
    def pace(self) -> Pace | None:
        """The simulated clock, if the server uses one; otherwise None."""
        e = self.request.app.state.evertick.environment
        return pace_of(e.store.url, e.clock)

    @property
    def asks_tokens(self) -> bool:
        """Whether visitors log in."""
        return bool(self.request.app.state.asks_tokens)

    @property
    def zones(self) -> list[tuple[str, str]]:
        """The zones to choose from, with their offsets now."""
        return [(name, offset_words(zone_named(name), self.now // 1000)) for name in choices(self.request, self.zone)]

    @property
    def offset(self) -> str:
        """The offset of the page's zone now: `UTC+1`."""
        return offset_words(self.zone, self.now // 1000)

    @property
    def zone_words(self) -> str:
        """The page's zone with its offset now, `Europe/Berlin (UTC+1)`; `UTC` alone."""
        return self.zone.name if self.offset == self.zone.name else f"{self.zone.name} ({self.offset})"

    @property
    def code_files(self) -> set[str]:
        """The files that declare functions of the app; their code may be shown."""
        codes = (getattr(each.handler, "__code__", None) for each in self.known.app.functions)
        return {code.co_filename for code in codes if code is not None}

    def may(self, scope: Scope | str) -> bool:
        """Whether the visitor has a scope."""
        return self.caller is not None and self.caller.may(Scope(scope))

    def url(self, *parts: str, **params: Any) -> str:
        """An address below the tenant; parameters that are None or empty are omitted."""
        path = "/".join(quote(str(each), safe="", errors="backslashreplace") for each in ("t", self.tenant, *parts))
        given = {name.rstrip("_"): value for name, value in params.items() if value not in (None, "", [], ())}
        query = urlencode(given, doseq=True, errors="backslashreplace")
        return f"{self.prefix}/{path}?{query}" if query else f"{self.prefix}/{path}"

    def with_query(self, **changes: Any) -> str:
        """The address of this page with other parameters; None removes one. Paging starts over."""
        kept = {name: self.request.query_params.getlist(name) for name in self.request.query_params}
        kept.pop("cursor", None)
        for name, value in changes.items():
            kept[name] = [] if value in (None, "") else [str(value)]
        query = urlencode([(name, each) for name, values in kept.items() for each in values if each])
        return f"?{query}" if query else self.path

    def command(self, *words: str, **options: str | bool | Sequence[str] | None) -> str:
        """A line of `evertick` that does the same, for this tenant."""
        tenant = None if self.tenant == DEFAULT_TENANT else self.tenant
        return command(*words, **options, tenant=tenant)

    def judged(self, form: Form) -> Form:
        """The form from which a command is read: a copy if it was only opened, so that no errors are shown yet."""
        return form if self.typed is not None or form.errors else Form(list(form.pairs))

    def same(self, read: Form, *lines: str, more: str = "", at: str | None = None) -> SameCommand:
        """The commands that do the same as a form, unless `read` has errors; `more` is text about them.

        `at` is the address of the form, whose preview is below it; `""` for a form without fields.
        """
        at = self.path if at is None else at
        is_alone = self.typed is not None and self.in_dialog  # otherwise errors are shown at the fields
        return SameCommand(
            lines=() if read.errors else lines,
            wrong=complaints(read.errors) if is_alone else (),
            more=more,
            at=f"{at}{PREVIEW}" if at else "",
        )

    def back_to(self, address: str) -> str:
        """An address of this site to continue at; the first page instead of any other address.

        An address of another site would send visitors and what they typed there.
        """
        is_path = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
        return address if is_path and address.startswith(self.prefix) else f"{self.prefix}/"

    @contextlib.asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """For an optional part of a page: it ends before the page's time limit. Raises TimeoutError."""
        async with asyncio.timeout(0.7 * SLOW_S):
            yield

    async def form(self) -> Form:
        """The contents of a form. Raises Problem."""
        body = await self.request.body()
        try:
            pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
        except (UnicodeError, ValueError):
            raise Problem(422, "invalid_form", "the body is not a form") from None
        form = Form(pairs)
        if form.unknown is not None:
            raise Problem(422, "invalid_form", form.unknown)
        return form

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page made from a template."""
        said = unquote(self.request.cookies.get(SAID_COOKIE, ""))
        frame = {
            "page": self,
            "said": said,
            "version": __version__,
            "now_iso": to_iso(self.now),
            "when": self.times.when,
            "places": PLACES,
            "base": "_dialog.html" if self.in_dialog else "_base.html",
        }
        text = environment().get_template(template).render(frame | values)
        response = HTMLResponse(utf8(text), status_code=status)
        if said and not self.in_dialog:
            response.delete_cookie(SAID_COOKIE, path=self.prefix or "/")
        return response

    def done(self, to: str, said: str = "") -> Response:
        """The response after a form was carried out: on to another page, which shows `said`."""
        if self.in_dialog:
            response = Response(status_code=204, headers={TO_HEADER: quote(to, safe=URL_SAFE)})
        else:
            response = RedirectResponse(to, status_code=303)
        if self.caller is not None and self.caller.key is not None:
            self.request.state.carried_out = kept_reply(self.caller.key, self.tenant, self.now, to, said)
        if said:
            keep(response, self.request, SAID_COOKIE, quote(said[:500]), max_age=30)
        return response


class PageRoute(ScopedRoute):
    """The route of a page: visitors send a cookie, and errors are shown as pages."""

    refuses_repeats = False  # a browser's form may send several fields with one name
    refuses_bodies = False  # pages read forms by themselves
    everywhere = ("tz",)

    async def check(self, request: Request) -> None:
        check_origin(request)
        request.state.secret = secret_in(request)
        await super().check(request)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def shown(request: Request) -> Response:
            began = time.monotonic()
            shows_only = request.method in ("GET", "HEAD") or is_preview(request)
            try:
                async with asyncio.timeout(SLOW_S if shows_only else None):
                    response = await handler(request)
                if carried_out := getattr(request.state, "carried_out", None):
                    with contextlib.suppress(EvertickError):  # the request is done, even if this fails
                        await request.app.state.evertick.environment.executors.write(carried_out)
            except SentBefore as before:
                response = Page(request, request.state.caller).done(before.to, before.said)
            except Problem as problem:
                # Browsers report a script error if an event stream is redirected to an HTML page.
                if problem.status_code == 401 and "text/event-stream" not in request.headers.get("accept", ""):
                    return to_login(request)
                response = _face(request, face_of(problem))
            except (EvertickError, TimeoutError, RequestValidationError) as error:
                if is_outage(error):
                    _logger.error("%s: %s", request.state.request_id, error)
                response = _face(request, face_of(error, is_form=not shows_only, route=request.scope.get("route")))
            _protect(response)
            if LIVE_HEADER in request.headers:
                pause_s = request.app.state.hints.pause_after(time.monotonic() - began)
                response.headers[PAUSE_HEADER] = str(round(pause_s * 1000))
            return response

        return shown

    def failed(self, request: Request, error: Exception) -> Response:
        _logger.error("%s failed", request.state.request_id, exc_info=error)
        return _face(request, face_of(error))


def is_preview(request: Request) -> bool:
    """Whether a form is requested with its contents so far. The path is not checked: a schedule may be named so."""
    return str(getattr(request.scope.get("route"), "path", "")).endswith(PREVIEW)


def shown_face(request: Request, face: Face) -> Response:
    """The page of an error that occurred outside of the routes of pages."""
    response = _face(request, face)
    _protect(response)
    return response


def _protect(response: Response) -> None:
    response.headers.setdefault("content-security-policy", CSP)
    # With no-referrer browsers hide the origin of a form even from its own site: Origin is then null.
    response.headers["referrer-policy"] = "same-origin"


def _face(request: Request, face: Face) -> Response:
    caller = getattr(request.state, "caller", None)
    try:
        page = Page(request, caller)
    except Misuse:  # the zone in the address is invalid
        request.scope["query_string"] = b""
        page = Page(Request(request.scope), caller)
    return page.render("face.html", status=face.status, face=face, request_id=request.state.request_id)


class PageRoutes(Routes):
    """Routes of pages, each with the scope that it needs."""

    def page(self, path: str, scope: Scope | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add a page."""
        return self.at("GET", path, scope)

    def preview(self, path: str, scope: Scope) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add the preview of a form with its contents so far (`page.typed`). It must change nothing."""
        return self.at("POST", f"{path}{PREVIEW}", scope)

    def asks(self, path: str, scope: Scope) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add a page with a form that can be previewed."""

        def add(endpoint: Callable[..., Any]) -> Callable[..., Any]:
            return self.preview(path, scope)(self.page(path, scope)(endpoint))

        return add

    def form(self, path: str, scope: Scope | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add the handler of a form."""
        return self.at("POST", path, scope)


def page_routes(*, prefix: str = "/t/{tenant}") -> PageRoutes:
    """Routes of pages about a tenant, or of other pages."""
    return PageRoutes(prefix=prefix, tag="pages", route_class=PageRoute, described=False)


async def _shown(request: Request, caller: Called) -> Page:
    page = Page(request, caller)
    if is_preview(request):
        page.typed = await page.form()
    elif request.method == "POST" and (await page.form())["request"]:
        # Other fields make another request: people go back, change something and send the form again.
        key = sha256(await request.body()).hexdigest()
        page.caller = replace(caller, key=key)
        await request.app.state.evertick.environment.executors.read(checked_new(key, page.tenant, page.now))
    return page


async def _public(request: Request) -> Page:
    return Page(request, None)


Shown = Annotated[Page, Depends(_shown)]
"""The page, as a parameter of a route with a scope."""
Public = Annotated[Page, Depends(_public)]
"""The page, as a parameter of a route without a scope."""


def file_of(text: str, name: str, media: str) -> Response:
    """A file that the browser saves and never displays."""
    return Response(utf8(text), media_type=media, headers=saved_as(name))


def utf8(text: str) -> bytes:
    """The bytes to send for a text; a lone surrogate, which UTF-8 cannot encode, becomes its escape."""
    return text.encode(errors="backslashreplace")


def saved_as(name: str) -> dict[str, str]:
    """The headers of a file that the browser saves under a name, reduced to characters that headers allow."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return {"Content-Disposition": f'attachment; filename="{plain}"', "X-Content-Type-Options": "nosniff"}

"""The first page, the login, and the choice of a tenant."""

from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import Query, Request
from starlette.responses import RedirectResponse, Response

from evertick.api.limits import TenantView
from evertick.base.errors import EvertickError
from evertick.base.ids import DEFAULT_TENANT, tenant_named
from evertick.base.records.access import Scope
from evertick.base.records.limits import TenantUsage
from evertick.dashboard.page import Form, Page, Public, Shown, page_routes
from evertick.dashboard.visitors import COOKIE, KEPT_S, keep, secret_in, token_of
from evertick.server.callers import token_in
from evertick.server.limits import client_of
from evertick.server.problems import Problem

routes = page_routes(prefix="")

TENANTS: Final = 100
"""Tenants on a page."""


@routes.page("/", None)
async def home(page: Public) -> Response:
    """Redirect to the first page of the visitor's tenant."""
    token = await token_in(_with_cookie(page))
    return RedirectResponse(_home_of(page, token.tenant or DEFAULT_TENANT), status_code=303)


@routes.page("/login", None)
async def show_login(page: Public, next_: Annotated[str, Query(alias="next", max_length=4_000)] = "/") -> Response:
    """The login page."""
    return _login(page, Form([("next", next_)]))


@routes.form("/login", None)
async def log_in(page: Public) -> Response:
    """Log in with a token."""
    form = await page.form()
    wait_s = page.request.app.state.limits.failures.wait_s(client_of(page.request.scope))
    if wait_s:
        raise Problem(429, "too_many_requests", f"too many tries without a valid token; wait {wait_s:.0f} s")
    token = await token_of(page.request, form["token"]) if form["token"] else None
    if token is None:
        form.fail("token", "This token is unknown, revoked or expired. Create one with the command below.")
        return _login(page, form, status=401)
    response = page.done(page.back_to(form["next"]))
    keep(response, page.request, COOKIE, form["token"], max_age=KEPT_S)
    return response


@routes.form("/logout", None)
async def log_out(page: Public) -> Response:
    """Delete the token's cookie."""
    response = page.done(f"{page.prefix}/login", "You are logged out.")
    response.delete_cookie(COOKIE, path=page.prefix or "/")
    return response


@routes.page("/t/{tenant}/tenants", Scope.READ)
async def list_tenants(page: Shown, first: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The tenants that the visitor's token can access."""
    return await _tenants(page, first=first)


@routes.form("/t/{tenant}/tenants", Scope.READ)
async def choose_tenant(page: Shown) -> Response:
    """Continue with the pages of another tenant."""
    form = await page.form()
    try:
        chosen = tenant_named(form["tenant"])
    except EvertickError as error:
        form.fail("tenant", str(error))
        return await _tenants(page, form, status=422)
    return page.done(_home_of(page, chosen))


async def _tenants(page: Page, form: Form | None = None, *, first: str = "", status: int = 200) -> Response:
    found: Sequence[TenantView] = []
    if page.reaches_all:
        found = await page.known.app.aio.tenants.list(first=first, limit=TENANTS + 1)
    more = found[TENANTS].tenant if len(found) > TENANTS else None
    names: dict[str, TenantUsage | None] = {each.tenant: each.usage for each in found[:TENANTS]}
    always = [page.tenant, DEFAULT_TENANT] if page.reaches_all else [page.tenant]
    if not first:  # tenants without data are shown without a count
        names = {each: names.get(each) for each in sorted({*names, *always})}
    return page.render("tenants.html", status=status, tenants=names, more=more, form=form or Form())


def _home_of(page: Page, tenant: str) -> str:
    return f"{page.prefix}/t/{quote(tenant, safe='')}"


def _login(page: Page, form: Form, *, status: int = 200) -> Response:
    return page.render("login.html", status=status, form=form)


def _with_cookie(page: Page) -> Request:
    page.request.state.secret = secret_in(page.request)
    return page.request

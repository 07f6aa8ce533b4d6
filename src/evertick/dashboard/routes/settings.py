"""Settings: tokens, tenants and their limits, the display of pages, and the versions in use."""

import platform
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from starlette.responses import Response

from evertick._version import __version__
from evertick.api.access import NewToken
from evertick.api.limits import TenantView
from evertick.app.access_control.tokens import no_token
from evertick.app.bodies import Body
from evertick.base.errors import AlreadyExists, EvertickError
from evertick.base.records.access import Scope
from evertick.dashboard.forms.form import changed_numbers, flags_of, limits_changed, limits_form
from evertick.dashboard.markup.commands import command
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.dashboard.visitors import KEPT_S, keep
from evertick.dashboard.zones import COOKIE as ZONE_COOKIE
from evertick.recurrence.parse.duration import parse_milliseconds
from evertick.recurrence.zones.names import zone_data_source, zone_named
from evertick.server.bodies import Named
from evertick.server.routes import access as api
from evertick.server.routes import fleet as fleet_api
from evertick.server.routes import health
from evertick.store import schema

routes = page_routes()

LIFETIMES: Final = {"30d": "30 days", "90d": "90 days", "365d": "a year", "never": "it does not expire"}
LASTS: Final = "90d"
"""The default lifetime of a token."""
MEANS: Final = {
    Scope.READ: "read everything",
    Scope.OPERATE: "and act on existing things: cancel, retry, pause, resume, trigger, backfill, signal",
    Scope.EDIT: "and create and change: schedules, jobs and runs, calls of functions",
    Scope.ADMIN: "and tokens, limits of tenants and pools, workflow types",
}
LIMITS: Final = {
    "running": ("Running", "Concurrent jobs on all workers together; others wait. With 0 none starts."),
    "starts_per_minute": ("Starts a minute", "Evenly spread; others wait."),
    "jobs": ("Unfinished jobs", "More are refused."),
    "argument_bytes": ("Argument bytes", "Arguments of all unfinished jobs together; more are refused."),
    "schedules": ("Schedules", "More are refused."),
}
TENANTS: Final = 200
"""Tenants on a page."""


class Asked(Body):
    """The parameters of the settings."""

    view: Literal["tokens", "tenants", "display", "about"] = "tokens"
    of: Literal["", "all"] = ""
    first: str = ""
    cursor: str | None = None
    tz: str | None = None


@routes.page("/settings", Scope.READ)
async def show_settings(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """The settings."""
    values: dict[str, Any] = {"asked": asked, "limits": LIMITS}
    if asked.view == "tokens" and page.may(Scope.ADMIN):
        whose = page.fleet.tenant if asked.of else page.known.tenant
        values["tokens"] = await page.known.app.aio.tokens.list(tenant=whose, limit=100, cursor=asked.cursor)
    elif asked.view == "tenants":
        values |= await _tenants(page, asked.first)
    elif asked.view == "about":
        values["about"] = _about(page)
    elif asked.view == "display":
        values["form"] = Form([("tz", page.zone.name)])
    return page.render(f"settings/{asked.view}.html", **values)


@routes.page("/openapi.json", Scope.READ)
async def show_description(page: Shown) -> Response:
    """The OpenAPI document for a browser, which sends a cookie; the API's own address needs a token."""
    described: Response = await health.openapi(page.request, page.known)
    return described


@routes.form("/zone", Scope.READ)
async def choose_zone(page: Shown) -> Response:
    """Change the zone of all times on pages."""
    form = await page.form()
    try:
        zone = zone_named(form["tz"])
    except EvertickError as error:
        form.fail("tz", str(error))
        return page.render("settings/display.html", status=422, asked=Asked(view="display"), form=form)
    response = page.done(page.back_to(form["next"]), f"Times are shown in {zone.name}.")
    keep(response, page.request, ZONE_COOKIE, zone.name, max_age=KEPT_S)
    return response


@routes.asks("/settings/tokens/new", Scope.ADMIN)
async def show_new_token(page: Shown) -> Response:
    """Show the form for a new token."""
    return _new_token(page, page.typed or Form([("scope", "read"), ("expires", "90d"), ("of", "tenant")]))


@routes.form("/settings/tokens/new", Scope.ADMIN)
async def make_token(page: Shown) -> Response:
    """Create a token, and show its secret."""
    form = await page.form()
    lasts = _of_new(form)
    if form.errors:
        return _new_token(page, form, status=422)
    new = api.TokenBody(name=form["name"], scope=Scope(form["scope"]), expires_after=lasts)
    try:
        done = await api.create_token(page.request, page.fleet if form["of"] == "all" else page.known, new)
    except AlreadyExists as error:
        form.fail("", f"{str(error)[:1].upper()}{str(error)[1:]}.")
        return _new_token(page, form, status=409)
    except EvertickError as error:
        form.field_of(error, {"name": "name", "expires_after": "expires"})
        return _new_token(page, form, status=422)
    return _secret(page, bytes(done.body), "Made")


@routes.page("/settings/tokens/{token_id}/{action}", Scope.ADMIN)
async def show_token_change(
    page: Shown, token_id: Named, action: Literal["rotate", "revoke"], of: Literal["", "all"] = ""
) -> Response:
    """Show the form that replaces or revokes a token."""
    token = await page.known.app.aio.tokens.get(token_id)
    if (page.fleet if of else page.known).tenant not in (None, token.tenant):
        raise no_token(token_id)
    commands = page.same(Form(), command("token", action, token_id, tenant=token.tenant), at="")
    is_own = token.id == page.known.token.id
    return page.render(
        "settings/token_change.html", form=Form(), token=token, action=action, of=of, commands=commands, is_own=is_own
    )


@routes.form("/settings/tokens/{token_id}/{action}", Scope.ADMIN)
async def change_token(
    page: Shown, token_id: Named, action: Literal["rotate", "revoke"], of: Literal["", "all"] = ""
) -> Response:
    """Replace a token by a new one, or revoke it."""
    caller = page.fleet if of else page.known
    if action == "rotate":
        done = await api.rotate_token(page.request, caller, token_id)
        return _secret(page, bytes(done.body), "Replaced")
    await api.revoke_token(caller, token_id)
    return page.done(page.url("settings", of=of), "The token is revoked.")


@routes.asks("/settings/tenants/{name}", Scope.ADMIN)
async def show_tenant(page: Shown, name: Named) -> Response:
    """Show the form for the limits of a tenant."""
    view = await page.fleet.app.aio.tenants.get(name)
    return _tenant(page, view, page.typed or limits_form(LIMITS, view.limits))


@routes.form("/settings/tenants/{name}", Scope.ADMIN)
async def change_tenant(page: Shown, name: Named) -> Response:
    """Change the limits of a tenant."""
    form, view = await page.form(), await page.fleet.app.aio.tenants.get(name)
    if await limits_changed(
        form, LIMITS, view.limits, lambda to: fleet_api.change_tenant(page.fleet, name, fleet_api.TenantChange(**to))
    ):
        return page.done(page.url("settings", view="tenants"), f"Changed the limits of {name}.")
    return _tenant(page, view, form, status=422)


def _new_token(page: Page, form: Form, *, status: int = 200) -> Response:
    read = page.judged(form)
    _of_new(read)
    line = command(
        "token", "create", read["name"], scope=read["scope"], expires=read["expires"] or LASTS,
        tenant=page.tenant if read["of"] != "all" else None,
    )  # fmt: skip
    return page.render(
        "settings/new_token.html", status=status, form=form, scopes=MEANS, lifetimes=LIFETIMES,
        commands=page.same(read, line),
    )  # fmt: skip


def _of_new(form: Form) -> timedelta | None:
    """The lifetime of a new token, None if it does not expire; errors are stored at the fields."""
    if not form["name"]:
        form.fail("name", "Enter who will use it: the audit log shows this name.")
    if form["scope"] not in list(Scope):
        form.fail("scope", "Choose what it may do.")
    text = form["expires"] or LASTS
    if text == "never":
        return None
    try:
        return timedelta(milliseconds=parse_milliseconds(text))
    except EvertickError as error:
        form.fail("expires", str(error))
        return None


def _secret(page: Page, made: bytes, word: str) -> Response:
    """The page that shows a secret. It is shown only here, and is not stored."""
    token = NewToken.model_validate_json(made)
    response = page.render("settings/secret.html", token=token, word=word)
    response.headers["cache-control"] = "no-store"
    return response


def _tenant(page: Page, view: TenantView, form: Form, *, status: int = 200) -> Response:
    read = page.judged(form)
    line = command("tenant", "set", view.tenant, **flags_of(changed_numbers(read, LIMITS, view.limits)))
    return page.render(
        "settings/tenant.html", status=status, form=form, view=view, before=asdict(view.limits), limits=LIMITS,
        commands=page.same(read, line),
    )  # fmt: skip


async def _tenants(page: Page, first: str) -> dict[str, Any]:
    own = await page.known.app.aio.tenants.get(page.tenant)
    if not page.reaches_all:
        return {"tenants": [own], "more": None, "used": asdict}
    found = await page.known.app.aio.tenants.list(first=first, limit=TENANTS + 1)
    more = found[TENANTS].tenant if len(found) > TENANTS else None
    listed = found[:TENANTS]
    if not first and all(each.tenant != own.tenant for each in listed):
        listed = [own, *listed]
    return {"tenants": listed, "more": more, "used": asdict}


def _about(page: Page) -> dict[str, str]:
    """The versions that are useful in a question or a report."""
    store = page.known.app.environment.store
    kind = "SQLite" if store.single_engine else "PostgreSQL"
    return {
        "Evertick": __version__,
        "Schema": f"step {schema.steps('sqlite')[-1].number}",
        "Database": kind,
        "Time zones": zone_data_source(),
        "Python": platform.python_version(),
    }

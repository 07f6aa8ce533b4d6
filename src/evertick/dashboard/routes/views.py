"""Saving the view of a list that is shown, giving it another name, and deleting it."""

import json
from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.responses import Response

from evertick.api.views import SavedView
from evertick.base.errors import EvertickError, Misuse
from evertick.base.records.access import Scope
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.dashboard.saved_views import PLACES, address_of
from evertick.server.bodies import Named
from evertick.server.problems import Problem
from evertick.server.routes import views as api

routes = page_routes()

ListName = Literal["schedules", "jobs", "workflows"]


@routes.page("/views/new", Scope.OPERATE)
async def show_new_view(
    page: Shown, list: ListName = "schedules", params: Annotated[str, Query(max_length=20_000)] = "{}"
) -> Response:
    """Ask for the name of a new view."""
    return _ask_new(page, Form(), list, params)


@routes.form("/views/new", Scope.OPERATE)
async def save_view(page: Shown) -> Response:
    """Save a view."""
    form = await page.form()
    name, text = form["list"], form["params"]
    if name not in PLACES:
        raise Misuse(f"there are views of {', '.join(PLACES)}, not of {name!r}")
    body = {"page": name, "name": form["name"], "params": _params(text), "shared": bool(form["shared"])}
    try:
        reply = await api.create_view(page.known, api.NewView.model_validate(body))
    except (EvertickError, Problem) as error:
        _beside(form, error)
        return _ask_new(page, form, name, text, status=422)
    made = SavedView.model_validate_json(bytes(reply.body))
    return page.done(address_of(page, made), f"Saved the view {made.name}.")


@routes.page("/views/{view_id}", Scope.OPERATE)
async def show_view(page: Shown, view_id: Named) -> Response:
    """Ask for another name of a view."""
    return _ask(page, Form(), await api.views_of(page.known).get(view_id))


@routes.form("/views/{view_id}", Scope.OPERATE)
async def rename_view(page: Shown, view_id: Named) -> Response:
    """Give a view another name, or show it to everybody."""
    form, view = await page.form(), await api.views_of(page.known).get(view_id)
    changed = api.ChangedView(name=form["name"], shared=bool(form["shared"]) if page.may(Scope.EDIT) else None)
    try:
        await api.update_view(page.known, view_id, changed)
    except (EvertickError, Problem) as error:
        _beside(form, error)
        return _ask(page, form, view, status=422)
    return page.done(address_of(page, view), f"The view is called {form['name']}.")


@routes.page("/views/{view_id}/delete", Scope.OPERATE)
async def show_delete_view(page: Shown, view_id: Named) -> Response:
    """Ask whether a view is to be deleted."""
    view = await api.views_of(page.known).get(view_id)
    line = page.command("api", "DELETE", f"views/{view.id}")
    return page.render("views/delete.html", view=view, form=Form(), command=line, **_around(page, view))


@routes.form("/views/{view_id}/delete", Scope.OPERATE)
async def delete_view(page: Shown, view_id: Named) -> Response:
    """Delete a view."""
    view = await api.views_of(page.known).get(view_id)
    await api.delete_view(page.known, view_id)
    return page.done(page.url(PLACES[view.page]), f"Deleted the view {view.name}.")


def _ask_new(page: Page, form: Form, name: str, text: str, *, status: int = 200) -> Response:
    params = _params(text)
    fields = [f"page={name}", f"name={json.dumps(form['name'] or '...')}", f"params={json.dumps(params)}"]
    return page.render(
        "views/form.html", status=status, form=form, view=None, list=name, params=params, params_text=text,
        place=PLACES[name], back=page.url(PLACES[name], **params),
        command=page.command("api", "POST", "views", *fields),
    )  # fmt: skip


def _ask(page: Page, form: Form, view: SavedView, *, status: int = 200) -> Response:
    name = json.dumps(form["name"] or view.name)
    line = page.command("api", "PATCH", f"views/{view.id}", f"name={name}")
    return page.render(
        "views/form.html", status=status, form=form, view=view, params=view.params, command=line, **_around(page, view)
    )


def _around(page: Page, view: SavedView) -> dict[str, Any]:
    return {"place": PLACES[view.page], "back": address_of(page, view)}


def _beside(form: Form, error: Exception) -> None:
    """What is wrong stands beside the name, unless it is about who sees the view."""
    words = str(getattr(error, "detail", error))
    form.fail("shared" if "everybody sees" in words else "name", words)


def _params(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise Misuse("the parameters of the view cannot be read; open the list and save it again")
    return found

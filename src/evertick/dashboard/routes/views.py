"""Saving the current view of a list, renaming it, and deleting it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.responses import Response

from evertick.api.access import SavedView
from evertick.base.errors import AlreadyExists, EvertickError, Misuse
from evertick.base.escaping import json_text
from evertick.base.records.access import Scope
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.dashboard.saved_views import PLACES, address_of
from evertick.server.bodies import Named
from evertick.server.problems import Problem
from evertick.server.routes import views as api

routes = page_routes()

ListName = Literal["schedules", "jobs", "workflows"]


@routes.asks("/views/new", Scope.OPERATE)
async def show_new_view(
    page: Shown, list: ListName = "schedules", params: Annotated[str, Query(max_length=20_000)] = "{}"
) -> Response:
    """Show the form for a new view."""
    form = page.typed or Form([("list", list), ("params", params)])
    return _ask_new(page, form)


@routes.form("/views/new", Scope.OPERATE)
async def save_view(page: Shown) -> Response:
    """Save a view."""
    form = await page.form()
    body = {"page": _list(form), "name": form["name"], "params": _params(form), "shared": bool(form["shared"])}
    try:
        reply = await api.create_view(page.known, api.NewView.model_validate(body))
    except (EvertickError, Problem) as error:
        same = await _same(page, body) if isinstance(error, AlreadyExists) else None
        if same is None:
            _show_error(form, error)
            return _ask_new(page, form, status=422)
        made = same
    else:
        made = SavedView.model_validate_json(bytes(reply.body))
    return page.done(address_of(page, made), f"Saved the view {made.name}.")


@routes.asks("/views/{view_id}", Scope.OPERATE)
async def show_view(page: Shown, view_id: Named) -> Response:
    """Show the form that changes a view."""
    view = await api.views_of(page.known).get(view_id)
    now = Form([("name", view.name), *([("shared", "yes")] if view.shared else [])])
    return _ask(page, page.typed or now, view)


@routes.form("/views/{view_id}", Scope.OPERATE)
async def rename_view(page: Shown, view_id: Named) -> Response:
    """Rename a view, or share it with everybody."""
    form, view = await page.form(), await api.views_of(page.known).get(view_id)
    changed = api.ChangedView(name=form["name"], shared=_shared(page, form))
    try:
        await api.update_view(page.known, view_id, changed)
    except (EvertickError, Problem) as error:
        _show_error(form, error)
        return _ask(page, form, view, status=422)
    return page.done(address_of(page, view), f"Renamed the view to {form['name']}.")


@routes.page("/views/{view_id}/delete", Scope.OPERATE)
async def show_delete_view(page: Shown, view_id: Named) -> Response:
    """Show the form that deletes a view."""
    view = await api.views_of(page.known).get(view_id)
    commands = page.same(Form(), page.command("api", "DELETE", f"views/{view.id}"), at="")
    return page.render("views/delete.html", view=view, form=Form(), commands=commands, **_around(page, view))


@routes.form("/views/{view_id}/delete", Scope.OPERATE)
async def delete_view(page: Shown, view_id: Named) -> Response:
    """Delete a view."""
    view = await api.views_of(page.known).get(view_id)
    await api.delete_view(page.known, view_id)
    return page.done(page.url(PLACES[view.page]), f"Deleted the view {view.name}.")


async def _same(page: Page, body: dict[str, Any]) -> SavedView | None:
    """An existing view equal to the one to save, if its form was sent twice concurrently; otherwise None."""
    views = await api.views_of(page.known).list(body["page"])
    return next((view for view in views if view.model_dump(include=set(body)) == body), None)


def _ask_new(page: Page, form: Form, *, status: int = 200) -> Response:
    name, params, read = _list(form), _params(form), page.judged(form)
    with _errors_shown(read):
        api.views_of(page.known).operations.create(name, read["name"], params)
    shared = ["shared=true"] if read["shared"] else []
    line = page.command(
        "api",
        "POST",
        "views",
        f"page={name}",
        f"name={json_text(read['name'])}",
        f"params={json_text(params)}",
        *shared,
    )
    return page.render(
        "views/form.html", status=status, form=form, view=None, params=params, place=PLACES[name],
        back=page.url(PLACES[name], **params), commands=page.same(read, line),
    )  # fmt: skip


def _ask(page: Page, form: Form, view: SavedView, *, status: int = 200) -> Response:
    read, shared = page.judged(form), _shared(page, form)
    with _errors_shown(read):
        api.views_of(page.known).operations.update(view.id, name=read["name"])
    words = [f"name={json_text(read['name'])}", *([] if shared is None else [f"shared={json_text(shared)}"])]
    commands = page.same(read, page.command("api", "PATCH", f"views/{view.id}", *words))
    return page.render(
        "views/form.html", status=status, form=form, view=view, params=view.params, commands=commands,
        **_around(page, view),
    )  # fmt: skip


def _around(page: Page, view: SavedView) -> dict[str, Any]:
    return {"place": PLACES[view.page], "back": address_of(page, view)}


def _show_error(form: Form, error: Exception) -> None:
    """Store an error at the name, unless it is about who sees the view."""
    words = str(getattr(error, "detail", error))
    form.fail("shared" if "everybody sees" in words else "name", words)


@contextmanager
def _errors_shown(form: Form) -> Iterator[None]:
    try:
        yield
    except EvertickError as error:
        _show_error(form, error)


def _shared(page: Page, form: Form) -> bool | None:
    """Whether everybody sees a view; None if the visitor may not decide that."""
    return bool(form["shared"]) if page.may(Scope.EDIT) else None


def _list(form: Form) -> str:
    """The list of the view."""
    if form["list"] not in PLACES:
        raise Misuse(f"views exist for {', '.join(PLACES)}, not for {form['list']!r}")
    return form["list"]


def _params(form: Form) -> dict[str, str]:
    try:
        found = json.loads(form["params"])
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise Misuse("the parameters of the view cannot be read; open the list and save it again")
    return found

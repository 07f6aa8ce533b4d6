"""Saved views: lists of schedules, jobs and runs as people want to see them again."""

from typing import Any, Literal

from pydantic import Field
from starlette.responses import Response

from evertick.api.access import SavedView
from evertick.app.access_control.saved_views import AsyncSavedViews
from evertick.app.bodies import Body
from evertick.app.transacting import Work
from evertick.base.records.access import Scope
from evertick.server.bodies import Named
from evertick.server.callers import Called, Caller, reply, tenant_routes
from evertick.server.problems import Problem
from evertick.store.transaction.transaction import Transaction

routes = tenant_routes("views")


class NewView(Body):
    """A view of a list: what is chosen, in which order, with which columns. A shared one needs the scope edit."""

    page: Literal["schedules", "jobs", "workflows"]
    name: str
    params: dict[str, str] = Field(default_factory=dict)
    shared: bool = False


class ChangedView(Body):
    """What of a view is changed. A shared one needs the scope edit."""

    name: str | None = None
    params: dict[str, str] | None = None
    shared: bool | None = None


@routes.at("GET", "/views", Scope.READ, returns=list[SavedView])
async def list_views(caller: Called, page: Literal["schedules", "jobs", "workflows"]) -> Response:
    """The views of a list that the token sees: its own and the shared ones, by name."""
    return reply(await views_of(caller).list(page))


@routes.at("POST", "/views", Scope.OPERATE, returns=SavedView, status=201)
async def create_view(caller: Called, new: NewView) -> Response:
    """Save a view."""
    views = views_of(caller)
    work = views.operations.create(new.page, new.name, new.params, shared=new.shared)
    if new.shared:
        _check_edit(caller)
    return reply(await caller.change(views, work, "view.create", lambda made: made.id), status=201)


@routes.at("PATCH", "/views/{view_id}", Scope.OPERATE, returns=SavedView)
async def update_view(caller: Called, view_id: Named, changed: ChangedView) -> Response:
    """Rename a view, change what it shows, or who sees it."""
    views = views_of(caller)
    work = views.operations.update(view_id, **changed.model_dump())
    if changed.shared:
        _check_edit(caller)
    return reply(await caller.change(views, _own(caller, views, view_id, work), "view.update", view_id))


@routes.at("DELETE", "/views/{view_id}", Scope.OPERATE, returns=SavedView)
async def delete_view(caller: Called, view_id: Named) -> Response:
    """Remove a view."""
    views = views_of(caller)
    work = _own(caller, views, view_id, views.operations.delete(view_id))
    return reply(await caller.change(views, work, "view.delete", view_id))


def views_of(caller: Caller) -> AsyncSavedViews:
    """The views that the caller sees. Where no tokens are asked for, everybody is the same one."""
    return caller.access.views_of(caller.token.id or caller.token.name)


def _own(caller: Caller, views: AsyncSavedViews, view_id: str, work: Work[Any]) -> Work[Any]:
    """The work, on a view that the caller may change. Raises Problem."""
    found = views.operations.get(view_id)

    def checked(transaction: Transaction) -> Any:
        if found(transaction).shared:
            _check_edit(caller)
        return work(transaction)

    return checked


def _check_edit(caller: Caller) -> None:
    if not caller.may(Scope.EDIT):
        raise Problem(403, "not_allowed", "a view that everybody sees is changed with a token of the scope edit")

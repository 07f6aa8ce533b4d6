"""Search: schedules, functions, jobs and runs by a part of their name, id or key."""

from typing import Annotated, Final

from fastapi import Query
from starlette.responses import RedirectResponse, Response

from evertick.base.records.access import Scope
from evertick.dashboard.page import Page, Shown, page_routes

routes = page_routes()

GROUPS: Final = (
    ("schedule", "Schedules"),
    ("function", "Functions"),
    ("job", "Jobs"),
    ("run", "Workflow runs"),
)
PLACES: Final = {"schedule": "schedules", "function": "functions", "job": "jobs", "run": "workflows"}
"""The path of the page for each kind of result."""


@routes.page("/search", Scope.READ)
async def search(page: Shown, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The search results; a single exact match opens its page."""
    text = q.strip()
    found = await page.access.insight.search(text) if text else ()
    exact = [each for each in found if each.id == text]
    if len(exact) == 1:
        return RedirectResponse(place_of(page, exact[0].kind, exact[0].id), status_code=303)
    groups = [(title, [each for each in found if each.kind == kind]) for kind, title in GROUPS]
    return page.render("search.html", text=text, groups=groups, found=found, place_of=place_of)


def place_of(page: Page, kind: str, name: str) -> str:
    """The address of a search result."""
    return page.url(PLACES[kind], name)

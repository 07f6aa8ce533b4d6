"""Search: schedules, functions, jobs and runs by a part of what they are called."""

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
"""Where what was found has its page."""


@routes.page("/search", Scope.READ)
async def search(page: Shown, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """What is called so; the only thing that is called exactly so is shown at once."""
    text = q.strip()
    found = await page.access.insight.search(text) if text else ()
    exact = [each for each in found if each.id == text]
    if len(exact) == 1:
        return RedirectResponse(place_of(page, exact[0].kind, exact[0].id), status_code=303)
    groups = [(title, [each for each in found if each.kind == kind]) for kind, title in GROUPS]
    return page.render("search.html", text=text, groups=groups, found=found, place_of=place_of)


def place_of(page: Page, kind: str, name: str) -> str:
    """The address of what was found."""
    return page.url(PLACES[kind], name)

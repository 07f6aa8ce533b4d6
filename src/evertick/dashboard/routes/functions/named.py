"""Functions by name: how each of them does, and one of them with its jobs and schedules."""

import shlex
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.insight import FunctionStats
from evertick.app.bodies import Body
from evertick.app.functions.function import Function
from evertick.base.errors import FunctionNotFound
from evertick.base.records.access import Scope
from evertick.base.records.jobs import FunctionKind
from evertick.dashboard.forms.signature import signature_of
from evertick.dashboard.job_lists import Listed, parents_of
from evertick.dashboard.markup.activity import charted
from evertick.dashboard.markup.functions import PROMISES, kind_words
from evertick.dashboard.page import Page, Shown, page_routes
from evertick.dashboard.workflow_names import renamed
from evertick.server.bodies import Named

routes = page_routes()

RECENT: Final = 20
"""Jobs of a function that its page shows."""
SCHEDULES: Final = 20


class Asked(Body):
    """A page of functions."""

    cursor: str | None = Field(None, max_length=600)
    tz: str | None = None


@routes.page("/functions-by-name", Scope.READ)
async def list_functions(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """A page of functions by name."""
    found, day = await page.access.insight.functions_and_day(limit=100, cursor=asked.cursor)
    kinds = {each.name: kind_of(page, each.name, each.kind) for each in found.functions}
    is_whole = found.cursor is None and asked.cursor is None
    unseen = [each for each in page.known.app.functions if each.name not in kinds] if is_whole else []
    return page.render(
        "functions/by_name.html",
        found=found,
        day=None if asked.cursor else charted(day),
        kinds=kinds,
        renamed=renamed(page.known),
        unseen=sorted((each for each in unseen if not each.internal or page.may(Scope.ADMIN)), key=_name_of),
    )


@routes.page("/functions/{name}", Scope.READ)
async def show_function(page: Shown, name: Named) -> Response:
    """A function: its signature, what it says of itself, how it does, its schedules and its newest jobs."""
    jobs = await page.access.jobs.list(function=name, limit=RECENT)
    function = _function(page, name)
    stats = await _stats(page, name)
    if function is None and stats is None and not jobs.jobs:
        raise FunctionNotFound(f"no function {name!r} is registered, and no job of it is known")
    schedules = await page.access.schedules.list(limit=SCHEDULES, function=name)
    return page.render(
        "functions/function.html",
        name=name,
        function=function,
        kind=kind_of(page, name, stats.kind if stats else ""),
        stats=stats,
        day=charted(await page.access.insight.activity(function=name)),
        listed=Listed(jobs, await parents_of(page.access, jobs.jobs)),
        schedules=schedules.schedules,
        all_schedules=page.url("schedules", q=f"function:{shlex.quote(name)}"),
        signature=None if function is None else signature_of(function),
        is_known=function is not None,
    )


def kind_of(page: Page, name: str, kind: str) -> str:
    """The kind of a function in words; also of one that this server's app has not."""
    function = _function(page, name)
    if function is not None:
        return kind_words(function)
    return PROMISES.get(FunctionKind(kind), kind) if kind else ""


def _function(page: Page, name: str) -> Function[..., Any] | None:
    try:
        return page.known.function(name)
    except FunctionNotFound:
        return None


def _name_of(function: Function[..., Any]) -> str:
    return function.name


async def _stats(page: Page, name: str) -> FunctionStats | None:
    found = await page.access.insight.functions(function=name)
    return next(iter(found.functions), None)

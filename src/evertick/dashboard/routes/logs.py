"""Logs: the lines that functions wrote with `ctx.log`, newest first, and all lines of one request."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.jobs import JobView, LogLineView
from evertick.app.bodies import Body
from evertick.app.jobs.log_lines import LinesWhere, beginnings
from evertick.base.instants import to_datetime
from evertick.base.records.access import Scope
from evertick.base.records.history import LEVELS
from evertick.dashboard.job_lists import SPANS
from evertick.dashboard.page import Page, Shown, file_of, page_routes

routes = page_routes()

LINES: Final = 100
"""Lines per page."""
REQUEST_LINES: Final = 500
"""Lines of one request on a page."""
DOWNLOAD_LINES: Final = 10_000
DOWNLOAD_PAGE: Final = 1_000


class Filters(Body):
    """The filters of lines, from the address of a page."""

    q: str | None = Field(None, max_length=1_000)
    level: str | None = Field(None, pattern=f"^({'|'.join(LEVELS)})?$")
    function: str | None = Field(None, max_length=500)
    request: str | None = Field(None, max_length=100)
    since: str | None = Field(None, pattern=f"^({'|'.join(SPANS)})?$")

    def given(self) -> dict[str, Any]:
        """The given filters, by the names of their parameters."""
        return {name: value for name in Filters.model_fields if (value := getattr(self, name))}

    def where(self, page: Page) -> LinesWhere:
        """The filters in the form of the HTTP API."""
        return LinesWhere(
            text=self.q or None,
            level=self.level or None,
            function=self.function or None,
            request=self.request or None,
            since=to_datetime(page.now) - SPANS[self.since] if self.since else None,
        )


class Asked(Filters):
    """A page of lines."""

    cursor: str | None = Field(None, max_length=200)
    tz: str | None = None


@routes.page("/logs", Scope.READ)
async def list_lines(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """The newest lines; with a request, all of its lines in order."""
    jobs, is_request = page.access.jobs, bool(asked.request)
    found = await jobs.log_lines(
        limit=REQUEST_LINES if is_request else LINES,
        cursor=asked.cursor,
        newest_first=not is_request,
        **asked.where(page),
    )
    family = await jobs.request(asked.request) if asked.request else ()
    begun = {} if is_request else await jobs.read(beginnings([each.job_id for each in found.lines], page.tenant))
    return page.render(
        "logs/list.html",
        found=found,
        asked=asked,
        family=_tree(family),
        begun=begun,
        functions=sorted({*(await jobs.counts_by_function()), *(each.name for each in page.known.app.functions)}),
        levels=LEVELS,
        command=_command(page, asked),
    )


@routes.page("/logs/lines.jsonl", Scope.READ)
async def download_lines(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """The newest lines as a file, one JSON object per line, the oldest first."""
    lines: list[LogLineView] = []
    cursor: str | None = None
    while len(lines) < DOWNLOAD_LINES:
        found = await page.access.jobs.log_lines(limit=DOWNLOAD_PAGE, cursor=cursor, **asked.where(page))
        lines += found.lines
        cursor = found.cursor
        if cursor is None:
            break
    text = "".join(json.dumps(each.to_json(), ensure_ascii=False) + "\n" for each in reversed(lines))
    return file_of(text, "logs.jsonl", "application/jsonl")


def _command(page: Page, asked: Asked) -> str:
    """The command with the same lines."""
    since = f"now-{asked.since}" if asked.since else None
    options = {"function": asked.function, "level": asked.level, "search": asked.q, "request": asked.request}
    return page.command("logs", **{name: value or None for name, value in options.items()}, since=since)


def _tree(family: Sequence[JobView]) -> list[tuple[int, JobView]]:
    """The jobs of a request, each after the one that scheduled it, with its depth."""
    children: dict[str | None, list[JobView]] = {}
    known = {each.id for each in family}
    for each in family:
        children.setdefault(each.parent_id if each.parent_id in known else None, []).append(each)
    waiting = [(0, each) for each in reversed(children.get(None, []))]
    found = []
    while waiting:
        depth, job = waiting.pop()
        found.append((depth, job))
        waiting += [(depth + 1, each) for each in reversed(children.get(job.id, []))]
    return found

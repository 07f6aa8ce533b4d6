"""The jobs that call functions, by state, as people choose them."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.jobs import JobPage, JobView
from evertick.api.schema import Count
from evertick.app.bodies import Body
from evertick.app.scheduling.choice import JobsWhere
from evertick.base.ids import JOB_PREFIX
from evertick.base.instants import to_datetime
from evertick.base.records.access import Scope
from evertick.base.records.jobs import JobState
from evertick.dashboard.page import Page, Shown, page_routes

routes = page_routes()

TABS: Final[dict[str, tuple[str, JobState]]] = {
    "pending": ("Pending", JobState.PENDING),
    "running": ("Running", JobState.IN_PROGRESS),
    "failed": ("Failed", JobState.FAILED),
    "done": ("Done", JobState.SUCCESS),
    "canceled": ("Canceled", JobState.CANCELED),
}
SPANS: Final = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
}
ID_CHARS: Final = 32
"""Of the id of a job: `job_` and 28 more."""


class Filters(Body):
    """Which jobs are meant, as the address of a page says it."""

    state: str = Field("pending", pattern=f"^({'|'.join(TABS)})$")
    fn: str | None = Field(None, max_length=500)
    q: str | None = Field(None, max_length=500)
    pool: str | None = Field(None, max_length=200)
    schedule: str | None = Field(None, max_length=500)
    error: str | None = Field(None, max_length=500)
    due: str | None = Field(None, pattern=f"^(late|{'|'.join(SPANS)})?$")
    blocked: bool | None = None

    def given(self) -> dict[str, Any]:
        """What was asked for beside the state, by the words of the address."""
        found = {name: getattr(self, name) for name in Filters.model_fields if name != "state"}
        return {name: value for name, value in found.items() if value}

    def where(self, page: Page) -> JobsWhere:
        """The filters as the HTTP API takes them."""
        found: JobsWhere = {"state": [TABS[self.state][1]]}
        pairs = {"function": self.fn, "pool": self.pool, "schedule": self.schedule, "error": self.error}
        found.update({name: value for name, value in pairs.items() if value})  # type: ignore[typeddict-item]
        text = (self.q or "").strip()
        if text:
            found["id_prefix" if text.startswith(f"{JOB_PREFIX}_") else "key"] = text
        if self.blocked and self.state == "pending":
            found["blocked"] = True
        now = to_datetime(page.now)
        if self.due == "late":
            found["due_until"] = now
        elif self.due and self.state == "pending":
            found["due_until"] = now + SPANS[self.due]
        elif self.due:
            found["due_from"] = now - SPANS[self.due]
        return found


class Asked(Filters):
    """A page of the list."""

    cursor: str | None = Field(None, max_length=1_000)
    order: str = Field("newest", pattern="^(newest|oldest)$")
    tz: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of jobs with those that scheduled them."""

    page: JobPage
    parents: dict[str, JobView]


@routes.page("/functions", Scope.READ)
async def list_jobs(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """A page of jobs."""
    where = asked.where(page)
    text = asked.q or ""
    if text.startswith(f"{JOB_PREFIX}_") and len(text) == ID_CHARS:
        return page.done(page.url("jobs", text))
    jobs = page.access.jobs
    found = await jobs.list(limit=50, cursor=asked.cursor, newest_first=asked.order == "newest", **where)
    counts = await jobs.counts_by_function()
    others = asked.given()
    has_counts = not others.keys() - {"fn"}
    return page.render(
        "functions/list.html",
        listed=Listed(found, await parents_of(page, found.jobs)),
        asked=asked,
        tabs={name: _counted(counts, asked.fn, state) for name, (_, state) in TABS.items()} if has_counts else {},
        functions=_names(page, counts),
        pools=sorted({each.served.pool.rpartition("/")[2] for each in page.known.app.functions}),
        others=others,
    )


async def parents_of(page: Page, jobs: tuple[JobView, ...]) -> dict[str, JobView]:
    """The jobs that scheduled these, by id, as far as they are still kept."""
    ids = list(dict.fromkeys(each.parent_id for each in jobs if each.parent_id is not None))
    found = await page.access.jobs.get_many(ids) if ids else ()
    return {each.id: each for each in found if each is not None}


def _counted(counts: dict[str, dict[str, int]], function: str | None, state: JobState) -> Count:
    chosen = counts.values() if function is None else [counts.get(function, {})]
    return Count.of(sum(each.get(state.value, 0) for each in chosen))


def _names(page: Page, counts: dict[str, dict[str, int]]) -> list[str]:
    """The functions to choose from: those of the app, and those that have jobs."""
    return sorted({*counts, *(each.name for each in page.known.app.functions)})

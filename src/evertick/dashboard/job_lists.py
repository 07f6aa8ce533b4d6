"""Lists of jobs: their filters, and related data."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from pydantic import Field

from evertick.api.jobs import JobPage, JobView
from evertick.app.access import AsyncAccess
from evertick.app.bodies import Body, Time
from evertick.app.scheduling.choice import JobsWhere
from evertick.base.ids import JOB_PREFIX
from evertick.base.instants import Instant, from_datetime, to_datetime, to_iso
from evertick.base.records.jobs import JobState

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
"""Characters of the id of a job: `job_` and 28 more."""


class Filters(Body):
    """The filters of jobs, from the address of a page."""

    state: str = Field("pending", pattern=f"^({'|'.join(TABS)})$")
    function: str | None = Field(None, max_length=500)
    q: str | None = Field(None, max_length=500)
    pool: str | None = Field(None, max_length=200)
    schedule: str | None = Field(None, max_length=500)
    occurrence: Time | None = None
    error: str | None = Field(None, max_length=500)
    due: str | None = Field(None, pattern=f"^(late|{'|'.join(SPANS)})?$")
    blocked: bool | None = None
    not_retried: bool | None = None

    def given(self) -> dict[str, Any]:
        """The filters except the state, by the names of their parameters."""
        found = {name: getattr(self, name) for name in Filters.model_fields if name != "state"}
        if self.occurrence is not None:
            found["occurrence"] = to_iso(from_datetime(self.occurrence))
        return {name: value for name, value in found.items() if value}

    def where(self, at: Instant) -> JobsWhere:
        """The filters in the form of the HTTP API, for a page at the time `at`."""
        found: JobsWhere = {"state": [TABS[self.state][1]]}
        pairs = {"function": self.function, "pool": self.pool, "schedule": self.schedule, "error": self.error}
        found.update({name: value for name, value in pairs.items() if value})  # type: ignore[typeddict-item]
        text = (self.q or "").strip()
        if text:
            if text.startswith(f"{JOB_PREFIX}_"):
                found["id_prefix"] = text[: ID_CHARS + 1]  # a longer prefix matches no id, and neither does this one
            else:
                found["key"] = text
        if self.occurrence is not None:
            found["occurrence_from"] = self.occurrence
            found["occurrence_until"] = self.occurrence + timedelta(seconds=1)
        if self.state == "pending":
            found["without_runs"] = True  # the page of workflows shows those, with what they wait for
        if self.blocked and self.state == "pending":
            found["blocked"] = True
        if self.not_retried and self.state == "failed":
            found["not_retried"] = True
        now = to_datetime(at)
        if self.due == "late":
            found["due_until"] = now
        elif self.due and self.state == "pending":
            found["due_until"] = now + SPANS[self.due]
        elif self.due:
            found["due_from"] = now - SPANS[self.due]
        return found


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of jobs with the jobs that scheduled them."""

    page: JobPage
    parents: dict[str, JobView]


async def parents_of(access: AsyncAccess, jobs: tuple[JobView, ...]) -> dict[str, JobView]:
    """The jobs that scheduled these, by id; without those that are no longer stored."""
    ids = list(dict.fromkeys(each.parent_id for each in jobs if each.parent_id is not None))
    found = await access.jobs.get_many(ids) if ids else ()
    return {each.id: each for each in found if each is not None}

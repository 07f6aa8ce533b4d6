"""One job: what it does, what became of it and why, and what can be done."""

import json
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from evertick.api.jobs import AttemptView, JobLogs, JobView
from evertick.base.errors import FunctionNotFound
from evertick.base.instants import from_datetime
from evertick.base.records.access import Scope
from evertick.base.records.jobs import FunctionKind, JobState
from evertick.dashboard.page import Page, Shown, file_of, page_routes
from evertick.server.bodies import Named
from evertick.server.problems import Problem

routes = page_routes()

CHILDREN_MAX: Final = 20
LINES_MAX: Final = 500
"""Lines of a log that a page shows."""
DOWNLOADS: Final = ("arguments", "result", "error")


@dataclass(frozen=True, slots=True)
class Bar:
    """An attempt on the time line of a job, in percent of its width."""

    left: float
    width: float
    gap: float
    """Where the next attempt begins; 0 for the last one."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job with all that belongs to it."""

    view: JobView
    attempts: tuple[AttemptView, ...]
    logs: JobLogs
    parent: JobView | None
    children: tuple[JobView, ...]
    has_more_children: bool

    def bars(self, now: int) -> list[Bar]:
        """The attempts on a line from the first start to the last end."""
        spans = [
            (from_datetime(each.started_at), from_datetime(each.ended_at) if each.ended_at else now)
            for each in self.attempts
            if each.started_at is not None
        ]
        if not spans or len(spans) != len(self.attempts):
            return []
        start, length = spans[0][0], max(max(end for _, end in spans) - spans[0][0], 1)
        lefts = [round(100 * (began - start) / length, 2) for began, _ in spans]
        widths = [max(round(100 * (end - began) / length, 2), 0.4) for began, end in spans]
        return [Bar(*each) for each in zip(lefts, widths, [*lefts[1:], 0.0], strict=True)]


@routes.page("/jobs/{job_id}", Scope.READ)
async def show_job(page: Shown, job_id: Named) -> Response:
    """A job."""
    jobs = page.access.jobs
    view = await jobs.get(job_id)
    if view.kind is FunctionKind.WORKFLOW:
        return page.done(page.url("workflows", view.id))
    children = await jobs.list(parent=view.id, limit=CHILDREN_MAX, newest_first=False)
    parents = () if view.parent_id is None else await jobs.get_many([view.parent_id])
    job = Job(
        view=view,
        attempts=await jobs.attempts(job_id),
        logs=await jobs.logs(job_id, all_attempts=True),
        parent=next((each for each in parents if each is not None), None),
        children=children.jobs,
        has_more_children=children.cursor is not None,
    )
    return page.render(
        "jobs/job.html", job=job, view=view, lines=job.logs.lines[-LINES_MAX:], can=_can(page, job),
        is_known=_is_known(page, view),
    )  # fmt: skip


@routes.page("/jobs/{job_id}/{what}.json", Scope.READ)
async def download(page: Shown, job_id: Named, what: str) -> Response:
    """The arguments, the result or the error of a job as a file."""
    if what not in DOWNLOADS:
        raise Problem(404, "not_found", f"a job has {', '.join(DOWNLOADS)} to download")
    view = await page.access.jobs.get(job_id)
    value = {"arguments": view.args, "result": view.result, "error": view.error}[what]
    return file_of(json.dumps(value, ensure_ascii=False, indent=2), f"{view.id}-{what}.json", "application/json")


@routes.page("/jobs/{job_id}/logs.jsonl", Scope.READ)
async def download_logs(page: Shown, job_id: Named) -> Response:
    """The lines that a job has logged as a file, a JSON object on each line."""
    logs = await page.access.jobs.logs(job_id, all_attempts=True)
    text = "".join(json.dumps(each.to_json(), ensure_ascii=False) + "\n" for each in logs.lines)
    return file_of(text, f"{job_id}-logs.jsonl", "application/jsonl")


def _is_known(page: Page, view: JobView) -> bool:
    """Whether this server's app has the function, so that it can be run from here."""
    try:
        page.known.function(view.function)
    except FunctionNotFound:
        return False
    return True


def _can(page: Page, job: Job) -> dict[str, str]:
    """Why each of the actions cannot be done now; an action that can be done is not named."""
    view, found = job.view, dict[str, str]()
    ended = view.state not in (JobState.PENDING, JobState.IN_PROGRESS)
    if ended:
        found["cancel"] = found["stop"] = "It has ended: there is nothing to cancel"
    elif view.state is JobState.PENDING:
        found["stop"] = "It does not run"
    if view.state is not JobState.PENDING:
        found["run-now"] = found["reschedule"] = "Only a pending job has a time to be changed"
    if view.state is JobState.SUCCESS:
        found["retry"] = "It has succeeded; run its function again instead"
    elif not ended:
        found["retry"] = "It has not failed"
    elif view.retried_as is not None:
        found["retry"] = f"It was run again already, as {view.retried_as}"
    if not page.may(Scope.OPERATE):
        missing = f"This needs a token with the scope operate; yours has {page.known.token.scope}"
        found |= dict.fromkeys(("cancel", "stop", "run-now", "reschedule", "retry"), missing)
    return found

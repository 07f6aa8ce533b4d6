"""Changes of many jobs: selected ones, or all that match filters."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.jobs import AttemptView, JobLogs, JobView
from evertick.api.schema import Count
from evertick.app.scheduling.choice import JobsWhere
from evertick.base.errors import EvertickError, FunctionNotFound, InvalidArguments, NotFound
from evertick.base.escaping import json_text
from evertick.base.instants import from_datetime
from evertick.base.records.access import Scope
from evertick.base.records.jobs import FunctionKind, JobState
from evertick.dashboard.forms.form import moment_in, reason_of, said_moment
from evertick.dashboard.forms.signature import Signature, signature_of
from evertick.dashboard.job_lists import TABS, Filters
from evertick.dashboard.page import Form, Page, Shown, file_of, page_routes
from evertick.server.bodies import Named
from evertick.server.problems import Problem
from evertick.server.routes.jobs import CallerJobs, caller_jobs

routes = page_routes()

ROWS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Action:
    """A change: the name on the command line, its labels, and the operations on one job and on all that match."""

    name: str
    does: str
    done: str
    one: Callable[[CallerJobs, str], Awaitable[object]]
    all_of: Callable[[CallerJobs, JobsWhere], Awaitable[int]]
    states: tuple[str, ...]
    passes: str
    """Why some of the chosen jobs are skipped when all are changed."""


ACTIONS: Final = {
    each.name: each
    for each in (
        Action(
            "cancel",
            "Cancel",
            "Canceled",
            lambda jobs, job_id: jobs.cancel(job_id),
            lambda jobs, where: jobs.cancel_all(**where),
            ("pending", "running"),
            "already ended or asked to stop",
        ),
        Action(
            "retry",
            "Retry",
            "Runs again:",
            lambda jobs, job_id: jobs.retry(job_id),
            lambda jobs, where: jobs.retry_all(**where),
            ("failed", "canceled"),
            "another job has their key, or they were run again meanwhile",
        ),
        Action(
            "run-now",
            "Run",
            "Runs now:",
            lambda jobs, job_id: jobs.run_now(job_id),
            lambda jobs, where: jobs.run_now_all(**where),
            ("pending",),
            "already due",
        ),
    )
}


class Asked(Filters):
    """The jobs to change: `row` has the selected ones; if it is empty, all that match the filters."""

    row: list[str] = Field(default_factory=list, max_length=ROWS_MAX)
    tz: str | None = None


@dataclass(slots=True)
class Bulk:
    """The form of a change of many jobs."""

    action: Action
    asked: Asked
    form: Form
    count: Count
    runs: Count
    """The number of them that are runs of workflows."""

    @property
    def phrase(self) -> str:
        """The text that must be typed to confirm; empty for a single job."""
        return f"{self.action.name} {self.count.number}" if self.count.number > 1 else ""

    def command(self, page: Page) -> str:
        """The command of `evertick` that does the same."""
        asked, name = self.asked, self.action.name
        if asked.row:
            return page.command("job", name, *asked.row)
        where = asked.where(page.now)
        flags: dict[str, str | bool | None] = {
            "function": asked.function or None, "schedule": asked.schedule or None, "key": where.get("key"),
            "pool": asked.pool or None, "error": asked.error or None,
        }  # fmt: skip
        for flag, name_of in (("since", "due_from"), ("until", "due_until")):
            moment: Any = where.get(name_of)
            flags[flag] = None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        flags |= {"blocked": bool(where.get("blocked")), "without_runs": bool(where.get("without_runs"))}
        if asked.state in ("canceled", "running"):
            flags["state"] = TABS[asked.state][1].value
        if name != "cancel" and not any(flags.values()):
            flags["all"] = True
        return page.command("job", "cancel-all" if name == "cancel" else name, yes=True, **flags)


@routes.page("/jobs/{action}-all", Scope.OPERATE)
async def show_bulk(page: Shown, action: str, asked: Annotated[Asked, Query()]) -> Response:
    """Show the form for a change of many jobs, with their number."""
    return _shown(page, await _bulk(page, action, asked, Form()))


@routes.form("/jobs/{action}-all", Scope.OPERATE)
async def change_all(page: Shown, action: str, asked: Annotated[Asked, Query()]) -> Response:
    """Change many jobs, unless the number has changed since it was shown."""
    form = await page.form()
    bulk = await _bulk(page, action, asked, form)
    if bulk.phrase and form["typed"] != bulk.phrase:
        is_changed = form["shown"] and form["shown"] != str(bulk.count.number)
        news = f"There are {bulk.count} now, and were {form['shown']}; nothing was done. " if is_changed else ""
        form.fail("typed", f"{news}Type {bulk.phrase}.")
        return _shown(page, bulk, status=422)
    back = page.url("functions", state=asked.state, **asked.given())
    if asked.row:
        return page.done(back, await _each(page, bulk))
    jobs = caller_jobs(page.known, page.request).expecting(bulk.count.number)
    try:
        count = await bulk.action.all_of(jobs, asked.where(page.now))
    except Problem as problem:
        if problem.code != "count_changed":
            raise
        form.fail("typed", str(problem.detail))
        return _shown(page, await _bulk(page, action, asked, form), status=422)
    said = f"{bulk.action.done} {count:,} job{'s' if count != 1 else ''}."
    passed = 0 if bulk.count.more else bulk.count.number - count
    return page.done(back, f"{said} {passed:,} skipped: {bulk.action.passes}." if passed > 0 else said)


async def _each(page: Page, bulk: Bulk) -> str:
    """Change the selected jobs one by one; returns the message about it."""
    refused: list[str] = []
    for job_id in bulk.asked.row:
        try:
            await bulk.action.one(caller_jobs(page.known.of_part(job_id), page.request), job_id)
        except EvertickError as error:
            refused.append(reason_of(error))
    count = len(bulk.asked.row) - len(refused)
    said = f"{bulk.action.done} {count:,} job{'s' if count != 1 else ''}."
    return f"{said} {len(refused):,} failed: {refused[0]}" if refused else said


async def _bulk(page: Page, action: str, asked: Asked, form: Form) -> Bulk:
    if action not in ACTIONS:
        raise Problem(404, "not_found", "the action must be cancel, retry or run-now")
    found = ACTIONS[action]
    if asked.state not in found.states:
        raise Problem(422, "invalid_request", f"this action cannot change jobs in the state {asked.state}")
    if not asked.row and "id_prefix" in asked.where(page.now):
        raise Problem(422, "invalid_request", "jobs cannot be changed by a part of their id; select them in the list")
    where = asked.where(page.now)
    if action == "retry" and asked.state == "failed":
        where["not_retried"] = True  # the others are left out
    count = Count.of(len(asked.row)) if asked.row else await page.access.jobs.count(**where)
    runs = await _runs_in(page, asked) if action == "cancel" else Count.of(0)
    return Bulk(found, asked, form, count, runs)


async def _runs_in(page: Page, asked: Asked) -> Count:
    """The number of selected jobs that are runs of workflows; 0 for jobs chosen by filters, which exclude runs.

    Unknown ids are reported when each job is changed.
    """
    with suppress(InvalidArguments):
        ticked = await page.access.jobs.get_many(asked.row)
        return Count.of(sum(each is not None and each.kind is FunctionKind.WORKFLOW for each in ticked))
    return Count.of(0)


def _shown(page: Page, bulk: Bulk, *, status: int = 200) -> Response:
    commands = page.same(Form(), bulk.command(page), at="")
    return page.render("jobs/many.html", status=status, bulk=bulk, form=bulk.form, commands=commands)


# -- One job: its data, its attempts, its error and its actions.


CHILDREN_MAX: Final = 20
LINES_MAX: Final = 500
"""Lines of a log on a page."""
DOWNLOADS: Final = ("arguments", "result", "error")


@dataclass(frozen=True, slots=True)
class Bar:
    """An attempt on the timeline of a job, in percent of its width."""

    left: float
    width: float
    gap: float
    """The start of the next attempt; 0 for the last one."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job with its related data."""

    view: JobView
    attempts: tuple[AttemptView, ...]
    logs: JobLogs
    parent: JobView | None
    children: tuple[JobView, ...]
    has_more_children: bool

    def bars(self, now: int) -> list[Bar]:
        """The attempts on a line from the first start to the last end; empty if any start is unknown."""
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
        raise Problem(404, "not_found", f"what must be one of {', '.join(DOWNLOADS)}")
    view = await page.access.jobs.get(job_id)
    value = {"arguments": view.args, "result": view.result, "error": view.error}[what]
    return file_of(json.dumps(value, ensure_ascii=False, indent=2), f"{view.id}-{what}.json", "application/json")


@routes.page("/jobs/{job_id}/logs.jsonl", Scope.READ)
async def download_logs(page: Shown, job_id: Named) -> Response:
    """The log lines of a job as a file, one JSON object per line."""
    logs = await page.access.jobs.logs(job_id, all_attempts=True)
    text = "".join(json.dumps(each.to_json(), ensure_ascii=False) + "\n" for each in logs.lines)
    return file_of(text, f"{job_id}-logs.jsonl", "application/jsonl")


def _is_known(page: Page, view: JobView) -> bool:
    """Whether this server's app has the function, so that it can be called from here."""
    try:
        page.known.function(view.function)
    except FunctionNotFound:
        return False
    return True


def _can(page: Page, job: Job) -> dict[str, str]:
    """The reasons why actions cannot be done now, by action; possible actions are absent."""
    view, found = job.view, dict[str, str]()
    ended = view.state not in (JobState.PENDING, JobState.IN_PROGRESS)
    if ended:
        found["cancel"] = found["stop"] = "It has already ended"
    elif view.state is JobState.PENDING:
        found["stop"] = "It is not running"
    if view.state is not JobState.PENDING:
        found["run-now"] = found["reschedule"] = "Only a pending job can be rescheduled"
    if view.state is JobState.SUCCESS:
        found["retry"] = "It has succeeded; run its function again instead"
    elif not ended:
        found["retry"] = "It has not failed"
    elif view.retried_as is not None:
        found["retry"] = f"It was already run again, as {view.retried_as}"
    if not page.may(Scope.OPERATE):
        missing = f"This needs a token with the scope operate; yours has {page.known.token.scope}"
        found |= dict.fromkeys(("cancel", "stop", "run-now", "reschedule", "retry"), missing)
    return found


# -- Changes of one job: cancel, stop, run now, reschedule, run again.


SAID: Final = {
    "cancel": "Canceled {}.",
    "stop": "Stopping {}.",
    "run-now": "{} runs now.",
    "reschedule": "Rescheduled {}.",
}
"""The messages after a change."""


@dataclass(slots=True)
class Change:
    """The form of a change of a job."""

    action: str
    job: JobView
    form: Form


@routes.asks("/jobs/{job_id}/retry", Scope.OPERATE)
async def show_retry(page: Shown, job_id: Named) -> Response:
    """Show the form that runs a job again, with its arguments."""
    job = await page.access.jobs.get(job_id)
    signature = _signature(page, job)
    form = Form() if signature is None else signature.form(job.args)
    return _change_shown(page, Change("retry", job, page.typed or form), signature)


@routes.form("/jobs/{job_id}/retry", Scope.OPERATE)
async def retry(page: Shown, job_id: Named) -> Response:
    """Run a job again, as a new job."""
    change = Change("retry", await page.access.jobs.get(job_id), await page.form())
    form, signature = change.form, _signature(page, change.job)
    if signature is not None and signature.switch(form):
        return _change_shown(page, change, signature)
    args = _args_in(page, change.job, form, signature)
    if form.errors:
        return _change_shown(page, change, signature, status=422)
    try:
        new_id = await caller_jobs(page.known, page.request).retry(job_id, args=args)
    except NotFound:
        raise
    except EvertickError as error:
        form.field_of(error, {})
        return _change_shown(page, change, signature, status=422)
    return page.done(page.url("jobs", new_id), "Runs again, as this new job.")


@routes.asks("/jobs/{job_id}/{action}", Scope.OPERATE)
async def show_change(page: Shown, job_id: Named, action: str) -> Response:
    """Show the form that changes a job."""
    _known(action)
    return _change_shown(page, Change(action, await page.access.jobs.get(job_id), page.typed or Form()))


@routes.form("/jobs/{job_id}/{action}", Scope.OPERATE)
async def change(page: Shown, job_id: Named, action: str) -> Response:
    """Change a job."""
    _known(action)
    asked = Change(action, await page.access.jobs.get(job_id), await page.form())
    form = asked.form
    at = _time_in(page, form) if action == "reschedule" else None
    if form.errors:
        return _change_shown(page, asked, status=422)
    jobs = caller_jobs(page.known, page.request)
    try:
        if at is not None:
            await jobs.reschedule(job_id, at)
        else:
            changed = await {"cancel": jobs.cancel, "stop": jobs.stop, "run-now": jobs.run_now}[action](job_id)
            if action != "run-now" and changed.state in (JobState.SUCCESS, JobState.FAILED):
                form.fail("", "It had already ended, so there was nothing to cancel.")
                return _change_shown(page, asked, status=409)
    except NotFound:
        raise
    except EvertickError as error:
        form.field_of(error, {}, "at" if action == "reschedule" else "")
        return _change_shown(page, asked, status=422)
    return page.done(page.url("jobs", job_id), SAID[action].format(asked.job.function))


def _known(action: str) -> None:
    if action not in SAID:
        raise NotFound("the action must be cancel, stop, run-now, reschedule or retry")


def _signature(page: Page, job: JobView) -> Signature | None:
    """The form for other arguments; None if the visitor may not give them, or the function is not in this app."""
    if not page.may(Scope.EDIT):
        return None
    try:
        return signature_of(page.known.function(job.function))
    except FunctionNotFound:
        return None


def _args_in(page: Page, job: JobView, form: Form, signature: Signature | None) -> dict[str, Any] | None:
    """The new arguments for a job to run again; None for the same ones, or if there are errors."""
    if signature is None:
        return None
    if form["which"] == "other":
        return signature.read(form, page.times)
    if signature.is_other(form, job.args):
        form.fail("which", "The arguments below were changed, but the same arguments as before are chosen.")
    return None


def _time_in(page: Page, form: Form) -> datetime | None:
    """The new time of a job; None if it is invalid, with the error stored at the field."""
    at = moment_in(form, "at", page.times)
    if at is None:
        form.fail("at", "Enter a time, such as 2026-12-24 09:00, tomorrow or now+2h.")
    return at


def _change_shown(page: Page, change: Change, signature: Signature | None = None, *, status: int = 200) -> Response:
    job, form, read = change.job, change.form, page.judged(change.form)
    options: dict[str, str | None] = {}
    if change.action == "reschedule":
        options["at"] = said_moment(_time_in(page, read))
    elif change.action == "retry":
        args = _args_in(page, job, read, signature)
        options["args"] = None if args is None else json_text(args)
    line, at = page.command("job", change.action, job.id, **options), None if options else ""
    return page.render(
        f"jobs/{'retry' if change.action == 'retry' else 'change'}.html", status=status, action=change.action, job=job,
        form=form, signature=signature, commands=page.same(read, line, at=at),
    )  # fmt: skip

"""What is done to many jobs: those that were ticked, or all that filters choose."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.schema import Count
from evertick.base.errors import EvertickError, InvalidArguments
from evertick.base.records.access import Scope
from evertick.base.records.jobs import FunctionKind
from evertick.dashboard.forms.form import reason_of
from evertick.dashboard.job_lists import TABS, Filters
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.server.callers import Caller
from evertick.server.problems import Problem
from evertick.server.routes import jobs as api

routes = page_routes()

ROWS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Action:
    """What is done: the words of the command line, in words for people, and the endpoints for one and for all."""

    name: str
    does: str
    done: str
    all_of: Callable[[Caller, api.Bulk], Awaitable[Response]]
    states: tuple[str, ...]
    passes: str
    """Which of the chosen jobs are passed over when all are meant."""


ACTIONS: Final = {
    each.name: each
    for each in (
        Action(
            "cancel", "Cancel", "Canceled", api.cancel_jobs, ("pending", "running"), "ended or asked to stop before"
        ),
        Action(
            "retry",
            "Retry",
            "Runs again:",
            api.retry_jobs,
            ("failed", "canceled"),
            "their key is held, or they were run again meanwhile",
        ),
        Action(
            "run-now",
            "Run",
            "Runs now:",
            api.run_jobs_now,
            ("pending",),
            "due already",
        ),
    )
}


class Asked(Filters):
    """Which jobs: `row` names those that were ticked, else all that the filters choose."""

    row: list[str] = Field(default_factory=list, max_length=ROWS_MAX)
    tz: str | None = None


@dataclass(slots=True)
class Bulk:
    """The form of one change of many jobs."""

    action: Action
    asked: Asked
    form: Form
    count: Count
    runs: Count
    """How many of them are runs of workflows."""

    @property
    def phrase(self) -> str:
        """What is to be typed; nothing for a single job."""
        return f"{self.action.name} {self.count.number}" if self.count.number > 1 else ""

    def command(self, page: Page) -> str:
        """The same as a line of `evertick`."""
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
    """Ask whether many jobs are to be changed, and say how many."""
    return _shown(page, await _bulk(page, action, asked, Form()))


@routes.form("/jobs/{action}-all", Scope.OPERATE)
async def change_all(page: Shown, action: str, asked: Annotated[Asked, Query()]) -> Response:
    """Change many jobs, unless other ones are chosen now than were shown."""
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
    chosen = api.Bulk.model_validate({**asked.where(page.now), "expect": bulk.count.number})
    try:
        reply = await bulk.action.all_of(page.known, chosen)
    except Problem as problem:
        if problem.code != "count_changed":
            raise
        form.fail("typed", str(problem.detail))
        return _shown(page, await _bulk(page, action, asked, form), status=422)
    count = json.loads(bytes(reply.body))["count"]
    said = f"{bulk.action.done} {count:,} job{'s' if count != 1 else ''}."
    passed = 0 if bulk.count.more else bulk.count.number - count
    return page.done(back, f"{said} {passed:,} passed over: {bulk.action.passes}." if passed > 0 else said)


async def _each(page: Page, bulk: Bulk) -> str:
    """Change the jobs that were ticked, one by one; returns what is said of it."""
    refused: list[str] = []
    for job_id in bulk.asked.row:
        try:
            if bulk.action.name == "retry":
                await api.retry_job(page.request, page.known.of_part(job_id), job_id)
            else:
                await (api.cancel_job if bulk.action.name == "cancel" else api.run_job_now)(page.known, job_id)
        except EvertickError as error:
            refused.append(reason_of(error))
    count = len(bulk.asked.row) - len(refused)
    said = f"{bulk.action.done} {count:,} job{'s' if count != 1 else ''}."
    return f"{said} {len(refused):,} not: {refused[0]}" if refused else said


async def _bulk(page: Page, action: str, asked: Asked, form: Form) -> Bulk:
    if action not in ACTIONS:
        raise Problem(404, "not_found", "jobs are canceled, run again or run now")
    found = ACTIONS[action]
    if asked.state not in found.states:
        raise Problem(422, "invalid_request", f"jobs in this state cannot be changed like this: {asked.state}")
    if not asked.row and "id_prefix" in asked.where(page.now):
        raise Problem(422, "invalid_request", "jobs are not changed by a part of their id; tick those that are meant")
    where = asked.where(page.now)
    if action == "retry" and asked.state == "failed":
        where["not_retried"] = True  # the others are left out
    count = Count.of(len(asked.row)) if asked.row else await page.access.jobs.count(**where)
    runs = await _runs_in(page, asked) if action == "cancel" else Count.of(0)
    return Bulk(found, asked, form, count, runs)


async def _runs_in(page: Page, asked: Asked) -> Count:
    """How many of the jobs that were ticked are runs of workflows; those that filters choose are none.

    Ids that name nothing are reported when each is changed.
    """
    with suppress(InvalidArguments):
        ticked = await page.access.jobs.get_many(asked.row)
        return Count.of(sum(each is not None and each.kind is FunctionKind.WORKFLOW for each in ticked))
    return Count.of(0)


def _shown(page: Page, bulk: Bulk, *, status: int = 200) -> Response:
    commands = page.same(Form(), bulk.command(page), at="")
    return page.render("jobs/many.html", status=status, bulk=bulk, form=bulk.form, commands=commands)

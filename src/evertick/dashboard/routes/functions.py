"""Running a function by hand: now, or as a job later."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.insight import FunctionStats
from evertick.api.jobs import JobPage, JobView
from evertick.api.schema import Count
from evertick.app.bodies import Body
from evertick.app.functions.function import Action, Function, Mutation, Workflow
from evertick.app.functions.function import Query as QueryFunction
from evertick.app.insight.functions import Failures
from evertick.app.insight.jobs import JobList
from evertick.base.errors import EvertickError, FunctionNotFound, Misuse
from evertick.base.escaping import json_text
from evertick.base.ids import JOB_PREFIX
from evertick.base.records.access import Scope
from evertick.base.records.history import JobCounts
from evertick.base.records.jobs import SCRIPT_FUNCTION, FunctionKind
from evertick.dashboard.forms.form import duration_in, moment_in, said_duration, said_moment
from evertick.dashboard.forms.signature import Signature, signature_of
from evertick.dashboard.job_lists import ID_CHARS, TABS, Filters, Listed, parents_of
from evertick.dashboard.markup.charts import charted
from evertick.dashboard.markup.states import PROMISES, kind_words
from evertick.dashboard.page import LIVE_HEADER, Form, Page, Shown, page_routes
from evertick.dashboard.saved_views import saved_tabs
from evertick.dashboard.workflow_names import renamed
from evertick.server.bodies import Named
from evertick.server.problems import Problem
from evertick.server.routes import functions as api
from evertick.server.routes import jobs as jobs_api
from evertick.server.routes.views import views_of

routes = page_routes()

WHEN: Final = {"now": "Now", "after": "After", "at": "At"}


@dataclass(slots=True)
class Called:
    """The result of a call: a value as JSON, an error, or the job that was scheduled."""

    took_ms: int = 0
    result: Any = None
    error: dict[str, Any] | None = None
    job_id: str | None = None


@dataclass(slots=True)
class Calling:
    """The page of one call."""

    function: Function[..., Any]
    form: Form
    called: Called | None = None
    signature: Signature = field(init=False)

    def __post_init__(self) -> None:
        self.signature = signature_of(self.function)

    @property
    def is_query(self) -> bool:
        """Whether it changes nothing, so that a token with the scope read may call it."""
        return isinstance(self.function, QueryFunction)


@routes.page("/run", Scope.READ)
async def choose_function(page: Shown, function: Annotated[str, Query(max_length=500)] = "") -> Response:
    """Choose a function to run."""
    if function:
        return page.done(page.url("functions", function, "run"))
    return page.render("functions/choose.html", functions=_functions(page))


@routes.asks("/functions/{name}/run", Scope.READ)
async def show_call(
    page: Shown,
    name: Named,
    args: Annotated[str, Query(max_length=20_000)] = "",
    job: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """A form for the arguments of a function; `args` are initial ones as JSON, or those of a `job`."""
    if name == SCRIPT_FUNCTION:
        script = (await page.access.jobs.get(job)).args.get("script") if job else None
        return page.done(page.url("scripts") if script is None else page.url("scripts", script, "run", job=job))
    function = page.known.function(name)
    form = page.typed or Form()
    if page.typed is None and job:
        form = signature_of(function).form((await page.access.jobs.get(job)).args)
    elif page.typed is None and args:
        form.pairs = [("args_as", "json"), ("args", args), ("args_switch", "fields")]
        signature_of(function).switch(form)
    return _shown(page, Calling(function, form))


@routes.form("/functions/{name}/query", Scope.READ)
async def ask(page: Shown, name: Named) -> Response:
    """Call a query. Raises Problem for a function of another kind."""
    function = page.known.function(name)
    if not isinstance(function, QueryFunction):
        raise Problem(403, "not_allowed", f"calling {name} needs a token with the scope edit")
    return await _run(page, Calling(function, await page.form()))


@routes.form("/functions/{name}/run", Scope.EDIT)
async def run(page: Shown, name: Named) -> Response:
    """Call a function, or schedule a call of it."""
    return await _run(page, Calling(page.known.function(name), await page.form()))


async def _run(page: Page, calling: Calling) -> Response:
    form = calling.form
    if isinstance(calling.function, Workflow):
        raise Misuse(f"{calling.function.name} is a workflow; start it instead of calling it")
    if calling.signature.switch(form):
        return _shown(page, calling)
    args, later = calling.signature.read(form, page.times), _later(page, calling, form)
    if args is None or form.errors:
        return _shown(page, calling, status=422)
    if later is None:
        if not await _is_first(page, calling.function):
            form.fail("", "This was already sent, and the function was called. Send it again to call it once more.")
            return _shown(page, calling, status=409)
        calling.called = await _called(page, calling, args)
        return _shown(page, calling)
    job = jobs_api.NewJob(function=calling.function.name, args=args, **later)
    try:
        reply = await jobs_api.schedule_job(page.request, page.known, job)
    except EvertickError as error:
        form.field_of(error, {"in the future": next(iter(later)), "in the past": "at"})
        return _shown(page, calling, status=422)
    calling.called = Called(job_id=json.loads(bytes(reply.body))["id"])
    return _shown(page, calling)


def _later(page: Page, calling: Calling, form: Form) -> dict[str, Any] | None:
    """The time of a job in the form of the API; None for now, or if it is invalid."""
    when = form["when"] or "now"
    if when not in WHEN or (when != "now" and calling.is_query):
        form.fail("when", "Choose one of these.")
        return None
    for other in ("after", "at"):
        if form[other] and other != when:
            form.fail(
                other, f"This is filled in, but {WHEN[when]} is chosen: choose {WHEN[other]}, or clear this field."
            )
    if when == "now":
        return None
    given = duration_in(form, "after") if when == "after" else moment_in(form, "at", page.times)
    if given is None:
        form.fail(when, "Enter how long from now, such as 1h30m." if when == "after" else "Enter a time.")
    return {when: given}


async def _called(page: Page, calling: Calling, args: dict[str, Any]) -> Called:
    clock = page.request.app.state.evertick.environment.clock
    began = clock.now()
    once = page.known.key if isinstance(calling.function, Mutation) else None
    try:
        reply = await api.call_function(page.known, calling.function.name, api.Call(args=args), once)
    except Problem as problem:
        if problem.code != "function_failed":
            raise
        return Called(took_ms=clock.now() - began, error=problem.more["error"])
    return Called(took_ms=clock.now() - began, result=json.loads(bytes(reply.body)))


async def _is_first(page: Page, function: Function[..., Any]) -> bool:
    """Whether a form that calls an action was not sent before: an action's effects are not in any transaction."""
    if page.known.key is None or not isinstance(function, Action):
        return True
    own = page.request.state.request_id
    return bool(await page.access.jobs.write(await page.known.once(page.request, lambda _: own)) == own)


def _functions(page: Page) -> list[Function[..., Any]]:
    """The functions that the visitor may see and that can be called, by name."""
    known = page.known.app.functions
    shown = [each for each in known if not isinstance(each, Workflow) and each.name != SCRIPT_FUNCTION]
    return sorted((each for each in shown if not each.internal or page.may(Scope.ADMIN)), key=lambda each: each.name)


def _shown(page: Page, calling: Calling, *, status: int = 200) -> Response:
    read, name = page.judged(calling.form), calling.function.name
    args, later = calling.signature.read(read, page.times), _later(page, calling, read) or {}
    line = page.command(
        "run", name, after=said_duration(later.get("after")), at=said_moment(later.get("at")),
        json=json_text(args) if args else None,
    )  # fmt: skip
    return page.render(
        "functions/run.html", status=status, calling=calling, function=calling.function, form=calling.form,
        functions=_functions(page), commands=page.same(read, line, at=page.url("functions", name, "run")),
    )  # fmt: skip


# -- The jobs that call functions, by state and other filters.


ROWS: Final = 50
"""Jobs per page."""
USUAL: Final = {"state": "pending", "order": "newest"}
"""The default values, which the address of the list may omit."""
OWN: Final = [{}, *({"state": name} for name in TABS)]
"""The built-in views of the list."""


class JobsAsked(Filters):
    """A page of the list."""

    cursor: str | None = Field(None, max_length=1_000)
    order: str = Field("newest", pattern="^(newest|oldest|due)$")
    """`due`: jobs that wait for their time, the soonest first."""
    each: bool = False
    """Whether similar failures are listed one by one."""
    tz: str | None = None

    @property
    def is_grouped(self) -> bool:
        """Whether similar failures are grouped."""
        is_narrowed = bool(self.error or self.q or self.cursor)
        return self.state == "failed" and not (self.each or is_narrowed) and self.order == "newest"

    @property
    def shown_order(self) -> str:
        """The effective order: only jobs that wait for their time can be sorted by it."""
        is_without = self.state != "pending" or self.due == "late" or self.blocked
        return "newest" if self.order == "due" and is_without else self.order


@routes.page("/functions", Scope.READ)
async def list_jobs(page: Shown, asked: Annotated[JobsAsked, Query()]) -> Response:
    """A page of jobs."""
    text = asked.q or ""
    is_typing = LIVE_HEADER in page.request.headers
    if text.startswith(f"{JOB_PREFIX}_") and len(text) == ID_CHARS and not is_typing:
        return page.done(page.url("jobs", text))
    failures, listed, counts = await _failed(page, asked) if asked.is_grouped else (None, None, {})
    if listed is None:
        found, parents, counts = await _found(page, asked)
        listed = Listed(found, parents)
    others = asked.given()
    has_counts = not others.keys() - {"function", "not_retried"}
    workflows = _workflows(page)
    return page.render(
        "functions/list.html",
        listed=listed,
        failures=failures,
        asked=asked,
        tabs=_tabs(counts, asked.function, workflows) if has_counts else {},
        not_retried=_counted(counts, asked.function, "not_retried") if has_counts else None,
        functions=_names(page, counts, workflows if asked.state == "pending" else ()),
        is_workflow=asked.function in workflows,
        pools=sorted({each.served.pool.rpartition("/")[2] for each in page.known.app.functions}),
        others=others,
        saved=saved_tabs(page, "jobs", await views_of(page.known).list("jobs"), USUAL, OWN),
    )


async def _failed(page: Page, asked: JobsAsked) -> tuple[Failures[JobView] | None, Listed | None, dict[str, JobCounts]]:
    """Failed jobs by function and error. The groups are None if no two are similar; both are None if there are many."""
    found, parents, counts = await page.access.insight.failed_jobs(**asked.where(page.now))
    if found.more and not found.repeats:
        return None, None, counts
    newest = tuple(each for group in found.groups for each in group.newest)
    return found if found.repeats else None, Listed(JobPage(jobs=newest, cursor=None), parents), counts


async def _found(page: Page, asked: JobsAsked) -> JobList:
    where = asked.where(page.now)
    if asked.shown_order == "due":
        del where["state"]
        return await page.access.insight.upcoming_list(limit=ROWS, cursor=asked.cursor, **where)
    return await page.access.insight.job_list(
        limit=ROWS, cursor=asked.cursor, newest_first=asked.shown_order == "newest", workflows=_workflows(page), **where
    )


def _workflows(page: Page) -> list[str]:
    """All workflows of the app, including those that the visitor may not start."""
    return [each.name for each in page.known.app.functions if each.kind is FunctionKind.WORKFLOW]


def _counted(counts: dict[str, JobCounts], function: str | None, which: str) -> Count:
    chosen = counts.values() if function is None else [counts.get(function, JobCounts())]
    return Count.of(sum(getattr(each, which) for each in chosen))


def _tabs(counts: dict[str, JobCounts], function: str | None, workflows: Sequence[str]) -> dict[str, Count]:
    """The number of jobs in each tab. Waiting runs of workflows are in their own list."""
    waiting = {name: each for name, each in counts.items() if name not in workflows}
    return {
        name: _counted(waiting if name == "pending" else counts, function, state.value)
        for name, (_, state) in TABS.items()
    }


def _names(page: Page, counts: dict[str, JobCounts], without: Sequence[str]) -> list[str]:
    """The functions to choose from: those of the app, and those with jobs."""
    return sorted({*counts, *(each.name for each in page.known.app.functions)} - {*without})


# -- Functions by name: their statistics, and one function with its jobs and schedules.


RECENT: Final = 20
"""Jobs of a function on its page."""
SCHEDULES: Final = 20


class FunctionsAsked(Body):
    """A page of functions."""

    cursor: str | None = Field(None, max_length=600)
    tz: str | None = None


@routes.page("/functions-by-name", Scope.READ)
async def list_functions(page: Shown, asked: Annotated[FunctionsAsked, Query()]) -> Response:
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
    """A function: its signature, description, statistics, schedules and newest jobs."""
    jobs = await page.access.jobs.list(function=name, limit=RECENT)
    function = _function(page, name)
    stats = await _stats(page, name)
    if function is None and stats is None and not jobs.jobs:
        raise FunctionNotFound(f"no function {name!r} is registered, and it has no jobs")
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
    """The kind of a function as text, also of one that this server's app does not have."""
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

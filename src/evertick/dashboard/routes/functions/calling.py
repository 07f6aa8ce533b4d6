"""Running a function by hand: now, or as a job later."""

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Query
from starlette.responses import Response

from evertick.app.functions.function import Action, Function, Mutation, Workflow
from evertick.app.functions.function import Query as QueryFunction
from evertick.base.errors import EvertickError, Misuse
from evertick.base.escaping import json_text
from evertick.base.records.access import Scope
from evertick.base.records.jobs import SCRIPT_FUNCTION
from evertick.dashboard.forms.moments import duration_in, moment_in, said_duration, said_moment
from evertick.dashboard.forms.signature import Signature, signature_of
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.server.bodies import Named
from evertick.server.problems import Problem
from evertick.server.routes import functions as api
from evertick.server.routes import jobs as jobs_api

routes = page_routes()

WHEN: Final = {"now": "Now", "after": "After", "at": "At"}


@dataclass(slots=True)
class Called:
    """How a call ended: with a result as JSON, an error, or as a job that was scheduled."""

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
    """A form for the arguments of a function; `args` are some to begin with, as JSON, or those of a `job`."""
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
        raise Misuse(f"{calling.function.name} is a workflow: it is started, not called")
    if calling.signature.switch(form):
        return _shown(page, calling)
    args, later = calling.signature.read(form, page.times), _later(page, calling, form)
    if args is None or form.errors:
        return _shown(page, calling, status=422)
    if later is None:
        if not await _is_first(page, calling.function):
            form.fail("", "This was sent before, and the function was called then. Send it again to call it once more.")
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
    """When a job is to run, as the API takes it; None for now, or if something is wrong with it."""
    when = form["when"] or "now"
    if when not in WHEN or (when != "now" and calling.is_query):
        form.fail("when", "Choose one of these.")
        return None
    for other in ("after", "at"):
        if form[other] and other != when:
            form.fail(
                other, f"This is filled in, but {WHEN[when]} is chosen: choose {WHEN[other]}, or empty this field."
            )
    if when == "now":
        return None
    given = duration_in(form, "after") if when == "after" else moment_in(form, "at", page.times)
    if given is None:
        form.fail(when, "Say how long from now, such as 1h30m." if when == "after" else "Say when.")
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
    """Whether a form that calls an action was not sent before: no transaction holds what an action does."""
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

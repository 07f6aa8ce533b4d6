"""Workflow runs: the list, changes of several runs, starting a run, and the page of a run."""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError
from starlette.responses import Response

from evertick.api.jobs import JobView
from evertick.api.workflows import DetailedRunPage, RunPage, RunTimeline, TimedStep
from evertick.app.bodies import Body, Items, Time
from evertick.app.functions.function import Workflow
from evertick.app.functions.options import OnConflict
from evertick.app.insight.functions import failed_runs
from evertick.app.workflows.choice import runs_by_id, runs_where
from evertick.base.errors import AlreadyExists, EvertickError, FunctionNotFound, InvalidArguments, Misuse
from evertick.base.escaping import json_text
from evertick.base.instants import from_datetime, to_datetime, to_iso
from evertick.base.records.access import Scope
from evertick.base.records.jobs import FunctionKind
from evertick.base.records.workflows import OPEN, RunState, from_words, word_of, words_in
from evertick.dashboard.forms.form import json_field, reason_of
from evertick.dashboard.forms.signature import Signature, signature_of
from evertick.dashboard.markup.commands import command
from evertick.dashboard.markup.states import (
    apart,
    not_taken,
    run_glyph,
    run_state,
    run_took,
    step_state,
    step_took,
    waiting,
)
from evertick.dashboard.markup.timelines import lanes, together
from evertick.dashboard.page import Form, Page, Shown, file_of, page_routes
from evertick.dashboard.saved_views import saved_tabs
from evertick.dashboard.workflow_names import names_for, renamed
from evertick.server.bodies import Named
from evertick.server.routes import workflows as api
from evertick.server.routes.views import views_of

routes = page_routes()

TABS: Final = {
    "open": ("Open", ("pending", "running", "paused")),
    "failed": ("Failed", ("failed",)),
    "done": ("Done", ("success",)),
    "canceled": ("Canceled", ("canceled",)),
    "all": ("All", ()),
}
"""The tabs: their labels, and the states of runs that they show."""
SPANS: Final = {"1h": ("last hour", timedelta(hours=1)), "1d": ("last 24 h", timedelta(days=1)),
                "7d": ("last 7 days", timedelta(days=7)), "30d": ("last 30 days", timedelta(days=30))}  # fmt: skip
OWN: Final = [{}, *({"state": name} for name in TABS)]
"""The built-in views of the list."""
FILTERS: Final = ("state", "q", "workflow", "attribute", "since", "roots", "error", "not_retried", "schedule",
                  "occurrence")  # fmt: skip
BATCH_MAX: Final = 500
"""Runs that one form ends; if more match, the form is sent again."""
LISTED: Final = 50
"""Runs that a command lists."""
NAMED: Final = 5
"""Runs that a form lists."""
ACTIONS: Final = {
    "cancel": ("Cancel", "RunsAsked {} to end."),
    "terminate": ("Terminate", "Terminated {}."),
    "restart": ("Restart", "Restarted {}."),
}
OFFERED: Final = {"open": ("cancel", "terminate"), "all": ("cancel", "terminate"), "failed": ("restart",),
                  "canceled": ("restart",), "done": ()}  # fmt: skip
"""The actions for several runs of a tab."""
FROM: Final = {
    "failed": "the step that failed; if the code failed after a step, all outcomes are kept",
    "beginning": "the beginning: every step runs again",
}
"""Where runs are restarted."""


class RunsAsked(Body):
    """A page of the list."""

    state: Literal["", "open", "pending", "running", "paused", "failed", "done", "canceled", "all"] = "open"
    """A tab, or one of the states in the tab of open runs."""
    q: str = ""
    workflow: str = ""
    attribute: str = ""
    schedule: str = ""
    occurrence: Time | None = None
    since: Literal["", "1h", "1d", "7d", "30d"] = ""
    roots: Literal["", "yes"] = ""
    not_retried: Literal["", "true"] = ""
    error: str = Field("", max_length=500)
    each: Literal["", "true"] = ""
    """Whether similar failures are listed one by one."""
    cursor: str | None = None
    tz: str | None = None

    @property
    def tab(self) -> str:
        """The tab that shows these runs."""
        return self.state if self.state in TABS else "open"

    @property
    def state_in_tab(self) -> str:
        """The selected state within the tab; empty for all of them."""
        return self.state if self.state not in TABS else ""

    def where(self, now: datetime) -> dict[str, Any]:
        """The filters in the form of the API. Raises Misuse."""
        states = (self.state_in_tab,) if self.state_in_tab else TABS[self.tab][1]
        where: dict[str, Any] = {"state": states} if states else {}
        if self.q.strip():
            where["prefix"] = self.q.strip()
        if self.attribute.strip():
            where["attributes"] = from_words(words_in(self.attribute))
        if self.schedule:
            where["schedule"] = self.schedule
        if self.occurrence is not None:
            where["occurrence_from"] = self.occurrence
            where["occurrence_until"] = self.occurrence + timedelta(seconds=1)
        if self.roots:
            where["roots"] = True
        if self.since:
            where["started_from"] = now - SPANS[self.since][1]
        if self.error.strip():
            where["error"] = self.error.strip()
        if self.not_retried and self.tab == "failed":
            where["not_retried"] = True
        return where

    @property
    def occurrence_text(self) -> str:
        """The nominal time of the requested runs; empty if none is requested."""
        return "" if self.occurrence is None else to_iso(from_datetime(self.occurrence))

    @property
    def filters(self) -> list[tuple[str, str, dict[str, str]]]:
        """The active filters: the label, the value, and the parameters that remove it."""
        given = (("state", self.state_in_tab), ("key or id begins with", self.q), ("workflow", self.workflow),
                 ("schedule", self.schedule),
                 ("for", self.occurrence_text),
                 ("started in the", SPANS.get(self.since, ("",))[0]),
                 ("without", "children" if self.roots else ""),
                 ("the error contains", self.error),
                 ("not run again", "yes" if self.not_retried and self.tab == "failed" else ""))  # fmt: skip
        names = ("state", "q", "workflow", "schedule", "occurrence", "since", "roots", "error", "not_retried")
        attributes = words_in(self.attribute)
        others = [" ".join(attributes[:n] + attributes[n + 1 :]) for n in range(len(attributes))]
        return [
            *((words, value, {name: ""}) for name, (words, value) in zip(names, given, strict=True) if value.strip()),
            *(("attribute", word, {"attribute": rest}) for word, rest in zip(attributes, others, strict=True)),
        ]


@routes.page("/workflows", Scope.READ)
async def list_runs(page: Shown, asked: Annotated[RunsAsked, Query()]) -> Response:
    """A page of runs."""
    form, failures = Form([("attribute", asked.attribute)]), None
    found: RunPage | DetailedRunPage | None = None
    try:
        where = asked.where(to_datetime(page.now))
        if asked.tab == "failed" and not (asked.each or asked.error or asked.cursor):
            chosen = runs_where(page.tenant, asked.workflow or None, **where)
            failures = await page.access.workflows.read(failed_runs(page.tenant, chosen))
        if failures is not None and failures.repeats:
            found = RunPage(runs=tuple(each for group in failures.groups for each in group.newest), cursor=None)
        else:
            failures = None
            found = await page.access.workflows.list_detailed(asked.workflow or None, cursor=asked.cursor, **where)
    except Misuse as error:
        form.fail("attribute", str(error))
    counts = None if asked.filters else await _counts(page)
    return page.render(
        "workflows/list.html", status=200 if found is not None else 422, found=found,
        failures=failures, asked=asked, form=form,
        tabs=TABS, spans=SPANS, names=names_for(page.known), counts=counts, offered=OFFERED[asked.tab],
        words=ACTIONS,
        waiting=waiting, took=run_took, state_glyph=run_glyph,
        saved=saved_tabs(page, "workflows", await views_of(page.known).list("workflows"), {"state": "open"}, OWN),
    )  # fmt: skip


class Chosen(RunsAsked):
    """The selected runs; or with `all` those that match the filters."""

    row: Items[str] = Field(default_factory=list)
    all: str = ""

    @property
    def given(self) -> dict[str, str]:
        """The given filters, by the names of their parameters."""
        given: dict[str, str] = {name: value for name in FILTERS if (value := getattr(self, name))}
        return given | ({"occurrence": self.occurrence_text} if self.occurrence else {})


Action = Literal["cancel", "terminate", "restart"]


@routes.page("/workflow-batch/{action}", Scope.OPERATE)
async def show_batch(page: Shown, action: Action, chosen: Annotated[Chosen, Query()]) -> Response:
    """Show the form that ends or restarts several runs."""
    return await _batch(page, Batch(action, chosen, *await _ids(page, action, chosen)), Form([("from", "failed")]))


@routes.form("/workflow-batch/{action}", Scope.OPERATE)
async def change_batch(page: Shown, action: Action) -> Response:
    """End or restart several runs, exactly those that were shown."""
    form = await page.form()
    batch = await _typed(page, action, form)
    ids = batch.ids
    if action == "restart" and form["from"] not in FROM:
        form.fail("from", "Choose where to restart them.")
        return await _batch(page, batch, form, status=422)
    if form["typed"] != f"{action} {len(ids)}":
        is_changed = form["shown"] and form["shown"] != str(len(ids))
        news = f"There are {len(ids)} now, and were {form['shown']}; nothing was done. " if is_changed else ""
        form.fail("typed", f"{news}Type {action} {len(ids)} to confirm.")
        return await _batch(page, batch, form, status=422)
    failed = await _each(page, batch, api.Restart(from_failed=form["from"] == "failed"))
    if failed:
        form.fail("", f"{len(ids) - len(failed)} of {len(ids)} were changed. {'; '.join([*failed.values()][:5])}")
        # Ending an ended run again has no effect, but a restarted run would restart once more.
        left = replace(batch, ids=[*failed]) if action == "restart" else batch
        return await _batch(page, left, form, status=422)
    return page.done(page.url("workflows", **batch.chosen.given), ACTIONS[action][1].format(_runs(len(ids))))


@routes.preview("/workflow-batch/{action}", Scope.OPERATE)
async def preview_batch(page: Shown, action: Action) -> Response:
    """The form again, with the contents so far."""
    form = page.typed or Form()
    return await _batch(page, await _typed(page, action, form), form)


async def _typed(page: Page, action: Action, form: Form) -> "Batch":
    """The runs of a form."""
    given = {name: form[name] for name in FILTERS if form[name]}
    try:
        chosen = Chosen.model_validate({**given, "row": form.all("row"), "all": form["all"]})
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
    return Batch(action, chosen, *await _ids(page, action, chosen))


@dataclass(frozen=True, slots=True)
class Batch:
    """The runs of a batch; `more` if more match the filters than are changed at once."""

    action: str
    chosen: Chosen
    ids: list[str]
    more: bool

    def command(self, page: Page, origin: str) -> str:
        """The command of `evertick` that does the same; `origin` is where runs restart."""
        chosen, restarts = self.chosen, self.action == "restart"
        from_failed = restarts and origin == "failed"
        if not (restarts and chosen.all):
            named = self.ids if len(self.ids) <= LISTED else ["ID"]
            return page.command("workflow", self.action, *named, from_failed=from_failed)
        where = chosen.where(to_datetime(page.now))
        flags: dict[str, str | bool | list[str] | None] = {
            "workflow": chosen.workflow or None,
            "state": None if chosen.tab == "failed" else ["failed", "canceled"] if chosen.tab == "all" else "canceled",
            "prefix": where.get("prefix"),
            "schedule": chosen.schedule or None,
            "occurrence_from": chosen.occurrence_text or None,
            "occurrence_until": f"{where['occurrence_until']:%Y-%m-%dT%H:%M:%SZ}" if chosen.occurrence else None,
            "error": where.get("error"),
            "attribute": words_in(chosen.attribute),
            "roots": bool(chosen.roots),
            "since": f"{where['started_from']:%Y-%m-%dT%H:%M:%SZ}" if "started_from" in where else None,
        }
        is_all = not any(flags.values())
        return page.command("workflow", self.action, **flags, all=is_all, from_failed=from_failed, yes=True)


async def _each(page: Page, batch: Batch, how: api.Restart) -> dict[str, str]:
    """Change the runs one by one; returns the errors by run id."""
    failed: dict[str, str] = {}
    for each in batch.ids:
        try:
            if batch.action == "restart":
                await api.restart_run(page.request, page.known.of_part(each), each, how)
            else:
                await (api.cancel_run if batch.action == "cancel" else api.terminate_run)(page.known, each)
        except EvertickError as error:
            failed[each] = reason_of(error)
    return failed


async def _ids(page: Page, action: str, chosen: Chosen) -> tuple[list[str], bool]:
    """The runs to change: open ones to end, unsuccessful ones to restart. Raises Misuse."""
    if not chosen.all:
        ids = list(dict.fromkeys(chosen.row))
        return (await _callers(page, ids) if action == "restart" else ids), False
    where = chosen.where(to_datetime(page.now))
    of_action = TABS["open"][1] if action != "restart" else ("failed", "canceled")
    states = [each for each in where.get("state", of_action) if each in of_action]
    if not states:
        raise Misuse(
            "runs in this tab have already ended" if action != "restart" else
            "runs in this tab have not failed; restart a run on its page"
        )  # fmt: skip
    if action == "restart":
        where["roots"] = True  # the calling run calls its children again
    if states == ["failed"] and action == "restart":
        where["not_retried"] = True
    found: list[str] = []
    cursor: str | None = None
    while len(found) <= BATCH_MAX:
        listed = await page.access.workflows.list(
            chosen.workflow or None, limit=BATCH_MAX, cursor=cursor, **(where | {"state": states})
        )
        found += [run.id for run in listed.runs if run.retried_as is None]
        cursor = listed.cursor
        if cursor is None:
            break
    return found[:BATCH_MAX], len(found) > BATCH_MAX or cursor is not None


async def _callers(page: Page, ids: list[str]) -> list[str]:
    """The runs without children of other listed runs, because the calling runs call these again."""
    runs = await page.access.workflows.read(runs_by_id(page.tenant, ids))
    return [each for each in ids if each not in runs or runs[each].parent_id not in runs]


async def _batch(page: Page, batch: Batch, form: Form, *, status: int = 200) -> Response:
    ids, action = batch.ids, batch.action
    if not ids:
        raise Misuse("no run is chosen; select some in the list, or change the filters")
    is_all = action == "restart" and batch.chosen.all
    more = "" if is_all or len(ids) <= LISTED else "One command for each of them."
    at = page.url("workflow-batch", action) if action == "restart" else ""
    named = await page.access.workflows.read(runs_by_id(page.tenant, ids[:NAMED]))
    return page.render(
        "workflows/batch.html", status=status, form=form, action=action, word=ACTIONS[action][0], ids=ids, named=NAMED,
        runs=_runs(len(ids)), chosen=batch.chosen, more=batch.more, given=batch.chosen.given, runs_of=named,
        origins=FROM, commands=page.same(Form(), batch.command(page, form["from"]), more=more, at=at),
    )  # fmt: skip


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"


async def _counts(page: Page) -> dict[str, int]:
    """The number of runs in each tab, from the stored counts."""
    found = await page.access.jobs.counts_by_function()
    known = {each.name for each in page.known.app.functions if each.kind is FunctionKind.WORKFLOW}
    counts = [count for name, count in found.items() if name in known]
    of = {"open": ("pending", "in_progress"), "failed": ("failed",), "done": ("success",), "canceled": ("canceled",),
          "not_retried": ("not_retried",)}  # fmt: skip
    return {tab: sum(each[state] for each in counts for state in states) for tab, states in of.items()}


# -- Starting a run: of a workflow, or with the arguments of an earlier run.


class StartAsked(Body):
    """The parameters of a new run: the workflow, or an earlier run to copy."""

    workflow: str = ""
    like: str | None = None
    tz: str | None = None


@routes.asks("/workflow-start", Scope.EDIT)
async def show_start(page: Shown, asked: Annotated[StartAsked, Query()]) -> Response:
    """Show the form for a workflow and its arguments."""
    if page.typed is not None:
        return _start(page, page.typed)
    form = Form([("workflow", asked.workflow)])
    if asked.like is not None:
        run = await page.access.workflows.get(asked.like)
        attributes = "\n".join(f"{name}={word_of(value)}" for name, value in run.attributes.items())
        signature = _signature(page, run.function)
        args = [("args", json.dumps(run.args, indent=2))] if signature is None else signature.fill(run.args)
        form = Form([("workflow", run.function), *args, ("attributes", attributes)])
    return _start(page, form)


@routes.form("/workflow-start", Scope.EDIT)
async def start(page: Shown) -> Response:
    """Start a run; or show the arguments of another workflow, or the arguments in the other mode."""
    form = await page.form()
    signature = _signature(page, form["workflow"])
    if form["choose"] or (signature is not None and signature.switch(form)):
        return _start(page, form)
    args, attributes = _args(page, form, signature), _attributes(form)
    if form.errors:
        return _start(page, form, status=422)
    new = api.NewRun(
        function=form["workflow"], args=args or {}, key=form.given("key"), priority=None, attributes=attributes or None,
        on_conflict=OnConflict.ERROR if form.given("key") else None,
    )  # fmt: skip
    try:
        done = await api.start_workflow(page.request, page.known, new)
    except FunctionNotFound as error:
        form.fail("workflow", str(error))
    except InvalidArguments as error:
        form.fail("args", str(error))
    except AlreadyExists as error:
        form.fail("key", str(error))
    except EvertickError as error:
        form.field_of(error, {"attribute": "attributes", "a key": "key"})
    else:
        new_id = json.loads(bytes(done.body))["id"]
        return page.done(page.url("workflows", new_id), f"Started {new_id}.")
    return _start(page, form, status=422)


def _signature(page: Page, name: str) -> Signature | None:
    """The argument fields of a workflow; None if the visitor may not start it, or it is unknown."""
    try:
        function = page.known.function(name) if name else None
    except FunctionNotFound:
        return None
    return signature_of(function) if isinstance(function, Workflow) else None


def _args(page: Page, form: Form, signature: Signature | None) -> Any:
    """The typed arguments; None if there are none, or if they or the workflow have errors."""
    if not form["workflow"]:
        form.fail("workflow", "Choose a workflow.")
    if signature is not None:
        return signature.read(form, page.times)
    args = json_field(form, "args")
    if args is not None and not isinstance(args, dict):
        form.fail("args", "Arguments must be a JSON object with a name and a value for each parameter.")
    return args


def _lines(form: Form) -> list[str]:
    """The typed attributes, one per line."""
    return [line.strip() for line in form["attributes"].splitlines() if line.strip()]


def _attributes(form: Form) -> dict[str, Any]:
    try:
        return from_words(_lines(form))
    except Misuse as error:
        form.fail("attributes", f"Enter one per line: {error}.")
        return {}


def _start(page: Page, form: Form, *, status: int = 200) -> Response:
    names, signature, read = names_for(page.known), _signature(page, form["workflow"]), page.judged(form)
    args, key = _args(page, read, signature), read.given("key")
    _attributes(read)
    line = page.command(
        "workflow", "start", read["workflow"], json=json_text(args) if args else None, id=key,
        on_conflict=OnConflict.ERROR.value if key else None, attribute=_lines(read),
    )  # fmt: skip
    return page.render(
        "workflows/start.html", status=status, form=form, names=names, signature=signature,
        commands=page.same(read, line),
    )  # fmt: skip


# -- Workflow types: whether runs of them start.


MEANS: Final = {
    "pause": "No run of it starts until it is resumed: starting one is refused, and schedules skip their times and say "
    "why. Runs that have begun continue. Skipped times are not caught up later.",
    "resume": "Runs of it start again.",
    "deprecate": "Like pausing, for a workflow that must not start any more. Runs that have begun continue.",
}
DONE: Final = {"pause": "Paused", "resume": "Resumed", "deprecate": "Deprecated"}


@routes.page("/workflow-types", Scope.READ)
async def list_types(page: Shown) -> Response:
    """The workflows with their status."""
    types = await page.fleet.access.workflows.types.list() if page.reaches_all else None
    counts = await page.access.jobs.counts_by_function()

    def count(name: str, *states: str) -> int:
        return sum(counts.get(name, {}).get(state, 0) for state in states)

    return page.render(
        "workflows/types.html", types=types, count=count, names=names_for(page.known), renamed=renamed(page.known)
    )


@routes.page("/workflow-types/{name}/{action}", Scope.ADMIN)
async def show_change(page: Shown, name: Named, action: Literal["pause", "resume", "deprecate"]) -> Response:
    """Show the form that pauses, resumes or deprecates a workflow."""
    return await _change(page, name, action)


@routes.form("/workflow-types/{name}/{action}", Scope.ADMIN)
async def change(page: Shown, name: Named, action: Literal["pause", "resume", "deprecate"]) -> Response:
    """Pause, resume or deprecate a workflow."""
    await api.change_workflow_type(page.fleet, name, action)
    return page.done(page.url("workflow-types"), f"{DONE[action]} {name}.")


async def _change(page: Page, name: str, action: str) -> Response:
    view = await page.fleet.access.workflows.types.get(name)
    return page.render(
        "workflows/type.html", form=Form(), view=view, action=action, means=MEANS[action],
        commands=page.same(Form(), command("workflow", "type", action, view.name), at=""),
    )  # fmt: skip


# -- One run: what it waits for, its steps on a timeline, its events, and its input and output.


STEPS: Final = 200
"""Steps on a page."""
EVENTS: Final = 200
"""Events on a page."""
LINES: Final = 30
"""Lines of a step's log in its panel."""
OWN_LINES: Final = 500
"""Lines of a run's log on a page."""


class RunAsked(Body):
    """A view of a run."""

    view: Literal["timeline", "events", "log", "io", "json"] = "timeline"
    step: int | None = None
    before: int | None = None
    fold: bool = True
    tz: str | None = None


@routes.page("/workflows/{run_id}", Scope.READ)
async def show_run(page: Shown, run_id: Named, asked: Annotated[RunAsked, Query()]) -> Response:
    """A run."""
    found = await page.access.workflows.timeline(run_id, limit=STEPS, before=_before(asked))
    values: dict[str, Any] = {"asked": asked, "found": found, "run": found.run, "is_open": found.run.state in OPEN}
    values |= {"state_of": run_state, "took": run_took(found.run, page.times)}
    values["lead"] = waiting(found.waits_for, page.times)
    values["parent"], values["is_child"] = await _parent(page, found)
    values["not_taken"] = not_taken(found, page.times)
    values["waits_for_worker"] = await _waits_for_worker(page, found)
    if asked.view == "timeline":
        values |= await _timeline(page, found, asked)
    elif asked.view == "events":
        history = await page.access.workflows.history(found.run.id)
        events = [each for each in history.events if asked.before is None or each.position < asked.before]
        values |= {"events": events[-EVENTS:], "earlier": len(events) > EVENTS}
    elif asked.view == "log":
        logs = await page.access.jobs.logs(found.run.id)
        values |= {"logs": logs, "lines": logs.lines[-OWN_LINES:]}
    elif asked.view == "json":
        values["text"] = json.dumps(found.to_json(), indent=2, ensure_ascii=False)
    return page.render(f"workflows/{asked.view}.html", **values)


@routes.page("/workflows/{run_id}/history.json", Scope.READ)
async def download_history(page: Shown, run_id: Named) -> Response:
    """The history of a run, in the form of `evertick.testing.replay` and `evertick workflow history -o json`."""
    history = await page.access.workflows.history(run_id)
    text = json.dumps(history.to_json(), ensure_ascii=False, indent=2)
    return file_of(text, f"{history.id}-history.json", "application/json")


def _before(asked: RunAsked) -> int | None:
    """The step before which a page ends; None for the newest steps."""
    if asked.view != "timeline":
        return None
    return asked.before


async def _timeline(page: Page, found: RunTimeline, asked: RunAsked) -> dict[str, Any]:
    chosen = _chosen(found, asked.step)
    lines = None
    if chosen is not None and chosen.job_id is not None and chosen.attempts:
        lines = await page.access.jobs.logs(chosen.job_id)
    return {
        "drawn": lanes(found, page.times, fold=asked.fold),
        "together": together(found.steps),
        "apart": apart(found),
        "chosen": chosen,
        "lines": lines,
        "lines_max": LINES,
        "step_state": step_state,
        "step_took": step_took,
        "earlier": found.steps[0].step if found.steps and found.steps[0].step > 1 else None,
    }


def _chosen(found: RunTimeline, asked: int | None) -> TimedStep | None:
    """The step shown in detail: the requested one, otherwise a failed, running or the last one."""
    by_number = {step.step: step for step in found.steps}
    if asked in by_number:
        return by_number[asked]
    if not found.steps:
        return None
    failed = [step for step in found.steps if step.outcome == "failed"]
    running = [step for step in found.steps if step.outcome == "running"]
    if found.run.state is RunState.FAILED and failed:
        return failed[-1]
    return (running or found.steps)[-1]


async def _parent(page: Page, found: RunTimeline) -> tuple[JobView | None, bool]:
    """The job that started a run, and whether it is the run that called this one as a child."""
    run = found.run
    if run.parent_id is None or run.parent_id == run.restarted_from:
        return None, False
    [parent] = await page.access.jobs.get_many([run.parent_id])
    return parent, parent is not None and parent.kind is FunctionKind.WORKFLOW


async def _waits_for_worker(page: Page, found: RunTimeline) -> str | None:
    """Why a run that waits for nothing does not continue; None if it does."""
    if found.run.state not in (RunState.PENDING, RunState.RUNNING) or found.waits_for:
        return None
    job = await page.access.jobs.get(found.run.id)
    if job.blocked:
        return "No live worker has this workflow: it continues when one is started."
    return "It continues as soon as a worker claims it."

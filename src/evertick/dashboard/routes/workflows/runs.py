"""The list of runs, and what is done to several of them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.app.bodies import Body, Items
from evertick.app.workflows.run_views import runs_by_id
from evertick.base.errors import EvertickError, Misuse
from evertick.base.instants import to_datetime
from evertick.base.records.access import Scope
from evertick.base.records.attributes import from_words, words_in
from evertick.base.records.jobs import FunctionKind
from evertick.dashboard.forms.form import reason_of
from evertick.dashboard.markup.runs import run_glyph, run_took, waiting
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.dashboard.saved_views import saved_tabs
from evertick.dashboard.workflow_names import names_for
from evertick.server.routes import workflows as api
from evertick.server.routes.views import views_of

routes = page_routes()

TABS: Final = {
    "open": ("Running", ("pending", "running", "paused")),
    "failed": ("Failed", ("failed",)),
    "done": ("Done", ("success",)),
    "canceled": ("Canceled", ("canceled",)),
    "all": ("All", ()),
}
"""The tabs: their words, and the states of runs that they show."""
SPANS: Final = {"1h": ("last hour", timedelta(hours=1)), "1d": ("last 24 h", timedelta(days=1)),
                "7d": ("last 7 days", timedelta(days=7)), "30d": ("last 30 days", timedelta(days=30))}  # fmt: skip
OWN: Final = [{}, *({"tab": name} for name in TABS)]
"""The views that the list has by itself."""
FILTERS: Final = ("tab", "state", "q", "workflow", "attribute", "since", "roots")
BATCH_MAX: Final = 500
"""Runs that one form ends; where more match, the form is sent again."""
LISTED: Final = 50
"""Runs that a command names."""
NAMED: Final = 5
"""Runs that a form names."""
ACTIONS: Final = {"cancel": ("Cancel", "Asked {} to end."), "terminate": ("Terminate", "Terminated {}.")}


class Asked(Body):
    """A page of the list."""

    tab: Literal["open", "failed", "done", "canceled", "all"] = "open"
    state: Literal["", "pending", "running", "paused"] = ""
    q: str = ""
    workflow: str = ""
    attribute: str = ""
    since: Literal["", "1h", "1d", "7d", "30d"] = ""
    roots: Literal["", "yes"] = ""
    cursor: str | None = None
    tz: str | None = None

    def where(self, now: datetime) -> dict[str, Any]:
        """The filters as the API takes them. Raises Misuse."""
        states = (self.state,) if self.state and self.tab == "open" else TABS[self.tab][1]
        where: dict[str, Any] = {"state": states} if states else {}
        if self.q.strip():
            where["prefix"] = self.q.strip()
        if self.attribute.strip():
            where["attributes"] = from_words(words_in(self.attribute))
        if self.roots:
            where["roots"] = True
        if self.since:
            where["started_from"] = now - SPANS[self.since][1]
        return where

    @property
    def filters(self) -> list[tuple[str, str, dict[str, str]]]:
        """What narrows the list: the word, the value, and what takes it away."""
        given = (("state", self.state), ("key or id begins with", self.q), ("workflow", self.workflow),
                 ("started in the", SPANS.get(self.since, ("",))[0]),
                 ("without", "children" if self.roots else ""))  # fmt: skip
        names = ("state", "q", "workflow", "since", "roots")
        attributes = words_in(self.attribute)
        others = [" ".join(attributes[:n] + attributes[n + 1 :]) for n in range(len(attributes))]
        return [
            *((words, value, {name: ""}) for name, (words, value) in zip(names, given, strict=True) if value.strip()),
            *(("attribute", word, {"attribute": rest}) for word, rest in zip(attributes, others, strict=True)),
        ]


@routes.page("/workflows", Scope.READ)
async def list_runs(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """A page of runs."""
    form, found = Form([("attribute", asked.attribute)]), None
    try:
        where = asked.where(to_datetime(page.now))
        found = await page.access.workflows.list_detailed(asked.workflow or None, cursor=asked.cursor, **where)
    except Misuse as error:
        form.fail("attribute", str(error))
    counts = None if asked.filters else await _counts(page)
    return page.render(
        "workflows/list.html", status=200 if found is not None else 422, found=found, asked=asked, form=form,
        tabs=TABS, spans=SPANS, names=names_for(page.known), counts=counts,
        waiting=waiting, took=run_took, state_glyph=run_glyph,
        saved=saved_tabs(page, "workflows", await views_of(page.known).list("workflows"), {"tab": "open"}, OWN),
    )  # fmt: skip


class Chosen(Asked):
    """Runs that were ticked; or with `all` those that the filters choose."""

    row: Items[str] = Field(default_factory=list)
    all: str = ""


@routes.page("/workflow-batch/{action}", Scope.OPERATE)
async def show_batch(
    page: Shown, action: Literal["cancel", "terminate"], chosen: Annotated[Chosen, Query()]
) -> Response:
    """Ask whether several runs are to end."""
    ids, more = await _ids(page, chosen)
    return await _batch(page, action, Batch(chosen, ids, more), Form())


@routes.form("/workflow-batch/{action}", Scope.OPERATE)
async def end_batch(page: Shown, action: Literal["cancel", "terminate"]) -> Response:
    """End several runs: exactly as many as were shown."""
    form = await page.form()
    given = {name: form[name] for name in FILTERS if form[name]}
    chosen = Chosen.model_validate({**given, "row": form.all("row"), "all": form["all"]})
    batch = Batch(chosen, *await _ids(page, chosen))
    ids = batch.ids
    if form["typed"] != f"{action} {len(ids)}":
        is_changed = form["shown"] and form["shown"] != str(len(ids))
        news = f"There are {len(ids)} now, and were {form['shown']}; nothing was done. " if is_changed else ""
        form.fail("typed", f"{news}Type {action} {len(ids)} to confirm.")
        return await _batch(page, action, batch, form, status=422)
    change = {"cancel": api.cancel_run, "terminate": api.terminate_run}[action]
    ended, failed = 0, []
    for each in ids:
        try:
            await change(page.known, each)
            ended += 1
        except EvertickError as error:
            failed.append(reason_of(error))
    if failed:
        form.fail("", f"{ended} of {len(ids)} were reached. {'; '.join(failed[:5])}")
        return await _batch(page, action, batch, form, status=422)
    return page.done(page.url("workflows", **given), ACTIONS[action][1].format(_runs(ended)))


@dataclass(frozen=True, slots=True)
class Batch:
    """The runs of a batch; `more` if the filters choose more than are ended at once."""

    chosen: Chosen
    ids: list[str]
    more: bool


async def _ids(page: Page, chosen: Chosen) -> tuple[list[str], bool]:
    """The runs that are meant: open ones. Raises Misuse."""
    if not chosen.all:
        return list(dict.fromkeys(chosen.row)), False
    where = chosen.where(to_datetime(page.now))
    states = [each for each in where.get("state", TABS["open"][1]) if each in TABS["open"][1]]
    if not states:
        raise Misuse("runs in this tab have ended; nothing is left to end")
    found: list[str] = []
    cursor: str | None = None
    while len(found) <= BATCH_MAX:
        listed = await page.access.workflows.list(
            chosen.workflow or None, limit=BATCH_MAX, cursor=cursor, **(where | {"state": states})
        )
        found += [run.id for run in listed.runs]
        cursor = listed.cursor
        if cursor is None:
            break
    return found[:BATCH_MAX], len(found) > BATCH_MAX or cursor is not None


async def _batch(page: Page, action: str, batch: Batch, form: Form, *, status: int = 200) -> Response:
    ids = batch.ids
    if not ids:
        raise Misuse("no run is chosen; tick some in the list, or choose filters that some match")
    line = page.command("workflow", action, *(ids if len(ids) <= LISTED else ["ID"]))
    more = "" if len(ids) <= LISTED else "One command for each of them."
    given = {name: getattr(batch.chosen, name) for name in FILTERS if getattr(batch.chosen, name)}
    named = await page.access.workflows.read(runs_by_id(page.tenant, ids[:NAMED]))
    return page.render(
        "workflows/batch.html", status=status, form=form, action=action, word=ACTIONS[action][0], ids=ids,
        runs=_runs(len(ids)), chosen=batch.chosen, more=batch.more, given=given, runs_of=named, named=NAMED,
        commands=page.same(Form(), line, more=more, at=""),
    )  # fmt: skip


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"


async def _counts(page: Page) -> dict[str, int]:
    """How many runs there are in each tab, from the counts that are kept."""
    found = await page.access.jobs.counts_by_function()
    known = {each.name for each in page.known.app.functions if each.kind is FunctionKind.WORKFLOW}
    counts = [count for name, count in found.items() if name in known]
    of = {"open": ("pending", "in_progress"), "failed": ("failed",), "done": ("success",), "canceled": ("canceled",)}
    return {tab: sum(each[state] for each in counts for state in states) for tab, states in of.items()}

"""Backfills of many schedules: those that are ticked, or all that the filters choose; and what an outage made miss."""

import json
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.schedules import PlannedBackfillPage
from evertick.app.schedules.lists import parse_query
from evertick.base.errors import EvertickError
from evertick.base.instants import from_datetime, to_iso
from evertick.base.records.access import Scope
from evertick.dashboard.forms.form import Form, reason_of
from evertick.dashboard.page import Page, Shown, page_routes
from evertick.dashboard.schedules import backfills
from evertick.dashboard.schedules.backfills import RangeAsked, Span, how_of, shown_range, span_of, usual_span
from evertick.dashboard.schedules.bulk import Chosen, Selected
from evertick.server.routes import backfills as api

routes = page_routes()

WHICH: Final = {
    "missed": "Times that were missed, and not made up for since",
    "left": "Times that did not run",
    "all": "All times, also those that ran already",
}
"""Which times of the range run."""
TOLD_MAX: Final = 20
"""Schedules that are named after a start that went wrong."""


class AskedMany(Selected, RangeAsked):
    """Schedules, a range, and which of its times are to run."""

    which: str = Field("left", max_length=200)


@routes.page("/bulk/schedules/backfill", Scope.OPERATE)
async def show_plans(page: Shown, asked: Annotated[AskedMany, Query()]) -> Response:
    """What backfills of the chosen schedules would run. Nothing starts."""
    typed = asked.model_dump(include={"start", "end", "how", "at_a_time", "which", "all", "query"})
    if not asked.start and not asked.end:
        typed["start"], typed["end"] = usual_span(page.zone, page.now)
    return await _plans(page, Form([*typed.items(), *(("row", each) for each in asked.row)]))


@routes.form("/bulk/schedules/backfill", Scope.OPERATE)
async def start_many(page: Shown) -> Response:
    """Start exactly the plans that were shown, each by itself; those that changed since are told by name."""
    form = await page.form()
    span, options = _asked(form, page)
    tokens = _tokens(form)
    if form["which"] != "missed" and form["typed"] != f"backfill {form['times']}":
        form.fail("typed", f"Type backfill {form['times']} to confirm; nothing was started.")
    if form.errors or span is None or not tokens:
        form.fail("", "Nothing was started.")
        return await _plans(page, form, status=422)
    failed: list[str] = []
    for name, token in tokens.items():
        body = api.NewBackfill(start=span.start, end=span.end, token=token, **options)
        try:
            await api.start_backfill(page.request, page.known.of_part(name), name, body)
        except EvertickError as error:
            failed.append(f"{name}: {reason_of(error)}")
    started = len(tokens) - len(failed)
    said = f"Backfills of {started:,} schedule{'' if started == 1 else 's'} have begun."
    if failed:
        more = f"; and {len(failed) - TOLD_MAX:,} more" if len(failed) > TOLD_MAX else ""
        told = f"Not started: {'; '.join(failed[:TOLD_MAX])}{more}. This is what is left."
        form.fail("", f"{said if started else 'Nothing was started.'} {told}")
        return await _plans(page, form, status=409)
    if form["more"]:
        form.fail("", f"{said} These are the next ones.")
        return await _plans(page, form)
    return page.done(page.url() if form["which"] == "missed" else page.url("schedules", q=form["query"]), said)


def _tokens(form: Form) -> dict[str, str]:
    """The plans that were shown, by schedule: a token each."""
    try:
        found = json.loads(form["plans"])
    except (ValueError, RecursionError):
        return {}
    return {str(name): str(token) for name, token in found.items()} if isinstance(found, dict) else {}


def _asked(form: Form, page: Page) -> tuple[Span | None, dict[str, Any]]:
    span = span_of(form, page.zone, page.now, 0)
    if form["which"] not in WHICH:
        form.fail("which", f"There are no times {form['which']!r}")
    return span, {"skip_done": form["which"] == "left", "only_missed": form["which"] == "missed", **how_of(form)}


async def _plans(page: Page, form: Form, *, status: int = 200) -> Response:
    chosen = Chosen.of(form)
    if not chosen.ids and not chosen.is_all:
        form.fail("", "No schedule is chosen: tick some in the list.")
    span, options = _asked(form, page)
    found: PlannedBackfillPage | None = None
    if span is not None and not (form.errors.keys() - {"", "typed"}):
        try:
            found = await _found(page, chosen, span, options)
        except EvertickError as error:
            form.field_of(error, {})
    plans = () if found is None else found.plans
    is_wrong = found is None or bool(form.errors.keys() - {""})
    return page.render(
        "backfill/many.html",
        status=422 if status == 200 and is_wrong else status,
        form=form,
        chosen=chosen,
        span=span,
        shown=shown_range(form, page.zone),
        found=found,
        plans=[plan for plan in plans if plan.count or plan.problem is not None],
        tokens=json.dumps({plan.schedule: plan.token for plan in plans if plan.count}),
        times=sum(plan.count for plan in plans),
        which=form["which"],
        whiches=WHICH,
        hows=backfills.HOWS,
        future=span is not None and from_datetime(span.end) > page.now,
        commands=[] if span is None else _commands(page, chosen, span, options),
    )


async def _found(page: Page, chosen: Chosen, span: Span, options: dict[str, Any]) -> PlannedBackfillPage:
    schedules = page.access.schedules
    if chosen.query is None:
        return await schedules.backfill_plans(span.start, span.end, ids=chosen.ids, **options)
    where = parse_query(chosen.query, page.now)
    cursor: str | None = None
    while True:  # where nothing would run of a whole page, the next one is shown
        found = await schedules.backfill_plans(span.start, span.end, cursor=cursor, **options, **where)
        if found.cursor is None or any(plan.count or plan.problem for plan in found.plans):
            return found
        cursor = found.cursor


def _commands(page: Page, chosen: Chosen, span: Span, options: dict[str, Any]) -> list[str]:
    how: dict[str, Any] = {
        "start_time": to_iso(from_datetime(span.start)),
        "end_time": to_iso(from_datetime(span.end)),
        "overlap_policy": options["overlap"],
        "max_active": None if options["max_active"] is None else str(options["max_active"]),
        "skip_done": options["skip_done"],
        "only_missed": options["only_missed"],
        "yes": chosen.is_all or from_datetime(span.end) > page.now,
    }
    if chosen.query is not None:
        return [page.command("schedule", "backfill", query=chosen.query, **how)]
    return [page.command("schedule", "backfill", each, **how) for each in chosen.ids[:5]]

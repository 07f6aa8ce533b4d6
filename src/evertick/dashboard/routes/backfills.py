"""Backfills: planned, started with the token of the plan, followed and stopped."""

import json
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.schedules import BackfillPlanView, BackfillView, PlannedBackfillPage, ScheduleDescription
from evertick.app.schedules.lists import parse_query
from evertick.base.errors import EvertickError, LimitExceeded, Misuse, VersionConflict
from evertick.base.instants import from_datetime, to_iso
from evertick.base.records.access import Scope
from evertick.dashboard.editor.forms import zone_of
from evertick.dashboard.forms.form import Form, reason_of
from evertick.dashboard.page import Page, Shown, page_routes
from evertick.dashboard.schedules import backfills
from evertick.dashboard.schedules.backfills import RangeAsked, Span, how_of, shown_range, span_of, usual_span
from evertick.dashboard.schedules.bulk import Chosen, Selected
from evertick.dashboard.zones import offset_words
from evertick.rules.schedules.fates import Fate, Reason
from evertick.server.bodies import Named
from evertick.server.routes import backfills as api

routes = page_routes()

Text = Annotated[str, Query(max_length=200)]
LISTED = 500
"""Times of a plan that the page lists; the command lists all."""
NEWEST = 6
"""Backfills that a page lists, because each is counted again. The command lists 100."""
TABS = {"": "All", "buffered": "Waiting", "started": "Started", "skipped": "Skipped", "missed": "Missed"}


class Asked(RangeAsked):
    """A backfill of one schedule; with `rerun`, times that already ran run again."""

    rerun: str = Field("", max_length=200)


@routes.page("/schedules/{schedule_id}/backfill", Scope.OPERATE)
async def show_plan(page: Shown, schedule_id: Named, asked: Annotated[Asked, Query()]) -> Response:
    """The plan of a backfill. Nothing starts."""
    schedule = await page.access.schedules.get(schedule_id)
    zone = _zone(schedule)
    typed = asked.model_dump(exclude={"tz"})
    if not asked.start and not asked.end:
        typed["start"], typed["end"] = usual_span(zone, page.now)
    form = Form(list(typed.items()))
    return await _plan(page, schedule, form)


@routes.form("/schedules/{schedule_id}/backfill", Scope.OPERATE)
async def start(page: Shown, schedule_id: Named) -> Response:
    """Start exactly the plan that was shown, or show another one."""
    form = await page.form()
    schedule = await page.access.schedules.get(schedule_id)
    span, options = _asked(form, schedule, page)
    if form.errors or span is None:
        return await _plan(page, schedule, form, status=422)
    body = api.NewBackfill(start=span.start, end=span.end, token=form["token"], **options)
    try:
        begun = await api.start_backfill(page.request, page.known, schedule_id, body)
    except VersionConflict:
        form.fail("", "The schedule changed after this was planned, so nothing was started. This is the current plan.")
        return await _plan(page, await page.access.schedules.get(schedule_id), form, status=409)
    except (Misuse, LimitExceeded) as error:
        form.fail("", str(error))
        return await _plan(page, schedule, form, status=422)
    to = page.url("schedules", schedule_id, "backfills", json.loads(bytes(begun.body))["id"])
    return page.done(to, "The backfill has begun.")


@routes.page("/schedules/{schedule_id}/backfills", Scope.READ)
async def list_backfills(page: Shown, schedule_id: Named) -> Response:
    """The last backfills of a schedule."""
    schedules = page.access.schedules
    schedule = await schedules.get(schedule_id)
    found = await schedules.backfills(schedule_id, limit=NEWEST + 1)
    return page.render(
        "backfill/list.html",
        schedule=schedule,
        found=found[:NEWEST],
        more=len(found) > NEWEST,
        zone=_zone(schedule),
    )


@routes.page("/schedules/{schedule_id}/backfills/{backfill_id}", Scope.READ)
async def show_progress(
    page: Shown,
    schedule_id: Named,
    backfill_id: Named,
    fate: Text = "",
    cursor: Annotated[str | None, Query(max_length=4_000)] = None,
) -> Response:
    """The progress of a backfill."""
    schedules = page.access.schedules
    found = await schedules.backfill_status(schedule_id, backfill_id)
    schedule = await schedules.get(schedule_id)
    times = await schedules.backfill_times(schedule_id, backfill_id, fate=fate or None, cursor=cursor)
    return page.render(
        "backfill/progress.html",
        schedule=schedule,
        backfill=found,
        times=times,
        fate=fate,
        tabs=TABS,
        zone=_zone(schedule),
        to_go=backfills.to_go(found),
        shares=backfills.shares(found),
        stopped=await _is_stopped(page, found),
    )


@routes.page("/schedules/{schedule_id}/backfills/{backfill_id}/cancel", Scope.OPERATE)
async def show_cancel(page: Shown, schedule_id: Named, backfill_id: Named) -> Response:
    """Show the form that stops a backfill."""
    found = await page.access.schedules.backfill_status(schedule_id, backfill_id)
    commands = page.same(Form(), page.command("schedule", "backfill", found.schedule, cancel=found.id), at="")
    return page.render(
        "backfill/cancel.html", backfill=found, form=Form(), to_go=backfills.to_go(found), commands=commands
    )


@routes.form("/schedules/{schedule_id}/backfills/{backfill_id}/cancel", Scope.OPERATE)
async def cancel(page: Shown, schedule_id: Named, backfill_id: Named) -> Response:
    """Stop a backfill: waiting times are skipped, running runs continue."""
    await api.cancel_backfill(page.known, schedule_id, backfill_id)
    return page.done(page.url("schedules", schedule_id, "backfills", backfill_id), "The backfill is stopped.")


async def _is_stopped(page: Page, found: BackfillView) -> bool:
    """Whether a backfill was ended before all its times were handed over, or while some of them waited."""
    if not found.done or found.started + found.skipped + found.missed < found.times:
        return found.done
    if not found.skipped:
        return False
    last = await page.access.schedules.backfill_times(found.schedule, found.id, fate=Fate.SKIPPED, limit=1)
    return any(each.reason is Reason.BACKFILL_CANCELED for each in last.occurrences)


def _zone(schedule: ScheduleDescription) -> Any:
    return zone_of(schedule.time_zone, "temporal")


def _asked(form: Form, schedule: ScheduleDescription, page: Page) -> tuple[Span | None, dict[str, Any]]:
    """The span and the options of a backfill in a form."""
    span = span_of(form, _zone(schedule), page.now, schedule.spec.jitter_ms)
    options = {"skip_done": not form["rerun"], **how_of(form)}
    return span, options


async def _plan(page: Page, schedule: ScheduleDescription, form: Form, *, status: int = 200) -> Response:
    span, options = _asked(form, schedule, page)
    plan: BackfillPlanView | None = None
    if span is not None and not (form.errors.keys() - {""}):
        try:
            plan = await page.access.schedules.backfill_plan(schedule.id, span.start, span.end, **options)
        except (Misuse, LimitExceeded) as error:
            form.fail("end", str(error))
    zone = _zone(schedule)
    if status == 200 and form.errors:
        status = 422
    at_a_time = {"buffer_all": 1, "limited": options["max_active"]}.get(form["how"] or "buffer_all")
    return page.render(
        "backfill/plan.html",
        status=status,
        schedule=schedule,
        form=form,
        span=span,
        shown=shown_range(form, zone),
        plan=plan,
        zone=zone,
        offset_words=offset_words,
        histogram=None if plan is None else backfills.histogram(plan, zone),
        hows=backfills.HOWS,
        at_a_time=at_a_time,
        about=None if plan is None else backfills.about(plan.count, schedule, at_a_time),
        lossy=backfills.LOSSY.get(schedule.policies.overlap) if form["how"] == "own" else None,
        future=0 if plan is None else sum(from_datetime(each.nominal) > page.now for each in plan.times),
        listed=LISTED,
        command=None if span is None else _command(page, schedule, span, options),
    )


def _command(page: Page, schedule: ScheduleDescription, span: Span, options: dict[str, Any]) -> str:
    return page.command(
        "schedule",
        "backfill",
        schedule.id,
        start_time=to_iso(from_datetime(span.start)),
        end_time=to_iso(from_datetime(span.end)),
        overlap_policy=options["overlap"],
        max_active=None if options["max_active"] is None else str(options["max_active"]),
        skip_done=options["skip_done"],
        yes=from_datetime(span.end) > page.now,
    )


# -- Backfills of many schedules: selected ones, or all that match the filters; and of times missed in an outage.


WHICH: Final = {
    "missed": "Times that were missed and not caught up since",
    "left": "Times that did not run",
    "all": "All times, also those that already ran",
}
"""The times of the range that run."""
LISTED_MAX: Final = 20
"""Schedules that are listed after a failed start."""


class AskedMany(Selected, RangeAsked):
    """Schedules, a range, and which of its times run."""

    which: str = Field("left", max_length=200)


@routes.page("/bulk/schedules/backfill", Scope.OPERATE)
async def show_plans(page: Shown, asked: Annotated[AskedMany, Query()]) -> Response:
    """The plans of backfills for the chosen schedules. Nothing starts."""
    typed = asked.model_dump(include={"start", "end", "how", "at_a_time", "which", "all", "query"})
    if not asked.start and not asked.end:
        typed["start"], typed["end"] = usual_span(page.zone, page.now)
    return await _plans(page, Form([*typed.items(), *(("row", each) for each in asked.row)]))


@routes.form("/bulk/schedules/backfill", Scope.OPERATE)
async def start_many(page: Shown) -> Response:
    """Start exactly the plans that were shown, one by one; those that changed since are listed by name."""
    form = await page.form()
    span, options = _many_asked(form, page)
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
        more = f"; and {len(failed) - LISTED_MAX:,} more" if len(failed) > LISTED_MAX else ""
        listed = f"Not started: {'; '.join(failed[:LISTED_MAX])}{more}. These are the remaining ones."
        form.fail("", f"{said if started else 'Nothing was started.'} {listed}")
        return await _plans(page, form, status=409)
    if form["more"]:
        form.fail("", f"{said} These are the next ones.")
        return await _plans(page, form)
    return page.done(page.url() if form["which"] == "missed" else page.url("schedules", q=form["query"]), said)


def _tokens(form: Form) -> dict[str, str]:
    """The tokens of the plans that were shown, by schedule."""
    try:
        found = json.loads(form["plans"])
    except (ValueError, RecursionError):
        return {}
    return {str(name): str(token) for name, token in found.items()} if isinstance(found, dict) else {}


def _many_asked(form: Form, page: Page) -> tuple[Span | None, dict[str, Any]]:
    span = span_of(form, page.zone, page.now, 0)
    if form["which"] not in WHICH:
        form.fail("which", f"{form['which']!r} is not a choice of times")
    return span, {"skip_done": form["which"] == "left", "only_missed": form["which"] == "missed", **how_of(form)}


async def _plans(page: Page, form: Form, *, status: int = 200) -> Response:
    chosen = Chosen.of(form)
    if not chosen.ids and not chosen.is_all:
        form.fail("", "No schedule is chosen; select some in the list.")
    span, options = _many_asked(form, page)
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
    while True:  # skips pages on which nothing would run
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

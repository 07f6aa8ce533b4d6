"""Backfills: planned, started with the token of the plan, followed and stopped."""

import json
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.schedules import BackfillPlanView, BackfillView, ScheduleDescription
from evertick.base.errors import LimitExceeded, Misuse, VersionConflict
from evertick.base.instants import from_datetime, to_iso
from evertick.base.records.access import Scope
from evertick.dashboard.editor.forms import zone_of
from evertick.dashboard.forms.form import Form
from evertick.dashboard.page import Page, Shown, page_routes
from evertick.dashboard.schedules import backfills
from evertick.dashboard.schedules.backfills import RangeAsked, Span, how_of, shown_range, span_of, usual_span
from evertick.dashboard.zones import offset_words
from evertick.rules.schedules.fates import Fate, Reason
from evertick.server.bodies import Named
from evertick.server.routes import backfills as api

routes = page_routes()

Text = Annotated[str, Query(max_length=200)]
LISTED = 500
"""Times of a plan that the page lists; the command lists all."""
NEWEST = 6
"""Backfills that a page lists: each is counted anew. The command lists 100."""
TABS = {"": "All", "buffered": "Waiting", "started": "Started", "skipped": "Skipped", "missed": "Missed"}


class Asked(RangeAsked):
    """A backfill of one schedule; with `rerun` times run again that ran before."""

    rerun: str = Field("", max_length=200)


@routes.page("/schedules/{schedule_id}/backfill", Scope.OPERATE)
async def show_plan(page: Shown, schedule_id: Named, asked: Annotated[Asked, Query()]) -> Response:
    """What a backfill of a span would do. Nothing starts."""
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
        form.fail(
            "", "The schedule changed after this was planned, so nothing was started. This is the plan as it is now."
        )
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
    """How far a backfill has come."""
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
    """Ask whether a backfill is to be stopped."""
    found = await page.access.schedules.backfill_status(schedule_id, backfill_id)
    commands = page.same(Form(), page.command("schedule", "backfill", found.schedule, cancel=found.id), at="")
    return page.render(
        "backfill/cancel.html", backfill=found, form=Form(), to_go=backfills.to_go(found), commands=commands
    )


@routes.form("/schedules/{schedule_id}/backfills/{backfill_id}/cancel", Scope.OPERATE)
async def cancel(page: Shown, schedule_id: Named, backfill_id: Named) -> Response:
    """Stop a backfill: what waits is skipped, what runs goes on."""
    await api.cancel_backfill(page.known, schedule_id, backfill_id)
    return page.done(page.url("schedules", schedule_id, "backfills", backfill_id), "The backfill is stopped.")


async def _is_stopped(page: Page, found: BackfillView) -> bool:
    """Whether a backfill was ended before it had handed over its times, or while some of them waited."""
    if not found.done or found.started + found.skipped + found.missed < found.times:
        return found.done
    if not found.skipped:
        return False
    last = await page.access.schedules.backfill_times(found.schedule, found.id, fate=Fate.SKIPPED, limit=1)
    return any(each.reason is Reason.BACKFILL_CANCELED for each in last.occurrences)


def _zone(schedule: ScheduleDescription) -> Any:
    return zone_of(schedule.time_zone, "temporal")


def _asked(form: Form, schedule: ScheduleDescription, page: Page) -> tuple[Span | None, dict[str, Any]]:
    """The span and the options of a backfill that a form says."""
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

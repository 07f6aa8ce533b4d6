"""One schedule: what it does and when, what became of each of its times, and why."""

import json
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.reports import Explanation
from evertick.api.schedules import OccurrencePage, OccurrenceView, ScheduleDescription
from evertick.app.bodies import Body
from evertick.base.errors import InvalidSpec, ScheduleNotFound, SchemaMismatch
from evertick.base.instants import SECOND_MS, Instant, to_datetime
from evertick.base.records.access import Scope
from evertick.dashboard.markup.times import Times
from evertick.dashboard.page import Page, Shown, page_routes, utf8
from evertick.dashboard.schedules import details
from evertick.recurrence.parse.moments import typed_moment
from evertick.recurrence.wire.writing import short_form
from evertick.recurrence.zones.names import zone_named
from evertick.recurrence.zones.zones import Zone
from evertick.rules.schedules.fates import Fate
from evertick.server.bodies import Named

routes = page_routes()

STRIP: Final = 60
ROWS: Final = 26
HISTORY: Final = 20
RUNS_BESIDE: Final = 200
"""Runs in the span of a list of missed times that are looked at for whether they made up for one."""


class Asked(Body):
    """What of a schedule is shown: which occurrences, which month, and the explanation of which time."""

    fate: str = Field("", pattern="^(started|buffered|skipped|missed|)$")
    cursor: str | None = Field(None, max_length=4_000)
    day: date | None = Field(None, ge=details.FIRST_DAY, le=details.LAST_DAY)
    month: str | None = Field(None, max_length=10)
    at: str = Field("", max_length=100)
    tz: str | None = None


@routes.page("/schedules/{schedule_id}", Scope.READ)
async def show_schedule(page: Shown, schedule_id: Named, asked: Annotated[Asked, Query()]) -> Response:
    """All about a schedule."""
    schedules = page.access.schedules
    try:
        schedule = await schedules.get(schedule_id)
    except ScheduleNotFound:
        return await _deleted(page, schedule_id, asked)
    zone = zone_named(schedule.time_zone, abbreviations=True)
    newest = await schedules.occurrences(schedule_id, newest_first=True, limit=STRIP)
    found = await _page_of_ledger(page, schedule, asked, zone)
    others = [*newest.occurrences, *await _runs_beside(page, schedule, asked, found)]
    is_first = not asked.cursor and not asked.fate and asked.day is None
    coming = [time.nominal for time in schedule.upcoming[: details.SHOWN_UPCOMING]] if is_first else []
    own = Times(page.now, zone)
    today = own.local(page.now).date()
    month = details.month_of(asked.month, asked.day or today)
    days = await schedules.days(schedule_id, *details.shown_span(month))
    history = await schedules.history(schedule_id, limit=HISTORY)
    audit = await page.known.app.aio.audit_log.list(tenant=page.tenant, target=schedule_id, limit=HISTORY)
    wrong, explanation = await _explained(page, schedule, asked, zone)
    return page.render(
        "schedules/detail.html",
        status=422 if wrong else 200,
        schedule=schedule,
        asked=asked,
        own=own,
        is_here=zone.name == page.zone.name,
        expression=short_form(schedule.spec),
        oldest=newest.occurrences[-1].nominal if newest.occurrences else None,
        bars=details.endings(newest.occurrences),
        rows=details.rows_of(coming, found.occurrences, zone, others),
        cursor=found.cursor,
        past=details.past_of(history, audit.changes),
        made_by=next((each.actor for each in history if each.action == "created"), None),
        calendar=list(details.calendar_of(days.days, month)),
        today=today,
        month=month,
        months=(details.next_month(month, -1), details.next_month(month)),
        wrong=wrong,
        explanation=explanation,
        steps=[] if explanation is None else details.steps_of(explanation),
        fixes=[] if explanation is None else details.fixes_of(explanation, _tenant_option(page)),
        suggested=_suggested(schedule, own),
        is_declared=details.is_declared(schedule),
    )  # fmt: skip


async def _deleted(page: Page, schedule_id: str, asked: Asked) -> Response:
    """What is kept of a schedule that was deleted: its runs and its history. Raises ScheduleNotFound for no such id."""
    schedules = page.access.schedules
    history = await schedules.history(schedule_id, limit=HISTORY)
    found = await schedules.occurrences(
        schedule_id, fate=asked.fate or None, newest_first=True, limit=ROWS, cursor=asked.cursor
    )
    return page.render(
        "schedules/deleted.html",
        schedule_id=schedule_id,
        end=next((each for each in history if each.action == "deleted"), None),
        found=found,
        asked=asked,
        past=details.past_of(history, ()),
    )


@routes.page("/schedules/{schedule_id}/json", Scope.READ)
async def show_json(page: Shown, schedule_id: Named) -> Response:
    """All about a schedule as JSON, as the HTTP API sends it."""
    found = await page.access.schedules.get(schedule_id)
    return _json(found.to_json())


@routes.page("/schedules/{schedule_id}/result", Scope.READ)
async def show_result(page: Shown, schedule_id: Named) -> Response:
    """The last result of a schedule, whole."""
    found = await page.access.schedules.get(schedule_id)
    return _json(found.last_result)


def _json(value: Any) -> Response:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return Response(utf8(text), media_type="application/json", headers={"X-Content-Type-Options": "nosniff"})


async def _page_of_ledger(page: Page, schedule: ScheduleDescription, asked: Asked, zone: Zone) -> OccurrencePage:
    """The rows of the table: the newest, or those of a day or with a fate."""
    first = last = None
    if asked.day is not None:
        first, last = details.midnight(zone, asked.day), details.midnight(zone, asked.day + timedelta(days=1))
    return await page.access.schedules.occurrences(
        schedule.id, fate=asked.fate or None, start=first, end=last, newest_first=True, limit=ROWS, cursor=asked.cursor
    )


async def _runs_beside(
    page: Page, schedule: ScheduleDescription, asked: Asked, found: OccurrencePage
) -> tuple[OccurrenceView, ...]:
    """What started in the span of the missed times of a list, and may have made up for them.

    Nothing for the newest occurrences: their list has all of that.
    """
    missed = [each.nominal for each in found.occurrences if each.fate is Fate.MISSED]
    if not missed or not (asked.fate or asked.cursor or asked.day):
        return ()
    oldest, end = missed[-1], missed[0] + timedelta(milliseconds=1)
    runs = await page.access.schedules.occurrences(
        schedule.id, fate=Fate.STARTED, start=oldest, end=end, newest_first=True, limit=RUNS_BESIDE
    )
    return runs.occurrences


async def _explained(
    page: Page, schedule: ScheduleDescription, asked: Asked, zone: Zone
) -> tuple[str, Explanation | None]:
    """What is wrong with the time that was asked about, or the explanation of what became of it."""
    if not asked.at.strip():
        return "", None
    try:
        second = typed_moment(asked.at.strip(), "the time", zone, page.now // SECOND_MS)
        at = to_datetime(Instant(second * SECOND_MS))
        return "", await page.access.schedules.explain(schedule.id, at=at)
    except (InvalidSpec, SchemaMismatch, OverflowError) as error:
        return str(error), None


def _suggested(schedule: ScheduleDescription, own: Times) -> str:
    """The time that the box about reasons begins with: the newest that did not run, else the newest."""
    rows = schedule.recent
    odd = next((each for each in rows if each.fate in ("missed", "skipped")), rows[0] if rows else None)
    return "" if odd is None else typed(own, odd.nominal)


def typed(own: Times, at: datetime) -> str:
    """A moment as one types it, on the schedule's own clock."""
    shown = own.local(at)
    return f"{shown:%Y-%m-%d %H:%M:%S}" if shown.second else f"{shown:%Y-%m-%d %H:%M}"


def _tenant_option(page: Page) -> str:
    """What commands for this page's tenant end with."""
    return page.command("schedule").removeprefix("evertick schedule")

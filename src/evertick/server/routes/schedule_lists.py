"""Views for people: lists of schedules, how many are in which state, days of a schedule, a trigger to be."""

from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.schedules import DetailedSchedulePage, ScheduleCountsView, ScheduleDaysView, TriggerPlanView
from evertick.app.bodies import Day
from evertick.base.records.access import Scope
from evertick.server.bodies import Named
from evertick.server.callers import Called, reply, tenant_routes
from evertick.server.routes.choice import Choice
from evertick.server.routes.schedules import SchedulesAsked

routes = tenant_routes("schedules")


class DetailedAsked(SchedulesAsked):
    """A page of schedules for people."""

    limit: int = Field(100, ge=1, le=100)


@routes.at("GET", "/schedule-details", Scope.READ, returns=DetailedSchedulePage)
async def list_schedule_details(caller: Called, asked: Annotated[DetailedAsked, Query()]) -> Response:
    """A page of schedules for people: each with its last occurrence, how the newest 30 ended, and its health."""
    page = await caller.access.schedules.list_detailed(
        sort=asked.sort, limit=asked.limit, cursor=asked.cursor, **asked.where()
    )
    return reply(page)


@routes.at("GET", "/schedule-counts", Scope.READ, returns=ScheduleCountsView)
async def count_schedules(caller: Called, chosen: Annotated[Choice, Query()]) -> Response:
    """How many schedules are chosen, and how many are failing, late, paused ..., each counted to 10,000."""
    return reply(await caller.access.schedules.counts(**chosen.where()))


@routes.at("GET", "/schedules/{schedule_id}/days", Scope.READ, returns=ScheduleDaysView)
async def list_schedule_days(caller: Called, schedule_id: Named, start: Day, end: Day) -> Response:
    """Days of a schedule in [start, end), by its own clock: how their times ended, and the first to come."""
    return reply(await caller.access.schedules.days(schedule_id, start, end))


@routes.at("GET", "/schedules/{schedule_id}/trigger-plan", Scope.READ, returns=TriggerPlanView)
async def plan_trigger(caller: Called, schedule_id: Named) -> Response:
    """What a trigger would do now under each overlap policy. Nothing is changed."""
    return reply(await caller.access.schedules.trigger_plan(schedule_id))

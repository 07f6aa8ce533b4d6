"""Backfills of schedules, and reports over times that have passed."""

from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from evertick.api.reports import AuditReport
from evertick.api.schedules import BackfillPlanView, BackfillView, OccurrencePage, PlannedBackfillPage
from evertick.app.bodies import Body, Items, Span, Time
from evertick.app.schedules.backfills import backfill, backfill_cancel
from evertick.base.records.access import Scope
from evertick.server.bodies import Named
from evertick.server.callers import Called, Key, reply, tenant_routes
from evertick.server.routes.choice import Choice

routes = tenant_routes("backfills")


class Plan(Span):
    """The times of a schedule that are to run now, and how."""

    overlap: str | None = None
    max_active: int | None = Field(None, ge=1)
    skip_done: bool = False
    only_missed: bool = False

    def how(self) -> dict[str, Any]:
        """The options of a backfill."""
        return {
            "overlap": self.overlap,
            "max_active": self.max_active,
            "skip_done": self.skip_done,
            "only_missed": self.only_missed,
        }


class Plans(Plan):
    """Of which schedules the times are to run: those with these `ids`, or all that `choice` chooses."""

    ids: Items[str] | None = None
    choice: Choice | None = None
    limit: int = Field(200, ge=1, le=200)
    cursor: str | None = Field(None, max_length=2_000)


class NewBackfill(Plan):
    """A backfill. With the `token` of a plan, exactly that plan is run, or nothing."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"start": "2026-05-01T00:00:00Z", "end": "2026-05-02T00:00:00Z", "skip_done": True}]
        }
    )

    token: str | None = None


class AuditAsked(Body):
    """Which times a report is about; of all schedules unless one is named.

    Unless they are given, it ends now and starts 24 hours before, or with the first time that was found missed since.
    """

    start: Time | None = None
    end: Time | None = None
    schedule: str | None = None
    late_after: float = Field(60.0, ge=0, le=86_400)
    limit: int = Field(1_000, ge=1, le=10_000)


@routes.at("POST", "/schedules/{schedule_id}/backfill-plan", Scope.READ, returns=BackfillPlanView)
async def plan_backfill(caller: Called, schedule_id: Named, plan: Plan) -> Response:
    """What a backfill would do. Nothing is changed."""
    return reply(await caller.access.schedules.backfill_plan(schedule_id, plan.start, plan.end, **plan.how()))


@routes.at("POST", "/backfill-plans", Scope.READ, returns=PlannedBackfillPage)
async def plan_backfills(caller: Called, asked: Plans) -> Response:
    """What backfills of many schedules would do in one span. Nothing is changed."""
    how, where = asked.how(), {} if asked.choice is None else asked.choice.where()
    page = await caller.access.schedules.backfill_plans(
        asked.start, asked.end, ids=asked.ids, limit=asked.limit, cursor=asked.cursor, **how, **where
    )
    return reply(page)


@routes.at("POST", "/schedules/{schedule_id}/backfills", Scope.OPERATE, returns=BackfillView, status=201)
async def start_backfill(
    request: Request, caller: Called, schedule_id: Named, new: NewBackfill, idempotency_key: Key = None
) -> Response:
    """Run the times of a schedule in [start, end] now."""
    schedules = caller.access.schedules
    work = backfill(schedules.operations, schedule_id, new.start, new.end, token=new.token, **new.how())
    audited = caller.audited(work, "schedule.backfill", schedule_id)
    return reply(await schedules.write(await caller.once(request, audited)), status=201)


@routes.at("GET", "/schedules/{schedule_id}/backfills", Scope.READ, returns=list[BackfillView])
async def list_backfills(
    caller: Called, schedule_id: Named, limit: Annotated[int, Query(ge=1, le=100)] = 100
) -> Response:
    """The last backfills of a schedule, the newest first."""
    return reply(await caller.access.schedules.backfills(schedule_id, limit=limit))


@routes.at("GET", "/schedules/{schedule_id}/backfills/{backfill_id}", Scope.READ, returns=BackfillView)
async def get_backfill(caller: Called, schedule_id: Named, backfill_id: Named) -> Response:
    """How far a backfill has come."""
    return reply(await caller.access.schedules.backfill_status(schedule_id, backfill_id))


class TimesAsked(Body):
    """A page of the times of a backfill."""

    fate: str | None = None
    limit: int = Field(100, ge=1, le=1_000)
    cursor: str | None = Field(None, max_length=4_000)


@routes.at("GET", "/schedules/{schedule_id}/backfills/{backfill_id}/times", Scope.READ, returns=OccurrencePage)
async def list_backfill_times(
    caller: Called, schedule_id: Named, backfill_id: Named, asked: Annotated[TimesAsked, Query()]
) -> Response:
    """What became of the times of a backfill, the newest first."""
    schedules = caller.access.schedules
    return reply(await schedules.backfill_times(schedule_id, backfill_id, **asked.model_dump()))


@routes.at("POST", "/schedules/{schedule_id}/backfills/{backfill_id}/cancel", Scope.OPERATE, returns=BackfillView)
async def cancel_backfill(caller: Called, schedule_id: Named, backfill_id: Named) -> Response:
    """End a backfill: what waits is skipped, what runs goes on."""
    schedules = caller.access.schedules
    work = backfill_cancel(schedules.operations, schedule_id, backfill_id)
    return reply(await caller.change(schedules, work, "schedule.backfill_cancel", schedule_id))


@routes.at("GET", "/audit", Scope.READ, returns=AuditReport)
async def audit_schedules(caller: Called, asked: Annotated[AuditAsked, Query()]) -> Response:
    """What was late by more than `late_after` seconds, missed or skipped in [start, end)."""
    report = await caller.access.schedules.audit(
        asked.start, asked.end, schedule_id=asked.schedule, late_after=asked.late_after, limit=asked.limit
    )
    return reply(report)

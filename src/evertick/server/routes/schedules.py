"""Schedules: made, watched and changed. Crons that code declares are among them, with the kind `cron`."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, cast

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from evertick.api.reports import Explanation
from evertick.api.schedules import (
    HistoryLine,
    OccurrencePage,
    OccurrenceView,
    ScheduleDescription,
    SchedulePage,
    ScheduleSummary,
    TimeView,
)
from evertick.app.bodies import Body, Items, Time
from evertick.app.schedules.bodies import ChangedSchedule, NewSchedule, ReplacedSchedule, Times, when_of
from evertick.app.schedules.options import CreateOptions, ReplaceOptions, UpdateOptions
from evertick.app.schedules.queries import Where
from evertick.app.schedules.updates import CallChange, changed_page, update
from evertick.app.schedules.updates import replace_schedule as replacement
from evertick.app.transacting import Page, Work, rehearse_async
from evertick.base.records.access import Scope
from evertick.server.bodies import Changed, Cursor, Limit, Named, Piece
from evertick.server.callers import Called, Caller, DryRun, Key, reply, tenant_routes, version_of
from evertick.server.routes.choice import Choice
from evertick.store.transaction.transaction import Transaction

routes = tenant_routes("schedules")


class Pausing(Body):
    """Why a schedule is paused, and until when."""

    note: str = ""
    until: Time | None = None


class Resuming(Body):
    """Why a schedule is resumed. With `from_now`, times that were judged already count again."""

    note: str = ""
    from_now: bool = False


class Trigger(Body):
    """A run at once, in addition to the schedule's times."""

    overlap: str | None = None
    args: dict[str, Any] | None = None


class NotedChoice(Piece, Choice):
    """Which schedules are meant, and why they are changed."""

    note: str = ""


class Deletion(Piece, Choice):
    """Which schedules are deleted; with `force`, crons that are declared in code, too."""

    force: bool = False


class Changing(Piece, Choice):
    """Which schedules get other names of arguments (old names with new ones), another function, or both."""

    do: str | None = None
    rename: dict[str, str] | None = None


class SchedulesAsked(Choice):
    """A page of schedules."""

    sort: str = Field("id", pattern="^-?(id|next|last)$")
    limit: int = Field(100, ge=1, le=1_000)
    cursor: str | None = Field(None, max_length=2_000)


class OccurrencesAsked(Body):
    """A page of the ledger."""

    schedule: str | None = None
    fate: Items[str] = Field(default_factory=list)
    reason: str | None = None
    start: Time | None = None
    end: Time | None = None
    newest_first: bool = False
    limit: int = Field(100, ge=1, le=1_000)
    cursor: str | None = Field(None, max_length=4_000)


class Preview(Body):
    """Times of a spec that no schedule has yet."""

    when: Times
    start: Time
    end: Time
    limit: int | None = Field(None, ge=1, le=10_000)


@routes.at("GET", "/schedules", Scope.READ, returns=SchedulePage)
async def list_schedules(caller: Called, asked: Annotated[SchedulesAsked, Query()]) -> Response:
    """A page of schedules, by id, next time or last run; with a `-` before the word in the other direction."""
    schedules = caller.access.schedules
    return reply(await schedules.list(sort=asked.sort, limit=asked.limit, cursor=asked.cursor, **asked.where()))


@routes.at("POST", "/schedules", Scope.EDIT, returns=ScheduleDescription, status=201)
async def create_schedule(
    caller: Called, new: NewSchedule, idempotency_key: Key = None, dry_run: DryRun = False
) -> Response:
    """Create a schedule. Sent again with the same `Idempotency-Key`, or the same definition, it is the same one."""
    schedules = caller.access.schedules
    options = CreateOptions(
        new.id,
        when=when_of(new.when),
        do=caller.call(new.function, new.args),
        paused=new.paused or False,
        trigger=new.trigger,
        backfill=[(span.start, span.end) for span in new.backfill],
        request_id=idempotency_key,
        **new.options(lifts=False),
    )
    work = schedules.operations.create(options)
    if dry_run:
        return reply(await rehearse_async(schedules.write, work))
    made = await caller.change(schedules, work, "schedule.create", new.id)
    return reply(made, status=201, etag=made.version)


@routes.at("POST", "/schedules/preview", Scope.READ, returns=list[TimeView])
async def preview_times(caller: Called, asked: Preview) -> Response:
    """The times of a spec in [start, end): all of them, which may be 10,000; with `limit` the first ones."""
    when = when_of(asked.when)
    spec = [when] if isinstance(when, str) else when  # a text alone would be the id of a schedule
    schedules = caller.access.schedules
    return reply(await schedules.matching_times(spec, asked.start, asked.end, limit=asked.limit))


@routes.at("POST", "/schedules/update-all", Scope.EDIT, returns=Changed)
async def update_schedules(caller: Called, chosen: Changing) -> Response:
    """Give all schedules that are chosen other names of arguments, another function, or both."""
    schedules, where = caller.access.schedules, cast("Where", chosen.where())
    change = CallChange.of(caller.function, chosen.do, chosen.rename)
    change = replace(change, resolve=partial(caller.function, is_known=True))  # what schedules call is no secret

    def page(after: str) -> Work[Page]:
        return changed_page(schedules.operations, after, change, where)

    return reply(await caller.change_many(schedules, page, "schedule.update_all", chosen))


@routes.at("POST", "/schedules/pause-all", Scope.OPERATE, returns=Changed)
async def pause_schedules(caller: Called, chosen: NotedChoice) -> Response:
    """Pause all schedules that are chosen."""
    return await _all(caller, "pause", chosen, chosen.note)


@routes.at("POST", "/schedules/resume-all", Scope.OPERATE, returns=Changed)
async def resume_schedules(caller: Called, chosen: NotedChoice) -> Response:
    """Resume all paused schedules that are chosen."""
    return await _all(caller, "resume", chosen, chosen.note)


@routes.at("POST", "/schedules/delete-all", Scope.EDIT, returns=Changed)
async def delete_schedules(caller: Called, chosen: Deletion) -> Response:
    """Delete all schedules that are chosen; crons that are declared in code only with `force`."""
    return await _all(caller, "delete", chosen, chosen.force)


@routes.at("GET", "/occurrences", Scope.READ, returns=OccurrencePage)
async def list_occurrences(caller: Called, asked: Annotated[OccurrencesAsked, Query()]) -> Response:
    """A page of the ledger: each time that a schedule named, with its fate and the reason."""
    which = asked.model_dump(exclude={"schedule"}) | {"fate": asked.fate or None}
    return reply(await caller.access.schedules.occurrences(asked.schedule, **which))


@routes.at("GET", "/schedules/{schedule_id}", Scope.READ, returns=ScheduleDescription)
async def get_schedule(caller: Called, schedule_id: Named) -> Response:
    """All about a schedule. `ETag` is its version."""
    found = await caller.access.schedules.get(schedule_id)
    return reply(found, etag=found.version)


@routes.at("PATCH", "/schedules/{schedule_id}", Scope.EDIT, returns=ScheduleDescription)
async def update_schedule(
    request: Request, caller: Called, schedule_id: Named, to: ChangedSchedule, dry_run: DryRun = False
) -> Response:
    """Change a schedule. With `If-Match`, only a schedule of that version is changed."""
    changed = await change_schedule(caller, schedule_id, to, version_of(request), dry_run=dry_run)
    return reply(changed, etag=None if dry_run else changed.version)


async def change_schedule(
    caller: Caller, schedule_id: str, to: ChangedSchedule, if_version: int | None, *, dry_run: bool = False
) -> ScheduleDescription:
    """Change a schedule, of a version if one is given. Raises as `schedules.update` does."""
    patch = to.options(lifts=True)
    schedules = caller.access.schedules
    if to.when is not None:
        patch["when"] = when_of(to.when)
    if to.function is not None:
        patch["do"] = caller.call(to.function, to.args or {})

    def work(transaction: Transaction) -> ScheduleDescription:
        if to.function is None and to.args is not None:
            # This locks it: another request may be about to change its function.
            now = update(schedules.operations, UpdateOptions(schedule_id, if_version=if_version))(transaction)
            patch["do"] = caller.call(now.target.function, to.args, is_known=True)
        options = UpdateOptions(schedule_id, if_version=if_version, **patch)
        return update(schedules.operations, options)(transaction)

    if dry_run:
        return await rehearse_async(schedules.write, work)
    before = schedules.operations.get(schedule_id)
    return await caller.change(schedules, work, "schedule.update", schedule_id, before=before)


@routes.at("PUT", "/schedules/{schedule_id}", Scope.EDIT, returns=ScheduleDescription)
async def replace_schedule(
    request: Request, caller: Called, schedule_id: Named, to: ReplacedSchedule, dry_run: DryRun = False
) -> Response:
    """Replace the definition of a schedule; what has happened stays."""
    schedules = caller.access.schedules
    options = ReplaceOptions(
        schedule_id,
        when=when_of(to.when),
        do=caller.call(to.function, to.args),
        if_version=version_of(request),
        **to.options(lifts=False),
    )
    work = replacement(schedules.operations, options)
    if dry_run:
        return reply(await rehearse_async(schedules.write, work))
    before = schedules.operations.get(schedule_id)
    changed = await caller.change(schedules, work, "schedule.replace", schedule_id, before=before)
    return reply(changed, etag=changed.version)


@routes.at("DELETE", "/schedules/{schedule_id}", Scope.EDIT, status=204)
async def delete_schedule(request: Request, caller: Called, schedule_id: Named, force: bool = False) -> Response:
    """Delete a schedule. Its ledger and history stay until their retention is over.

    A cron that is declared in code is deleted only with `force`: for an app that is gone, as others make it again.
    """
    schedules = caller.access.schedules
    work = schedules.operations.delete(schedule_id, if_version=version_of(request), force=force)
    before = schedules.operations.get(schedule_id)
    await caller.change(schedules, work, "schedule.delete", schedule_id, before=before)
    return Response(status_code=204)


@routes.at("POST", "/schedules/{schedule_id}/pause", Scope.OPERATE, returns=ScheduleSummary)
async def pause_schedule(request: Request, caller: Called, schedule_id: Named, how: Pausing | None = None) -> Response:
    """Pause a schedule. Triggers and backfills still run."""
    schedules, how = caller.access.schedules, how or Pausing()
    work = schedules.operations.pause(schedule_id, how.note, until=how.until, if_version=version_of(request))
    return reply(await caller.change(schedules, work, "schedule.pause", schedule_id))


@routes.at("POST", "/schedules/{schedule_id}/resume", Scope.OPERATE, returns=ScheduleSummary)
async def resume_schedule(
    request: Request, caller: Called, schedule_id: Named, how: Resuming | None = None
) -> Response:
    """Resume a paused schedule."""
    schedules, how = caller.access.schedules, how or Resuming()
    work = schedules.operations.resume(schedule_id, how.note, from_now=how.from_now, if_version=version_of(request))
    return reply(await caller.change(schedules, work, "schedule.resume", schedule_id))


@routes.at("POST", "/schedules/{schedule_id}/trigger", Scope.OPERATE, returns=OccurrenceView)
async def trigger_schedule(
    caller: Called, schedule_id: Named, how: Trigger | None = None, idempotency_key: Key = None
) -> Response:
    """Start a run at once. With `Idempotency-Key`, sending it again starts no other one."""
    schedules, how = caller.access.schedules, how or Trigger()
    work = schedules.operations.trigger(schedule_id, overlap=how.overlap, args=how.args, request_id=idempotency_key)
    if how.args is not None:
        work = caller.with_args(work, lambda transaction: schedules.operations.get(schedule_id)(transaction).function)
    return reply(await caller.change(schedules, work, "schedule.trigger", schedule_id))


@routes.at("GET", "/schedules/{schedule_id}/history", Scope.READ, returns=list[HistoryLine])
async def get_schedule_history(
    caller: Called, schedule_id: Named, limit: Limit = 100, before: Cursor = None
) -> Response:
    """What was done to a schedule, the newest first; `before` is the id of a line."""
    return reply(await caller.access.schedules.history(schedule_id, limit=limit, before=before))


@routes.at("GET", "/schedules/{schedule_id}/times", Scope.READ, returns=list[TimeView])
async def list_times(
    caller: Called,
    schedule_id: Named,
    start: Time,
    end: Time,
    limit: Annotated[int | None, Query(ge=1, le=10_000)] = None,
) -> Response:
    """The times of a schedule in [start, end): all of them, which may be 10,000; with `limit` the first ones."""
    return reply(await caller.access.schedules.matching_times(schedule_id, start, end, limit=limit))


@routes.at("GET", "/schedules/{schedule_id}/explain", Scope.READ, returns=Explanation)
async def explain_schedule(caller: Called, schedule_id: Named, at: Time) -> Response:
    """Why a schedule ran at a time, or why it did not."""
    return reply(await caller.access.schedules.explain(schedule_id, at=at))


async def _all(caller: Caller, action: str, chosen: NotedChoice | Deletion, *args: Any) -> Response:
    schedules, where = caller.access.schedules, chosen.where()
    page = getattr(schedules.operations, f"{action}_page")
    changed = await caller.change_many(
        schedules, lambda after: page(after, *args, **where), f"schedule.{action}_all", chosen
    )
    return reply(changed)

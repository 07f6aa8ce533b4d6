"""Triggering a schedule, and deleting one."""

from typing import Any

from starlette.responses import Response

from evertick.api.schedules import OccurrenceView
from evertick.base.errors import EvertickError, NotFound
from evertick.base.escaping import json_text
from evertick.base.records.access import Scope
from evertick.dashboard.markup.reasons import why_of
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.rules.schedules.fates import Fate
from evertick.server.bodies import Named, strict_json
from evertick.server.problems import Problem
from evertick.server.routes import schedules as api

routes = page_routes()


@routes.asks("/schedules/{schedule_id}/trigger", Scope.OPERATE)
async def show_trigger(page: Shown, schedule_id: Named) -> Response:
    """Say what a trigger would do now under each overlap policy."""
    return await _trigger(page, schedule_id, page.typed or Form())


@routes.form("/schedules/{schedule_id}/trigger", Scope.OPERATE)
async def trigger(page: Shown, schedule_id: Named) -> Response:
    """Start a run now. The same form sent twice starts one."""
    form = await page.form()
    args = _arguments(form)
    if not form.errors:
        try:
            how = api.Trigger(overlap=form.given("overlap"), args=args)
            request = page.known.key or page.request.state.request_id
            await api.trigger_schedule(page.known, schedule_id, how, request)
            return page.done(page.url("schedules", schedule_id), await _became(page, schedule_id, request))
        except NotFound:
            raise
        except EvertickError as error:
            form.field_of(error, {"overlap": "overlap", "request id": ""}, "args" if args is not None else "")
    return await _trigger(page, schedule_id, form, status=422)


@routes.page("/schedules/{schedule_id}/delete", Scope.EDIT)
async def show_delete(page: Shown, schedule_id: Named) -> Response:
    """Ask whether a schedule is to be deleted."""
    return await _delete(page, schedule_id, Form())


@routes.form("/schedules/{schedule_id}/delete", Scope.EDIT)
async def delete(page: Shown, schedule_id: Named) -> Response:
    """Delete a schedule whose id was typed."""
    form = await page.form()
    if form["typed"] != schedule_id.strip():
        form.fail("typed", "Type its id exactly as it stands above; nothing has been deleted.")
    else:
        try:
            await api.delete_schedule(page.request, page.known, schedule_id)
            return page.done(page.url("schedules"), f"Deleted {schedule_id}.")
        except NotFound:
            raise
        except EvertickError as error:
            form.field_of(error, {})
    return await _delete(page, schedule_id, form, status=422)


def _arguments(form: Form) -> dict[str, Any] | None:
    """The other arguments that were typed; None for none, or for what is no object, which the field says then."""
    if not form["args"]:
        return None
    try:
        value = strict_json(form["args"].encode())
    except Problem as problem:
        form.fail("args", str(problem.detail))
        return None
    if not isinstance(value, dict):
        form.fail("args", 'Arguments are a JSON object by name, such as {"body": "hello"}.')
        return None
    return value


async def _became(page: Page, schedule_id: str, request: str) -> str:
    """What became of a trigger, in a sentence."""
    found = await page.access.schedules.occurrences(schedule_id, newest_first=True, limit=20)
    made: OccurrenceView | None = next((each for each in found.occurrences if each.request == request), None)
    if made is None or made.fate is Fate.STARTED:
        return f"Triggered {schedule_id}: a run was started."
    word = "It waits" if made.fate is Fate.BUFFERED else "Nothing was started"
    return f"Triggered {schedule_id}. {word}: {why_of(made)}."


async def _trigger(page: Page, schedule_id: str, form: Form, *, status: int = 200) -> Response:
    schedules, read = page.access.schedules, page.judged(form)
    schedule, args = await schedules.get(schedule_id), _arguments(read)
    how = {"overlap_policy": read.given("overlap"), "input": None if args is None else json_text(args)}
    return page.render(
        "schedules/trigger.html",
        status=status,
        schedule=schedule,
        plan=await schedules.trigger_plan(schedule_id),
        form=form,
        commands=page.same(read, page.command("schedule", "trigger", schedule.id, **how)),
    )


async def _delete(page: Page, schedule_id: str, form: Form, *, status: int = 200) -> Response:
    schedule = await page.access.schedules.get(schedule_id)
    commands = page.same(Form(), page.command("schedule", "delete", schedule.id), at="")
    return page.render("schedules/delete.html", status=status, schedule=schedule, form=form, commands=commands)

"""Pausing a schedule, and letting it go on."""

from starlette.responses import Response

from evertick.base.errors import EvertickError, NotFound
from evertick.base.records.access import Scope
from evertick.dashboard.forms.moments import moment_in
from evertick.dashboard.forms.values import NO_REASON
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.server.bodies import Named
from evertick.server.routes import schedules as api

routes = page_routes()


@routes.page("/schedules/{schedule_id}/pause", Scope.OPERATE)
async def show_pause(page: Shown, schedule_id: Named) -> Response:
    """Ask why a schedule is to be paused."""
    return await _form(page, "pause", schedule_id, Form())


@routes.form("/schedules/{schedule_id}/pause", Scope.OPERATE)
async def pause(page: Shown, schedule_id: Named) -> Response:
    """Pause a schedule."""
    form = await page.form()
    if not form["note"]:
        form.fail("note", NO_REASON)
    until = moment_in(form, "until", page.times)
    if not form.errors:
        try:
            how = api.Pausing(note=form["note"], until=until)
            await api.pause_schedule(page.request, page.known, schedule_id, how)
            return page.done(page.url("schedules", schedule_id), f"Paused {schedule_id}.")
        except NotFound:
            raise
        except EvertickError as error:
            form.field_of(error, {"pause would end": "until", "note": "note"})
    return await _form(page, "pause", schedule_id, form, status=422)


@routes.page("/schedules/{schedule_id}/resume", Scope.OPERATE)
async def show_resume(page: Shown, schedule_id: Named) -> Response:
    """Ask whether a schedule is to go on."""
    return await _form(page, "resume", schedule_id, Form())


@routes.form("/schedules/{schedule_id}/resume", Scope.OPERATE)
async def resume(page: Shown, schedule_id: Named) -> Response:
    """Let a schedule go on."""
    form = await page.form()
    how = api.Resuming(note=form["note"], from_now=bool(form["from_now"]))
    try:
        await api.resume_schedule(page.request, page.known, schedule_id, how)
    except NotFound:
        raise
    except EvertickError as error:
        form.field_of(error, {"note": "note"})
        return await _form(page, "resume", schedule_id, form, status=422)
    return page.done(page.url("schedules", schedule_id), f"Resumed {schedule_id}.")


async def _form(page: Page, action: str, schedule_id: str, form: Form, *, status: int = 200) -> Response:
    schedule = await page.access.schedules.get(schedule_id)
    return page.render(f"schedules/{action}.html", status=status, schedule=schedule, form=form)

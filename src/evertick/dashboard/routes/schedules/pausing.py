"""Pausing a schedule, and letting it go on."""

from starlette.responses import Response

from evertick.base.errors import EvertickError, NotFound
from evertick.base.records.access import Scope
from evertick.dashboard.forms.moments import moment_in, said_moment
from evertick.dashboard.forms.values import reason_in
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.server.bodies import Named
from evertick.server.routes import schedules as api

routes = page_routes()


@routes.asks("/schedules/{schedule_id}/pause", Scope.OPERATE)
async def show_pause(page: Shown, schedule_id: Named) -> Response:
    """Ask why a schedule is to be paused."""
    return await _form(page, "pause", schedule_id, page.typed or Form())


@routes.form("/schedules/{schedule_id}/pause", Scope.OPERATE)
async def pause(page: Shown, schedule_id: Named) -> Response:
    """Pause a schedule."""
    form = await page.form()
    note, until = reason_in(form), moment_in(form, "until", page.times, "after")
    if not form.errors:
        try:
            how = api.Pausing(note=note, until=until)
            await api.pause_schedule(page.request, page.known, schedule_id, how)
            return page.done(page.url("schedules", schedule_id), f"Paused {schedule_id}.")
        except NotFound:
            raise
        except EvertickError as error:
            form.field_of(error, {"pause would end": "until", "note": "note"})
    return await _form(page, "pause", schedule_id, form, status=422)


@routes.asks("/schedules/{schedule_id}/resume", Scope.OPERATE)
async def show_resume(page: Shown, schedule_id: Named) -> Response:
    """Ask whether a schedule is to go on."""
    return await _form(page, "resume", schedule_id, page.typed or Form())


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
    schedule, read = await page.access.schedules.get(schedule_id), page.judged(form)
    how: dict[str, str | bool | None]
    if action == "pause":
        how = {"reason": reason_in(read), "until": said_moment(moment_in(read, "until", page.times, "after"))}
    else:
        how = {"reason": read.given("note"), "from_now": bool(read["from_now"])}
    commands = page.same(read, page.command("schedule", action, schedule.id, **how))
    return page.render(f"schedules/{action}.html", status=status, schedule=schedule, form=form, commands=commands)

"""Pausing a schedule, and letting it go on."""

from starlette.responses import Response

from evertick.base.records.access import Scope
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.server.bodies import Named
from evertick.server.routes import schedules as api

routes = page_routes()


@routes.page("/schedules/{schedule_id}/pause", Scope.OPERATE)
async def show_pause(page: Shown, schedule_id: Named) -> Response:
    """Ask why a schedule is to be paused."""
    return await _pause(page, schedule_id, Form())


@routes.form("/schedules/{schedule_id}/pause", Scope.OPERATE)
async def pause(page: Shown, schedule_id: Named) -> Response:
    """Pause a schedule."""
    form = await page.form()
    if not form["note"]:
        form.fail("note", "Say why, in a few words: it is what others read who find it paused.")
        return await _pause(page, schedule_id, form, status=422)
    await api.pause_schedule(page.request, page.known, schedule_id, api.Pausing(note=form["note"]))
    return page.done(page.url("schedules"), f"Paused {schedule_id}.")


async def _pause(page: Page, schedule_id: str, form: Form, *, status: int = 200) -> Response:
    schedule = await page.access.schedules.get(schedule_id)
    return page.render("schedules/pause.html", status=status, schedule=schedule, form=form)

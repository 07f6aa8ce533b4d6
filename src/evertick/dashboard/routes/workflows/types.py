"""The workflows themselves: whether runs of them start."""

from typing import Final, Literal

from starlette.responses import Response

from evertick.base.records.access import Scope
from evertick.dashboard.markup.commands import command
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.dashboard.workflow_names import names_for, renamed
from evertick.server.bodies import Named
from evertick.server.routes import workflows as api

routes = page_routes()

MEANS: Final = {
    "pause": "No run of it starts until it is resumed: starting one is refused, and schedules skip their times and say "
    "why. Runs that have begun go on. Times that are skipped are not made up for.",
    "resume": "Runs of it start again.",
    "deprecate": "As pausing, for a workflow that is to start no more. Runs that have begun go on.",
}
DONE: Final = {"pause": "Paused", "resume": "Resumed", "deprecate": "Deprecated"}


@routes.page("/workflow-types", Scope.READ)
async def list_types(page: Shown) -> Response:
    """The workflows, and what their status is."""
    types = await page.fleet.access.workflows.types.list() if page.reaches_all else None
    counts = await page.access.jobs.counts_by_function()

    def count(name: str, *states: str) -> int:
        return sum(counts.get(name, {}).get(state, 0) for state in states)

    return page.render(
        "workflows/types.html", types=types, count=count, names=names_for(page.known), renamed=renamed(page.known)
    )


@routes.page("/workflow-types/{name}/{action}", Scope.ADMIN)
async def show_change(page: Shown, name: Named, action: Literal["pause", "resume", "deprecate"]) -> Response:
    """Ask whether a workflow is to be paused, resumed or deprecated."""
    return await _change(page, name, action)


@routes.form("/workflow-types/{name}/{action}", Scope.ADMIN)
async def change(page: Shown, name: Named, action: Literal["pause", "resume", "deprecate"]) -> Response:
    """Pause, resume or deprecate a workflow."""
    await api.change_workflow_type(page.fleet, name, action)
    return page.done(page.url("workflow-types"), f"{DONE[action]} {name}.")


async def _change(page: Page, name: str, action: str) -> Response:
    view = await page.fleet.access.workflows.types.get(name)
    return page.render(
        "workflows/type.html", form=Form(), view=view, action=action, means=MEANS[action],
        commands=page.same(Form(), command("workflow", "type", action, view.name), at=""),
    )  # fmt: skip

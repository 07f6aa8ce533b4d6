"""Actions on many schedules at once: selected ones, or all that match the filters."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from starlette.responses import Response, StreamingResponse

from evertick.app.schedules.lists import parse_query
from evertick.base.errors import EvertickError, NotFound
from evertick.base.records.access import Scope
from evertick.dashboard.forms.form import reason_in
from evertick.dashboard.page import Form, Page, Shown, page_routes, saved_as, utf8
from evertick.dashboard.schedules.bulk import VERBS, Bulk, Chosen, Extent, Progress, Selected
from evertick.rules.schedules.policies import Overlap
from evertick.server.routes import schedules as api

routes = page_routes()

Action = Literal["pause", "resume", "trigger"]
LINES: Final = 5
"""Commands in a form, one for each schedule."""
ALL_OF: Final = {"pause": "state:active", "resume": "state:paused", "delete": "kind:schedule"}
"""The query for all schedules that an action changes."""


@routes.form("/bulk/schedules/delete", Scope.EDIT)
async def delete_many(page: Shown) -> Response:
    """Delete schedules: first a confirmation, then portion by portion."""
    form = await page.form()

    async def delete(name: str) -> None:
        await api.delete_schedule(page.request, page.known, name)

    return await _many(page, "delete", form, delete)


@routes.form("/bulk/schedules/{action}", Scope.OPERATE)
async def act_on_many(page: Shown, action: Action) -> Response:
    """Pause, resume or trigger schedules: first a confirmation, then portion by portion."""
    form = await page.form()

    async def act(name: str) -> None:
        note = form["note"]
        if action == "pause":
            await api.pause_schedule(page.request, page.known, name, api.Pausing(note=note))
        elif action == "resume":
            await api.resume_schedule(page.request, page.known, name, api.Resuming(note=note))
        else:
            how = api.Trigger(overlap=form.given("overlap"))
            await api.trigger_schedule(page.known, name, how, page.known.of_part(name).key)

    return await _many(page, action, form, act)


@routes.preview("/bulk/schedules/{action}", Scope.OPERATE)
async def preview_many(page: Shown, action: Action) -> Response:
    """The confirmation again, with the contents so far."""
    form = page.typed or Form()
    bulk = Bulk(page.access.schedules, page.now, action, Chosen.of(form))
    extent = await _extent(bulk, form)
    _check(action, form, bulk.chosen, extent)
    return _ask(page, action, form, bulk.chosen, extent)


@routes.page("/bulk/schedules/export", Scope.READ)
async def export_many(page: Shown, selected: Annotated[Selected, Query()]) -> Response:
    """The chosen schedules as one JSON file."""
    headers = saved_as(f"schedules-{page.tenant}.json")
    return StreamingResponse(_exported(page, selected.chosen), media_type="application/json", headers=headers)


@routes.page("/bulk/schedules/commands", Scope.READ)
async def show_commands(page: Shown, selected: Annotated[Selected, Query()]) -> Response:
    """The chosen schedules as commands."""
    return page.render("schedules/commands.html", chosen=selected.chosen, form=Form())


async def _many(page: Page, action: str, form: Form, do: Callable[[str], Awaitable[Any]]) -> Response:
    chosen, progress = Chosen.of(form), Progress.of(form)
    bulk = Bulk(page.access.schedules, page.now, action, chosen)
    extent = await _extent(bulk, form)
    if form["confirmed"] and not progress.seen:
        _check(action, form, chosen, extent)
    if form.errors or not form["confirmed"]:
        return _ask(page, action, form, chosen, extent)
    await bulk.go_on(progress, do)
    if progress.after is not None or progress.failed:
        return page.render(
            "schedules/progress.html", action=action, verb=VERBS[action], chosen=chosen, extent=extent,
            progress=progress, form=form,
        )  # fmt: skip
    said = f"{VERBS[action][1].capitalize()} {_counted(progress.done)}."
    return page.done(page.url("schedules", q=chosen.query), said)


async def _extent(bulk: Bulk, form: Form) -> Extent:
    """The number of chosen schedules; an error of the choice is stored in the form."""
    if not bulk.chosen.ids and not bulk.chosen.is_all:
        form.fail("", "No schedule is chosen; select some in the list.")
    try:
        return await bulk.extent()
    except EvertickError as error:
        form.field_of(error, {})
        return Extent(0, 0, "")


def _check(action: str, form: Form, chosen: Chosen, extent: Extent) -> None:
    if action == "pause":
        reason_in(form, of="them")
    if action == "delete" and form["typed"] != _typed(chosen, extent):
        form.fail("typed", f"Type {_typed(chosen, extent)} to confirm; nothing has been deleted.")
    if not extent.touched:
        form.fail("", "None of the chosen schedules would change.")


def _typed(chosen: Chosen, extent: Extent) -> str:
    """The text that confirms a deletion: the count, or the id of the only schedule."""
    return chosen.ids[0] if len(chosen.ids) == 1 and not chosen.is_all else f"delete {extent.typed}"


def _ask(page: Page, action: str, form: Form, chosen: Chosen, extent: Extent) -> Response:
    read = page.judged(form)
    if action != "delete":  # the confirmation is not part of the command
        _check(action, read, chosen, extent)
    at = "" if action == "delete" else None
    lines, more = _lines(page, action, read, chosen)
    return page.render(
        "schedules/bulk.html", status=422 if form.errors else 200, action=action, verb=VERBS[action], chosen=chosen,
        extent=extent, typed=_typed(chosen, extent), overlaps=list(Overlap), form=form,
        commands=page.same(Form() if action == "delete" else read, *lines, more=more, at=at),
    )  # fmt: skip


def _lines(page: Page, action: str, form: Form, chosen: Chosen) -> tuple[list[str], str]:
    """The commands that do the same as a form, and a note about what they omit."""
    if chosen.query is not None and action == "trigger":
        found = page.command("schedule", "list", query=chosen.query or None)
        return [found], "This lists them; evertick schedule trigger takes one at a time."
    how = {"reason": form.given("note")} if action in ("pause", "resume") else {}
    if chosen.query is not None:
        query = chosen.query or ALL_OF[action]
        return [page.command("schedule", action, query=query, yes=True, **how)], ""
    if action == "trigger":
        how = {"overlap_policy": form.given("overlap")}
    lines = [page.command("schedule", action, each, **how) for each in chosen.ids[:LINES]]
    rest = len(chosen.ids) - LINES
    return lines, f"And one for each of the other {rest:,}." if rest > 0 else ""


async def _exported(page: Page, chosen: Chosen) -> AsyncIterator[bytes]:
    """The descriptions of schedules as a JSON list, one by one."""
    schedules = page.access.schedules
    opening = "[\n"
    async for name in _ids(page, chosen):
        try:
            found = await schedules.get(name)
        except NotFound:
            continue  # deleted meanwhile
        yield utf8(opening + json.dumps(found.to_json(), ensure_ascii=False))
        opening = ",\n"
    yield b"[]\n" if opening == "[\n" else b"\n]\n"


async def _ids(page: Page, chosen: Chosen) -> AsyncIterator[str]:
    for name in chosen.ids if not chosen.is_all else ():
        yield name
    cursor: str | None = ""
    while chosen.query is not None and cursor is not None:
        where = parse_query(chosen.query, page.now)
        found = await page.access.schedules.list(limit=1_000, cursor=cursor or None, **where)
        for each in found.schedules:
            yield each.id
        cursor = found.cursor


def _counted(count: int) -> str:
    return f"{count:,} schedule{'' if count == 1 else 's'}"

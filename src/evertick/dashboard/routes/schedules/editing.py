"""Making and changing schedules. The preview is the form again, read and not saved."""

import asyncio
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from evertick.base.errors import AlreadyExists, EvertickError, Misuse, VersionConflict
from evertick.base.records.access import Scope
from evertick.dashboard.editor import rules
from evertick.dashboard.editor.drafts import Draft
from evertick.dashboard.editor.forms import pairs_of, zone_of
from evertick.dashboard.editor.reading import rows_of
from evertick.dashboard.editor.rows import EXCEPT_KINDS, SOURCE_KINDS
from evertick.dashboard.editor.session import COMPLAINTS, Session
from evertick.dashboard.editor.words import CHOICES, MEMBERS, catch_ups
from evertick.dashboard.forms.form import Form
from evertick.dashboard.markup.commands import SameCommand
from evertick.dashboard.page import Page, Shown, page_routes
from evertick.dashboard.zones import offset_words
from evertick.recurrence.zones.names import zone_names
from evertick.rules.schedules.metadata import CODE
from evertick.server.bodies import Named
from evertick.server.routes import schedules as api

routes = page_routes()

Text = Annotated[str | None, Query(max_length=600)]
SAVE = "save"


@routes.asks("/new-schedule", Scope.EDIT)
async def show_new(
    page: Shown,
    from_: Annotated[str | None, Query(alias="from", max_length=600)] = None,
    function: Text = None,
    script: Text = None,
) -> Response:
    """An empty form, or one with what another schedule has; or what was typed, with a preview of it."""
    if page.typed is not None:
        return await _show(page, await _new(page, page.typed))
    offered = page.zone.name
    args = {} if script is None else {"script": script}
    draft, stored = Draft(function=function or "", args=args, time_zone=offered), None
    if from_ is not None:
        found = await page.access.schedules.get(from_)
        draft, stored = Draft.of(found), found.spec
    pairs = [*pairs_of(draft), ("from", from_ or ""), ("zone_offered", "" if from_ else offered)]
    pairs += [("id", f"{from_}-copy")] if from_ else [("s", "0"), ("s.0.kind", "cron")]
    scripts = await _published(page)
    session = Session(page.known, page.times, Form(pairs), stored=stored, scripts=scripts)
    return await _show(page, session, is_fresh=True)


@routes.form("/new-schedule", Scope.EDIT)
async def create(page: Shown) -> Response:
    """Create a schedule."""
    session = await _new(page, await page.form())
    form = session.form
    if form["do"] != SAVE:
        return await _show(page, session)
    await session.check()
    if not form.errors:
        try:
            await api.create_schedule(page.known, session.creation())
            return page.done(page.url("schedules", session.name), f"Created {session.name}.")
        except AlreadyExists as error:
            form.fail("id", str(error))
        except EvertickError as error:
            form.field_of(error, COMPLAINTS)
    return await _show(page, session, status=422)


@routes.asks("/schedules/{schedule_id}/edit", Scope.EDIT)
async def show_edit(page: Shown, schedule_id: Named) -> Response:
    """The form with what a schedule is; or with what was typed, beside what is stored."""
    if page.typed is not None:
        return await _show(page, await _edited(page, page.typed, schedule_id))
    schedule = await page.access.schedules.get(schedule_id)
    if schedule.source == CODE:
        found = await page.access.schedules.list_detailed(id_contains=schedule_id, kind="cron", limit=100)
        place = next((each.declared_at for each in found.schedules if each.id == schedule_id), None)
        return page.render("editor/declared.html", schedule=schedule, place=place)
    draft = Draft.of(schedule)
    pairs = [*pairs_of(draft), ("version", str(schedule.version)), ("base", draft.to_json())]
    scripts = await _published(page)
    return await _show(page, Session(page.known, page.times, Form(pairs), schedule, schedule.spec, draft, scripts))


@routes.form("/schedules/{schedule_id}/edit", Scope.EDIT)
async def save(page: Shown, schedule_id: Named) -> Response:
    """Save what was changed."""
    session = await _edited(page, await page.form(), schedule_id)
    form, schedule = session.form, session.schedule
    assert schedule is not None  # noqa: S101
    if form["do"] != SAVE:
        return await _show(page, session)
    is_stale = form["version"] != str(schedule.version)
    if is_stale and form["take_version"] == str(schedule.version):
        session.rebase()
        is_stale = False
    await session.check()
    if form.errors:
        return await _show(page, session, status=422)
    if is_stale and session.conflict() is None:
        session.rebase()
        is_stale = False
    if not is_stale:
        if not session.changed():
            return page.done(page.url("schedules", schedule_id), "Nothing was changed.")
        try:
            await api.change_schedule(page.known, schedule_id, session.change(), schedule.version)
            return page.done(page.url("schedules", schedule_id), f"Saved {schedule_id}.")
        except VersionConflict:
            session.schedule = await page.access.schedules.get(schedule_id)
        except EvertickError as error:
            form.field_of(error, COMPLAINTS)
            return await _show(page, session, status=422)
    return await _show(page, session, status=409)


async def _new(page: Page, form: Form) -> Session:
    stored = None
    if name := form.given("from"):
        stored = (await page.access.schedules.get(name)).spec
    return Session(page.known, page.times, form, stored=stored, scripts=await _published(page))


async def _edited(page: Page, form: Form, schedule_id: str) -> Session:
    schedule = await page.access.schedules.get(schedule_id)
    if schedule.source == CODE:
        raise Misuse(f"the cron {schedule_id!r} is declared in code; change it there")
    try:
        base = Draft.from_json(form["base"])
    except (ValueError, TypeError, RecursionError):
        raise Misuse("the form lacks what it began with; open it again") from None
    return Session(page.known, page.times, form, schedule, schedule.spec, base, await _published(page))


async def _published(page: Page) -> list[str]:
    """The scripts that a schedule can run, by name."""
    if not page.uses_scripts:
        return []
    return [each.name for each in await page.access.scripts.list(limit=1_000) if each.published is not None]


async def _show(page: Page, session: Session, *, status: int = 200, is_fresh: bool = False) -> Response:
    """The form. A fresh one shows no errors, because nothing was typed yet."""
    form, schedule = session.form, session.schedule
    if status == 200:
        await session.check()
    is_complete = not form.errors
    if status == 200:
        session.forgive(everything=is_fresh)
    zone = session.reading.draft.time_zone or "UTC"
    preview = await asyncio.to_thread(session.preview)
    functions, (word, options) = session.functions(), session.command()
    chosen = next((each for each in functions if each.name == session.reading.draft.function), None)
    return page.render(
        "editor/form.html",
        status=status,
        session=session,
        schedule=schedule,
        form=form,
        draft=session.reading.draft,
        sources=rows_of(form, "s"),
        exceptions=rows_of(form, "x"),
        preview=preview,
        sentence=session.sentence() if preview is not None else "",
        utc=zone_of(None),
        clock=zone_of(zone, session.reading.draft.dialect),
        offset_words=offset_words,
        conflict=session.conflict() if status == 409 else None,
        changed=[MEMBERS[name] for name in session.changed()],
        commands=SameCommand(lines=[page.command("schedule", word, session.name, **options)] if is_complete else ()),
        functions=functions,
        chosen=chosen,
        zones=zone_names(),
        source_kinds=SOURCE_KINDS,
        except_kinds=EXCEPT_KINDS,
        rules=rules,
        catch_ups=catch_ups(*session.overlap),
        **CHOICES,
    )

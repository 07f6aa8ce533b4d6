"""Schedules: the list, the editor, the page of one schedule, and its actions. A preview reads a form without saving."""

import asyncio
import json
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.reports import Explanation
from evertick.api.schedules import DetailedSchedulePage, OccurrencePage, OccurrenceView, ScheduleDescription
from evertick.app.bodies import Body
from evertick.base.errors import (
    AlreadyExists,
    EvertickError,
    InvalidSpec,
    Misuse,
    NotFound,
    ScheduleNotFound,
    SchemaMismatch,
    VersionConflict,
)
from evertick.base.escaping import json_text
from evertick.base.instants import SECOND_MS, Instant, to_datetime
from evertick.base.records.access import Scope
from evertick.dashboard.editor import forms
from evertick.dashboard.editor.drafts import Draft
from evertick.dashboard.editor.forms import EXCEPT_KINDS, SOURCE_KINDS, pairs_of, rows_of, zone_of
from evertick.dashboard.editor.session import COMPLAINTS, Session
from evertick.dashboard.editor.words import CHOICES, MEMBERS, catch_ups
from evertick.dashboard.forms.form import Form, moment_in, reason_in, said_moment
from evertick.dashboard.markup.commands import SameCommand
from evertick.dashboard.markup.states import why_of
from evertick.dashboard.markup.times import Times
from evertick.dashboard.page import Page, Shown, page_routes, utf8
from evertick.dashboard.saved_views import saved_tabs
from evertick.dashboard.schedules import details
from evertick.dashboard.schedules.choice import COLUMNS, NEXT_HOUR, SORTED, USUAL_COLUMNS, Asked, chosen
from evertick.dashboard.zones import COMMON, offset_words
from evertick.recurrence.parse.moments import typed_moment
from evertick.recurrence.wire.writing import short_form
from evertick.recurrence.zones.names import zone_named, zone_names
from evertick.recurrence.zones.zones import Zone
from evertick.rules.schedules.fates import Fate
from evertick.rules.schedules.metadata import CODE
from evertick.server.bodies import Named, strict_json
from evertick.server.problems import Problem
from evertick.server.routes import schedules as api
from evertick.server.routes.views import views_of

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
    """An empty form, or a copy of another schedule; or the typed contents, with a preview."""
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
    """The form of a stored schedule; or the typed contents, compared with what is stored."""
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
    """Save the changes."""
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
        raise Misuse("the form has no valid base version; open it again") from None
    return Session(page.known, page.times, form, schedule, schedule.spec, base, await _published(page))


async def _published(page: Page) -> list[str]:
    """The scripts that a schedule can run, by name."""
    if not page.uses_scripts:
        return []
    return [each.name for each in await page.access.scripts.list(limit=1_000) if each.published is not None]


async def _show(page: Page, session: Session, *, status: int = 200, is_fresh: bool = False) -> Response:
    """The form. A new one shows no errors, because nothing was typed yet."""
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
        rules=forms,
        catch_ups=catch_ups(*session.overlap),
        **CHOICES,
    )


# -- The list of schedules and crons.


VIEWS: Final[tuple[tuple[str, str, str, dict[str, str]], ...]] = (
    ("All", "matching", "", {}),
    ("Failing", "failing", "failed", {"health": "failing"}),
    ("Late", "late", "late", {"health": "late"}),
    ("Missed", "missed", "missed", {"health": "missed"}),
    ("Paused", "paused", "", {"state": "paused"}),
    ("Next hour", "next_hour", "", {"q": NEXT_HOUR}),
)
"""The tabs: name, count, the state that colors a count above 0, and filters."""

USUAL: Final = {"sort": "next", "columns": ",".join(USUAL_COLUMNS)}
"""The default values, which the address of the list may omit."""
OWN: Final = [filters for _, _, _, filters in VIEWS]


@routes.page("/schedules", Scope.READ)
async def list_schedules(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """A page of schedules."""
    where, wrong = chosen(asked, page.now)
    schedules = page.access.schedules

    async def rows() -> DetailedSchedulePage:
        if wrong is not None:
            return DetailedSchedulePage(schedules=(), cursor=None)
        return await schedules.list_detailed(sort=asked.sort, limit=asked.limit, cursor=asked.cursor, **where)

    # Concurrently: with a filter that few schedules match, each of the two reads all of them.
    found, counts, kept = await asyncio.gather(
        rows(), schedules.counts(**where), views_of(page.known).list("schedules")
    )
    is_empty = not found.schedules and not asked.query and asked.cursor is None
    return page.render(
        "schedules/list.html",
        status=200 if wrong is None else 422,
        found=found,
        asked=asked,
        counts=counts,
        wrong=wrong,
        is_empty=is_empty,
        views=[(name, count, css, page.url("schedules", **filters), _is_view(asked, filters))
               for name, count, css, filters in VIEWS],
        zones=_zones(page, asked, found),
        columns=COLUMNS,
        sorted_by=SORTED,
        saved=saved_tabs(page, "schedules", kept, USUAL, OWN),
    )  # fmt: skip


def _is_view(asked: Asked, filters: dict[str, str]) -> bool:
    now = {"q": asked.q.strip(), "kind": asked.kind, "state": asked.state, "health": asked.health, "zone": asked.zone}
    return {name: value for name, value in now.items() if value} == filters


def _zones(page: Page, asked: Asked, found: DetailedSchedulePage) -> list[str]:
    """The zones to choose from: those on this page, and common ones."""
    here = sorted({each.time_zone for each in found.schedules})
    chosen_zone = [] if asked.zone is None else [asked.zone]
    return list(dict.fromkeys([*chosen_zone, *here, page.zone.name, *COMMON]))


# -- Pausing and resuming a schedule.


@routes.asks("/schedules/{schedule_id}/pause", Scope.OPERATE)
async def show_pause(page: Shown, schedule_id: Named) -> Response:
    """Show the form that pauses a schedule."""
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
    """Show the form that resumes a schedule."""
    return await _form(page, "resume", schedule_id, page.typed or Form())


@routes.form("/schedules/{schedule_id}/resume", Scope.OPERATE)
async def resume(page: Shown, schedule_id: Named) -> Response:
    """Resume a schedule."""
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


# -- Triggering a schedule, and deleting one.


@routes.asks("/schedules/{schedule_id}/trigger", Scope.OPERATE)
async def show_trigger(page: Shown, schedule_id: Named) -> Response:
    """Show what a trigger would do now under each overlap policy."""
    return await _trigger(page, schedule_id, page.typed or Form())


@routes.form("/schedules/{schedule_id}/trigger", Scope.OPERATE)
async def trigger(page: Shown, schedule_id: Named) -> Response:
    """Start a run now. A form that is sent twice starts one run."""
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
    """Show the form that deletes a schedule."""
    return await _delete(page, schedule_id, Form())


@routes.form("/schedules/{schedule_id}/delete", Scope.EDIT)
async def delete(page: Shown, schedule_id: Named) -> Response:
    """Delete a schedule whose id was typed."""
    form = await page.form()
    if form["typed"] != schedule_id.strip():
        form.fail("typed", "Type its id exactly as shown above; nothing has been deleted.")
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
    """The typed arguments; None if there are none, or if they are invalid, with the error stored at the field."""
    if not form["args"]:
        return None
    try:
        value = strict_json(form["args"].encode())
    except Problem as problem:
        form.fail("args", str(problem.detail))
        return None
    if not isinstance(value, dict):
        form.fail("args", 'Arguments must be a JSON object by name, such as {"body": "hello"}.')
        return None
    return value


async def _became(page: Page, schedule_id: str, request: str) -> str:
    """The result of a trigger as a message."""
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


# -- One schedule: its definition, its times with their outcomes, and explanations of them.


STRIP: Final = 60
ROWS: Final = 26
HISTORY: Final = 20
LATER_RUNS: Final = 200
"""Runs that are read to find which missed times in a list were caught up."""


class DetailAsked(Body):
    """The parameters of a schedule's page: the occurrences, the month, and the time to explain."""

    fate: str = Field("", pattern="^(started|buffered|skipped|missed|)$")
    cursor: str | None = Field(None, max_length=4_000)
    day: date | None = Field(None, ge=details.FIRST_DAY, le=details.LAST_DAY)
    month: str | None = Field(None, max_length=10)
    at: str = Field("", max_length=100)
    tz: str | None = None


@routes.page("/schedules/{schedule_id}", Scope.READ)
async def show_schedule(page: Shown, schedule_id: Named, asked: Annotated[DetailAsked, Query()]) -> Response:
    """The page of a schedule."""
    schedules = page.access.schedules
    try:
        schedule = await schedules.get(schedule_id)
    except ScheduleNotFound:
        return await _deleted(page, schedule_id, asked)
    zone = zone_named(schedule.time_zone, abbreviations=True)
    newest = await schedules.occurrences(schedule_id, newest_first=True, limit=STRIP)
    found = await _page_of_ledger(page, schedule, asked, zone)
    others = [*newest.occurrences, *await _later_runs(page, schedule, asked, found)]
    is_first = not asked.cursor and not asked.fate and asked.day is None
    coming = [time.nominal for time in schedule.upcoming[: details.SHOWN_UPCOMING]] if is_first else []
    own = Times(page.now, zone)
    today = own.local(page.now).date()
    month = details.month_of(asked.month, asked.day or today)
    days = await schedules.days(schedule_id, *details.shown_span(month))
    history = await schedules.history(schedule_id, limit=HISTORY)
    audit = await page.known.app.aio.audit_log.list(tenant=page.tenant, target=schedule_id, limit=HISTORY)
    wrong, explanation = await _explained(page, schedule, asked, zone)
    return page.render(
        "schedules/detail.html",
        status=422 if wrong else 200,
        schedule=schedule,
        asked=asked,
        own=own,
        is_here=zone.name == page.zone.name,
        expression=short_form(schedule.spec),
        oldest=newest.occurrences[-1].nominal if newest.occurrences else None,
        bars=details.endings(newest.occurrences),
        rows=details.rows_of(coming, found.occurrences, zone, others),
        cursor=found.cursor,
        past=details.past_of(history, audit.changes),
        made_by=next((each.actor for each in history if each.action == "created"), None),
        calendar=list(details.calendar_of(days.days, month)),
        today=today,
        month=month,
        months=(details.next_month(month, -1), details.next_month(month)),
        wrong=wrong,
        explanation=explanation,
        steps=[] if explanation is None else details.steps_of(explanation),
        fixes=[] if explanation is None else details.fixes_of(explanation, _tenant_option(page)),
        suggested=_suggested(schedule, own),
        is_declared=details.is_declared(schedule),
    )  # fmt: skip


async def _deleted(page: Page, schedule_id: str, asked: DetailAsked) -> Response:
    """The stored data of a deleted schedule: its runs and its history. Raises ScheduleNotFound for an unknown id."""
    schedules = page.access.schedules
    history = await schedules.history(schedule_id, limit=HISTORY)
    found = await schedules.occurrences(
        schedule_id, fate=asked.fate or None, newest_first=True, limit=ROWS, cursor=asked.cursor
    )
    return page.render(
        "schedules/deleted.html",
        schedule_id=schedule_id,
        end=next((each for each in history if each.action == "deleted"), None),
        found=found,
        asked=asked,
        past=details.past_of(history, ()),
    )


@routes.page("/schedules/{schedule_id}/json", Scope.READ)
async def show_json(page: Shown, schedule_id: Named) -> Response:
    """A schedule as JSON, in the form of the HTTP API."""
    found = await page.access.schedules.get(schedule_id)
    return _json(found.to_json())


@routes.page("/schedules/{schedule_id}/result", Scope.READ)
async def show_result(page: Shown, schedule_id: Named) -> Response:
    """The complete last result of a schedule."""
    found = await page.access.schedules.get(schedule_id)
    return _json(found.last_result)


def _json(value: Any) -> Response:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return Response(utf8(text), media_type="application/json", headers={"X-Content-Type-Options": "nosniff"})


async def _page_of_ledger(page: Page, schedule: ScheduleDescription, asked: DetailAsked, zone: Zone) -> OccurrencePage:
    """The rows of the table: the newest occurrences, or those of a day or with a fate."""
    first = last = None
    if asked.day is not None:
        first, last = details.midnight(zone, asked.day), details.midnight(zone, asked.day + timedelta(days=1))
    return await page.access.schedules.occurrences(
        schedule.id, fate=asked.fate or None, start=first, end=last, newest_first=True, limit=ROWS, cursor=asked.cursor
    )


async def _later_runs(
    page: Page, schedule: ScheduleDescription, asked: DetailAsked, found: OccurrencePage
) -> tuple[OccurrenceView, ...]:
    """The runs in the span of a list's missed times, which may have caught these up.

    Empty for the newest occurrences, because their list contains all runs.
    """
    missed = [each.nominal for each in found.occurrences if each.fate is Fate.MISSED]
    if not missed or not (asked.fate or asked.cursor or asked.day):
        return ()
    oldest, end = missed[-1], missed[0] + timedelta(milliseconds=1)
    runs = await page.access.schedules.occurrences(
        schedule.id, fate=Fate.STARTED, start=oldest, end=end, newest_first=True, limit=LATER_RUNS
    )
    return runs.occurrences


async def _explained(
    page: Page, schedule: ScheduleDescription, asked: DetailAsked, zone: Zone
) -> tuple[str, Explanation | None]:
    """The error of the time to explain (empty if none), and its explanation (None if there is none)."""
    if not asked.at.strip():
        return "", None
    try:
        second = typed_moment(asked.at.strip(), "the time", zone, page.now // SECOND_MS)
        at = to_datetime(Instant(second * SECOND_MS))
        return "", await page.access.schedules.explain(schedule.id, at=at)
    except (InvalidSpec, SchemaMismatch, OverflowError) as error:
        return str(error), None


def _suggested(schedule: ScheduleDescription, own: Times) -> str:
    """The initial time to explain: the newest that did not run, otherwise the newest."""
    rows = schedule.recent
    odd = next((each for each in rows if each.fate in ("missed", "skipped")), rows[0] if rows else None)
    return "" if odd is None else typed(own, odd.nominal)


def typed(own: Times, at: datetime) -> str:
    """A time as people type it, on the schedule's clock."""
    shown = own.local(at)
    return f"{shown:%Y-%m-%d %H:%M:%S}" if shown.second else f"{shown:%Y-%m-%d %H:%M}"


def _tenant_option(page: Page) -> str:
    """The tenant option of commands for this page's tenant, possibly empty."""
    return page.command("schedule").removeprefix("evertick schedule")

"""Scripts of customers: their drafts and versions, tests, runs, and the limits of a tenant's scripts."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, cast

from fastapi import Query
from starlette.responses import Response

from evertick.api.scripts import ScriptLimits, ScriptPlanView, ScriptTestView, ScriptVersionView, ScriptView
from evertick.app.bodies import Body
from evertick.app.scripts.api import AsyncScripts
from evertick.base.errors import EvertickError, InvalidScript, JobNotFound, NotFound, VersionConflict
from evertick.base.escaping import json_text
from evertick.base.instants import SECOND_MS
from evertick.base.records.access import Scope
from evertick.base.records.jobs import SCRIPT_FUNCTION
from evertick.dashboard.forms.form import json_field, whole_numbers
from evertick.dashboard.markup.templates import capitalise
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.sandbox.protocol import Language
from evertick.server.bodies import Named
from evertick.server.limits import take_longer
from evertick.server.problems import Problem

routes = page_routes()

SCRIPTS: Final = 50
"""Scripts per page."""
RUNS: Final = 50
NEWEST: Final = 10
"""Runs and versions on the page of a script."""
LINES_MAX: Final = 500
AROUND: Final = 2
"""Lines of a source shown before and after the line with an error."""
NAMES: Final = {Language.JAVASCRIPT: "JavaScript", Language.PYTHON: "Python"}
BEGINNINGS: Final = {
    Language.JAVASCRIPT: 'export default async function (ctx) {\n  ctx.log("input", ctx.input)\n  return null\n}\n',
    Language.PYTHON: 'def main(ctx):\n    ctx.log("input", ctx.input)\n    return None\n',
}
"""The initial source of a new script."""
GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Each run": {
        "cpu_ms": "CPU time", "wall_ms": "Time in all", "memory_bytes": "Memory", "result_bytes": "Result",
        "log_bytes": "Logs", "argument_bytes": "Arguments of a host call", "host_calls": "Host calls",
        "reads": "Documents read", "writes": "Writes",
    },
    "The tenant": {
        "source_bytes": "Source of a script", "scripts": "Scripts", "schedules": "Schedules that run scripts",
        "keys": "Keys of ctx.kv",
        "interval_ms": "Least interval of such a schedule", "runs_per_hour": "Runs an hour",
        "cpu_s_per_hour": "Seconds of CPU an hour", "hosts": "Hosts that ctx.fetch reaches",
    },
}  # fmt: skip
"""Labels of the limits of a plan."""
USED: Final = {"scripts": "scripts", "schedules": "schedules", "runs_per_hour": "runs_last_hour"}
"""The current usage of a limit, as a member of `ScriptPlanView`."""


class Asked(Body):
    """The parameters of the list of scripts."""

    cursor: str | None = None
    tz: str | None = None


class AskedRuns(Body):
    """The parameters of the list of runs: the script, and the time before which they ended."""

    script: str | None = None
    cursor: str | None = None
    tz: str | None = None


class Line(NamedTuple):
    """A line of a source; `caret` is the position of an error, None on lines around it."""

    number: int
    text: str
    caret: int | None


@dataclass(slots=True)
class Tested:
    """A test of a script, and the source that was tested."""

    view: ScriptTestView
    source: str

    @property
    def excerpt(self) -> Sequence[Line]:
        """The lines around its error."""
        error = self.view.error
        return excerpt(self.source, None if error is None else error.line, None if error is None else error.column)


@dataclass(slots=True)
class Editor:
    """The form of a draft, with the result of a test and errors."""

    form: Form
    script: ScriptView | None = None
    tested: Tested | None = None
    wrong: Sequence[Line] = field(default=())
    """The lines around a syntax error."""


@routes.page("/scripts", Scope.READ)
async def list_scripts(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """All scripts of the tenant."""
    scripts = scripts_of(page)
    found = list(await scripts.list(after=asked.cursor or "", limit=SCRIPTS + 1))
    shown = found[:SCRIPTS]
    midnight = page.times.local(page.now).replace(hour=0, minute=0, second=0, microsecond=0)
    activity = await scripts.activity([each.name for each in shown], since=midnight)
    return page.render(
        "scripts/list.html", rows=list(zip(shown, activity, strict=True)), languages=NAMES,
        cursor=shown[-1].name if len(found) > SCRIPTS else None, isolation=await scripts.isolation(),
    )  # fmt: skip


@routes.asks("/new-script", Scope.EDIT)
async def show_new_script(page: Shown, language: Annotated[Language, Query()] = Language.JAVASCRIPT) -> Response:
    """An empty form."""
    scripts_of(page)
    form = page.typed or Form([("language", language), ("source", BEGINNINGS[language])])
    return _new(page, Editor(form))


@routes.form("/new-script", Scope.EDIT)
async def create_script(page: Shown) -> Response:
    """Create a script as a draft."""
    form = await page.form()
    editor, parameters = Editor(form), _new_in(form)
    if not form.errors:
        take_longer()
        try:
            scripts = scripts_of(page)
            await scripts.create(
                form["name"], _source(form), language=form["language"], parameters=parameters, note=form["note"]
            )
            return page.done(page.url("scripts", form["name"]), f"Created {form['name']}.")
        except EvertickError as error:
            _complain(editor, error)
    return _new(page, editor, status=422)


@routes.page("/scripts/{name}", Scope.READ)
async def show_script(page: Shown, name: Named) -> Response:
    """A script: its draft, its versions and its runs."""
    script = await scripts_of(page).get(name)
    return await _shown(page, Editor(_form_of(script), script))


@routes.form("/scripts/{name}", Scope.EDIT)
async def change_script(page: Shown, name: Named) -> Response:
    """Save the draft of a script, and optionally test or publish it."""
    form, scripts = await page.form(), scripts_of(page)
    editor = Editor(form, await scripts.get(name))
    parameters, value = json_field(form, "parameters"), json_field(form, "input")
    if form.errors:
        return await _shown(page, editor, status=422)
    take_longer()
    try:
        revision = int(form["revision"] or 0)
        editor.script = script = await scripts.edit(
            name, _source(form), parameters=parameters, note=form["note"], if_revision=revision
        )
        if form["do"] == "publish":
            made = await scripts.publish(name, if_revision=script.revision)
            return page.done(page.url("scripts", name), f"{capitalise(made.sentence)}.")
        if form["do"] == "test":
            take_longer((await scripts.limits()).limits["wall_ms"] / SECOND_MS)
            editor.tested = Tested(await scripts.test(name, value), script.source)
            form.pairs = [*_form_of(script).pairs, ("input", form["input"])]
            return await _shown(page, editor)
    except VersionConflict:
        editor.script = script = await scripts.get(name)
        form.fail(
            "", "Someone else has changed this draft since you opened it. Your changes are still here: save them again "
            "to replace theirs, or open the page again to see theirs.",
        )  # fmt: skip
        form.pairs = [("revision", str(script.revision)), *form.pairs]
        return await _shown(page, editor, status=409)
    except EvertickError as error:
        _complain(editor, error)
        return await _shown(page, editor, status=422)
    return page.done(page.url("scripts", name), f"Saved the draft of {name}.")


@routes.asks("/scripts/{name}/run", Scope.EDIT)
async def ask_script_run(page: Shown, name: Named, job: Annotated[str, Query(max_length=100)] = "") -> Response:
    """Show the form for the input of a run, initially that of a `job`."""
    script, form = await scripts_of(page).get(name), page.typed or Form()
    if job and page.typed is None:
        form.pairs = [("input", json.dumps((await page.access.jobs.get(job)).args.get("input"), ensure_ascii=False))]
    return _running(page, script, form)


@routes.form("/scripts/{name}/run", Scope.EDIT)
async def start_script_run(page: Shown, name: Named) -> Response:
    """Start a run of the published version."""
    form, scripts = await page.form(), scripts_of(page)
    value = json_field(form, "input")
    if not form.errors:
        try:
            job_id = await scripts.start(name, value)
            return page.done(page.url("script-runs", job_id), f"Scheduled as {job_id}.")
        except NotFound:
            raise
        except EvertickError as error:
            form.field_of(error, {}, "input")
    return _running(page, await scripts.get(name), form, status=422)


@routes.page("/scripts/{name}/delete", Scope.EDIT)
async def ask_script_delete(page: Shown, name: Named) -> Response:
    """Show the form that deletes a script."""
    return await _deleting(page, name, Form())


@routes.form("/scripts/{name}/delete", Scope.EDIT)
async def delete_script(page: Shown, name: Named) -> Response:
    """Delete a script."""
    form = await page.form()
    try:
        await scripts_of(page).delete(name)
    except NotFound:
        raise
    except EvertickError as error:
        form.field_of(error, {})
        return await _deleting(page, name, form, status=409)
    return page.done(page.url("scripts"), f"Deleted {name}.")


@routes.page("/scripts/{name}/versions/{version}", Scope.READ)
async def show_script_version(page: Shown, name: Named, version: int) -> Response:
    """A version: its source, and the differences from the previous one."""
    scripts = scripts_of(page)
    script, view = await scripts.get(name), await scripts.version(name, version)
    before = await scripts.version(name, version - 1) if version > 1 else None
    return page.render(
        "scripts/version.html", script=script, view=view, before=before, diff=_diff(before, view), languages=NAMES
    )


@routes.page("/scripts/{name}/versions/{version}/rollback", Scope.OPERATE)
async def ask_rollback(page: Shown, name: Named, version: int) -> Response:
    """Show the form that runs an earlier version again."""
    scripts = scripts_of(page)
    script, view = await scripts.get(name), await scripts.version(name, version)
    same = page.same(Form(), page.command("script", "rollback", name, str(version)), at="")
    return page.render("scripts/rollback.html", form=Form(), script=script, view=view, commands=same)


@routes.form("/scripts/{name}/versions/{version}/rollback", Scope.OPERATE)
async def roll_back(page: Shown, name: Named, version: int) -> Response:
    """Run an earlier version again."""
    made = await scripts_of(page).rollback(name, version)
    return page.done(page.url("scripts", name), f"{capitalise(made.sentence)}.")


@routes.page("/script-runs", Scope.READ)
async def list_script_runs(page: Shown, asked: Annotated[AskedRuns, Query()]) -> Response:
    """Runs of scripts, newest first."""
    scripts = scripts_of(page)
    before = None if asked.cursor is None else _moment(asked.cursor)
    found = list(await scripts.runs(asked.script or None, before=before, limit=RUNS + 1))
    cursor = found[RUNS - 1].ended.isoformat() if len(found) > RUNS else None
    names = [each.name for each in await scripts.list(limit=1_000)]
    return page.render("scripts/runs.html", runs=found[:RUNS], asked=asked, cursor=cursor, names=names)


@routes.page("/script-runs/{job_id}", Scope.READ)
async def show_script_run(page: Shown, job_id: Named) -> Response:
    """One run: its attempts, its result and its logs."""
    attempts = await scripts_of(page).run(job_id)
    try:
        job = await page.access.jobs.get(job_id)
    except JobNotFound:
        job = None  # the record of the run may be kept longer
    if not attempts and (job is None or job.function != SCRIPT_FUNCTION):
        raise NotFound(f"no script run {job_id!r}; its retention may be over")
    logs = None if job is None else await page.access.jobs.logs(job_id, all_attempts=True)
    source: Sequence[Line] = ()
    last = attempts[-1] if attempts else None
    if last is not None and last.version is not None and last.error is not None:
        source = await _failing_lines(page, last.script, last.version, last.error.line, last.error.column)
    name = last.script if last is not None else str(job.args.get("script", "")) if job is not None else ""
    return page.render(
        "scripts/run.html", job_id=job_id, job=job, attempts=attempts, last=last, name=name, source=source,
        lines=() if logs is None else logs.lines[-LINES_MAX:], logs=logs,
    )  # fmt: skip


@routes.page("/script-limits", Scope.READ)
async def show_script_limits(page: Shown) -> Response:
    """The limits of the tenant's scripts, their usage, and the isolation of each language."""
    scripts = scripts_of(page)
    view, isolation = await scripts.limits(), await scripts.isolation()
    return page.render(
        "scripts/limits.html", view=view, isolation=isolation, groups=GROUPS, used=USED, languages=NAMES, shown=amount
    )


@routes.asks("/script-limits/change", Scope.ADMIN)
async def ask_script_limits(page: Shown) -> Response:
    """Show the form for the limits of the tenant's scripts."""
    return await _limits(page, page.typed)


@routes.form("/script-limits/change", Scope.ADMIN)
async def change_script_limits(page: Shown) -> Response:
    """Change the limits of the tenant's scripts."""
    _of_all(page)
    form, scripts = await page.form(), scripts_of(page)
    changes = _changes_in(form, await scripts.limits())
    if not form.errors:
        try:
            warning = (await scripts.set_plan(**changes)).warning
            said = f"Changed the limits of {page.tenant}{warning and f'; {warning}'}."
            return page.done(page.url("script-limits"), said)
        except EvertickError as error:
            form.field_of(error, {f"{name}=": name for group in GROUPS.values() for name in group})
    return await _limits(page, form, status=422)


def scripts_of(page: Page) -> AsyncScripts:
    """The scripts of the tenant, with changes recorded in the audit log. Raises Problem if the app runs no scripts."""
    if not page.uses_scripts:
        raise Problem(404, "no_scripts", "the app of this server runs no scripts of customers")
    return page.access.scripts.blocking.audited_by(page.known.audited).aio


def excerpt(source: str, line: int | None, column: int | None) -> Sequence[Line]:
    """The lines of a source around one of them; empty if it is unknown."""
    lines = source.split("\n")
    if line is None or not 1 <= line <= len(lines):
        return ()
    first = max(line - AROUND, 1)
    return [
        Line(number, text, (column or 1) - 1 if number == line else None)
        for number, text in enumerate(lines[first - 1 : line + AROUND], first)
    ]


def amount(name: str, value: Any) -> str:
    """A limit for people; its name contains the unit."""
    if value is None or value == ():
        return "none" if name == "hosts" else "no limit"
    if name == "hosts":
        return ", ".join(value)
    if name.endswith("_bytes"):
        unit, size = ("MiB", 1 << 20) if value >= 1 << 20 else ("KiB", 1 << 10)
        return f"{value / size:,.4g} {unit}"
    if name.endswith("_ms"):
        return f"{value / 1_000:,.4g} s" if value < 120_000 else f"{value / 60_000:,.4g} min"
    return f"{value:,}"


def _source(form: Form) -> str:
    """The source as it was typed, with the line ends LF: browsers send CR LF."""
    return next((value for name, value in form.pairs if name == "source"), "").replace("\r\n", "\n")


def _form_of(script: ScriptView) -> Form:
    parameters = "" if script.parameters is None else json.dumps(script.parameters, ensure_ascii=False, indent=2)
    return Form(
        [("source", script.source), ("parameters", parameters), ("note", script.note),
         ("revision", str(script.revision))]
    )  # fmt: skip


def _complain(editor: Editor, error: EvertickError) -> None:
    """Store an error at the field that it is about."""
    form = editor.form
    if isinstance(error, NotFound):
        raise error
    if isinstance(error, InvalidScript):
        form.field_of(error, {"language of a script": "language"}, "source")
        editor.wrong = excerpt(_source(form), error.line, error.column)
    else:
        form.field_of(error, {"parameters": "parameters", "schema": "parameters", "name": "name", "exists": "name"})


def _new_in(form: Form) -> Any:
    """The parameters of a new script; missing values are stored as errors of their fields."""
    if not form["name"]:
        form.fail("name", "Enter a name, such as open-carts.")
    return json_field(form, "parameters")


def _new(page: Page, editor: Editor, *, status: int = 200) -> Response:
    form, read = editor.form, page.judged(editor.form)
    parameters = _new_in(read)
    line = page.command(
        "script", "create", read["name"], "FILE", language=read["language"], note=read["note"] or None,
        parameters=None if parameters is None else json_text(parameters),
    )  # fmt: skip
    return page.render(
        "scripts/new.html", status=status, editor=editor, form=form, languages=NAMES, commands=page.same(read, line)
    )


async def _shown(page: Page, editor: Editor, *, status: int = 200) -> Response:
    """The page of a script."""
    script, scripts = editor.script, scripts_of(page)
    assert script is not None, "only a new script has none"  # noqa: S101
    [activity] = await scripts.activity([script.name], since=page.times.local(page.now))
    return page.render(
        "scripts/script.html", status=status, editor=editor, form=editor.form, script=script, languages=NAMES,
        versions=await scripts.versions(script.name, limit=NEWEST), runs=await scripts.runs(script.name, limit=NEWEST),
        schedules=activity.schedules, function=SCRIPT_FUNCTION,
        lines=[page.command("script", word, script.name) for word in ("edit", "test", "publish")],
    )  # fmt: skip


async def _deleting(page: Page, name: str, form: Form, *, status: int = 200) -> Response:
    scripts = scripts_of(page)
    script = await scripts.get(name)
    [activity] = await scripts.activity([name], since=page.times.local(page.now))
    return page.render(
        "scripts/delete.html", status=status, form=form, script=script, schedules=activity.schedules,
        commands=page.same(form, page.command("script", "delete", name), at=""),
    )  # fmt: skip


def _running(page: Page, script: ScriptView, form: Form, *, status: int = 200) -> Response:
    read = page.judged(form)
    value = json_field(read, "input")
    line = page.command("script", "run", script.name, input=None if value is None else json_text(value))
    return page.render("scripts/run_now.html", status=status, form=form, script=script, commands=page.same(read, line))


async def _failing_lines(page: Page, name: str, version: int, line: int | None, column: int | None) -> Sequence[Line]:
    """The lines of a version around an error; empty if the version was deleted."""
    try:
        view = await scripts_of(page).version(name, version)
    except NotFound:
        return ()
    return excerpt(view.source, line, column)


def _diff(before: ScriptVersionView | None, after: ScriptVersionView) -> Sequence[tuple[str, str]]:
    """The differences of a version from the previous one: the CSS class of each line, and its text."""
    if before is None:
        return ()
    lines = difflib.unified_diff(before.source.split("\n"), after.source.split("\n"), lineterm="", n=3)
    words = {"+": "added", "-": "removed", "@": "place"}
    return [(words.get(each[:1], "same"), each) for each in list(lines)[2:]]


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise Problem(422, "invalid_request", f"{text[:40]!r} is not the cursor of a list of runs") from None


def _of_all(page: Page) -> None:
    """Raise Problem unless the token is for all tenants: a tenant cannot set its own limits."""
    if not page.reaches_all:
        raise Problem(403, "not_allowed", "setting the limits of a tenant needs a token for all tenants")


async def _limits(page: Page, form: Form | None, *, status: int = 200) -> Response:
    _of_all(page)
    view = await scripts_of(page).limits()
    if form is None:
        own = {name: view.limits[name] for name in view.own}
        form = Form([(name, "\n".join(value) if name == "hosts" else str(value)) for name, value in own.items()])
    read = page.judged(form)
    words = [f"{name}={_word(value)}" for name, value in _changes_in(read, view).items()]
    return page.render(
        "scripts/change_limits.html", status=status, form=form, view=view, groups=GROUPS, shown=amount,
        commands=page.same(read, page.command("script", "limits", *words)),
    )  # fmt: skip


def _word(value: object) -> str:
    return "none" if value is None else ",".join(value) if isinstance(value, list) else str(value)


def _changes_in(form: Form, view: ScriptPlanView) -> ScriptLimits:
    """The limits that a form changes; None means the app's plan."""
    found: dict[str, int | list[str] | None] = dict(
        whole_numbers(form, [name for name in view.limits if name != "hosts"])
    )
    found["hosts"] = form["hosts"].split() or None
    own = {name: view.limits[name] for name in view.own}
    before = own | {"hosts": list(own["hosts"])} if "hosts" in own else own
    changes = {name: value for name, value in found.items() if value != before.get(name)}
    if not form.errors and not changes:
        form.fail("", "Nothing has changed.")
    return cast("ScriptLimits", changes)

"""Gateways, their crons and the runs of these; and one list of everything that is scheduled.

Lists show the platform's copy. Changes, and the runs of a cron, are requested from the gateway itself.
"""

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import Query
from pydantic import Field, ValidationError
from starlette.responses import Response

from evertick.api.gateway_fleet import FleetCron, GatewayView
from evertick.api.gateways import GatewayAction, GatewayRun, GatewaySchedule
from evertick.app.bodies import Body
from evertick.app.gateways.all_schedules import STATUSES, everything, status_of
from evertick.app.gateways.api import AsyncGateways
from evertick.base.errors import (
    EvertickError,
    GatewayUnreachable,
    InvalidCron,
    NotFound,
    RevisionConflict,
    UnknownCommand,
)
from evertick.base.escaping import json_text
from evertick.base.instants import SECOND_MS, from_datetime, to_iso
from evertick.base.records.access import Scope
from evertick.dashboard.forms.form import duration_in, json_field, moment_in, reason_of
from evertick.dashboard.markup.templates import every
from evertick.dashboard.markup.times import Times
from evertick.dashboard.page import Form, Page, Shown, page_routes
from evertick.dashboard.schedules.choice import Select
from evertick.recurrence.parse.duration import parse_milliseconds
from evertick.recurrence.zones.names import zone_named
from evertick.server.bodies import Named
from evertick.server.limits import take_longer
from evertick.server.problems import STATUS
from evertick.server.routes.gateways import GATEWAY_S

routes = page_routes()

ROWS: Final = 50
"""Rows of a page."""
RUNS: Final = 20
LIFETIMES: Final = {"1h": "an hour", "1d": "a day", "7d": "7 days"}
"""How long a join token can be used."""
KIND_WORDS: Final = {"schedule": "schedule", "cron": "cron of the code", "gateway": "gateway cron"}
WHENS: Final = {"cron": "Cron", "interval": "Every", "once": "Once", "rrule": "RRULE"}
"""The types of schedules in the form; WHEN_FIELDS has the field of each type."""
WHEN_FIELDS: Final = {"cron": "cron", "interval": "every", "once": "at", "rrule": "rrule"}
DOES: Final = {
    "builtin": "Built-in", "command": "Command", "http": "HTTP request", "event": "Event", "agent": "Agent",
}  # fmt: skip
"""The types of actions."""
DOES_FIELDS: Final = {"builtin": "builtin", "command": "command", "http": "url", "event": "text", "agent": "message"}
AGENTS: Final = ("event", "agent")
"""Actions that are offered only if the gateway declares them."""
MEANS: Final = {
    "rotate": "It gets a new secret and a new token with its next heartbeat. The old ones are valid for ten minutes.",
    "remove": "It and the copies of its crons are removed here. Its process continues to run its crons, and must "
    "register again to be listed here.",
}
CRON_MEANS: Final = {
    "run": "It runs now at its gateway, in addition to its schedule.",
    "enable": "It continues from now; times that have passed meanwhile are not run.",
    "disable": "It does not run until it is enabled again.",
    "remove": "It is removed at its gateway, with its runs. That cannot be undone.",
}
CronAction = Literal["run", "enable", "disable", "remove"]


class Shows(Body):
    """The parameters of a list with pages."""

    cursor: str | None = Field(None, max_length=2_000)
    tz: str | None = None


class Asked(Shows):
    """The filters of the list of everything."""

    kind: Select = None
    gateway: Select = None
    status: Select = None

    @property
    def given(self) -> dict[str, str]:
        """The filters that are set."""
        return {name: value for name in ("kind", "gateway", "status") if (value := getattr(self, name))}


class Runs(NamedTuple):
    """The runs of a cron; `wrong` says why they could not be read, None if they were."""

    rows: Sequence[GatewayRun]
    wrong: str | None


@routes.page("/everything", Scope.READ)
async def list_everything(page: Shown, asked: Annotated[Asked, Query()]) -> Response:
    """Schedules, and crons of gateways, by next time."""
    work = everything(page.tenant, page.now, **asked.given, cursor=asked.cursor, limit=ROWS)
    found = await page.request.app.state.evertick.environment.executors.read(work)
    return page.render(
        "gateways/everything.html", found=found, asked=asked,
        kinds=KIND_WORDS, statuses=STATUSES, status_of=lambda row: status_of(row, page.now),
    )  # fmt: skip


@routes.page("/gateways", Scope.READ)
async def list_gateways(page: Shown, asked: Annotated[Shows, Query()]) -> Response:
    """All gateways of the tenant."""
    found = await _gateways(page).list(after=asked.cursor or "", limit=ROWS + 1)
    cursor = found[ROWS - 1].name if len(found) > ROWS else None
    return page.render("gateways/list.html", rows=found[:ROWS], cursor=cursor)


@routes.asks("/new-gateway", Scope.ADMIN)
async def show_new_gateway(page: Shown, gateway: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Show the form for the name of a new gateway."""
    return _joining(page, page.typed or Form([("name", gateway), ("expires", "1h")]))


@routes.form("/new-gateway", Scope.ADMIN)
async def make_join_token(page: Shown) -> Response:
    """Create a token with which a gateway registers, and show it."""
    form = await page.form()
    lasts_s = _join_of(form)
    if not form.errors:
        try:
            token = await _gateways(page).join_token(form["name"], expires_in=lasts_s)
        except EvertickError as error:
            form.field_of(error, {"expires_in": "expires"}, "name")
        else:
            response = page.render("gateways/join_token.html", token=token)
            response.headers["cache-control"] = "no-store"
            return response
    return _joining(page, form, status=422)


@routes.page("/gateways/{name}", Scope.READ)
async def show_gateway(page: Shown, name: Named, asked: Annotated[Shows, Query()]) -> Response:
    """A gateway with its health and its crons."""
    gateways = _gateways(page)
    view = await gateways.get(name)
    crons = await gateways.crons(name, after=asked.cursor, limit=ROWS)
    return page.render(
        "gateways/gateway.html", view=view, crons=crons.crons, cursor=crons.next,
        status_of=lambda row: status_of(row, page.now), lines=[page.command("gateway", "get", name, now=True)],
    )  # fmt: skip


@routes.form("/gateways/{name}/check", Scope.OPERATE)
async def check_gateway(page: Shown, name: Named) -> Response:
    """Sync with a gateway now: its health, and its crons."""
    take_longer(2 * GATEWAY_S)
    view = await _gateways(page).check(name)
    return page.done(page.url("gateways", name), f"{name} is {view.health}{f': {view.reason}' if view.reason else ''}.")


@routes.asks("/gateways/{name}/new-cron", Scope.EDIT)
async def show_new_cron(page: Shown, name: Named) -> Response:
    """An empty form of a cron."""
    view = await _gateways(page).get(name)
    return _cron_form(page, view, page.typed or Form([("when", "cron"), ("does", "builtin")]))


@routes.form("/gateways/{name}/new-cron", Scope.EDIT)
async def add_cron(page: Shown, name: Named) -> Response:
    """Add a cron to a gateway."""
    form, gateways = await page.form(), _gateways(page)
    view = await gateways.get(name)
    given = _cron_in(page, form, None)
    status = 422
    if not form.errors:
        take_longer(3 * GATEWAY_S)
        try:
            made = await gateways.add_cron(name, form["key"], **given)
            return page.done(page.url("gateways", name, "crons", made.id), f"Added {made.name} to {name}.")
        except EvertickError as error:
            status = _complain(form, error)
    return _cron_form(page, view, form, status=status)


@routes.page("/gateways/{name}/{action}", Scope.ADMIN)
async def ask_gateway_change(page: Shown, name: Named, action: Literal["rotate", "remove"]) -> Response:
    """Show the form that rotates the secret of a gateway or removes it."""
    view = await _gateways(page).get(name)
    commands = page.same(Form(), page.command("gateway", action, name), at="")
    return page.render(
        "gateways/change.html", form=Form(), view=view, action=action, means=MEANS[action], commands=commands
    )


@routes.form("/gateways/{name}/{action}", Scope.ADMIN)
async def change_gateway(page: Shown, name: Named, action: Literal["rotate", "remove"]) -> Response:
    """Rotate the secret of a gateway, or remove it."""
    if action == "remove":
        await _gateways(page).remove(name)
        return page.done(page.url("gateways"), f"{name} is removed; its process continues to run its crons.")
    await _gateways(page).rotate(name)
    return page.done(page.url("gateways", name), f"{name} gets a new secret with its next heartbeat.")


@routes.page("/gateways/{name}/crons/{cron}", Scope.READ)
async def show_cron(page: Shown, name: Named, cron: Named) -> Response:
    """A cron of a gateway, with its runs as the gateway has them now."""
    gateways = _gateways(page)
    view, each = await gateways.get(name), await gateways.cron(name, cron)
    runs = Runs((), None)
    if each.removed_at is None:
        try:
            async with page.in_time():
                runs = Runs(await gateways.runs(name, each.cron.id, limit=RUNS), None)
        except (GatewayUnreachable, NotFound) as error:
            runs = Runs((), str(error))
        except TimeoutError:
            runs = Runs((), f"the gateway {name} did not reply in time")
    return page.render(
        "gateways/cron.html", view=view, each=each, state=status_of(each, page.now), runs=runs, most=RUNS,
        lines=[page.command("gateway", "cron", "runs", name, each.cron.id)],
    )  # fmt: skip


@routes.asks("/gateways/{name}/crons/{cron}/edit", Scope.EDIT)
async def show_cron_edit(page: Shown, name: Named, cron: Named) -> Response:
    """The form of a cron."""
    gateways = _gateways(page)
    view, each = await gateways.get(name), await gateways.cron(name, cron)
    return _cron_form(page, view, page.typed or _form_of(each), each)


@routes.form("/gateways/{name}/crons/{cron}/edit", Scope.EDIT)
async def change_cron(page: Shown, name: Named, cron: Named) -> Response:
    """Change a cron at its gateway."""
    form, gateways = await page.form(), _gateways(page)
    view, each = await gateways.get(name), await gateways.cron(name, cron)
    changes = _cron_in(page, form, each)
    status = 422
    if not form.errors:
        take_longer(3 * GATEWAY_S)
        try:
            made = await gateways.update_cron(name, each.cron.id, revision=form["revision"] or None, **changes)
            return page.done(page.url("gateways", name, "crons", made.id), f"Changed {made.name}.")
        except RevisionConflict:
            each = await gateways.cron(name, cron)
            form.fail(
                "", "Someone else has changed this cron since you opened it. Your changes are still here: save them "
                "again to replace theirs, or open the form again to see theirs.",
            )  # fmt: skip
            form.pairs = [("revision", each.cron.revision), *form.pairs]
            status = 409
        except EvertickError as error:
            status = _complain(form, error)
    return _cron_form(page, view, form, each, status=status)


@routes.page("/gateways/{name}/crons/{cron}/run", Scope.OPERATE)
async def ask_cron_run(page: Shown, name: Named, cron: Named) -> Response:
    """Show the form that runs a cron now."""
    return await _cron_change(page, name, cron, "run", Form())


@routes.form("/gateways/{name}/crons/{cron}/run", Scope.OPERATE)
async def run_cron(page: Shown, name: Named, cron: Named) -> Response:
    """Run a cron now."""
    return await _do(page, name, cron, "run")


@routes.page("/gateways/{name}/crons/{cron}/{action}", Scope.EDIT)
async def ask_cron_change(
    page: Shown, name: Named, cron: Named, action: Literal["enable", "disable", "remove"]
) -> Response:
    """Show the form that enables, disables or removes a cron."""
    return await _cron_change(page, name, cron, action, Form())


@routes.form("/gateways/{name}/crons/{cron}/{action}", Scope.EDIT)
async def do_cron_change(
    page: Shown, name: Named, cron: Named, action: Literal["enable", "disable", "remove"]
) -> Response:
    """Enable, disable or remove a cron at its gateway."""
    return await _do(page, name, cron, action)


def _gateways(page: Page) -> AsyncGateways:
    """The gateways of the tenant; changes through the result are recorded in the audit log."""
    return page.access.gateways.blocking.audited_by(page.known.audited).aio


def _join_of(form: Form) -> float:
    """The lifetime of a join token in seconds; errors are stored at the fields."""
    if not form["name"]:
        form.fail("name", "Enter a name, such as edge-1.")
    if form["expires"] not in LIFETIMES:
        form.fail("expires", "Choose how long it can be used.")
        return 0
    return parse_milliseconds(form["expires"]) / SECOND_MS


def _joining(page: Page, form: Form, *, status: int = 200) -> Response:
    read = page.judged(form)
    lasts_s = _join_of(read)
    line = page.command("gateway", "join-token", read["name"], expires_in=f"{lasts_s:g}")
    return page.render(
        "gateways/new.html", status=status, form=form, lifetimes=LIFETIMES, commands=page.same(read, line)
    )


def _complain(form: Form, error: EvertickError) -> int:
    """Store an error of a gateway at the field that it is about; returns the status of the page."""
    if isinstance(error, NotFound):
        raise error
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    when, does = WHEN_FIELDS.get(form["when"], "when"), DOES_FIELDS.get(form["does"], "does")
    if isinstance(error, UnknownCommand):
        form.fail("arguments" if "argument" in str(error) else does, str(error))
    elif isinstance(error, InvalidCron):
        fields = {"timezone": "zone", "time zone": "zone", "arguments": "arguments", "schedule": when, "action": does}
        form.field_of(error, fields | {"key:": "key", "name:": "name"}, when)
    else:
        form.fail("", reason_of(error))
    return status


def _form_of(each: FleetCron) -> Form:
    """The form for an existing cron."""
    schedule, action = each.cron.schedule, each.cron.action
    interval = "" if schedule.every_ms is None else every(schedule.every_ms)
    at = "" if schedule.at is None else to_iso(from_datetime(schedule.at))
    values = {
        "name": each.cron.name, "revision": each.cron.revision, "when": schedule.type, "cron": schedule.expression,
        "every": interval, "at": at, "rrule": schedule.rrule, "zone": schedule.timezone, "does": action.type,
        "url": action.url, "method": action.method, "body": action.body, "text": action.text,
        "message": action.message,
        "arguments": None if action.arguments is None else json_text(action.arguments),
    }  # fmt: skip
    if action.type in ("builtin", "command"):
        values[action.type] = action.name
    return Form([(name, value) for name, value in values.items() if value])


def _cron_in(page: Page, form: Form, before: FleetCron | None) -> dict[str, Any]:
    """The members of a cron in a form; for an existing cron only the changes. Errors are stored at the fields."""
    if before is None and not form["key"]:
        form.fail("key", "Enter a key, such as purge: a cron that is added again with the same key is replaced.")
    schedule, action = _schedule_in(page, form), _action_in(form)
    given: dict[str, Any] = {"schedule": schedule, "action": action}
    if form["name"]:
        given["name"] = form["name"]
    if before is None or form.errors:
        return given
    if given.get("name") == before.cron.name:
        del given["name"]
    if _is_same(GatewaySchedule, schedule, before.cron.schedule):
        del given["schedule"]
    if _is_same(GatewayAction, action, before.cron.action):
        del given["action"]
    if not given:
        form.fail("", "Nothing has changed.")
    return given


def _is_same(kind: type[GatewaySchedule] | type[GatewayAction], given: dict[str, Any], now: object) -> bool:
    with contextlib.suppress(ValidationError):  # the gateway reports what is wrong
        return kind.model_validate(given) == now
    return False


def _schedule_in(page: Page, form: Form) -> dict[str, Any]:
    """The schedule of a cron, in the form of the gateway API."""
    when = form["when"]
    if when not in WHENS:
        form.fail("when", "Choose when it runs.")
        return {}
    found: dict[str, Any] = {"type": when}
    name = WHEN_FIELDS[when]
    if not form[name]:
        form.fail(name, "Enter when it runs.")
    if when == "interval":
        every = duration_in(form, name)
        found["every_ms"] = 0 if every is None else round(every.total_seconds() * SECOND_MS)
    elif when == "once":
        at = moment_in(form, name, _times_in(page, form))
        found["at"] = None if at is None else to_iso(from_datetime(at))
    else:
        found["expression" if when == "cron" else "rrule"] = form[name].replace("\r\n", "\n")
        if form["zone"]:
            found["timezone"] = form["zone"]
    return found


def _times_in(page: Page, form: Form) -> Times:
    """The times of the page, in the zone chosen in a form."""
    if not form["zone"]:
        return page.times
    try:
        return Times(page.now, zone_named(form["zone"]))
    except EvertickError as error:
        form.fail("zone", str(error))
        return page.times


def _action_in(form: Form) -> dict[str, Any]:
    """The action of a cron, in the form of the gateway API."""
    does = form["does"]
    if does not in DOES:
        form.fail("does", "Choose what it does.")
        return {}
    name = DOES_FIELDS[does]
    if not form[name]:
        form.fail(name, "Enter what it does.")
    found: dict[str, Any] = {"type": does, "name" if does in ("builtin", "command") else name: form[name]}
    if does == "command" and (arguments := json_field(form, "arguments")) is not None:
        if not isinstance(arguments, dict) or not all(isinstance(each, str) for each in arguments.values()):
            form.fail("arguments", 'Enter a JSON object of strings, such as {"days": "7"}.')
        found["arguments"] = arguments
    if does == "http":
        found["method"] = form["method"] or "GET"
        if form["body"]:
            found["body"] = form["body"]
    return found


def _cron_form(
    page: Page, view: GatewayView, form: Form, each: FleetCron | None = None, *, status: int = 200
) -> Response:
    read = page.judged(form)
    given = _cron_in(page, read, each)
    can = {name for name in DOES if name not in AGENTS or f"action:{name}" in view.capabilities}
    return page.render(
        "gateways/cron_form.html", status=status, view=view, form=form, each=each, whens=WHENS,
        does={name: words for name, words in DOES.items() if name in can or name == form["does"]},
        commands=page.same(read, "" if read.errors else _line(page, view.name, read, given, each)),
    )  # fmt: skip


def _line(page: Page, gateway: str, form: Form, given: dict[str, Any], each: FleetCron | None) -> str:
    """The command that does the same as a form."""
    action, schedule = given.get("action"), given.get("schedule")
    if action is not None and action["type"] in AGENTS:
        members = given if each is not None else {"key": form["key"], **given}
        words = [f"{name}={json_text(value)}" for name, value in members.items()]
        if each is None:
            return page.command("api", "POST", f"gateways/{gateway}/crons", *words)
        return page.command("api", "PATCH", f"gateways/{gateway}/crons/{each.cron.id}", *words)
    options: dict[str, str | None] = {"name": given.get("name")}
    if schedule is not None:
        name = WHEN_FIELDS[schedule["type"]]
        said = {"at": schedule.get("at"), "every": every(schedule.get("every_ms") or 0)}
        options |= {name: said.get(name, form[name]), "zone": schedule.get("timezone")}
    if action is not None:
        kind = action["type"]
        options[kind] = form[DOES_FIELDS[kind]]
        arguments = action.get("arguments")
        options |= {"method": action.get("method"), "body": action.get("body")}
        options["arguments"] = None if arguments is None else json_text(arguments)
    if each is None:
        return page.command("gateway", "cron", "add", gateway, form["key"], **options)
    revision = form["revision"] or None
    return page.command("gateway", "cron", "update", gateway, each.cron.id, **options, if_revision=revision)


async def _cron_change(
    page: Page, name: str, cron: str, action: CronAction, form: Form, *, status: int = 200
) -> Response:
    each = await _gateways(page).cron(name, cron)
    words = ["update"] if action in ("enable", "disable") else [action]
    flags = {action: True} if action in ("enable", "disable") else {}
    line = page.command("gateway", "cron", *words, name, each.cron.id, **flags)
    return page.render(
        "gateways/cron_change.html", status=status, form=form, each=each, action=action, means=CRON_MEANS[action],
        commands=page.same(form, line, at=""),
    )  # fmt: skip


async def _do(page: Page, name: str, cron: str, action: CronAction) -> Response:
    """Change or run a cron at its gateway; an error of the gateway is shown in the form."""
    form, gateways = await page.form(), _gateways(page)
    each = await gateways.cron(name, cron)
    here = page.url("gateways", name, "crons", each.cron.id)
    take_longer(3 * GATEWAY_S)
    try:
        if action == "run":
            run_id = await gateways.run_cron(name, each.cron.id, key=form["request"] or None)
            return page.done(here, f"Started the run {run_id}.")
        if action == "remove":
            await gateways.remove_cron(name, each.cron.id, revision=each.cron.revision)
            return page.done(page.url("gateways", name), f"Removed {each.cron.name} at {name}.")
        await gateways.update_cron(name, each.cron.id, enabled=action == "enable")
        return page.done(here, f"{each.cron.name} is {action}d.")
    except EvertickError as error:
        status = _complain(form, error)
    return await _cron_change(page, name, cron, action, form, status=status)

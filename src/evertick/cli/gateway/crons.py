"""`evertick gateway cron`: crons of gateways, listed from the copies and changed at the gateways."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from evertick.base.errors import InvalidCron
from evertick.base.escaping import printable
from evertick.cli.core.databases import data_options
from evertick.cli.core.flags import flag, flags
from evertick.cli.core.lazy import Lazy, lazy_group
from evertick.cli.core.output import OutputOptions, limit_option, output_option, row_options, time_row_options
from evertick.cli.gateway.session import open_gateways
from evertick.cli.json_values import json_or_text
from evertick.cli.sessions.base import say_nothing_found
from evertick.recurrence.parse.duration import parse_milliseconds

LIST_FIELDS: Final = (
    "gateway",
    "health",
    "id",
    "key",
    "schedule",
    "zone",
    "status",
    "next",
    "last",
    "last_status",
    "as_of",
)
"""The columns of the list; `-o json` has all fields."""
IN_ZONES: Final = ("cron", "rrule")
"""Kinds of schedules whose times are those of a zone."""
RUN_FIELDS: Final = ("run_id", "started_at", "status", "trigger", "duration_ms", "error")


@dataclass(frozen=True, slots=True)
class CronFlags:
    """The options for the times and the action of a cron."""

    cron: str | None = flag(
        "--cron", metavar="EXPRESSION", help="As in '0 3 * * *'; with six fields the first are seconds."
    )
    every: str | None = flag("--every", "--interval", metavar="DURATION", help="An interval, as in 15m.")
    at: str | None = flag("--at", metavar="TIME", help="Once, at an RFC 3339 time.")
    rrule: str | None = flag("--rrule", metavar="RRULE", help="With its DTSTART.")
    zone: str | None = flag("--zone", "--time-zone", metavar="ZONE", help="The time zone; UTC unless given.")
    http: str | None = flag("--http", metavar="URL", help="Request this address, of a host that the gateway allows.")
    method: str | None = flag("--method", type=click.Choice(("GET", "POST")), help="Of --http; GET unless given.")
    body: str | None = flag("--body", metavar="TEXT", help="Of --http.")
    builtin: str | None = flag("--builtin", metavar="NAME", help="Run what the gateway has built in.")
    command: str | None = flag("--command", metavar="NAME", help="Run a command of the gateway's configuration.")
    arguments: str | None = flag(
        "--arguments", "--input", metavar="JSON", help="Arguments of --command, as an object of texts."
    )
    name: str | None = flag("--name", metavar="TEXT", help="What people call it.")

    def schedule(self, now: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """The schedule in the form of the gateway contract; None if no option sets it.

        `now` is the current schedule, whose time zone is kept. Raises UsageError.
        """
        found: dict[str, dict[str, Any]] = {}
        if self.cron is not None:
            found["--cron"] = {"type": "cron", "expression": self.cron}
        if self.every is not None:
            found["--every"] = {"type": "interval", "every_ms": parse_milliseconds(self.every)}
        if self.at is not None:
            found["--at"] = {"type": "once", "at": self.at}
        if self.rrule is not None:
            found["--rrule"] = {"type": "rrule", "rrule": self.rrule}
        schedule = _one_of(found)
        if self.zone is not None:
            schedule = dict(now) if schedule is None and now is not None else schedule
            if schedule is None or schedule["type"] not in IN_ZONES:
                raise click.UsageError("--zone goes with --cron and --rrule")
            schedule["timezone"] = self.zone
        elif schedule is not None and now is not None and schedule["type"] in IN_ZONES and now.get("timezone"):
            schedule["timezone"] = now["timezone"]
        return schedule

    @property
    def changes_a_part(self) -> bool:
        """Whether an update needs the current definition of the cron."""
        is_in_zone = (self.cron is not None or self.rrule is not None) and self.zone is None
        return is_in_zone or any(each is not None for each in (self.zone, self.method, self.body, self.arguments))

    def action(self, now: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """The action in the form of the gateway contract; None if no option sets it.

        `now` is the current action, of which the options may replace a part. Raises UsageError, InvalidCron.
        """
        found: dict[str, dict[str, Any]] = {}
        more = {"method": self.method, "body": self.body}
        given = {name: value for name, value in more.items() if value is not None}
        known = (now or {}).get("type")
        if self.http is not None:
            found["--http"] = {"type": "http", "url": self.http, **given}
        elif given and known == "http":
            found["--method or --body"] = {**(now or {}), **given}
        elif given:
            raise click.UsageError("--method and --body go with --http")
        if self.builtin is not None:
            found["--builtin"] = {"type": "builtin", "name": self.builtin}
        if self.command is not None:
            found["--command"] = {"type": "command", "name": self.command}
        if self.arguments is not None and not found and known == "command":
            found["--arguments"] = dict(now or {})
        action = _one_of(found)
        if self.arguments is not None:
            if action is None or action["type"] != "command":
                raise click.UsageError("--arguments goes with --command")
            action["arguments"] = arguments_of(self.arguments)
        return action


def arguments_of(text: str) -> dict[str, str]:
    """The arguments of a command. Raises InvalidCron unless `text` is a JSON object whose values are texts."""
    given = json_or_text(text, "--arguments")
    if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
        raise InvalidCron('--arguments is a JSON object of texts, such as {"days": "7"}')
    return given


def _one_of(found: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    if len(found) > 1:
        raise click.UsageError(f"{' and '.join(found)} exclude each other; give one")
    return next(iter(found.values()), None)


gateway_argument: Final = click.argument("gateway", metavar="GATEWAY")
cron_argument: Final = click.argument("cron_id", metavar="CRON")
revision_option: Final = click.option(
    "--if-revision", "revision", metavar="TEXT", help="Only if the cron has still this revision."
)


@click.command("list")
@click.argument("gateway", metavar="[GATEWAY]", required=False)
@click.option("--after", metavar="CURSOR", help="Go on where a page ended.")
@limit_option
@data_options
@time_row_options
def list_crons(gateway: str | None, after: str | None, limit: int, db: str | None, out: OutputOptions) -> None:
    """List crons of all gateways by next time, or of one. `as_of` says when the copy was current."""
    from evertick.api.gateway_fleet import GatewayCronLine

    chosen = out.columns(GatewayCronLine.names(), LIST_FIELDS)
    with open_gateways(db) as session:
        found = session.gateways.crons(gateway, after=after, limit=limit)
        out.show_views([GatewayCronLine.of(each) for each in found.crons], session.now, chosen)
        if found.next is not None and out.tells_of_nothing:
            click.echo(f"more: --after {found.next}", err=True)
        if not found.crons and out.tells_of_nothing:
            say_nothing_found("crons of gateways", session.store)


@click.command()
@gateway_argument
@cron_argument
@data_options
@row_options
def get(gateway: str, cron_id: str, db: str | None, out: OutputOptions) -> None:
    """Show the copy of a cron, by its id or its key."""
    from evertick.api.gateway_fleet import FleetCron

    with open_gateways(db) as session:
        found = session.gateways.cron(gateway, cron_id)
        out.show_view(found, session.now, out.columns(FleetCron.names(), FleetCron.names()))


@click.command()
@gateway_argument
@click.argument("key", metavar="KEY")
@flags(CronFlags, "cron")
@click.option("--disabled", is_flag=True, help="It does not run until it is enabled.")
@data_options
@output_option
def add(gateway: str, key: str, cron: CronFlags, disabled: bool, db: str | None, out: OutputOptions) -> None:
    """Add a cron to a gateway under KEY, or declare the one of that key again.

    \b
    evertick gateway cron add edge-1 purge --cron '0 3 * * *' --builtin purge_cache
    """
    schedule, action = cron.schedule(), cron.action()
    if schedule is None:
        raise click.UsageError("say when it runs: --cron, --every, --at or --rrule")
    if action is None:
        raise click.UsageError("say what it does: --http, --builtin or --command")
    with open_gateways(db) as session:
        made = session.gateways.add_cron(
            gateway, key, schedule=schedule, action=action, name=cron.name, enabled=False if disabled else None
        )
    out.say(f"{gateway} has the cron {made.id} under the key {printable(key)}")
    out.write_view(made)


@click.command()
@gateway_argument
@cron_argument
@flags(CronFlags, "cron")
@click.option("--enable/--disable", "enabled", default=None, help="Whether it runs.")
@revision_option
@data_options
@output_option
def update(
    gateway: str, cron_id: str, cron: CronFlags, enabled: bool | None, revision: str | None, db: str | None,
    out: OutputOptions,
) -> None:  # fmt: skip
    """Change a cron at its gateway; what is not given stays."""
    schedule: Mapping[str, Any] | None = None
    action: Mapping[str, Any] | None = None
    with open_gateways(db) as session:
        if cron.changes_a_part:
            found = session.gateways.cron(gateway, cron_id).cron
            schedule, action = found.schedule.to_json(), found.action.to_json()
            revision = revision or found.revision
        given = {
            "schedule": cron.schedule(schedule), "action": cron.action(action), "name": cron.name, "enabled": enabled,
        }  # fmt: skip
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            raise click.UsageError("say what changes, for example --disable or --cron '0 4 * * *'")
        changed = session.gateways.update_cron(gateway, cron_id, revision=revision, **changes)
    out.say(f"changed {printable(cron_id)} at {gateway}")
    out.write_view(changed)


@click.command()
@gateway_argument
@cron_argument
@click.option("--key", metavar="KEY", help="The same key runs it once, however often it is sent.")
@data_options
@output_option
def run(gateway: str, cron_id: str, key: str | None, db: str | None, out: OutputOptions) -> None:
    """Run a cron now; prints the id of the run."""
    from evertick.api.gateways import StartedGatewayRun

    with open_gateways(db) as session:
        run_id = session.gateways.run_cron(gateway, cron_id, key=key)
    out.say(printable(run_id))
    out.write_view(StartedGatewayRun(run_id=run_id))


@click.command()
@gateway_argument
@cron_argument
@click.option("--run", "run_id", metavar="RUN", help="This run alone, with its output.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True)
@data_options
@time_row_options
def runs(gateway: str, cron_id: str, run_id: str | None, limit: int, db: str | None, out: OutputOptions) -> None:
    """List runs of a cron, the newest first, as its gateway has them now."""
    from evertick.api.gateways import GatewayRun

    fields = RUN_FIELDS if run_id is None else (*RUN_FIELDS, "output")
    chosen = out.columns(GatewayRun.names(), fields)
    with open_gateways(db) as session:
        found = session.gateways.runs(gateway, cron_id, run_id=run_id, limit=limit)
        out.show_views(found, session.now, chosen)
    if not found and out.tells_of_nothing:
        click.echo("no run yet", err=True)


@click.command()
@gateway_argument
@cron_argument
@revision_option
@data_options
@output_option
def remove(gateway: str, cron_id: str, revision: str | None, db: str | None, out: OutputOptions) -> None:
    """Remove a cron at its gateway."""
    from evertick.api.gateway_fleet import RemovedGatewayCron

    with open_gateways(db) as session:
        session.gateways.remove_cron(gateway, cron_id, revision=revision)
    out.say(f"removed {printable(cron_id)} at {gateway}")
    out.write_view(RemovedGatewayCron(gateway=gateway, cron=cron_id))


COMMANDS: Final = {
    "list": Lazy("evertick.cli.gateway.crons:list_crons", "List crons of gateways by next time"),
    "get": Lazy("evertick.cli.gateway.crons:get", "Show the copy of a cron"),
    "add": Lazy("evertick.cli.gateway.crons:add", "Add a cron to a gateway"),
    "update": Lazy("evertick.cli.gateway.crons:update", "Change a cron at its gateway"),
    "run": Lazy("evertick.cli.gateway.crons:run", "Run a cron now"),
    "runs": Lazy("evertick.cli.gateway.crons:runs", "List runs of a cron"),
    "remove": Lazy("evertick.cli.gateway.crons:remove", "Remove a cron at its gateway"),
}

cron = lazy_group("cron", "Crons of gateways.", COMMANDS)

"""`evertick tenant ...`: which tenants there are, what each may use, and what it uses. Imports no app."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.paging import TENANTS_MAX
from evertick.base.records.limits import LIMIT_MAX
from evertick.cli.core.databases import Command, source_options
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import OutputOptions, plain, row_options
from evertick.cli.sessions.fleet import open_fleet

if TYPE_CHECKING:
    from evertick.api.limits import TenantView

FIELDS: Final = ("tenant", "running", "starts_per_minute", "jobs", "argument_bytes", "schedules")


@click.group(cls=LazyGroup)
def tenant() -> None:
    """Tenants: which there are, what each may use, and what it uses."""


class Limit(click.ParamType[int | str]):
    """An option value: a whole number, or `none` for no limit."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Convert the text of an option."""
        if value == "none":
            return "none"
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a whole number nor 'none'", param, ctx)
        if not 0 <= number <= LIMIT_MAX:
            self.fail(f"{value} is not from 0 to {LIMIT_MAX:,}", param, ctx)
        return number


LIMITS: Final = {
    "running": "Jobs that run at a time on all workers; more wait. With 0 none starts.",
    "starts_per_minute": "Attempts that start in a minute, evenly spread; more wait.",
    "jobs": "Unfinished jobs; more are refused.",
    "argument_bytes": "Arguments of all unfinished jobs together, in bytes; more are refused.",
    "schedules": "Schedules; more are refused.",
}


def limit_options(limits: Mapping[str, str]) -> Callable[[Command], Command]:
    """Add NAME, an option `--starts-per-minute N|none` with its help for each limit, `--db`, and the output options."""

    def add(command: Command) -> Command:
        command = source_options(row_options(command))
        for name, words in reversed(list(limits.items())):
            option = click.option(f"--{name.replace('_', '-')}", name, type=Limit(), metavar="N|none", help=words)
            command = option(command)
        return click.argument("name")(command)

    return add


def changes_of(limits: Mapping[str, int | str | None]) -> Any:
    """The changed limits, None for `none`. Raises UsageError if no option is given."""
    changes = {name: None if value == "none" else value for name, value in limits.items() if value is not None}
    if not changes:
        raise click.UsageError(f"say which limit: {', '.join('--' + name.replace('_', '-') for name in limits)}")
    return changes


@tenant.command("list")
@click.option("--first", metavar="NAME", default="", help="Begin at this name.")
@click.option("--limit", type=click.IntRange(1, TENANTS_MAX), default=100, show_default=True)
@click.option("--limited", is_flag=True, help="Those with limits alone.")
@source_options
@row_options
def list_tenants(first: str, limit: int, limited: bool, db: str | None, out: OutputOptions) -> None:
    """List tenants: of each limit, what is used and how much there may be.

    A tenant is listed while anything of it is kept: jobs and runs, ended ones too, schedules, documents or limits.
    """
    from evertick.api.limits import TenantView

    chosen = out.columns(TenantView.names() if out.is_data else FIELDS, FIELDS)
    with open_fleet(db) as fleet:
        found = fleet.tenants.list(first=first, limit=limit, limited=limited)
        more = len(found) == limit and len(fleet.tenants.list(first=found[-1].tenant, limit=2, limited=limited)) > 1
    out.write_rows([view.to_json() for view in found], [_words(view) for view in found], chosen)
    if not found and out.tells_of_nothing:
        click.echo("no tenant has limits" if limited else "no tenants yet", err=True)
    if more and not out.is_none:
        click.echo(f"these are {limit}; there are more: --limit, or --first", err=True)


@tenant.command("get")
@click.argument("name")
@source_options
@row_options
def get_tenant(name: str, db: str | None, out: OutputOptions) -> None:
    """Show what a tenant uses, and what it may use."""
    with open_fleet(db) as fleet:
        _write(fleet.tenants.get(name), out)


@tenant.command("set")
@limit_options(LIMITS)
def set_tenant(name: str, db: str | None, out: OutputOptions, **limits: int | str | None) -> None:
    """Change what a tenant may use; 'none' removes a limit."""
    changes = changes_of(limits)
    with open_fleet(db) as fleet:
        _write(fleet.tenants.set(name, **changes), out)


def _write(view: "TenantView", out: OutputOptions) -> None:
    from evertick.api.limits import TenantView

    chosen = out.columns(TenantView.names() if out.is_data else FIELDS, FIELDS)
    out.write_one(view.to_json(), _words(view), chosen)


def _words(view: "TenantView") -> Mapping[str, str]:
    """The use of each limit as text, `3 of 5`; only the limit if its use is not known, as for a rate."""
    used, limits = asdict(view.usage), asdict(view.limits)
    words = {name: plain(value) for name, value in view.to_json().items()}
    for name, limit in limits.items():
        parts = [f"{value:,}" for value in (used.get(name), limit) if value is not None]
        words[name] = " of ".join(parts) if limit is not None or name in used else ""
    return words

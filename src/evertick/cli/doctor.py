"""`evertick doctor`: does what is scheduled fit the code? Run it before a deploy, with the new code.

With `--fleet`, or a server, it checks the workers instead: what keeps them from running scheduled work?
"""

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import click

from evertick.base.escaping import printable
from evertick.cli.core.connections import PROFILE_VARIABLE, TOKEN_VARIABLE, chosen_server
from evertick.cli.core.databases import (
    DATABASE_URL_VARIABLE,
    named_tenant,
    open_database,
    source_options,
    tenants_option,
)
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import not_empty
from evertick.cli.core.loading import FILE_DEFAULT, load_app, parse_target
from evertick.cli.core.output import OutputOptions, output_option, plain
from evertick.cli.sessions.fleet import open_fleet

if TYPE_CHECKING:
    from evertick.api.doctor import Finding

LIST: Final = ("what", "tenant", "id", "count", "function", "problem", "detail", "fix")
"""The columns of the table; `id` is the first of `count`."""


VARIABLES: Final = (
    DATABASE_URL_VARIABLE, PROFILE_VARIABLE, TOKEN_VARIABLE, "EVERTICK_GATEWAY_KEY", "EVERTICK_GATEWAY_HOSTS",
    "EVERTICK_ALLOW_WEAK_ISOLATION",
)  # fmt: skip
"""Those of the environment that are read."""
RENAMED: Final = "a renamed one starts again, without its pause and its history"
FLEET_LIST: Final = ("check", "tenant", "name", "detail", "fix")


@click.command()
@click.argument("file", required=False)
@click.option("--app", "app_file", metavar="FILE", callback=not_empty, help="The same as FILE.")
@click.option("--fleet", "of_fleet", is_flag=True, help="Check the workers and schedules of a database, not the code.")
@source_options
@tenants_option
@output_option
def doctor(file: str | None, app_file: str | None, of_fleet: bool, db: str | None, out: OutputOptions) -> int:
    """Check that pending jobs, schedules and crons fit the code of the app in FILE (app.py unless given).

    Run it with the new code before a deploy. The exit code is 8 if functions were removed or renamed, or if arguments
    no longer fit a signature; each line says what to do. It is 6 if all that was checked fits, but of a tenant there
    are more pending jobs, or more runs of workflows to replay, than it checks.

    With --fleet, and always on a server, it checks what runs instead: clocks, standbys, time zone data, dead workers,
    lag, pools and functions that no live worker serves, and schedules without a time to come.
    """
    _note_unknown_variables()
    code = app_file or file
    if of_fleet or chosen_server(db) is not None:
        if code is not None:
            raise click.UsageError("workers are checked without code: leave out the file, or --fleet and the server")
        return _of_fleet(db, out)
    return _of_code(code or FILE_DEFAULT, db, out)


def _note_unknown_variables() -> None:
    """Print the environment variables that are not read but are similar to one that is, since they may be mistyped."""
    for name in sorted(os.environ):
        if name in VARIABLES or not name.upper().startswith("EVERTICK"):
            continue
        if near := get_close_matches(name.upper(), VARIABLES, n=1, cutoff=0.7):
            words = f"note: the environment variable {printable(name)} is not read; did you mean {near[0]}?"
            click.echo(words, err=True)


def _of_fleet(db: str | None, out: OutputOptions) -> int:
    with open_fleet(db) as fleet:
        report = fleet.doctor(named_tenant())
    if out.is_data:
        out.write_json(report.to_json())
    else:
        rows = [{name: plain(value) for name, value in each.to_json().items()} for each in report.findings]
        out.write_rows(rows, rows, FLEET_LIST)
    cut = "" if report.complete else "; there are more jobs, schedules or tenants, which were not checked"
    checked = _counted(report.workers, "live worker")
    if report.well:
        click.echo(f"{checked}, no problem{cut}", err=True)
        return Exit.OK
    click.echo(f"{_counted(len(report.findings), 'problem')}; {checked}{cut}", err=True)
    return Exit.NOT_FULFILLED


def _of_code(file: str, db: str | None, out: OutputOptions) -> int:
    app = load_app(parse_target(file)).app
    from evertick.app.doctor import examine

    app.check()
    url = db or app.database_url
    with open_database(url) as store:
        report = examine(app, store, named_tenant(), file)
    if out.is_data:
        out.write_json(report.to_json())
    else:
        cells = [_row(each) for each in report.findings]
        out.write_rows(cells, cells, LIST)
    for each in report.inactive:
        click.echo(f"note: workflow {each.name} is {each.status}, so no run of it starts", err=True)
    if report.crons_added and report.crons_deleted:
        added, deleted = (", ".join(map(printable, names)) for names in (report.crons_added, report.crons_deleted))
        click.echo(f"note: a worker adds the crons {added}, and deletes {deleted}; {RENAMED}", err=True)
    checked = f"{_counted(report.jobs, 'pending job')}, {_counted(report.schedules, 'schedule')} and "
    checked += _counted(report.crons, "cron")
    cut = "" if report.complete else "; there are more pending jobs or runs, which were not checked"
    if len(report.tenants) > 1:
        checked += f" of {len(report.tenants):,} tenants"
    if report.fits:
        click.echo(f"{checked} fit the code of {report.app}{cut}", err=True)
        return Exit.OK if report.complete else Exit.PARTLY
    number = len(report.findings)
    click.echo(f"{_counted(number, 'problem')} among {checked}{cut}", err=True)
    return Exit.NOT_FULFILLED


def _row(each: "Finding") -> dict[str, str]:
    row = {name: str(getattr(each, name)) for name in LIST if name != "id"}
    return row | {"id": each.ids[0], "count": f"{each.count:,}"}


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"

"""`evertick doctor`: does what is scheduled fit the code? Run it before a deploy, with the new code."""

from typing import Final

import click

from evertick.api.deploys import Finding
from evertick.app.doctor import examine
from evertick.cli.core.databases import db_option, named_tenant, open_database, shown_url, tenants_option
from evertick.cli.core.exits import Exit
from evertick.cli.core.loading import FILE_DEFAULT, load_app, parse_target
from evertick.cli.core.output import OutputOptions, output_option
from evertick.store.place import USUAL_PLACES

LIST: Final = ("what", "tenant", "id", "count", "function", "problem", "detail", "fix")
"""The columns of the table; `id` is the first of `count`."""


@click.command()
@click.argument("file", default=FILE_DEFAULT)
@click.option("--app", "app_file", metavar="FILE", help="The same as FILE.")
@db_option
@tenants_option
@output_option
def doctor(file: str, app_file: str | None, db: str | None, out: OutputOptions) -> int:
    """Check that pending jobs, schedules and crons fit the code of the app in FILE (app.py unless given).

    Run it with the new code before a deploy. The exit code is 8 if functions were removed or renamed, or if arguments
    no longer fit a signature; each line says what to do.
    """
    app = load_app(parse_target(app_file or file)).app
    app.check()
    url = db or app.database_url
    with open_database(url) as store:
        report = store.view(lambda transaction: examine(app, transaction, named_tenant()))
        if not store.place:
            click.echo(
                f"Evertick's tables have plain names in {shown_url(url)}, among those of others; to move them to "
                f"{USUAL_PLACES[store.dialect]}, stop all programs that use it and run `evertick migrate --move`",
                err=True,
            )
    if out.is_data:
        out.write_json(report.to_json())
    else:
        cells = [_row(each) for each in report.findings]
        out.write_rows(cells, cells, LIST)
    for each in report.inactive:
        click.echo(f"note: workflow {each.name} is {each.status}, so no run of it starts", err=True)
    looked = f"{_counted(report.jobs, 'pending job')}, {_counted(report.schedules, 'schedule')} and "
    looked += _counted(report.crons, "cron")
    cut = "" if report.complete else "; there are more pending jobs or tenants, which were not looked at"
    if len(report.tenants) > 1:
        looked += f" of {len(report.tenants):,} tenants"
    if report.fits:
        click.echo(f"{looked} fit the code of {report.app}{cut}", err=True)
        return Exit.OK
    number = len(report.findings)
    click.echo(f"{_counted(number, 'problem')} among {looked}{cut}", err=True)
    return Exit.NOT_FULFILLED


def _row(each: Finding) -> dict[str, str]:
    row = {name: str(getattr(each, name)) for name in LIST if name != "id"}
    return row | {"id": each.ids[0], "count": f"{each.count:,}"}


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"

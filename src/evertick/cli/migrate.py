"""`evertick migrate`: bring a database's schema up to this version. Safe to run again, and from several places."""

from pathlib import Path

import click

from evertick.base.errors import Misuse
from evertick.cli.core.databases import database_url, db_option, shown_url
from evertick.cli.core.loading import FILE_DEFAULT, load_app, parse_target
from evertick.cli.core.output import OutputOptions, output_option


@click.command()
@click.argument("file", required=False)
@db_option
@output_option
def migrate(file: str | None, db: str | None, out: OutputOptions) -> None:
    """Bring the schema of a database up to this version of Evertick.

    The database is --db, or the one of the app in FILE, or EVERTICK_DATABASE_URL, or the only one in .evertick/, or
    that of the app in app.py.
    """
    from evertick.api.commands import MigrationReport
    from evertick.store.open import open_settled
    from evertick.store.sqlite.address import make_folder_of

    url = _url(file, db)
    make_folder_of(url)
    store = open_settled(url)
    try:
        steps = store.migrate()
    finally:
        store.close()
    if out.is_data:
        out.write_json(MigrationReport(database=shown_url(url), steps=steps).to_json())
    elif not out.is_none:
        for step in steps:
            click.echo(step)
    words = f"{len(steps)} step{'s' if len(steps) > 1 else ''} taken" if steps else "nothing to do"
    click.echo(f"{shown_url(url)}: {words}", err=True)


def _url(file: str | None, db: str | None) -> str:
    if db:
        return db
    if file is None:
        try:
            return database_url(None)
        except Misuse:
            if not Path(FILE_DEFAULT).is_file():
                raise
    return load_app(parse_target(file or FILE_DEFAULT)).app.database_url

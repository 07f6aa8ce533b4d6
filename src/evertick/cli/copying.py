"""`evertick copy`: everything of Evertick's into another database, such as from a SQLite file to PostgreSQL."""

import click

from evertick.base.errors import Misuse
from evertick.base.escaping import shell_word
from evertick.cli.core.databases import (
    database_url,
    db_option,
    is_one_file,
    require_file,
    shown_url,
    sqlite_file,
)
from evertick.cli.core.output import OutputOptions, output_option


@click.command("copy")
@click.argument("to", metavar="TO")
@db_option
@output_option
def copy(to: str, db: str | None, out: OutputOptions) -> None:
    """Copy all jobs, schedules, runs, documents, tokens and settings of all tenants to the database TO.

    TO is an address, sqlite:///FILE or postgresql://..., of a database without any; its tables are made. Stop all
    programs that use the database first: what they wrote to it afterwards would be missing. It stays as it is.

    Your own tables are not copied.
    """
    from evertick.store.addresses import shown
    from evertick.store.copying import copy_tables

    url = database_url(db)
    require_file(url)
    source, target = sqlite_file(url), sqlite_file(to)
    if url == to or (source is not None and target is not None and is_one_file(source, target)):
        raise Misuse(f"{shown_url(to)} is the database itself")
    counts = copy_tables(url, to)
    if out.is_data:
        from evertick.api.commands import CopyReport

        out.write_json(CopyReport(source=shown_url(url), database=shown_url(to), rows=counts).to_json())
    elif not out.is_none:
        for table, count in counts.items():
            click.echo(f"{table}\t{count:,} rows" if not out.is_table else f"{table:<22}{count:>12,} rows")
    total = sum(counts.values())
    # A masked password is no address, and a file is one only with its `sqlite:///`.
    address = shell_word(to) if shown(to) == to else f"{shown(to)}, with its password"
    click.echo(f"{total:,} rows copied; from now on use EVERTICK_DATABASE_URL={address}", err=True)

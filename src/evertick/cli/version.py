"""`evertick version`: the versions of everything that matters for a question or a report."""

import platform
import sqlite3
from importlib import metadata

import click

from evertick._version import __version__
from evertick.cli.core.output import OutputOptions, output_option
from evertick.recurrence.zones.names import zone_data_source
from evertick.store import schema

LIBRARIES = ("pydantic", "psycopg", "sqlalchemy", "tzdata")


@click.command()
@output_option
def version(out: OutputOptions) -> None:
    """Show the versions of Evertick, Python, the databases and the time zones."""
    found = {
        "evertick": __version__,
        "schema": str(schema.steps("sqlite")[-1].number),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "sqlite": sqlite3.sqlite_version,
    }
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = "not installed"
    found["zone_data"] = zone_data_source()
    out.write_one(found, found, list(found))

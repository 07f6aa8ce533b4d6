"""`evertick version`: the versions of everything that matters for a question or a report."""

import platform
import sqlite3
from importlib import metadata

import click

from evertick._version import __version__
from evertick.cli.output import output_option, write_one
from evertick.store import schema

LIBRARIES = ("pydantic", "psycopg", "sqlalchemy", "tzdata")


@click.command()
@output_option
def version(output: str | None) -> None:
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
    write_one(found, found, list(found), output)

"""`evertick version`: the versions of everything that matters for a question or a report."""

import platform
from importlib import metadata

import click

from evertick._version import __version__
from evertick.cli.core.output import OutputOptions, output_option

LIBRARIES = ("pydantic", "psycopg", "sqlalchemy", "tzdata")


@click.command()
@output_option
def version(out: OutputOptions) -> None:
    """Show the versions of Evertick, Python, the databases and the time zones."""
    import sqlite3

    from evertick.api.commands import VersionReport
    from evertick.recurrence.zones.names import zone_data_source
    from evertick.store import schema

    report = VersionReport(
        evertick=__version__,
        schema_step=str(schema.steps("sqlite")[-1].number),
        python=platform.python_version(),
        platform=platform.platform(),
        sqlite=sqlite3.sqlite_version,
        zone_data=zone_data_source(),
        **{library: _installed(library) for library in LIBRARIES},
    )
    found = report.to_json()
    out.write_one(found, found, list(found))


def _installed(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"

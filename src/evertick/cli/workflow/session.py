"""Sessions: the runs of a database (`local_session.py`), or of a server (`remote_session.py`), as commands see them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import click

from evertick.cli.core.connections import chosen_server, open_client
from evertick.cli.core.databases import Command, data_options, named_tenant, open_database
from evertick.cli.core.output import row_options
from evertick.cli.elsewhere import looking_elsewhere

if TYPE_CHECKING:
    from evertick.cli.workflow.local_session import RunSession
    from evertick.cli.workflow.remote_session import RemoteRunSession

AnyRunSession: TypeAlias = "RunSession | RemoteRunSession"
"""What commands work on."""


def run_options(command: Command) -> Command:
    """ID, `--db`, `--tenant`, `-o` and `--fields`, for commands that show one run."""
    command = data_options(row_options(command))
    return click.argument("run_id", metavar="ID")(command)


@contextmanager
def open_runs(db: str | None) -> Iterator[AnyRunSession]:
    """The runs of the server that was named, else of the database that `db` names, else of the one here.

    Raises as `open_client` and `open_database` do.
    """
    server = chosen_server(db)
    if server is None:
        from evertick.cli.workflow.local_session import session_on

        with open_database(db) as store, looking_elsewhere(store):
            yield session_on(store)
    else:
        from evertick.cli.workflow.remote_session import RemoteRunSession

        with open_client(server, named_tenant()) as client:
            yield RemoteRunSession(client)

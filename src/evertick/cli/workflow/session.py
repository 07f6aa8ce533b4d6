"""Sessions: the runs of a database (`local_session.py`), or of a server (`remote_session.py`), as commands see them."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeAlias

import click

from evertick.cli.core.databases import Command, data_options
from evertick.cli.core.output import row_options
from evertick.cli.sessions.base import opened

if TYPE_CHECKING:
    from evertick.cli.workflow.local_session import RunSession
    from evertick.cli.workflow.remote_session import RemoteRunSession
    from evertick.client.clients import Client
    from evertick.store.store import Store

AnyRunSession: TypeAlias = "RunSession | RemoteRunSession"
"""What commands work on."""


def run_options(command: Command) -> Command:
    """Add ID, `--db`, `--tenant`, `-o` and `--fields` to a command that shows one run."""
    command = data_options(row_options(command))
    return click.argument("run_id", metavar="ID")(command)


def open_runs(db: str | None) -> AbstractContextManager[AnyRunSession]:
    """The runs of the given server, or else of the database `db`, or else of the default database.

    Raises as `open_client` and `open_database`.
    """
    return opened(db, _local, _remote)


def _local(store: "Store") -> "RunSession":
    from evertick.cli.workflow.local_session import session_on

    return session_on(store)


def _remote(client: "Client") -> "RemoteRunSession":
    from evertick.cli.workflow.remote_session import RemoteRunSession

    return RemoteRunSession(client)

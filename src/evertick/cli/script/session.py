"""Sessions: the scripts of a database (`local_session.py`), or of a server (`remote_session.py`)."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from evertick.base.records.jobs import SCRIPT_FUNCTION
from evertick.cli.core.connections import chosen_server
from evertick.cli.core.flags import not_empty
from evertick.cli.sessions.base import opened

if TYPE_CHECKING:
    from evertick.cli.script.local_session import ScriptSession
    from evertick.cli.script.remote_session import RemoteScriptSession
    from evertick.client.clients import Client
    from evertick.store.store import Store

AnyScriptSession: TypeAlias = "ScriptSession | RemoteScriptSession"
"""What commands work on."""
app_option: Final = click.option(
    "--app",
    "app_file",
    metavar="FILE",
    callback=not_empty,
    help="The app, for its plan and its functions that scripts may call.",
)


@contextmanager
def open_scripts(db: str | None, app_file: str | None = None) -> Iterator[AnyScriptSession]:
    """The scripts of the given server, or else of the database `db`, or else of the default database.

    `app_file` is the app with the limits, tables and functions for scripts. Raises what `open_client`, `open_database`
    and the import of the app raise, and Misuse for an app that runs no scripts.
    """
    from evertick.cli.run import opened as opened_app
    from evertick.cli.run import refuse_app

    if app_file is not None and chosen_server(db) is None:
        from evertick.cli.script.local_session import session_of

        with opened_app(SCRIPT_FUNCTION, app_file, db) as (app, store):
            yield session_of(app, store)
        return
    refuse_app(app_file)
    with opened(db, _local, _remote) as session, closing(session):
        yield session


def _local(store: "Store") -> "ScriptSession":
    from evertick.cli.script.local_session import session_on

    return session_on(store)


def _remote(client: "Client") -> "RemoteScriptSession":
    from evertick.cli.script.remote_session import RemoteScriptSession

    return RemoteScriptSession(client)

"""Sessions: the schedules of a database (`local_session.py`) or a server (`remote_session.py`), as commands see them.

Both are imported when one is opened, so the help of a command needs neither.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeAlias

import click

from evertick.cli.core.connections import chosen_server
from evertick.cli.sessions.base import opened

if TYPE_CHECKING:
    from evertick.app.scheduling.job_builder import Functions
    from evertick.cli.schedule.local_session import ScheduleSession
    from evertick.cli.schedule.remote_session import RemoteSession
    from evertick.client.clients import Client
    from evertick.engine.runtime.settings import Settings
    from evertick.store.store import Store

Session: TypeAlias = "ScheduleSession | RemoteSession"
"""What commands work on."""


def open_session(db: str | None, app_file: str | None = None) -> AbstractContextManager[Session]:
    """The schedules of the given server, or else of the database `db`, or else of the default database.

    `app_file` is an app to check against. Raises what `open_client`, `open_database` and the import of the app raise.
    """
    functions: Functions | None = None
    settings: Settings | None = None
    if app_file is not None:
        from evertick.cli.core.loading import load_app, parse_target

        app = load_app(parse_target(app_file)).app
        functions, settings = app.functions, app.settings
        if db is None and chosen_server() is None:
            db = app.database_url

    def local(store: "Store") -> "ScheduleSession":
        from evertick.cli.schedule.local_session import session_on

        return session_on(store, functions, settings)

    def remote(client: "Client") -> "RemoteSession":
        from evertick.cli.schedule.remote_session import RemoteFunctions, RemoteSession

        return RemoteSession(client, functions or RemoteFunctions())

    return opened(db, local, remote)


def note_if_alone(session: Session) -> bool:
    """Print a note that a backfill waits, if it is known that no worker is alive. Return whether that is so."""
    is_alone = session.has_no_worker()
    if is_alone:
        click.echo("note: no worker runs on this database; the backfill goes on when one is started", err=True)
    return is_alone

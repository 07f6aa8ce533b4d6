"""Sessions: the schedules of a database (`local_session.py`) or a server (`remote_session.py`), as commands see them.

Both are imported when one is opened, so the help of a command needs neither.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from evertick.cli.core.connections import chosen_server, open_client
from evertick.cli.core.databases import named_tenant
from evertick.cli.elsewhere import looking_elsewhere

if TYPE_CHECKING:
    from evertick.app.scheduling.job_builder import Functions
    from evertick.cli.schedule.local_session import ScheduleSession
    from evertick.cli.schedule.remote_session import RemoteSession
    from evertick.engine.runtime.settings import Settings

Session: TypeAlias = "ScheduleSession | RemoteSession"
"""What commands work on."""


@contextmanager
def open_session(db: str | None, app_file: str | None = None) -> Iterator[Session]:
    """The schedules of the server that was named, else of the database that `db` names, else of the one here.

    `app_file` is an app to check against. Raises as `open_client` and `open_database` do, and what importing the app
    raises.
    """
    functions: Functions | None = None
    settings: Settings | None = None
    server = chosen_server(db)
    if app_file is not None:
        from evertick.cli.core.loading import load_app, parse_target

        app = load_app(parse_target(app_file)).app
        functions, settings = app.functions, app.settings
        db = db or app.database_url
    if server is not None:
        from evertick.cli.schedule.remote_session import RemoteFunctions, RemoteSession

        with open_client(server, named_tenant()) as client:
            yield RemoteSession(client, functions or RemoteFunctions())
        return
    from evertick.cli.schedule.local_session import open_local

    with open_local(db, functions, settings) as session, looking_elsewhere(session.store):
        yield session

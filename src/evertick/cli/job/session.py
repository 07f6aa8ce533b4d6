"""Sessions: the jobs of a database (`local_session.py`), or of a server (`remote_session.py`), as commands see them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from evertick.base.errors import InvalidArguments
from evertick.base.ids import JobId
from evertick.cli.core.connections import chosen_server, open_client
from evertick.cli.core.databases import named_tenant, open_database
from evertick.cli.elsewhere import looking_elsewhere

if TYPE_CHECKING:
    from evertick.cli.job.local_session import JobSession
    from evertick.cli.job.remote_session import RemoteJobSession

AnyJobSession: TypeAlias = "JobSession | RemoteJobSession"
"""What commands work on."""


@contextmanager
def open_jobs(db: str | None) -> Iterator[AnyJobSession]:
    """The jobs of the server that was named, else of the database. Raises as `open_client` and `open_database` do."""
    server = chosen_server(db)
    if server is None:
        from evertick.cli.job.local_session import JobSession

        with open_database(db) as store, looking_elsewhere(store):
            yield JobSession(store)
    else:
        from evertick.cli.job.remote_session import RemoteJobSession

        with open_client(server, named_tenant()) as client:
            yield RemoteJobSession(client)


def job_id_of(text: str) -> JobId:
    """The id of a job. Raises InvalidArguments if it is none."""
    from evertick.app.documents.tables import require_job_id

    try:
        return require_job_id(text)
    except InvalidArguments as error:
        raise InvalidArguments(f"{error}; `evertick job list` shows them") from None

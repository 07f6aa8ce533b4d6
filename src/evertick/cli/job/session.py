"""Sessions: the jobs of a database (`local_session.py`), or of a server (`remote_session.py`), as commands see them."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeAlias

from evertick.base.errors import InvalidArguments
from evertick.base.ids import JobId
from evertick.cli.sessions.base import opened

if TYPE_CHECKING:
    from evertick.cli.job.local_session import JobSession
    from evertick.cli.job.remote_session import RemoteJobSession
    from evertick.client.clients import Client
    from evertick.store.store import Store

AnyJobSession: TypeAlias = "JobSession | RemoteJobSession"
"""What commands work on."""


def open_jobs(db: str | None) -> AbstractContextManager[AnyJobSession]:
    """The jobs of the server that was named, else of the database. Raises as `open_client` and `open_database` do."""
    return opened(db, _local, _remote)


def _local(store: "Store") -> "JobSession":
    from evertick.cli.job.local_session import JobSession

    return JobSession(store)


def _remote(client: "Client") -> "RemoteJobSession":
    from evertick.cli.job.remote_session import RemoteJobSession

    return RemoteJobSession(client)


def job_named(session: AnyJobSession, text: str) -> JobId:
    """The id of a job that is named by its id or by its key. Raises InvalidArguments, JobNotFound."""
    from evertick.app.scheduling.choice import is_key

    try:
        by_key = is_key(text)
    except InvalidArguments as error:
        raise InvalidArguments(f"{error}; `evertick job list` shows them") from None
    return session.get(text).jobs[0].id if by_key else JobId(text)


def job_id_of(text: str) -> JobId:
    """The id of a job. Raises InvalidArguments if it is none."""
    from evertick.app.documents.tables import require_job_id

    try:
        return require_job_id(text)
    except InvalidArguments as error:
        raise InvalidArguments(f"{error}; `evertick job list` shows them") from None

"""The scripts of a server as commands work on them: what `ScriptSession` does on a database, over HTTP."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from evertick.base.errors import JobNotFound
from evertick.base.ids import JobId
from evertick.cli.sessions.base import OnServer

if TYPE_CHECKING:
    from evertick.api.jobs import JobLogs
    from evertick.client import groups


@dataclass(frozen=True, slots=True)
class RemoteScriptSession(OnServer):
    """The operations on scripts of a server's tenant."""

    has_code: ClassVar[bool] = True

    @property
    def scripts(self) -> "groups.Scripts":
        """The operations."""
        return self.client.scripts

    def start(self, name: str, input: Any, *, version: int | None, delay: float) -> JobId:
        """See `ScriptSession.start`."""
        return self.scripts.start(name, input, version=version, delay=delay)

    def due_at(self, job_id: JobId) -> datetime | None:
        """See `ScriptSession.due_at`."""
        try:
            return self.client.jobs.get(job_id).due_at
        except JobNotFound:
            return None

    def logs(self, job_id: JobId) -> "JobLogs":
        """See `ScriptSession.logs`."""
        return self.client.jobs.logs(job_id, all_attempts=True)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

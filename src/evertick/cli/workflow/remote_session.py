"""The runs of a server as commands work on them: what `RunSession` does on a database, over HTTP."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evertick.app.functions_by_name import unknown_function
from evertick.base.errors import JobNotFound
from evertick.base.ids import JobId
from evertick.cli.sessions.base import OnServer

if TYPE_CHECKING:
    from evertick.api.jobs import JobLogs
    from evertick.client import groups


@dataclass(frozen=True, slots=True)
class RemoteRunSession(OnServer):
    """The operations on workflow runs of a server's tenant."""

    @property
    def runs(self) -> "groups.Workflows":
        """The operations."""
        return self.client.workflows

    @property
    def types(self) -> "groups.WorkflowTypes":
        """See `RunSession.types`. It needs a token for all tenants."""
        return self.client.workflows.types

    def logs(self, run_id: JobId) -> "JobLogs":
        """See `RunSession.logs`."""
        return self.client.jobs.logs(run_id)

    def require_known(self, workflow: str) -> None:
        """See `RunSession.require_known`."""
        names = {each.name for each in self.client.functions()}
        if workflow not in names:
            raise unknown_function(workflow, names)

    def has_no_worker(self) -> bool:
        """See `RunSession.has_no_worker`. A token of one tenant may not see workers; then it is not known."""
        return False

    def with_key(self, key: str) -> str | None:
        """See `RunSession.with_key`."""
        try:
            run = self.runs.get(key)
        except JobNotFound:
            return None
        return None if run.has_ended or run.key != key else run.id

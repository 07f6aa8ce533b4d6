"""The runs of a database for commands, while workers may run. No app is imported."""

from dataclasses import dataclass
from functools import partial

from evertick.api.jobs import JobLogs
from evertick.app.database_clock import clock_of
from evertick.app.functions_by_name import NamedFunctions, require_seen
from evertick.app.scheduling.job_builder import JobBuilder
from evertick.app.workflows.api import Workflows
from evertick.app.workflows.operations import WorkflowOperations
from evertick.app.workflows.types import TypeOperations, WorkflowTypes
from evertick.base.ids import IdMaker, JobId, system_entropy
from evertick.cli.core.databases import actor, chosen_tenant
from evertick.cli.sessions.base import OnDatabase
from evertick.store.store import Store


@dataclass(frozen=True, slots=True)
class RunSession(OnDatabase):
    """The operations on workflow runs, on an open database."""

    operations: WorkflowOperations

    @property
    def runs(self) -> Workflows:
        """The operations."""
        return Workflows(self.operations, self.read, self.write)

    @property
    def types(self) -> WorkflowTypes:
        """The operations on workflows, as opposed to their runs."""
        return WorkflowTypes(TypeOperations(self.operations.job_builder), self.read, self.write)

    def logs(self, run_id: JobId) -> JobLogs:
        """The log lines of a run's code and steps."""
        return JobLogs.of(self.read(lambda transaction: transaction.list_logs(run_id)), None)

    def require_known(self, workflow: str) -> None:
        """Raise FunctionNotFound if there is no workflow of this name."""
        self.read(partial(require_seen, name=workflow, tenant=chosen_tenant()))

    def has_no_worker(self) -> bool:
        """Whether it is known that no worker is alive."""
        return not self.read(lambda transaction: transaction.workers_alive(self.now))

    def with_key(self, key: str) -> str | None:
        """The id of the open run with this key; None if there is none."""
        return self.read(lambda transaction: transaction.find_unfinished_key(key, tenant=chosen_tenant()))


def session_on(store: Store) -> RunSession:
    """The runs of an open database."""
    tenant = chosen_tenant()
    builder = JobBuilder(NamedFunctions(store, tenant), IdMaker(system_entropy()), clock_of(store))
    return RunSession(store, WorkflowOperations(tenant, builder, actor=actor()))

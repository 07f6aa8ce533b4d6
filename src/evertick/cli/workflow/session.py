"""The runs of a database, or of a server, as commands work on them, beside whatever runs. No app is imported."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from evertick.app.functions_by_name import NamedFunctions, require_seen, unknown_function
from evertick.app.limits.waiting import pool_waits
from evertick.app.scheduling.job_builder import JobBuilder
from evertick.app.simulation import clock_of
from evertick.app.workflows.api import Workflows
from evertick.app.workflows.operations import WorkflowOperations, has_ended
from evertick.base.clock import SystemClock
from evertick.base.errors import JobNotFound
from evertick.base.ids import Entropy, IdMaker, JobId, system_entropy
from evertick.base.instants import Instant
from evertick.cli.core.connections import chosen_server, open_client
from evertick.cli.core.databases import Command, chosen_tenant, data_options, named_tenant, open_database
from evertick.cli.core.output import row_options
from evertick.engine.runtime.executors import retry_conflicts
from evertick.store.contract.store import Store, Transaction

if TYPE_CHECKING:
    from evertick.client import surfaces
    from evertick.client.clients import Client

T = TypeVar("T")


def run_options(command: Command) -> Command:
    """ID, `--db`, `--tenant`, `-o` and `--fields`, for commands that show one run."""
    command = data_options(row_options(command))
    return click.argument("run_id", metavar="ID")(command)


@dataclass(frozen=True, slots=True)
class RunSession:
    """An open database, and what can be done with its runs."""

    store: Store
    operations: WorkflowOperations
    entropy: Entropy

    @property
    def runs(self) -> Workflows:
        """The operations."""
        return Workflows(self.operations, self.read, self.write)

    @property
    def now(self) -> Instant:
        """The present by the database's clock."""
        return self.operations.job_builder.now()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Read from the database."""
        return self.store.view(work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Change the database, again if that meets a conflict."""
        return retry_conflicts(lambda: self.store.write(work), self.entropy)

    def require_known(self, workflow: str) -> None:
        """Raise FunctionNotFound if nothing has such a workflow."""
        self.read(partial(require_seen, name=workflow, tenant=chosen_tenant()))

    def has_no_worker(self) -> bool:
        """Whether it is known that no worker lives."""
        return not self.read(lambda transaction: transaction.workers_alive(self.now))

    def with_key(self, key: str) -> str | None:
        """The id of the run that has a key and has not ended."""
        return self.read(lambda transaction: transaction.find_unfinished_key(key, tenant=chosen_tenant()))

    def held(self, ids: Sequence[JobId]) -> Mapping[JobId, str]:
        """Why jobs wait that are due: their pool has no room."""
        tenant = self.operations.tenant
        return self.read(lambda tx: pool_waits(tx, tx.get_jobs(ids, tenant=tenant), self.now))


@dataclass(frozen=True, slots=True)
class RemoteRunSession:
    """A client of a server, and what can be done with its tenant's runs."""

    client: "Client"

    store = None
    """A server sends no notifications: who waits looks again."""

    @property
    def runs(self) -> "surfaces.Workflows":
        """The operations."""
        return self.client.workflows

    @property
    def now(self) -> Instant:
        """The present by this machine's clock."""
        return SystemClock().now()

    def require_known(self, workflow: str) -> None:
        """See `RunSession.require_known`."""
        names = {each.name for each in self.client.functions()}
        if workflow not in names:
            raise unknown_function(workflow, names)

    def has_no_worker(self) -> bool:
        """See `RunSession.has_no_worker`; workers belong to no tenant, so a token may not see them."""
        return False

    def with_key(self, key: str) -> str | None:
        """See `RunSession.with_key`."""
        try:
            run = self.runs.get(key)
        except JobNotFound:
            return None
        return None if has_ended(run) or run.key != key else run.id

    def held(self, ids: Sequence[JobId]) -> Mapping[JobId, str]:
        """See `RunSession.held`; limits of pools belong to no tenant, so they are not known here."""
        return {}


AnyRunSession = RunSession | RemoteRunSession
"""What commands work on."""


@contextmanager
def open_runs(db: str | None) -> Iterator[AnyRunSession]:
    """The runs of the server that was named, else of the database that `db` names, else of the one here.

    Raises as `open_client` and `open_database` do.
    """
    server = chosen_server(db)
    if server is None:
        with open_database(db) as store:
            yield session_on(store)
    else:
        with open_client(server, named_tenant()) as client:
            yield RemoteRunSession(client)


def session_on(store: Store) -> RunSession:
    """The runs of an open database."""
    tenant, entropy = chosen_tenant(), system_entropy()
    builder = JobBuilder(NamedFunctions(store, tenant), IdMaker(entropy), clock_of(store))
    return RunSession(store, WorkflowOperations(tenant, builder), entropy)

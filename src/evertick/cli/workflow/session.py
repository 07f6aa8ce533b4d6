"""The runs of a database as commands work on them, beside whatever runs. No app is imported."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import click

from evertick.app.functions_by_name import NamedFunctions
from evertick.app.scheduling.job_builder import JobBuilder
from evertick.app.simulation import clock_of
from evertick.app.workflows.operations import WorkflowOperations
from evertick.base.ids import Entropy, IdMaker, system_entropy
from evertick.base.instants import Instant
from evertick.cli.core.databases import Command, chosen_tenant, data_options, open_database
from evertick.cli.core.output import row_options
from evertick.engine.runtime.executors import retry_conflicts
from evertick.store.contract.store import Store, Transaction

T = TypeVar("T")


def run_options(command: Command) -> Command:
    """ID, `--db`, `--tenant`, `-o` and `--fields`, for commands that show one run."""
    command = data_options(row_options(command))
    return click.argument("run_id", metavar="ID")(command)


@dataclass(frozen=True, slots=True)
class RunSession:
    """An open database, and what can be done with its runs."""

    store: Store
    runs: WorkflowOperations
    entropy: Entropy

    @property
    def now(self) -> Instant:
        """The present by the database's clock."""
        return self.runs.job_builder.now()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Read from the database."""
        return self.store.view(work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Change the database, again if that meets a conflict."""
        return retry_conflicts(lambda: self.store.write(work), self.entropy)


@contextmanager
def open_runs(db: str | None) -> Iterator[RunSession]:
    """The runs of the database that `db` names, else of the one here. Raises as `open_database` does."""
    with open_database(db) as store:
        yield session_on(store)


def session_on(store: Store) -> RunSession:
    """The runs of an open database."""
    tenant, entropy = chosen_tenant(), system_entropy()
    builder = JobBuilder(NamedFunctions(store, tenant), IdMaker(entropy), clock_of(store))
    return RunSession(store, WorkflowOperations(tenant, builder), entropy)

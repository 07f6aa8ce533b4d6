"""Sessions: a database that is at hand, or a client of a server, as commands work on them.

What is heavy is imported when one is opened, so the help of a command needs none of it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

import click

from evertick.base.clock import SystemClock
from evertick.base.errors import AccessDenied, JobNotFound, ScheduleNotFound
from evertick.base.ids import DEFAULT_TENANT, JOB_PREFIX, IdMaker, JobId, ScheduleId, TenantId, system_entropy
from evertick.base.instants import Instant
from evertick.cli.core.connections import chosen_server, open_client
from evertick.cli.core.databases import chosen_tenant, named_tenant, now_of, open_database

if TYPE_CHECKING:
    from evertick.app.documents.browsing import AnyData, Data
    from evertick.app.jobs.api import AnyJobs, Jobs
    from evertick.client.clients import Client
    from evertick.store.store import Store
    from evertick.store.transaction.transaction import Transaction


# -- Other tenants, for a forgotten `--tenant`. Only those of a local database are searched: a token for a server may
# reach only one tenant.

TENANTS_CHECKED_MAX: Final = 100
"""Tenants that are searched, by name: those that have unfinished or failed jobs, or schedules."""


@contextmanager
def naming_other_tenants(store: "Store | None") -> Iterator[None]:
    """If the block raises JobNotFound or ScheduleNotFound, add the tenants that have the thing to the message."""
    try:
        yield
    except (JobNotFound, ScheduleNotFound) as error:
        there = [] if store is None else _tenants_with(store, error)
        if not there:
            raise
        what = str(error).partition(" in the tenant ")[0].partition("; ")[0].partition(": ")[0]
        owners = " and ".join(there[:3])
        raise type(error)(
            f"{what} in the tenant {chosen_tenant()}; {owners} {'has' if len(there) == 1 else 'have'} it: "
            f"add --tenant {there[0]}"
        ) from None


def say_nothing_found(what: str, store: "Store | None", hint: str = "") -> None:
    """Print that a list is empty. For a given tenant, also print its name, and whether that tenant is known."""
    tenant = named_tenant()
    if tenant is None:
        click.echo(f"no {what}{hint}", err=True)
        return
    meant = "" if store is None else _meant(store, tenant)
    click.echo(f"no {what} in the tenant {tenant}{meant or hint}", err=True)


def note_new_tenant(store: "Store") -> None:
    """Print a note if nothing belongs to the given tenant and another tenant has a similar name."""
    tenant = named_tenant()
    if tenant is not None and (meant := _meant(store, tenant)):
        click.echo(f"note: nothing has the tenant {tenant} yet{meant}", err=True)


def _meant(store: "Store", tenant: TenantId) -> str:
    from difflib import get_close_matches

    def work(transaction: "Transaction") -> list[TenantId]:
        if transaction.list_tenants(first=tenant, limit=1) == [tenant]:
            return []
        beginnings = (TenantId(""), TenantId(tenant[:2]))  # of many tenants, also those that begin alike
        found = [
            each for first in beginnings for each in transaction.list_tenants(first=first, limit=TENANTS_CHECKED_MAX)
        ]
        return sorted({*found, DEFAULT_TENANT})

    near = get_close_matches(tenant, store.view(work), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _tenants_with(store: "Store", error: JobNotFound | ScheduleNotFound) -> list[TenantId]:
    """The other tenants that have the job or schedule that was not found."""
    if not error.wanted.isprintable():  # nothing has such an id, and PostgreSQL takes no NUL
        return []
    has = _has_schedule if isinstance(error, ScheduleNotFound) else _has_job

    def work(transaction: "Transaction") -> list[TenantId]:
        others = [DEFAULT_TENANT, *transaction.tenants_at_work(limit=TENANTS_CHECKED_MAX)]
        others = [each for each in dict.fromkeys(others) if each != chosen_tenant()]
        return [each for each in others if has(transaction, error.wanted, each)]

    return store.view(work) if error.wanted else []


def _has_schedule(transaction: "Transaction", wanted: str, tenant: TenantId) -> bool:
    return transaction.get_schedule(ScheduleId(wanted), tenant=tenant) is not None


def _has_job(transaction: "Transaction", wanted: str, tenant: TenantId) -> bool:
    """Whether a tenant has a job with this id, or an unfinished job with this key (only these are indexed by key)."""
    if wanted.startswith(f"{JOB_PREFIX}_"):
        return transaction.get_job(JobId(wanted), tenant=tenant) is not None
    return transaction.find_unfinished_key(wanted, tenant=tenant) is not None


L = TypeVar("L")
R = TypeVar("R")
T = TypeVar("T")


class Access(Protocol):
    """Access to a tenant's data. `App`, `Client` and both kinds of session implement it."""

    @property
    def jobs(self) -> "AnyJobs[object]":
        """The jobs of the tenant."""
        ...

    @property
    def data(self) -> "AnyData[object]":
        """The tables and documents of the tenant."""
        ...


@dataclass(frozen=True, slots=True)
class OnDatabase:
    """A session on an open database."""

    store: "Store"

    @property
    def now(self) -> Instant:
        """The current time by the database's clock."""
        return now_of(self.store)

    def read(self, work: "Callable[[Transaction], T]") -> T:
        """Read from the database."""
        return self.store.view(work)

    def write(self, work: "Callable[[Transaction], T]") -> T:
        """Change the database; conflicts are retried."""
        from evertick.engine.runtime.executors import retry_conflicts

        return retry_conflicts(lambda: self.store.write(work), system_entropy())

    @property
    def jobs(self) -> "Jobs":
        """The jobs of the current tenant."""
        from evertick.app.database_clock import clock_of
        from evertick.app.jobs.api import Jobs
        from evertick.app.jobs.operations import LocalJobOperations
        from evertick.app.registry import Registry
        from evertick.app.scheduling.job_builder import Quotas

        operations = LocalJobOperations(
            tenant=chosen_tenant(),
            clock=clock_of(self.store),
            make_id=IdMaker(system_entropy()).make,
            functions=Registry(),  # without an app no function is at hand
            check=Quotas().check,
        )
        return Jobs(operations, self.read, self.write)

    @property
    def data(self) -> "Data":
        """The tables and documents of the current tenant."""
        from evertick.app.documents.browsing import Data, DataOperations

        return Data(DataOperations(chosen_tenant(), lambda: self.now), self.read, self.write)

    def require_function(self, name: str) -> None:
        """Raise FunctionNotFound if nothing in the database has used the function."""
        from evertick.app.functions_by_name import require_seen

        self.read(lambda transaction: require_seen(transaction, name, chosen_tenant()))

    def require_schedule(self, schedule_id: str) -> None:
        """Raise ScheduleNotFound if there is no such schedule."""
        from evertick.engine.schedules.outcome import not_found

        def work(transaction: "Transaction") -> None:
            if transaction.get_schedule(ScheduleId(schedule_id), tenant=chosen_tenant()) is None:
                raise not_found(transaction, ScheduleId(schedule_id), chosen_tenant())

        self.read(work)

    def pool_names(self) -> set[str] | None:
        """The names of the known pools; None if the caller may not see them."""
        from evertick.app.limits.pools import PoolOperations

        return {each.pool for each in self.read(PoolOperations(lambda: self.now).list())}


@dataclass(frozen=True, slots=True)
class OnServer:
    """A session on a server."""

    client: "Client"

    store = None
    """A server sends no notifications: who waits looks again."""

    @property
    def now(self) -> Instant:
        """The current time by this machine's clock."""
        return SystemClock().now()

    @property
    def jobs(self) -> "AnyJobs[object]":
        """See `OnDatabase.jobs`."""
        return self.client.jobs

    @property
    def data(self) -> "AnyData[object]":
        """See `OnDatabase.data`."""
        return self.client.data

    def require_function(self, name: str) -> None:
        """See `OnDatabase.require_function`."""
        from evertick.app.functions_by_name import unknown_function

        names = {each.name for each in self.client.functions()} | self.jobs.counts_by_function().keys()
        if name not in names:
            raise unknown_function(name, names)

    def require_schedule(self, schedule_id: str) -> None:
        """See `OnDatabase.require_schedule`."""
        self.client.schedules.get(schedule_id)

    def pool_names(self) -> set[str] | None:
        """See `OnDatabase.pool_names`. Pools belong to no tenant, so a token of one tenant may not see them."""
        try:
            return {each.pool for each in self.client.pools.list()}
        except AccessDenied:
            return None


Session: TypeAlias = OnDatabase | OnServer
"""What commands work on."""


def open_session(db: str | None) -> AbstractContextManager[Session]:
    """The given server, or else the database `db`, or else the default database. Raises as `opened`."""
    return opened(db, OnDatabase, OnServer)


@contextmanager
def opened(db: str | None, local: "Callable[[Store], L]", remote: "Callable[[Client], R]") -> Iterator[L | R]:
    """A session on the given server, or else on the database `db`, or else on the default database.

    Raises as `open_client` and `open_database`.
    """
    server = chosen_server(db)
    if server is None:
        with open_database(db) as store, naming_other_tenants(store):
            yield local(store)
    else:
        with open_client(server, named_tenant()) as client:
            yield remote(client)

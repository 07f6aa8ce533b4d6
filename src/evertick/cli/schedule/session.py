"""The session: the schedules of a database as commands work on them, beside whatever runs.

No app is imported, unless `--app FILE` names one: then functions, their arguments and the app's settings are checked
against its code. Otherwise functions are known by their names alone. History names `cli:<user>` as the actor;
the time is that of the database's clock, which a simulation may have set.
"""

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from evertick.app.functions_by_name import NamedFunctions
from evertick.app.schedules.api import Schedules
from evertick.app.schedules.commands import ScheduleOperations
from evertick.app.scheduling.job_builder import Functions
from evertick.app.simulation import clock_of
from evertick.base.clock import Clock
from evertick.base.errors import ScheduleNotFound
from evertick.base.ids import Entropy, IdMaker, ScheduleId, system_entropy
from evertick.base.instants import SECOND_MS, Instant, to_datetime
from evertick.cli.core.databases import chosen_tenant, open_database
from evertick.cli.schedule.spec_flags import parse_when
from evertick.engine.runtime.executors import retry_conflicts
from evertick.engine.runtime.settings import Settings
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.zones.names import zone_named
from evertick.store.contract.store import Store, Transaction
from evertick.store.records.schedule import Schedule

T = TypeVar("T")


class _NothingWritten(Exception):
    """Rolls a rehearsed transaction back."""


@dataclass(frozen=True, slots=True)
class ScheduleSession:
    """An open database, and everything that can be done to its schedules."""

    store: Store
    clock: Clock
    entropy: Entropy
    schedules: Schedules

    @property
    def operations(self) -> ScheduleOperations:
        """The operations as functions over a transaction."""
        return self.schedules.operations

    @property
    def now(self) -> Instant:
        """The present by the database's clock."""
        return self.clock.now()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Read from the database."""
        return self.store.view(work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Change the database, again if that meets a conflict."""
        return retry_conflicts(lambda: self.store.write(work), self.entropy)

    def rehearse(self, work: Callable[[Transaction], T]) -> T:
        """What `write` would return; the transaction is rolled back."""
        results: list[T] = []

        def rehearsal(transaction: Transaction) -> None:
            results[:] = [work(transaction)]
            raise _NothingWritten

        try:
            self.write(rehearsal)
        except _NothingWritten:
            return results[0]
        raise AssertionError("the rehearsal ended without an exception")

    def row(self, schedule_id: str, *, kind: str | None = None) -> Schedule:
        """A schedule's row. Raises ScheduleNotFound, also for one of another kind."""
        if kind is None:
            return self.read(lambda transaction: self.operations.row(transaction, schedule_id))
        found = self._found(schedule_id)
        if found is None or found.kind != kind:
            what = f"no {kind} {schedule_id!r}" if found is None else f"{schedule_id!r} is not a {kind}"
            raise ScheduleNotFound(f"{what}; list them with `evertick {kind} list`")
        return found

    def recurrence(self, schedule_id: str) -> Recurrence | None:
        """The compiled spec of a schedule; None if the schedule is gone."""
        found = self._found(schedule_id)
        return None if found is None else found.spec.recurrence

    def moment(self, text: str, flag: str, schedule_id: str | None = None) -> datetime:
        """A moment of the command line, on the schedule's clock if it has no zone. Raises InvalidSpec."""
        recurrence = None if schedule_id is None else self.recurrence(schedule_id)
        zone = zone_named("UTC") if recurrence is None else recurrence.zone
        return to_datetime(Instant(parse_when(text, zone, flag, self.now // SECOND_MS) * SECOND_MS))

    def _found(self, schedule_id: str) -> Schedule | None:
        sid = ScheduleId(schedule_id)
        return self.read(lambda transaction: transaction.get_schedule(sid, tenant=chosen_tenant()))


@contextmanager
def open_session(db: str | None, app_file: str | None = None) -> Iterator[ScheduleSession]:
    """The schedules of the database that `db` names, else of the one here; `app_file` is an app to check against.

    Raises as `open_database` does, and what importing the app raises.
    """
    functions: Functions | None = None
    settings = Settings()
    if app_file is not None:
        from evertick.cli.core.loading import load_app, parse_target

        app = load_app(parse_target(app_file)).app
        functions, settings = app.functions, app.settings
        db = db or app.database_url
    with open_database(db) as store:
        clock, entropy = clock_of(store), system_entropy()
        operations = ScheduleOperations(
            tenant=chosen_tenant(),
            now=clock.now,
            functions=functions or NamedFunctions(store, chosen_tenant()),
            settings=settings,
            make_id=IdMaker(entropy).make,
            actor=actor(),
        )

        def write(work: Callable[[Transaction], T]) -> T:
            return retry_conflicts(lambda: store.write(work), entropy)

        yield ScheduleSession(store, clock, entropy, Schedules(operations, store.view, write))


def actor() -> str:
    """In whose name: `cli:ada`."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "cli"  # a container may run as a user without a name

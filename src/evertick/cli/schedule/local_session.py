"""The schedules of a database as commands work on them.

No app is imported, unless `--app FILE` names one: then functions, their arguments and the app's settings are checked
against its code. Otherwise functions are known by their names alone. History names `cli:<user>` as the actor;
the time is that of the database's clock, which a simulation may have set.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from evertick.api.jobs import JobView
from evertick.api.schedules import OccurrenceView, ScheduleDescription
from evertick.app.database_clock import clock_of
from evertick.app.functions.function import Function
from evertick.app.functions_by_name import NamedFunction, NamedFunctions
from evertick.app.jobs.views import job_views
from evertick.app.schedules.api import Schedules
from evertick.app.schedules.commands import ScheduleOperations
from evertick.app.schedules.explain import obstacle_of
from evertick.app.schedules.options import CreateOptions, ReplaceOptions, UpdateOptions
from evertick.app.schedules.updates import replace_schedule
from evertick.app.schedules.updates import update as patched
from evertick.app.schedules.views import occurrence_view
from evertick.app.scheduling.job_builder import Functions
from evertick.app.transacting import rehearse
from evertick.base.ids import IdMaker, JobId, ScheduleId, pool_name, system_entropy
from evertick.base.instants import from_datetime
from evertick.base.paging import PAGE_MAX
from evertick.base.records.jobs import GATEWAY_FUNCTION
from evertick.base.records.schedules import ScheduleFilter
from evertick.base.suggested_commands import no_schedule
from evertick.cli.core.databases import actor, chosen_tenant
from evertick.cli.schedule.changes import Update
from evertick.cli.schedule.remote_session import check_kind, moment_of
from evertick.cli.sessions.base import OnDatabase
from evertick.engine.runtime.settings import Settings
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.zones.zones import Edge
from evertick.rules.jobs.coverage import served
from evertick.rules.schedules.state import OccurrenceKey
from evertick.store.records.schedule import Schedule
from evertick.store.store import Store
from evertick.store.transaction.transaction import Transaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScheduleSession(OnDatabase):
    """The operations on schedules, on an open database."""

    operations: ScheduleOperations

    @property
    def schedules(self) -> Schedules:
        """The operations."""
        return Schedules(self.operations, self.read, self.write)

    def rehearse(self, work: Callable[[Transaction], T]) -> T:
        """Return what `write` would return, but roll back the transaction."""
        return rehearse(self.write, work)

    @property
    def functions(self) -> Functions:
        """The functions that schedules may call: those of the given app, or without one every name."""
        return self.operations.functions

    def pool_of(self, function: Function[..., Any]) -> str | None:
        """The pool of a function: from its code if that is available, or else from workers; None if it is not known."""
        if not isinstance(function, NamedFunction):
            return pool_name(function.pool)
        serves = served(self.read(lambda transaction: transaction.list_workers()))
        pools = [each.pool for one in serves for each in one.functions if each.name == function.name]
        return pool_name(pools[0]) if pools else None

    def status(self, schedule_id: str, *, kind: str | None = None) -> str:
        """The status of a schedule, such as `paused`. Raises ScheduleNotFound, also for one of another kind."""
        if kind is None:
            return self.read(lambda transaction: self.operations.row(transaction, schedule_id)).status
        found = self._found(schedule_id)
        if found is None:
            where = ScheduleFilter(tenant=chosen_tenant(), kind=kind)
            rows = self.read(lambda transaction: transaction.list_schedules(where, limit=PAGE_MAX))
            raise no_schedule(schedule_id, chosen_tenant(), [row.id for row in rows], kind=kind)
        check_kind(schedule_id, found.kind, kind)
        return found.status

    def function(self, schedule_id: str) -> str:
        """The name of the function that a schedule calls. Raises ScheduleNotFound."""
        return self.read(lambda transaction: self.operations.row(transaction, schedule_id)).function

    def obstacle(self, schedule_id: str) -> str | None:
        """The reason why a schedule's function cannot run at present; None without one. Raises ScheduleNotFound."""

        def work(transaction: Transaction) -> str | None:
            row = self.operations.row(transaction, schedule_id)
            return obstacle_of(self.operations, transaction, row)

        return self.read(work)

    def created(self, new: CreateOptions, *, dry_run: bool) -> tuple[bool, ScheduleDescription]:
        """Create a schedule. Return whether it existed already, and its description."""
        making = self.operations.create(new)

        def work(transaction: Transaction) -> tuple[bool, ScheduleDescription]:
            existed = transaction.get_schedule(ScheduleId(new.schedule_id), tenant=chosen_tenant()) is not None
            return existed, self._checked(transaction, making(transaction))

        return self.rehearse(work) if dry_run else self.write(work)

    def updated(self, schedule_id: str, update: Update) -> tuple[ScheduleDescription, ScheduleDescription]:
        """Change a schedule. Return its descriptions before and after."""

        def work(transaction: Transaction) -> tuple[ScheduleDescription, ScheduleDescription]:
            before = self.operations.get(schedule_id)(transaction)
            options = {"if_version": update.if_version, **update.make(before)}
            if update.is_whole:
                changed = replace_schedule(self.operations, ReplaceOptions(schedule_id, **options))
            else:
                changed = patched(self.operations, UpdateOptions(schedule_id, **options))
            return before, self._checked(transaction, changed(transaction))

        return self.rehearse(work) if update.dry_run else self.write(work)

    def job(self, job_id: JobId) -> JobView | None:
        """A job; None if it does not exist any more."""
        now = self.now

        def work(transaction: Transaction) -> JobView | None:
            found = transaction.get_job(job_id, tenant=chosen_tenant())
            return None if found is None else job_views(transaction, [found], now)[0]

        return self.read(work)

    def occurrence(self, seen: OccurrenceView) -> OccurrenceView | None:
        """The current row of an occurrence that was read before; None if the ledger does not have it any more."""
        key = OccurrenceKey(seen.origin, seen.request, from_datetime(seen.nominal))
        row = self.read(lambda tx: tx.get_occurrence(seen.schedule, key, tenant=chosen_tenant()))
        return None if row is None else occurrence_view(row)

    def has_no_worker(self) -> bool:
        """Whether it is known that no worker is alive."""
        now = self.now
        return not self.read(lambda transaction: transaction.workers_alive(now))

    def recurrence(self, schedule_id: str) -> Recurrence | None:
        """The compiled spec of a schedule; None if there is no such schedule, or if its spec cannot be read."""
        found = self._found(schedule_id)
        return None if found is None or "spec" in found.unreadable else found.spec.recurrence

    def moment(self, text: str, flag: str, schedule_id: str | None = None, edge: Edge = "first") -> datetime:
        """A time of the command line; without a zone it is in the schedule's zone. Raises InvalidSpec."""
        return moment_of(text, flag, None if schedule_id is None else self.recurrence(schedule_id), self.now, edge)

    def _checked(self, transaction: Transaction, written: ScheduleDescription) -> ScheduleDescription:
        """Check the script or gateway of a written schedule, unless an app has checked it. Return its description.

        Raises ScriptNotFound, GatewayNotFound, UnknownCommand.
        """
        if written.script is not None and isinstance(self.functions, NamedFunctions):
            from evertick.app.scripts.api import check_target

            check_target(transaction, chosen_tenant(), written.target.args)
        if written.target.function == GATEWAY_FUNCTION and isinstance(self.functions, NamedFunctions):
            from evertick.app.gateways.commands import check_command

            check_command(transaction, chosen_tenant(), written.target.args)
        return written

    def _found(self, schedule_id: str) -> Schedule | None:
        sid = ScheduleId(schedule_id)
        return self.read(lambda transaction: transaction.get_schedule(sid, tenant=chosen_tenant()))


def session_on(store: Store, functions: Functions | None, settings: Settings | None) -> ScheduleSession:
    """The schedules of an open database. `functions` and `settings` are those of an app, to check against."""
    tenant = chosen_tenant()
    operations = ScheduleOperations(
        tenant=tenant,
        now=clock_of(store).now,
        functions=functions or NamedFunctions(store, tenant),
        settings=settings or Settings(),
        make_id=IdMaker(system_entropy()).make,
        actor=actor(),
    )
    return ScheduleSession(store, operations)

"""The schedules of a server as commands work on them: what `ScheduleSession` does on a database, over HTTP.

Times such as `now-1h` are read by this machine's clock. Functions are known by their names; the server checks them, and
their arguments, against its code.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from evertick.api.jobs import JobView
from evertick.api.schedules import OccurrenceView, ScheduleDescription
from evertick.app.functions.function import Function
from evertick.app.functions_by_name import NamedFunction
from evertick.app.schedules.options import CreateOptions
from evertick.app.scheduling.job_builder import Functions, Target
from evertick.base.errors import InvalidSpec, JobNotFound, Misuse, ScheduleNotFound
from evertick.base.ids import JobId, pool_name
from evertick.base.instants import SECOND_MS, Instant, to_datetime
from evertick.base.options import stated
from evertick.base.paging import PAGE_MAX
from evertick.base.records.jobs import FunctionKind
from evertick.base.suggested_commands import no_schedule, tenant_option
from evertick.cli.core.databases import chosen_tenant
from evertick.cli.schedule.changes import Update
from evertick.cli.schedule.flags import parse_when
from evertick.cli.sessions.base import OnServer
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.zones.names import zone_named
from evertick.recurrence.zones.zones import Edge

if TYPE_CHECKING:
    from evertick.client.groups import Schedules


class RemoteFunctions:
    """Accepts every name as a function, because only the server knows them."""

    def resolve(self, target: Target, /) -> Function[..., Any]:
        """The function of that name."""
        if isinstance(target, Function):
            return target
        if not isinstance(target, str):
            raise Misuse(f"a function's name is text, not {target!r}")
        return NamedFunction(target, FunctionKind.MUTATION, seen=True)

    def __iter__(self) -> Iterator[Function[..., Any]]:
        return iter(())  # none is at hand


@dataclass(frozen=True, slots=True)
class RemoteSession(OnServer):
    """The operations on schedules of a server's tenant."""

    functions: Functions

    @property
    def schedules(self) -> "Schedules":
        """The operations."""
        return self.client.schedules

    def pool_of(self, function: Function[..., Any]) -> str | None:
        """See `ScheduleSession.pool_of`; the server's code is used."""
        if not isinstance(function, NamedFunction):
            return pool_name(function.pool)
        return next((each.pool for each in self.client.functions() if each.name == function.name), None)

    def status(self, schedule_id: str, *, kind: str | None = None) -> str:
        """See `ScheduleSession.status`."""
        try:
            found = self.schedules.get(schedule_id)
        except ScheduleNotFound:
            if kind is not None:
                of_kind = self.schedules.list(kind=kind, limit=PAGE_MAX).schedules
                raise no_schedule(schedule_id, chosen_tenant(), [each.id for each in of_kind], kind=kind) from None
            raise
        check_kind(schedule_id, found.kind, kind)
        return found.status

    def function(self, schedule_id: str) -> str:
        """See `ScheduleSession.function`."""
        return self.schedules.get(schedule_id).function

    def obstacle(self, schedule_id: str) -> str | None:
        """See `ScheduleSession.obstacle`."""
        return self.schedules.get(schedule_id).blocked_reason

    def recurrence(self, schedule_id: str) -> Recurrence | None:
        """See `ScheduleSession.recurrence`."""
        try:
            return compile_spec(self.schedules.get(schedule_id).spec)
        except (ScheduleNotFound, InvalidSpec):
            return None

    def moment(self, text: str, flag: str, schedule_id: str | None = None, edge: Edge = "first") -> datetime:
        """See `ScheduleSession.moment`."""
        return moment_of(text, flag, None if schedule_id is None else self.recurrence(schedule_id), self.now, edge)

    def created(self, new: CreateOptions, *, dry_run: bool) -> tuple[bool, ScheduleDescription]:
        """See `ScheduleSession.created`."""
        try:
            self.schedules.get(new.schedule_id)
            existed = True
        except ScheduleNotFound:
            existed = False
        return existed, self.schedules.create(dry_run=dry_run, **stated(new))

    def updated(self, schedule_id: str, update: Update) -> tuple[ScheduleDescription, ScheduleDescription]:
        """See `ScheduleSession.updated`. Raises VersionConflict if another caller changes it concurrently."""
        before = self.schedules.get(schedule_id)
        version = before.version if update.if_version is None else update.if_version
        change = self.schedules.replace if update.is_whole else self.schedules.update
        return before, change(schedule_id, if_version=version, dry_run=update.dry_run, **update.make(before))

    def job(self, job_id: JobId) -> JobView | None:
        """See `ScheduleSession.job`."""
        try:
            return self.client.jobs.get(job_id)
        except JobNotFound:
            return None

    def occurrence(self, seen: OccurrenceView) -> OccurrenceView | None:
        """See `ScheduleSession.occurrence`."""
        cursor: str | None = None
        while True:
            end = seen.nominal + timedelta(milliseconds=1)
            page = self.schedules.occurrences(seen.schedule, start=seen.nominal, end=end, cursor=cursor)
            for each in page.occurrences:
                if (each.origin, each.request) == (seen.origin, seen.request):
                    return each
            if page.cursor is None:
                return None
            cursor = page.cursor

    def has_no_worker(self) -> bool:
        """See `ScheduleSession.has_no_worker`. A token of one tenant may not see workers; then it is not known."""
        return False


def moment_of(text: str, flag: str, recurrence: Recurrence | None, now: Instant, edge: Edge = "first") -> datetime:
    """A time of the command line; without a zone it is in the zone of `recurrence`. See `typed_moment`.

    Raises InvalidSpec.
    """
    zone = zone_named("UTC") if recurrence is None else recurrence.zone
    return to_datetime(Instant(parse_when(text, zone, flag, now // SECOND_MS, edge) * SECOND_MS))


def check_kind(schedule_id: str, found: str, kind: str | None) -> None:
    """Raise ScheduleNotFound if a `kind` is required and the found schedule is of another one."""
    if kind is not None and found != kind:
        cure = f"list them with `evertick {kind} list{tenant_option(chosen_tenant())}`"
        raise ScheduleNotFound(f"{schedule_id!r} is not a {kind}; {cure}")

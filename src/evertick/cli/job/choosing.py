"""What commands that choose jobs by filters share: moments, and names that must not be misspelt."""

from functools import partial

from evertick.app.functions_by_name import require_seen
from evertick.base.errors import ScheduleNotFound
from evertick.base.instants import SECOND_MS, Instant
from evertick.base.records.jobs import JobFilter
from evertick.cli.core.databases import now_of
from evertick.cli.schedule.spec_flags import parse_when
from evertick.recurrence.zones.names import zone_named
from evertick.store.contract.store import Store, Transaction


def moment_of(store: Store, text: str | None, what: str) -> Instant | None:
    """The moment that `text` names, given as the flag `what`; None for none. Raises InvalidSpec."""
    if text is None:
        return None
    return Instant(parse_when(text, zone_named("UTC"), what, now_of(store) // SECOND_MS) * SECOND_MS)


def require_known(store: Store, where: JobFilter) -> None:
    """No job was found: raise FunctionNotFound, ScheduleNotFound if the function or the schedule was never seen."""
    if where.name is not None:
        store.view(partial(require_seen, name=where.name, tenant=where.tenant))
    if where.schedule_id is not None:
        store.view(partial(_require_schedule, where=where))


def _require_schedule(transaction: Transaction, where: JobFilter) -> None:
    wanted, whole = where.schedule_id, JobFilter(tenant=where.tenant, schedule_id=where.schedule_id)
    assert wanted is not None  # noqa: S101
    if transaction.get_schedule(wanted, tenant=where.tenant) is None and not transaction.list_jobs(whole, limit=1):
        raise ScheduleNotFound(f"no schedule {wanted!r}; list them with `evertick schedule list`")

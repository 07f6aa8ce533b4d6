"""Runs that cannot go on: their code does not fit their journal, or their tenant has no room for their steps.

They are tried again each minute, so they are among what is due soon.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from evertick.api.schema import RowReading
from evertick.api.status import StuckView
from evertick.base.ids import TenantId
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.insight import StuckRun
from evertick.base.records.jobs import NO_ERROR
from evertick.base.records.workflows import TRY_AGAIN_MS
from evertick.store.transaction.transaction import Transaction

LOOK: Final = 10_000
"""Jobs that wait for the next minute among which they are looked for."""
STUCK_MAX: Final = 1_000
"""Runs of all that are counted."""


def stuck_until(now: Instant) -> Instant:
    """Until when runs that cannot go on are tried again."""
    return Instant(now + TRY_AGAIN_MS)


def stuck_views(transaction: Transaction, tenants: Sequence[TenantId], now: Instant) -> tuple[StuckView, ...]:
    """The runs of some tenants that cannot go on, by workflow and reason, the oldest first."""
    return stuck_groups(transaction.stuck_runs(tenants, until=stuck_until(now), look=LOOK, limit=STUCK_MAX))


def stuck_groups(found: Iterable[StuckRun]) -> tuple[StuckView, ...]:
    """Runs that cannot go on, by workflow and reason, in their order."""
    groups: dict[tuple[TenantId, str, str], list[StuckRun]] = {}
    for run in found:
        error = RowReading().error("error", run.error) or NO_ERROR
        # A mismatch begins with the run and the row: without them, runs with the same difference are one group.
        why = error.message.partition(": ")[2] if error.message.startswith("run ") else error.message
        groups.setdefault((run.tenant, run.name, f"{error.type}: {why}"), []).append(run)
    return tuple(
        StuckView(
            tenant=tenant,
            function=name,
            count=len(runs),
            tried=to_datetime(max(run.tried_at for run in runs)),
            job_id=runs[0].id,
            error=why,
        )
        for (tenant, name, why), runs in groups.items()
    )

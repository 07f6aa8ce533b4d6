"""About whom questions are asked: what the operations of `app.insight` share."""

from collections.abc import Callable
from dataclasses import dataclass

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.store.write_health import WriteFailure


@dataclass(frozen=True, slots=True)
class InsightOperations:
    """What may be asked about a tenant; `now` returns the present, `write_failure` what `Store.write_failure` says."""

    tenant: TenantId
    now: Callable[[], Instant]
    write_failure: Callable[[], WriteFailure | None]

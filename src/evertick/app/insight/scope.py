"""The tenant and environment that the operations of `app.insight` share."""

from collections.abc import Callable
from dataclasses import dataclass

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.store.write_health import WriteFailure


@dataclass(frozen=True, slots=True)
class InsightOperations:
    """What queries of `app.insight` need: the tenant, the clock `now`, and `write_failure`, which is
    `Store.write_failure`.
    """

    tenant: TenantId
    now: Callable[[], Instant]
    write_failure: Callable[[], WriteFailure | None]

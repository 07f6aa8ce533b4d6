"""The tenant and environment that the operations of `app.insight` share."""

from collections.abc import Callable
from dataclasses import dataclass

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.store.write_health import WriteFailure


@dataclass(frozen=True, slots=True)
class InsightOperations:
    """The target of an insight query; `now` is the clock, `write_failure` is `Store.write_failure`."""

    tenant: TenantId
    now: Callable[[], Instant]
    write_failure: Callable[[], WriteFailure | None]

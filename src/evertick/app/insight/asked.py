"""About whom questions are asked: what the operations of `app.insight` share."""

from collections.abc import Callable
from dataclasses import dataclass

from evertick.base.ids import TenantId
from evertick.base.instants import Instant


@dataclass(frozen=True, slots=True)
class InsightOperations:
    """What may be asked about a tenant; `now` returns the present."""

    tenant: TenantId
    now: Callable[[], Instant]

"""The contract for mutations called from outside with an idempotency key."""

from typing import Protocol

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.calls import Call


class Calls(Protocol):
    """What a transaction can do with mutations called from outside with an idempotency key."""

    def find_call(self, key: str, *, tenant: TenantId) -> Call | None:
        """What a mutation called with this idempotency key answered."""
        ...

    def save_call(self, key: str, call: Call, *, tenant: TenantId, now: Instant) -> None:
        """Remember an answer. Raises WriteConflict if the key was saved meanwhile."""
        ...

    def prune_calls(self, *, before: Instant, limit: int) -> int:
        """Forget calls made before `before`; returns how many."""
        ...

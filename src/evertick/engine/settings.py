"""Settings: every size, limit and waiting time of the engine, by name."""

from dataclasses import dataclass, fields
from typing import Final

from evertick.base.errors import Misuse
from evertick.base.instants import DAY_MS, MINUTE_MS, SECOND_MS

AT_LEAST_ONE: Final = frozenset({"batch", "action_threads", "poll_ms", "prune_batch", "tenants"})
"""Settings without which nothing would go on; all others may be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the engine works. The defaults suit one small machine; all of them may be changed."""

    batch: int = 256
    """Mutations that share one commit."""
    batch_ms: int = 200
    """A batch is committed early once its functions have taken this long, so that others are not kept waiting."""
    action_slots: int = 64
    """Actions that one worker runs at a time."""
    action_threads: int = 16
    """Threads for actions that are plain functions."""
    poll_ms: int = 5 * SECOND_MS
    """Longest time between two looks at the store, whatever hints were lost."""
    lease_ms: int = 10 * SECOND_MS
    """How long a worker counts as alive after its last sign of life."""
    mutation_timeout_ms: int = 1 * SECOND_MS
    """Time one mutation or query may take, unless the function says otherwise."""
    action_timeout_ms: int = 10 * MINUTE_MS
    """Time one action may take, unless the function says otherwise."""
    drain_ms: int = 30 * SECOND_MS
    """Time that running actions have to end when the worker is told to stop."""
    retention_ms: int = 7 * DAY_MS
    """How long a job can be read after it ended."""
    ledger_retention_ms: int = 90 * DAY_MS
    """How long a row of a schedule's ledger can be read after its fate was decided."""
    completed_retention_ms: int = 7 * DAY_MS
    """How long a schedule that ended stays, as completed, after its last start or change."""
    evaluate_every_ms: int = MINUTE_MS
    """Longest time between two looks at the schedules, whatever `poll_ms` says."""
    prune_batch: int = 1_000
    """Rows removed in one transaction."""
    prune_every_ms: int = MINUTE_MS
    """Time between two rounds of the pruner."""
    unblock_every_ms: int = 10 * SECOND_MS
    """Time between two looks for jobs that waited for a function this worker knows."""
    schedule_interval_min_ms: int = SECOND_MS
    """Least time between two times of a schedule's spec; a closer one is refused when it is given."""
    schedule_starts_per_minute: int = 60
    """Most times that a schedule's spec may name in a minute; a hotter one is refused when it is given."""
    tenants: int = 1_000
    """Tenants looked at in one round."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 1 if field.name in AT_LEAST_ONE else 0
            if type(value) is not int or value < least:
                raise Misuse(f"Settings({field.name}=...) takes a whole number from {least} on, not {value!r}")

    @property
    def renew_every_ms(self) -> int:
        """Time between two signs of life."""
        return max(1, self.lease_ms // 3)

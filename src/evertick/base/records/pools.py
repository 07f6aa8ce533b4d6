"""What a pool may run at most, and what it has to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from evertick.base.errors import Misuse
from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.tenants import LIMIT_MAX, StartLimit

NUMBERS: Final = ("running", "per_tenant", "per_key", "starts_per_minute")
"""The limits that are numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """What holds the jobs of a pool back; None is no limit. The jobs wait until they may start."""

    running: int | None = None
    """Jobs that run at a time, on all workers together; with 0 none starts."""
    per_tenant: int | None = None
    """Jobs of one tenant that run at a time in the pool, on all workers together."""
    per_key: int | None = None
    """Jobs of a tenant with one `limit_key` that run at a time in the pool, on all workers together."""
    starts_per_minute: int | None = None
    """Attempts of jobs that start in a minute, evenly spread: at most a tenth of them at once."""
    paused: bool = False
    """No job of the pool starts; what runs goes on."""
    note: str = ""
    """Why it is paused."""

    def __post_init__(self) -> None:
        for name in NUMBERS:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 0 <= value <= LIMIT_MAX):
                raise Misuse(f"{name}= is a whole number from 0 to {LIMIT_MAX:,}, or None, not {value!r}")
        if self.starts_per_minute == 0:
            raise Misuse("starts_per_minute= is at least 1; a paused pool starts no job")
        if type(self.paused) is not bool:
            raise Misuse(f"paused= is True or False, not {self.paused!r}")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held back."""
        return not self.paused and all(getattr(self, name) is None for name in NUMBERS)


NO_LIMITS: Final = PoolLimits()


class PoolSettings(NamedTuple):
    """What is set for a pool."""

    limits: PoolLimits
    declared: str | None
    """What code has declared for it, as text; None if it declares nothing."""


NO_SETTINGS: Final = PoolSettings(NO_LIMITS, None)


class PoolUse(NamedTuple):
    """What is set for pools, and what runs in them."""

    settings: Mapping[str, PoolSettings]
    """By name, of the pools with limits and those that code declares."""
    running: Mapping[tuple[str, TenantId, str | None], int]
    """How many jobs of each pool, tenant and limit key run on all workers; None for those without a key."""
    used_until_us: Mapping[str, int]
    """Of each pool in `settings`: up to when its starts have used its rate, in microseconds since the epoch."""


class ReadyInPool(NamedTuple):
    """Jobs of a pool that are due and wait for a place."""

    jobs: int
    oldest: Instant
    """When the first of those that were counted was due."""


@dataclass(frozen=True, slots=True)
class PoolHold:
    """What holds a pool's jobs back in a claim."""

    start: StartLimit
    per_tenant: int | None
    per_key: int | None = None

"""What a pool may run at most, and what it has to do."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.options import FLAG, TEXT, Rule, check_options, some, whole

# -- What a tenant may use, and what it uses.

STARTS_MAX: Final = 1_000_000
"""Starts in a minute that can be asked for: one every 60 us, more than a database keeps up with."""
LIMIT_MAX: Final = 1_000_000_000_000


COUNT: Final = whole(0, LIMIT_MAX)
STARTS: Final = whole(1, STARTS_MAX)
TENANT_RULES: Final[Mapping[str, Rule]] = {
    "running": COUNT,
    "starts_per_minute": STARTS,
    "jobs": COUNT,
    "argument_bytes": COUNT,
    "schedules": COUNT,
}
"""What the limits of a tenant take; None is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """What a tenant may use at most; None is no limit.

    The first two hold jobs back until they may start; the others refuse what would exceed them (`QuotaExceeded`).
    """

    running: int | None = None
    """Jobs that run at a time, on all workers together; with 0 none starts."""
    starts_per_minute: int | None = None
    """Attempts of jobs that start in a minute, evenly spread: at most a tenth of them at once."""
    jobs: int | None = None
    """Unfinished jobs, those that wait and those that run."""
    argument_bytes: int | None = None
    """The arguments of all unfinished jobs together, in bytes."""
    schedules: int | None = None
    """Schedules, paused ones too."""

    def __post_init__(self) -> None:
        check_options(TENANT_RULES, some({name: getattr(self, name) for name in TENANT_RULES}))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is limited."""
        return all(getattr(self, each.name) is None for each in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUsage:
    """What a tenant uses just now, in the words of `TenantLimits`."""

    running: int
    jobs: int
    argument_bytes: int
    schedules: int


@dataclass(frozen=True, slots=True)
class StartLimit:
    """What holds a tenant's jobs back: its limits, and what has been used of its rate."""

    running: int | None
    per_minute: int | None
    used_until_us: int
    """Up to when the starts so far have used the rate, in microseconds since the epoch."""


NUMBERS: Final = ("running", "per_tenant", "per_key", "starts_per_minute")
"""The limits that are numbers."""


POOL_RULES: Final[Mapping[str, Rule]] = {
    "running": COUNT,
    "per_tenant": COUNT,
    "per_key": COUNT,
    "starts_per_minute": STARTS,
    "paused": FLAG,
    "note": TEXT,
}
"""What the limits of a pool take; None is no limit."""


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
        check_options(POOL_RULES, some({name: getattr(self, name) for name in POOL_RULES}))

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

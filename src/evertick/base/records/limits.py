"""Limits and usage of tenants and pools."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.options import FLAG, TEXT, Rule, check_options, some, whole

# -- Limits and usage of tenants.

STARTS_MAX: Final = 1_000_000
"""The largest `starts_per_minute`: one start every 60 us, more than a database can do."""
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
"""The rules for the limits of a tenant; None is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """The limits of a tenant; None is no limit.

    The first two delay jobs; the others refuse calls that would exceed them (`QuotaExceeded`).
    """

    running: int | None = None
    """Jobs that run at a time, on all workers together; with 0 none starts."""
    starts_per_minute: int | None = None
    """Attempts of jobs that start in a minute, evenly spread: at most a tenth of them at once."""
    jobs: int | None = None
    """Unfinished jobs, both waiting and running."""
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
    """The current usage of a tenant; the fields are those of `TenantLimits`."""

    running: int
    jobs: int
    argument_bytes: int
    schedules: int


@dataclass(frozen=True, slots=True)
class StartLimit:
    """The state of a limit of a tenant or pool: how many jobs may run and start, and the used part of the rate."""

    running: int | None
    per_minute: int | None
    used_until_us: int
    """The time up to which past starts have used the rate, in microseconds since the epoch."""


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
"""The rules for the limits of a pool; None is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """The limits of a pool; None is no limit. Jobs over a limit wait."""

    running: int | None = None
    """Jobs that run at a time, on all workers together; with 0 none starts."""
    per_tenant: int | None = None
    """Jobs of one tenant that run at a time in the pool, on all workers together."""
    per_key: int | None = None
    """Jobs of a tenant with one `limit_key` that run at a time in the pool, on all workers together."""
    starts_per_minute: int | None = None
    """Attempts of jobs that start in a minute, evenly spread: at most a tenth of them at once."""
    paused: bool = False
    """No job of the pool starts; running jobs continue."""
    note: str = ""
    """The reason of the pause."""

    def __post_init__(self) -> None:
        check_options(POOL_RULES, some({name: getattr(self, name) for name in POOL_RULES}))

    @property
    def is_empty(self) -> bool:
        """Whether the pool has no limit and is not paused."""
        return not self.paused and all(getattr(self, name) is None for name in NUMBERS)


NO_LIMITS: Final = PoolLimits()


class PoolSettings(NamedTuple):
    """The settings of a pool."""

    limits: PoolLimits
    declared: str | None
    """The limits that code has declared for it, as text; None if it declares none."""


NO_SETTINGS: Final = PoolSettings(NO_LIMITS, None)


class PoolUse(NamedTuple):
    """The settings of pools, and their running jobs."""

    settings: Mapping[str, PoolSettings]
    """By name, for pools with limits and pools that code declares."""
    running: Mapping[tuple[str, TenantId, str | None], int]
    """The number of running jobs of each pool, tenant and limit key (None without a key) on all workers."""
    used_until_us: Mapping[str, int]
    """For each pool in `settings`: as `StartLimit.used_until_us`."""


class ReadyInPool(NamedTuple):
    """Due jobs of a pool that wait for capacity."""

    jobs: int
    oldest: Instant
    """The earliest due time of the counted jobs."""


@dataclass(frozen=True, slots=True)
class PoolClaimLimit:
    """The limits of a pool that apply to a claim."""

    start: StartLimit
    per_tenant: int | None
    per_key: int | None = None

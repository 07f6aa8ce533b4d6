"""What a tenant may use, and what it uses."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from evertick.base.options import Rule, check_options, some, whole

STARTS_MAX: Final = 1_000_000
"""Starts in a minute that can be asked for: one every 60 us, more than a database keeps up with."""
LIMIT_MAX: Final = 1_000_000_000_000


COUNT: Final = whole(0, LIMIT_MAX)
STARTS: Final = whole(1, STARTS_MAX)
RULES: Final[Mapping[str, Rule]] = {
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
        check_options(RULES, some({name: getattr(self, name) for name in RULES}))

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

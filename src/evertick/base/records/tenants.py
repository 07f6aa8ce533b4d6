"""What a tenant may use, and what it uses."""

from dataclasses import dataclass, fields
from typing import Final

from evertick.base.errors import Misuse

STARTS_MAX: Final = 1_000_000
"""Starts in a minute that can be asked for: one every 60 us, more than a database keeps up with."""
LIMIT_MAX: Final = 1_000_000_000_000


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
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and (type(value) is not int or not 0 <= value <= LIMIT_MAX):
                raise Misuse(f"{each.name}= is a whole number from 0 to {LIMIT_MAX:,}, or None, not {value!r}")
        if self.starts_per_minute == 0:
            raise Misuse("starts_per_minute= is at least 1; running=0 lets no job of a tenant start")

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

"""The limits of pools as programs give them."""

from typing import TypedDict

from evertick.base.errors import Misuse
from evertick.base.records.pools import PoolLimits
from evertick.base.records.tenants import STARTS_MAX


class Limits(TypedDict, total=False):
    """The limits of a pool that a program can choose; None is no limit."""

    running: int | None
    per_tenant: int | None
    per_key: int | None
    starts_per_minute: int | None


def limits_of(given: Limits) -> PoolLimits:
    """The limits, checked. Raises Misuse for an unknown one and for a value that is no number."""
    if unknown := sorted(given.keys() - Limits.__annotations__):
        raise Misuse(f"a pool has no limit {unknown[0]}; the limits are {', '.join(Limits.__annotations__)}")
    limits = PoolLimits(**given)
    if (limits.starts_per_minute or 0) > STARTS_MAX:
        raise Misuse(f"starts_per_minute= is at most {STARTS_MAX:,}; None is no limit")
    return limits

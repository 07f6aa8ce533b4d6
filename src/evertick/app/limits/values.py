"""The limits of pools as programs give them."""

from typing import TypedDict

from evertick.base.options import check_names
from evertick.base.records.limits import PoolLimits


class Limits(TypedDict, total=False):
    """The limits of a pool that a program can choose; None is no limit."""

    running: int | None
    per_tenant: int | None
    per_key: int | None
    starts_per_minute: int | None


def limits_of(given: Limits) -> PoolLimits:
    """The limits, checked. Raises Misuse for an unknown one and for a value that is no number."""
    check_names(Limits.__annotations__, given, "a pool")
    return PoolLimits(**given)

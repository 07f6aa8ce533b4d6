"""Testing: a world whose clock jumps. Loaded on first use, because the pytest plugin lives in this package."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evertick.testing.jobs import JobView
    from evertick.testing.moments import at, days, hours, minutes, seconds
    from evertick.testing.world import World

_HOMES = {
    "JobView": "evertick.testing.jobs",
    "World": "evertick.testing.world",
    "at": "evertick.testing.moments",
    "days": "evertick.testing.moments",
    "hours": "evertick.testing.moments",
    "minutes": "evertick.testing.moments",
    "seconds": "evertick.testing.moments",
}

__all__ = ["JobView", "World", "at", "days", "hours", "minutes", "seconds"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'evertick.testing' has no attribute {name!r}")
    return getattr(import_module(home), name)

"""Ids: a type for each kind of thing, and the sources that make them.

An id reads `<table>_<28 hex digits>`: 12 digits of milliseconds, then 64 bits of chance. So an id names its table,
ids made later sort later (which keeps the indexes' writes together), and two machines never make the same one.
"""

import random
import re
from typing import Final, NewType, Protocol

from evertick.base.instants import Instant

JobId = NewType("JobId", str)
"""A job: a document of the system table `_scheduled_functions`."""

WorkerId = NewType("WorkerId", str)
"""A worker, by boot: random, because host names and process ids come back."""

ScheduleId = NewType("ScheduleId", str)
DocumentId = NewType("DocumentId", str)
TenantId = NewType("TenantId", str)

DEFAULT_TENANT: Final = TenantId("default")
JOB_PREFIX: Final = "job"
WORKER_PREFIX: Final = "worker"

_ID: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63})_([0-9a-f]{28})")


class Entropy(Protocol):
    """Where chance comes from. `random.Random` is one; simulations hand in a seeded one."""

    def getrandbits(self, k: int, /) -> int:
        """A non-negative integer of `k` random bits."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


def system_entropy() -> Entropy:
    """Chance from the operating system's seed; ids need to be unlike each other, not secret."""
    return random.Random()


def new_id(prefix: str, now: Instant, entropy: Entropy) -> str:
    """A new id for a row of the table called `prefix`."""
    return f"{prefix}_{now:012x}{entropy.getrandbits(64):016x}"


def table_of(value: str) -> str | None:
    """The table an id names, or None where `value` is no id at all."""
    match = _ID.fullmatch(value)
    return match.group(1) if match else None

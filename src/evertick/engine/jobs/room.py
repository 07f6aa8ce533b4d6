"""What a claim has room for, and what it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim
from evertick.store.records.claims import Head

BYTES_MAX: Final = 64 * 1024 * 1024
"""Arguments that one loop of a worker holds at most, in bytes."""
JOB_BYTES_MAX: Final = 4 * 1024 * 1024
"""Arguments of one job, in bytes: with room for less, nothing is claimed."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was claimed, and when the next job is due, whosever it is (None: there is none).

    A suspect may have to wait although it is due, so it is no reason to look again at once: `suspect_is_due` tells of
    it. It is None if the claim did not look; then the next round comes at once and looks.
    """

    claims: list[Claim]
    next_due_at: Instant | None
    suspect_is_due: bool | None = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a loop has room for, in jobs and in bytes of arguments; and how many jobs of each tenant it runs already."""

    jobs: int
    bytes: int = BYTES_MAX
    running: Mapping[TenantId, int] = field(default_factory=dict)
    beside: Sequence[Head] = ()
    """Heads behind which there is seldom a job: one place is kept for each of them, in the first statement."""

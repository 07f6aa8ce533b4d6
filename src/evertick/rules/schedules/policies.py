"""Policies: what a schedule is asked to do about collision, lateness and failure, and the limits of that."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from evertick.base.errors import LimitExceeded, Misuse
from evertick.base.instants import DAY_MS, SECOND_MS

CATCH_UP_WINDOW_DEFAULT_MS: Final = 365 * DAY_MS
CATCH_UP_WINDOW_MIN_MS: Final = 10 * SECOND_MS
"""Temporal's least window. It is also the lateness up to which an occurrence still counts as on time."""

BUFFER_MAX: Final = 1_000
"""Occurrences that may wait at once; further ones are missed with the reason `buffer_full`."""

RUNS_MAX: Final = 10_000
"""Runs of one schedule that may be open at once, whatever its policy; further ones are missed: `runs_full`."""


RUN_TIMEOUT_MAX_MS: Final = 100 * 365 * DAY_MS


class Overlap(StrEnum):
    """What becomes of an occurrence that arrives while earlier runs take all the room."""

    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    CANCEL_OTHER = "cancel_other"
    TERMINATE_OTHER = "terminate_other"
    ALLOW_ALL = "allow_all"


class CatchUp(StrEnum):
    """Which of the times that passed unseen (an outage) still run, inside the catch-up window."""

    ALL = "all"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What to do about collision, lateness and failure.

    `concurrency_limit` is how many runs may be open before `overlap` is asked: 1 as in Temporal. `allow_all` never
    asks, so it takes no limit. `catch_up_window_ms` comes from `catch_up.window_ms`, which fills in and lifts it.
    `run_timeout_ms` is how long a run may be open, its retries and waits included; None for no limit.

    Raises Misuse or LimitExceeded for values that can never work.
    """

    overlap: Overlap = Overlap.SKIP
    concurrency_limit: int = 1
    catch_up: CatchUp = CatchUp.ALL
    catch_up_window_ms: int = CATCH_UP_WINDOW_DEFAULT_MS
    pause_on_failure: bool = False
    buffer_limit: int = BUFFER_MAX
    run_timeout_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse what the rules could not honour."""
        if self.concurrency_limit < 1:
            raise Misuse(f"concurrency limit must be at least 1, not {self.concurrency_limit}")
        if self.concurrency_limit > RUNS_MAX:
            raise LimitExceeded(f"concurrency limit {self.concurrency_limit} is above {RUNS_MAX}")
        if self.overlap is Overlap.ALLOW_ALL and self.concurrency_limit != 1:
            raise Misuse("allow_all knows no concurrency limit; give the limit to skip, buffer_one or buffer_all")
        if self.catch_up_window_ms < CATCH_UP_WINDOW_MIN_MS:
            raise Misuse(f"a catch-up window of {self.catch_up_window_ms} ms is below {CATCH_UP_WINDOW_MIN_MS} ms")
        if not 0 <= self.buffer_limit <= BUFFER_MAX:
            raise LimitExceeded(f"buffer limit {self.buffer_limit} is not between 0 and {BUFFER_MAX}")
        if self.run_timeout_ms is not None and not 1 <= self.run_timeout_ms <= RUN_TIMEOUT_MAX_MS:
            raise Misuse(
                f"a run timeout of {self.run_timeout_ms} ms is not between 1 ms and 100 years; no limit is the default"
            )


DEFAULT_POLICIES: Final = Policies()
"""What a schedule is asked that says nothing about it."""

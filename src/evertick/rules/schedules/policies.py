"""Policies: the requested behaviour of a schedule on collision, lateness and failure, and its limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from evertick.base.errors import Misuse
from evertick.base.instants import DAY_MS, SECOND_MS
from evertick.base.options import FLAG, Rule, check_options, optional, whole, word_of

CATCH_UP_WINDOW_DEFAULT_MS: Final = 365 * DAY_MS
CATCH_UP_WINDOW_MIN_MS: Final = 10 * SECOND_MS
"""Temporal's least window. It is also the lateness up to which an occurrence still counts as on time."""

CATCH_UP_WINDOW_MAX_MS: Final = 100 * 366 * DAY_MS
"""More than any outage; a window without a limit would reach times before the year 1."""

BUFFER_MAX: Final = 1_000
"""Occurrences that may wait at once; further ones are missed with the reason `buffer_full`."""

RUNS_MAX: Final = 10_000
"""Runs of one schedule that may be open at once, whatever its policy; further ones are missed: `runs_full`."""


RUN_TIMEOUT_MAX_MS: Final = 100 * 365 * DAY_MS


class Overlap(StrEnum):
    """What happens to an occurrence that arrives while earlier runs use all slots."""

    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    CANCEL_OTHER = "cancel_other"
    TERMINATE_OTHER = "terminate_other"
    ALLOW_ALL = "allow_all"


class CatchUp(StrEnum):
    """Which times still run after an outage, when no worker evaluated the schedule as they came.

    Only times within the catch-up window can run.
    """

    ALL = "all"
    LATEST = "latest"
    NONE = "none"


RULES: Final[Mapping[str, Rule]] = {
    "overlap": word_of(Overlap),
    "concurrency_limit": whole(1, RUNS_MAX),
    "catch_up": word_of(CatchUp),
    "catch_up_window_ms": whole(CATCH_UP_WINDOW_MIN_MS, CATCH_UP_WINDOW_MAX_MS),
    "pause_on_failure": FLAG,
    "buffer_limit": whole(0, BUFFER_MAX),
    "run_timeout_ms": optional(whole(1, RUN_TIMEOUT_MAX_MS)),
}
"""The valid values of each policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What happens to occurrences that overlap, are late or fail.

    `concurrency_limit` is how many runs may be open before `overlap` applies: 1 as in Temporal. `allow_all` always
    starts, so it takes no limit. `catch_up_window_ms` comes from `catch_up.window_ms`, which sets default and minimum.
    `run_timeout_ms` is how long a run may be open, including its retries and waits; None for no limit.

    Raises Misuse for values that can never work.
    """

    overlap: Overlap = Overlap.SKIP
    concurrency_limit: int = 1
    catch_up: CatchUp = CatchUp.ALL
    catch_up_window_ms: int = CATCH_UP_WINDOW_DEFAULT_MS
    pause_on_failure: bool = False
    buffer_limit: int = BUFFER_MAX
    run_timeout_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse values that the rules cannot apply."""
        check_options(RULES, {name: getattr(self, name) for name in RULES})
        if self.overlap is Overlap.ALLOW_ALL and self.concurrency_limit != 1:
            raise Misuse("allow_all knows no concurrency limit; give the limit to skip, buffer_one or buffer_all")


DEFAULT_POLICIES: Final = Policies()
"""The policies of a schedule that sets none."""

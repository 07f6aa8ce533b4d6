"""Fates: the results for the times of a schedule, and for the runs that are started for them.

Each time is an **occurrence**, and each occurrence gets a **fate** with a **reason**: that pair is a row of the ledger.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Origin(StrEnum):
    """The origin of an occurrence: the schedule's own spec, a trigger by hand, or a backfill."""

    SCHEDULE = "schedule"
    TRIGGER = "trigger"
    BACKFILL = "backfill"


class Fate(StrEnum):
    """The result of an occurrence. `buffered` is the only one that can still change."""

    STARTED = "started"
    BUFFERED = "buffered"
    SKIPPED = "skipped"
    MISSED = "missed"


class Reason(StrEnum):
    """Why an occurrence has its fate: a stable one-word code for programs. `FATE_OF` maps each to its fate."""

    ON_TIME = "on_time"
    CAUGHT_UP = "caught_up"
    AFTER_WAIT = "after_wait"
    TRIGGERED = "triggered"
    BACKFILLED = "backfilled"

    BEHIND_RUN = "behind_run"
    STOPPING_RUN = "stopping_run"

    OVERLAP = "overlap"
    SUPERSEDED = "superseded"
    PAUSED = "paused"
    LIMIT = "limit"
    TARGET_INELIGIBLE = "target_ineligible"
    BACKFILL_CANCELED = "backfill_canceled"
    DELETED = "deleted"

    CATCH_UP_WINDOW = "catch_up_window"
    CATCH_UP_LATEST = "catch_up_latest"
    CATCH_UP_NONE = "catch_up_none"
    CATCH_UP_OVERLAP = "catch_up_overlap"
    CATCH_UP_SUPERSEDED = "catch_up_superseded"
    CATCH_UP_DROPPED = "catch_up_dropped"
    BUFFER_FULL = "buffer_full"
    RUNS_FULL = "runs_full"
    START_REFUSED = "start_refused"


FATE_OF: Final[Mapping[Reason, Fate]] = MappingProxyType(
    {
        Reason.ON_TIME: Fate.STARTED,
        Reason.CAUGHT_UP: Fate.STARTED,  # late, because no worker evaluated it in time
        Reason.AFTER_WAIT: Fate.STARTED,  # it had waited for an earlier run
        Reason.TRIGGERED: Fate.STARTED,
        Reason.BACKFILLED: Fate.STARTED,
        Reason.BEHIND_RUN: Fate.BUFFERED,
        Reason.STOPPING_RUN: Fate.BUFFERED,  # earlier runs are asked to stop for it
        # A policy decided against it ...
        Reason.OVERLAP: Fate.SKIPPED,
        Reason.SUPERSEDED: Fate.SKIPPED,  # a newer cancel_other or terminate_other occurrence took its place
        Reason.PAUSED: Fate.SKIPPED,
        Reason.LIMIT: Fate.SKIPPED,
        Reason.TARGET_INELIGIBLE: Fate.SKIPPED,
        Reason.BACKFILL_CANCELED: Fate.SKIPPED,
        Reason.DELETED: Fate.SKIPPED,
        # ... or it should have run and did not.
        Reason.CATCH_UP_WINDOW: Fate.MISSED,
        Reason.CATCH_UP_LATEST: Fate.MISSED,
        Reason.CATCH_UP_NONE: Fate.MISSED,
        Reason.CATCH_UP_OVERLAP: Fate.MISSED,
        Reason.CATCH_UP_SUPERSEDED: Fate.MISSED,
        Reason.CATCH_UP_DROPPED: Fate.MISSED,
        Reason.BUFFER_FULL: Fate.MISSED,
        Reason.RUNS_FULL: Fate.MISSED,
        Reason.START_REFUSED: Fate.MISSED,
    }
)

MISSED_REASONS: Final = tuple(reason.value for reason, fate in FATE_OF.items() if fate is Fate.MISSED)

AFTER_OUTAGE: Final[Mapping[Reason, Reason]] = MappingProxyType(
    {
        Reason.OVERLAP: Reason.CATCH_UP_OVERLAP,
        Reason.SUPERSEDED: Reason.CATCH_UP_SUPERSEDED,
        Reason.PAUSED: Reason.CATCH_UP_DROPPED,
        Reason.TARGET_INELIGIBLE: Reason.CATCH_UP_DROPPED,
        Reason.DELETED: Reason.CATCH_UP_DROPPED,
    }
)
"""The replacement for the reason of a dropped occurrence that no worker evaluated in time. It was dropped by the
overlap policy, or because the schedule was paused or deleted, or its target withdrawn, before its turn came. Times
during a pause, or while a target may not run, are skipped for that reason when they come, and are not replaced.
"""


class RunOutcome(StrEnum):
    """How a run ended, after all its retries."""

    SUCCESS = "success"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELED = "canceled"
    TERMINATED = "terminated"


FAILURES: Final = frozenset({RunOutcome.FAILED, RunOutcome.TIMED_OUT})
"""The outcomes that are a failure of the run itself; a stop on request is none."""
NOT_ENDED: Final = " has not ended"
"""The suffix of the detail of a time that an earlier run prevented from starting, after that run's name."""

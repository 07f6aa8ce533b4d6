"""Catch-up: which of the times that passed without an evaluation still run.

A window limits how late an occurrence may be. Inside it a policy says how many of the late ones run: `all`, each in
order; `latest`, only the newest; `none`, none that is late. Up to ten seconds count as on time. Occurrences that are
requested by hand (triggers, backfills) are exempt.
"""

from collections.abc import Sequence
from typing import Final

from evertick.base.durations import full_length
from evertick.base.instants import DAY_MS, HOUR_MS, Instant
from evertick.rules.schedules.fates import AFTER_OUTAGE, Origin, Reason
from evertick.rules.schedules.policies import (
    CATCH_UP_WINDOW_DEFAULT_MS,
    CATCH_UP_WINDOW_MIN_MS,
    CatchUp,
    Overlap,
    Policies,
)

SEEN_LATE: Final = frozenset(
    {Reason.CATCH_UP_WINDOW, Reason.CATCH_UP_LATEST, Reason.CATCH_UP_NONE, *AFTER_OUTAGE.values()}
)
"""The reasons for which an occurrence is missed because no worker evaluated it in time."""

FULL: Final = frozenset({Reason.BUFFER_FULL, Reason.RUNS_FULL})
"""The reasons for which an occurrence is missed when it arrives, because too many exist already."""

OUTAGE_MAX_MS: Final = 30 * DAY_MS
"""Missed times that are older than this when they are found are not reported as a current outage."""

LATE_AFTER_MS: Final = CATCH_UP_WINDOW_MIN_MS
"""An occurrence that is evaluated at most this long after its actual time is on time."""


def window_ms(requested_ms: int | None) -> int:
    """The catch-up window of a request: the default is 365 days, and values below ten seconds become ten.

    Zero becomes ten seconds, too: it requests that nothing is late. Temporal treats it as the default, since its
    requests cannot distinguish zero from a field that is not set.
    """
    return CATCH_UP_WINDOW_DEFAULT_MS if requested_ms is None else max(requested_ms, CATCH_UP_WINDOW_MIN_MS)


def too_late(actual_at: Instant, policies: Policies, now: Instant) -> Reason | None:
    """The reason why an occurrence that is first evaluated now is missed because of its age; None if it may run."""
    age_ms = now - actual_at
    if age_ms > policies.catch_up_window_ms:
        return Reason.CATCH_UP_WINDOW
    if age_ms > LATE_AFTER_MS and policies.catch_up is CatchUp.NONE:
        return Reason.CATCH_UP_NONE
    return None


def started_late(origin: str, late_ms: int | None) -> bool:
    """Whether an occurrence started more than ten seconds after its actual time. `late_ms` is None if it did not start.

    Only the schedule's own times can be late. The time of a trigger or backfill may be in the past when it is
    requested.
    """
    return late_ms is not None and origin == Origin.SCHEDULE and late_ms > LATE_AFTER_MS


WAITED: Final = "waited "
"""The prefix of the detail of an occurrence that was evaluated in time and then waited too long for earlier runs."""


def unseen(reason: Reason, detail: str, late_ms: int) -> bool:
    """Whether an occurrence was missed because no worker evaluated it in time. `late_ms` is its lateness then."""
    if reason in FULL:
        return late_ms > LATE_AFTER_MS
    return reason in SEEN_LATE and not detail.startswith(WAITED)


def expired(actual_at: Instant, policies: Policies, now: Instant) -> bool:
    """Whether an occurrence that waited for a run has become too old to start. Only the catch-up window is compared."""
    return now - actual_at > policies.catch_up_window_ms


LOSES_TIMES: Final = "outage_loses_times"
"""The code of the warning that policies lose times after an outage."""
WARNED_FROM_MS: Final = HOUR_MS
"""The least distance of the times for which the warning is given. If they are closer, the next one soon compensates."""
RUNS_OF_LATE: Final = {
    Overlap.SKIP: "only the first time that has passed",
    Overlap.BUFFER_ONE: "only the first two times that have passed",
    Overlap.CANCEL_OTHER: "only the last time that has passed",
    Overlap.TERMINATE_OTHER: "only the last time that has passed",
}
"""Which of the times of an outage run with catch-up `all`; the other overlap policies run all of them."""


def lost_after_outage(policies: Policies, times: Sequence[Instant]) -> str | None:
    """A warning if the policies lose times after an outage. It suggests policies that do not.

    `times` are the next times of the schedule. None if no times are lost, if the policy `latest` or `none` requests it,
    or if the times are less than an hour apart.
    """
    runs = RUNS_OF_LATE.get(policies.overlap)
    if runs is None or policies.catch_up is not CatchUp.ALL or len(times) < 2:
        return None
    if times[-1] - times[0] < WARNED_FROM_MS * (len(times) - 1):
        return None
    if policies.concurrency_limit > 1:
        runs = f"only as many of the times that have passed as may run at once ({policies.concurrency_limit})"
    window = policies.catch_up_window_ms
    bound = "" if window >= CATCH_UP_WINDOW_DEFAULT_MS else f" that are less than {full_length(window)} late"
    return (
        f"after an outage, the overlap policy {policies.overlap.value} runs {runs}, and the others are missed; "
        f"buffer_all runs all of them{bound} one after the other, allow_all at once"
    )

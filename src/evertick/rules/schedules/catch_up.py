"""Catch-up: which of the times that passed unseen still run.

A window says how late an occurrence may be at all; inside it a policy says how many of the late ones run: `all`, each
in order; `latest`, the newest only; `none`, none that is late. Up to ten seconds count as on time. Occurrences that are
requested by hand (triggers, backfills) are exempt.
"""

from typing import Final

from evertick.base.instants import Instant
from evertick.rules.schedules.fates import Origin, Reason
from evertick.rules.schedules.policies import CATCH_UP_WINDOW_DEFAULT_MS, CATCH_UP_WINDOW_MIN_MS, CatchUp, Policies

SEEN_LATE: Final = frozenset({Reason.CATCH_UP_WINDOW, Reason.CATCH_UP_LATEST, Reason.CATCH_UP_NONE})
"""The reasons for which an occurrence is missed because of its age."""

LATE_AFTER_MS: Final = CATCH_UP_WINDOW_MIN_MS
"""An occurrence seen no later than this after its actual time is on time."""


def window_ms(requested_ms: int | None) -> int:
    """The catch-up window that a request means: absent is the default of 365 days, less than ten seconds is ten.

    Zero is among the latter: it asks that nothing be late. Temporal takes it for the default, since its requests cannot
    tell zero from a field that is not set.
    """
    return CATCH_UP_WINDOW_DEFAULT_MS if requested_ms is None else max(requested_ms, CATCH_UP_WINDOW_MIN_MS)


def too_late(actual_at: Instant, policies: Policies, now: Instant) -> Reason | None:
    """Why an occurrence first seen now is missed for its age alone, or None."""
    age_ms = now - actual_at
    if age_ms > policies.catch_up_window_ms:
        return Reason.CATCH_UP_WINDOW
    if age_ms > LATE_AFTER_MS and policies.catch_up is CatchUp.NONE:
        return Reason.CATCH_UP_NONE
    return None


def started_late(origin: str, late_ms: int | None) -> bool:
    """Was an occurrence started late, over ten seconds after its actual time? `late_ms` is None if it did not start.

    Only the schedule's own times are late. What a trigger or a backfill runs is for a time that was over already.
    """
    return late_ms is not None and origin == Origin.SCHEDULE and late_ms > LATE_AFTER_MS


WAITED: Final = "waited "
"""How the detail of an occurrence begins that was seen in time, and then waited for earlier runs for too long."""


def unseen(reason: Reason, detail: str) -> bool:
    """Was an occurrence missed because no worker looked at its schedule while it was due?"""
    return reason in SEEN_LATE and not detail.startswith(WAITED)


def expired(actual_at: Instant, policies: Policies, now: Instant) -> bool:
    """Has an occurrence that waited for a run become too old to start? The window alone counts here."""
    return now - actual_at > policies.catch_up_window_ms

"""Eligibility: may the target of a schedule run now?

A function may always run. Other targets (a workflow that was paused, deprecated or deleted) decide for themselves: the
evaluator asks before it judges the times of a schedule. While the target is blocked, times are skipped and the schedule
advances; a schedule without its target is removed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from evertick.store.contract.store import Transaction

if TYPE_CHECKING:  # every app imports this module, and only those with schedules load their rules
    from evertick.store.records.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Eligibility:
    """`reason` says why the target may not run now ("workflow report is paused"); `gone`, that it never will."""

    reason: str | None = None
    gone: bool = False

    @property
    def blocked_reason(self) -> str | None:
        """Why nothing may be started now, or None."""
        return "its target is gone" if self.gone else self.reason


ELIGIBLE: Final = Eligibility()


class Targets(Protocol):
    """Who knows about targets."""

    def eligibility(self, transaction: Transaction, row: "Schedule", /) -> Eligibility:
        """May the target of this schedule run now?"""
        ...


class OpenTargets:
    """Every target may run."""

    def eligibility(self, transaction: Transaction, row: "Schedule", /) -> Eligibility:
        """See `Targets.eligibility`."""
        return ELIGIBLE


OPEN: Final = OpenTargets()

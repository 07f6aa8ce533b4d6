"""Standing: may the target of a schedule run now?

A function may always run. Other targets (a workflow that was paused, deprecated or deleted) answer for themselves: the
evaluator asks before it judges the times of a schedule. With an obstacle its times are skipped and the schedule goes
on; without its target a schedule is removed.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from evertick.base.schedule_records import ScheduleRow
from evertick.store.contract import Transaction


@dataclass(frozen=True, slots=True)
class Standing:
    """`obstacle` says why the target may not run now ("workflow report is paused"); `gone`, that it never will."""

    obstacle: str | None = None
    gone: bool = False

    @property
    def hindrance(self) -> str | None:
        """Why nothing may be started now, or None."""
        return "its target is gone" if self.gone else self.obstacle


ELIGIBLE: Final = Standing()


class Targets(Protocol):
    """Who knows about targets."""

    def standing(self, transaction: Transaction, row: ScheduleRow, /) -> Standing:
        """May the target of this schedule run now?"""
        ...


class OpenTargets:
    """Every target may run."""

    def standing(self, transaction: Transaction, row: ScheduleRow, /) -> Standing:
        """See `Targets.standing`."""
        return ELIGIBLE


OPEN: Final = OpenTargets()

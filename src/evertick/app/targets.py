"""Targets: what besides functions a schedule may start, and who says whether it may run now.

A guard is asked by the evaluator and by every request, inside their transaction, before times are judged. It answers
None for what is not its own. Workflows bring one: paused and deprecated ones skip, deleted ones take their schedules
with them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from evertick.base.ids import TenantId
from evertick.base.schedule_records import ScheduleRow
from evertick.engine.schedule_standing import ELIGIBLE, Standing
from evertick.store.contract import Transaction

if TYPE_CHECKING:
    from evertick.engine.schedule_target import Target

Guard = Callable[[Transaction, TenantId, "Target"], Standing | None]


class GuardedTargets:
    """`app.targets`: the guards of an app."""

    def __init__(self) -> None:
        self._guards: list[Guard] = []

    def guard(self, guard: Guard) -> Guard:
        """Let `guard` say whether targets may run; the first that does not answer None is believed."""
        self._guards.append(guard)
        return guard

    def standing(self, transaction: Transaction, row: ScheduleRow, /) -> Standing:
        """See `evertick.engine.schedule_standing.Targets`."""
        if self._guards:
            from evertick.engine.schedule_target import Target

            target = Target.from_text(row.target)
            for guard in self._guards:
                standing = guard(transaction, row.tenant, target)
                if standing is not None:
                    return standing
        return ELIGIBLE

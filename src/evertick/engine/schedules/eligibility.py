"""Eligibility: whether the target of a schedule may run now.

A mutation or an action may always run, a workflow unless it was paused, deprecated or deleted. The evaluator asks
before it judges the times of a page of schedules. While the target is blocked, times are skipped and the schedule
advances. A schedule whose target is gone is removed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from evertick.base.errors import SchemaMismatch
from evertick.base.ids import ScheduleId, TenantId
from evertick.base.records.jobs import FunctionKind
from evertick.base.records.workflows import WorkflowStatus
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:  # every app imports this module, and only those with schedules load their rules
    from evertick.engine.schedules.outcome import Evaluation
    from evertick.store.records.schedule import Schedule

CODE: Final = "code"
"""The source of a cron that is declared in code."""

_Key = tuple[TenantId, ScheduleId]


@dataclass(frozen=True, slots=True)
class Eligibility:
    """`reason` says why the target may not run now ("workflow report is paused"); `gone` that it never will."""

    reason: str | None = None
    gone: bool = False

    @property
    def blocked_reason(self) -> str | None:
        """The reason why nothing may be started now, or None."""
        return "its target is gone" if self.gone else self.reason


ELIGIBLE: Final = Eligibility()


class Targets(Protocol):
    """Decides which targets may run."""

    def ineligible(
        self, transaction: Transaction, rows: "Sequence[Schedule]", evaluation: "Evaluation", /
    ) -> Mapping[_Key, Eligibility]:
        """The schedules among `rows` whose target may not run now. Called once per page of the evaluator."""
        ...


class WorkflowTargets:
    """Workflows run unless their status forbids it; all other targets run."""

    def ineligible(
        self, transaction: Transaction, rows: "Sequence[Schedule]", evaluation: "Evaluation", /
    ) -> Mapping[_Key, Eligibility]:
        """See `Targets.ineligible`."""
        named = {(row.tenant, row.id): (row, names) for row in rows if (names := _workflow_names(row, evaluation))}
        if not named:
            return {}
        types = transaction.workflow_types({name for _, names in named.values() for name in names})
        inactive = {name: each.status for name, each in types.items() if each.status is not WorkflowStatus.ACTIVE}
        found = {}
        for key, (row, names) in named.items():
            name = next((name for name in names if name in inactive), None)
            if name is not None:
                found[key] = _eligibility(row, name, inactive[name])
        return found


WORKFLOWS: Final = WorkflowTargets()


def _workflow_names(row: "Schedule", evaluation: "Evaluation") -> tuple[str, ...]:
    """The names of the workflow that a schedule starts: in the schedule and in the code, which may have renamed it."""
    try:
        function = evaluation.function(row.target)
    except SchemaMismatch:
        return ()  # a newer release wrote it: its evaluation reports that
    return (row.function, function.present) if function.kind is FunctionKind.WORKFLOW else ()


def _eligibility(row: "Schedule", name: str, status: WorkflowStatus) -> Eligibility:
    """The eligibility of a workflow. A cron in code is never gone: the next start of its app would create it again."""
    gone = status is WorkflowStatus.DELETED and row.metadata.source != CODE
    return Eligibility(f"workflow {name} is {status.value}", gone)

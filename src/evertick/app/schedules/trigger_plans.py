"""What a trigger would do now: the rules are asked, for each overlap policy, and nothing is changed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from evertick.api.schedules import TriggerEffect, TriggerPlanView
from evertick.app.transacting import Work
from evertick.base.errors import ScheduleNotFound
from evertick.base.instants import to_datetime
from evertick.engine.schedules.commands import REPORTS_MAX
from evertick.engine.schedules.eligibility import ELIGIBLE
from evertick.engine.schedules.evaluation import Inputs, evaluate
from evertick.rules.schedules.events import Triggered
from evertick.rules.schedules.fates import Fate, Origin, Reason
from evertick.rules.schedules.overlap import behind_overdue
from evertick.rules.schedules.plan import Plan, Verdict
from evertick.rules.schedules.policies import Overlap
from evertick.rules.schedules.state import OccurrenceKey
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.schedules.commands import ScheduleOperations

REQUEST: Final = "plan"


def trigger_plan(operations: "ScheduleOperations", schedule_id: str) -> Work[TriggerPlanView]:
    """What a trigger of a schedule would do now under each overlap policy. Nothing is changed.

        for effect in app.schedules.trigger_plan("report").effects:
            print(effect.overlap, effect.sentence)

    Ends of runs and due times that no worker has looked at yet are taken into account, up to 250 times.

    Raises ScheduleNotFound.
    """

    def work(transaction: Transaction) -> TriggerPlanView:
        row = operations.readable_row(transaction, schedule_id)
        now = operations.now()
        evaluation = operations.by(now).evaluation(transaction)
        found = operations.targets.ineligible(transaction, [row], evaluation).get((row.tenant, row.id), ELIGIBLE)
        if found.gone:
            raise ScheduleNotFound(f"the target of schedule {row.id!r} is gone, and the schedule goes with it")
        reports = transaction.run_reports([(row.tenant, row.id)], limit=REPORTS_MAX)
        own = row.state.policies.overlap
        effects = []
        for overlap in Overlap:
            chosen = behind_overdue(row.state) or own if overlap is own else overlap
            event = Triggered(at=now, request=REQUEST, overlap=chosen)
            plan = evaluate(row, Inputs(reports, [event], found), evaluation).plan
            effects.append(_effect(overlap, plan, OccurrenceKey(Origin.TRIGGER, REQUEST, now)))
        nothing = evaluate(row, Inputs(reports, (), found), evaluation).plan.state
        return TriggerPlanView(
            schedule=row.id,
            at=to_datetime(now),
            overlap=own,
            running=tuple(run.run_id for run in nothing.running),
            waiting=nothing.waits,
            effects=tuple(effects),
        )

    return work


def _effect(overlap: Overlap, plan: Plan, key: OccurrenceKey) -> TriggerEffect:
    verdict = next(each for each in plan.fates if each.occurrence.key == key)
    names: Mapping[OccurrenceKey, str] = {run.occurrence.key: run.run_id for run in plan.state.running}
    stops = tuple(names[each] for each in (*plan.cancels, *plan.terminates))
    beside = plan.state.open_runs - 1 if verdict.fate is Fate.STARTED else 0
    ahead = plan.state.waits - 1 if verdict.fate is Fate.BUFFERED else 0
    return TriggerEffect(
        overlap=overlap,
        fate=verdict.fate,
        reason=verdict.reason,
        run=None if verdict.fate is Fate.STARTED else verdict.run_id,
        stops=stops,
        sentence=_sentence(verdict, stops, beside, ahead),
    )


def _sentence(verdict: Verdict, stops: tuple[str, ...], beside: int, ahead: int) -> str:
    """What would happen, as people read it; `beside` runs are open, `ahead` occurrences wait."""
    match verdict.fate:
        case Fate.STARTED:
            return "Starts at once" + (f", beside {_counted(beside, 'open run')}." if beside else ".")
        case Fate.BUFFERED if verdict.reason is Reason.STOPPING_RUN:
            which = ", ".join(stops[:3]) + (f" and {len(stops) - 3} more" if len(stops) > 3 else "")
            is_hard = verdict.occurrence.overlap is Overlap.TERMINATE_OTHER
            asked = f"Stops {which} at once" if is_hard else f"Asks {which} to cancel"
            asked = asked if stops else f"{verdict.run_id} has been asked to stop already"
            return f"{asked}; starts when that has ended."
        case Fate.BUFFERED:
            behind = f" and {_counted(ahead, 'other')} before it" if ahead else ""
            return f"Waits until {verdict.run_id} has ended{behind}, and starts then."
        case _:
            return f"Nothing would start: {verdict.detail or verdict.reason}."


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"

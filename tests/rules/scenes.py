"""Short words for tests of the schedule rules: instants are whole minutes, runs are named after their minute."""

from collections.abc import Iterable
from typing import Any

from evertick.base.instants import MINUTE_MS, Instant
from evertick.rules.schedules.decide import fold
from evertick.rules.schedules.events import BackfillRequested, BackfillTimes, Due, Event, RunEnded, Triggered
from evertick.rules.schedules.fates import Fate, Origin, Reason, RunOutcome
from evertick.rules.schedules.plan import Plan
from evertick.rules.schedules.policies import Overlap, Policies
from evertick.rules.schedules.state import Backfill, FireTime, OccurrenceKey, ScheduleState, new_state


def minute(number: float) -> Instant:
    """The instant `number` minutes after the epoch."""
    return Instant(round(number * MINUTE_MS))


def key(number: float, origin: Origin = Origin.SCHEDULE, request: str = "") -> OccurrenceKey:
    return OccurrenceKey(origin, request, minute(number))


def due(*numbers: float, more: bool = False) -> Due:
    return Due(times=tuple(FireTime(minute(number), minute(number)) for number in numbers), more=more)


def trigger(at: float, overlap: Overlap | None = None, request: str = "t") -> Triggered:
    return Triggered(at=minute(at), request=request, overlap=overlap)


def backfill(at: float, *numbers: float, overlap: Overlap | None = None, name: str = "b") -> list[Event]:
    times = tuple(FireTime(minute(number), minute(number)) for number in numbers)
    asked = Backfill(id=name, start_at=times[0].actual_at, end_at=times[-1].actual_at, overlap=overlap)
    return [
        BackfillRequested(at=minute(at), backfill=asked),
        BackfillTimes(at=minute(at), backfill_id=name, times=times, done=True),
    ]


def ended(
    at: float,
    run: float | OccurrenceKey,
    outcome: RunOutcome = RunOutcome.SUCCESS,
    ref: str | None = None,
    message: str = "",
) -> RunEnded:
    run_key = run if isinstance(run, OccurrenceKey) else key(run)
    return RunEnded(at=minute(at), key=run_key, outcome=outcome, ref=ref, message=message)


class Scene:
    """A schedule of minutes, created at minute 0, and what became of every time."""

    def __init__(self, *, remaining: int | None = None, **policies: Any) -> None:
        self.state: ScheduleState = new_state(
            now=minute(0), policies=Policies(**policies), run_id_template="run-{nominal}", remaining=remaining
        )
        self.ledger: dict[OccurrenceKey, tuple[Fate, Reason]] = {}
        self.started: list[float] = []
        self.plan: Plan = Plan(state=self.state)

    def at(self, now: float, *events: Event | Iterable[Event]) -> Plan:
        """Fold events at minute `now`."""
        flat = [each for event in events for each in ([event] if isinstance(event, Event) else event)]
        self.plan = fold(self.state, flat, minute(now))
        self.state = self.plan.state
        self.ledger.update({v.occurrence.key: (v.fate, v.reason) for v in self.plan.fates})
        self.started += [start.occurrence.nominal_at / MINUTE_MS for start in self.plan.starts]
        return self.plan

    @property
    def running(self) -> list[float]:
        return [run.occurrence.nominal_at / MINUTE_MS for run in self.state.running]

    @property
    def waiting(self) -> list[float]:
        return [occurrence.nominal_at / MINUTE_MS for occurrence in self.state.waiting]

    def reasons(self) -> list[str]:
        """The reason of every time, in the order in which they came."""
        return [str(reason) for _, reason in self.ledger.values()]

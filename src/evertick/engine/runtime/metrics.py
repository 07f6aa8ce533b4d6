"""Metrics: what the engine reports: how often things happened, and each end of an attempt to the observers.

Log lines, the output of `evertick dev` and a metrics page are made from them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from evertick.base.instants import Instant
from evertick.base.records.jobs import Claim, JobEnd, JobState
from evertick.base.records.schedules import OccurrenceRow


class JobEnded(NamedTuple):
    """An attempt ended and its end is committed."""

    claim: Claim
    end: JobEnd
    started_at: Instant
    ended_at: Instant


class Observer(Protocol):
    """Told of each ended attempt, in the engine's threads: it must be quick and must not raise."""

    def job_ended(self, event: JobEnded, /) -> None:
        """An attempt ended."""
        ...


class ScheduleObserver(Protocol):
    """Told of each decided occurrence, in the engine's threads: it must be quick and must not raise."""

    def occurrences_decided(self, function: str, rows: Sequence[OccurrenceRow], /) -> None:
        """An evaluator decided what becomes of occurrences of a schedule that calls `function`; it is committed."""
        ...


_COUNTED: Final = {state: f"jobs_{'retried' if state is JobState.PENDING else state.value}" for state in JobState}


class Counters:
    """How often each thing happened since the process started, and who is told when it happens."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.observers: list[Observer] = []
        self.schedule_observers: list[ScheduleObserver] = []

    def add(self, name: str, count: int = 1) -> None:
        """Count something that happened."""
        self._counts[name] += count

    def jobs_ended(self, events: Sequence[JobEnded]) -> None:
        """Count ended attempts and tell the observers."""
        for state, count in Counter([event.end.state for event in events]).items():
            self._counts[_COUNTED[state]] += count
        for observer in self.observers:
            for event in events:
                observer.job_ended(event)

    def snapshot(self) -> dict[str, int]:
        """All counts by name."""
        return dict(self._counts)

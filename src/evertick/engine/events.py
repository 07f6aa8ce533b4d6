"""Events: what the engine tells those who watch it: counters, logs, the output of `evertick dev`."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from evertick.base.instants import Instant
from evertick.base.records import Claim, JobEnd, JobState
from evertick.base.schedule_records import OccurrenceRow


class JobEnded(NamedTuple):
    """An attempt ended and its end is committed."""

    claim: Claim
    end: JobEnd
    started_at: Instant
    ended_at: Instant


class Observer(Protocol):
    """Somebody who watches. Called in the engine's threads: it must be quick and must not raise."""

    def job_ended(self, event: JobEnded, /) -> None:
        """An attempt ended."""
        ...


class ScheduleObserver(Protocol):
    """Somebody who watches schedules. Called in the engine's threads: it must be quick and must not raise."""

    def occurrences_decided(self, function: str, rows: Sequence[OccurrenceRow], /) -> None:
        """An evaluator decided what becomes of occurrences of a schedule that calls `function`; it is committed."""
        ...


_COUNTED: Final = {state: f"jobs_{'retried' if state is JobState.PENDING else state.value}" for state in JobState}


class Counters:
    """How often what happened since the process started; a metrics page can read them at any time."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.observers: list[Observer] = []
        self.schedule_observers: list[ScheduleObserver] = []

    def add(self, name: str, count: int = 1) -> None:
        """Count something that happened."""
        self._counts[name] += count

    def jobs_ended(self, events: Sequence[JobEnded]) -> None:
        """Count ended attempts and tell those who watch."""
        for state, count in Counter([event.end.state for event in events]).items():
            self._counts[_COUNTED[state]] += count
        for observer in self.observers:
            for event in events:
                observer.job_ended(event)

    def snapshot(self) -> dict[str, int]:
        """All counts by name."""
        return dict(self._counts)

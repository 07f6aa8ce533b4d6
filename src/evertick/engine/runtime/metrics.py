"""Metrics: what the engine reports: counts of events, and each end of an attempt to the observers.

Log lines, the output of `evertick dev` and a metrics page are made from them. Every worker has a `JobLog`, which writes
how jobs end to the standard logger `evertick.jobs`.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from evertick.base.escaping import one_line
from evertick.base.instants import Instant
from evertick.base.records.jobs import NO_ERROR, Claim, JobEnd, JobState, try_of
from evertick.base.records.schedules import OccurrenceRow

if TYPE_CHECKING:
    import logging


class JobEnded(NamedTuple):
    """An attempt ended and its end is committed.

    `lost`: its worker died, and this worker wrote the end. Then the start time is not known.
    """

    claim: Claim
    end: JobEnd
    started_at: Instant
    ended_at: Instant
    lost: bool = False


class Observer(Protocol):
    """Notified of each ended attempt, in the engine's threads: it must be quick and must not raise."""

    def job_ended(self, event: JobEnded, /) -> None:
        """An attempt ended."""
        ...


class BatchObserver(Protocol):
    """Notified of ended attempts like `Observer`, once for all that were committed together."""

    def jobs_ended(self, events: Sequence[JobEnded], /) -> None:
        """Attempts ended."""
        ...


class ScheduleObserver(Protocol):
    """Notified of each decided occurrence, in the engine's threads: it must be quick and must not raise."""

    def occurrences_decided(self, function: str, rows: Sequence[OccurrenceRow], /) -> None:
        """An evaluator has decided on occurrences of a schedule that calls `function`, and has committed that."""
        ...


_COUNTED: Final = {state: f"jobs_{'retried' if state is JobState.PENDING else state.value}" for state in JobState}


class Counters:
    """Counts of events since the process started, and the observers of these events."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.observers: list[Observer] = []
        self.schedule_observers: list[ScheduleObserver] = []
        self.batch_observers: list[BatchObserver] = []

    def add(self, name: str, count: int = 1) -> None:
        """Add to the count of an event."""
        self._counts[name] += count

    def jobs_ended(self, events: Sequence[JobEnded]) -> None:
        """Count ended attempts and notify the observers."""
        for state, count in Counter([event.end.state for event in events]).items():
            self._counts[_COUNTED[state]] += count
        for batch_observer in self.batch_observers:
            batch_observer.jobs_ended(events)
        for observer in self.observers:
            for event in events:
                observer.job_ended(event)

    def snapshot(self) -> dict[str, int]:
        """All counts by name."""
        return dict(self._counts)


@cache
def _job_logger() -> "logging.Logger":
    import logging  # here, since a program that only registers functions loads this module too

    return logging.getLogger("evertick.jobs")


@cache
def _level_of(state: JobState) -> int:
    import logging

    return {JobState.FAILED: logging.WARNING, JobState.PENDING: logging.INFO}.get(state, logging.DEBUG)


class JobLog:
    """An observer that logs how jobs end: failures as warnings, retries as information, the rest for debugging."""

    def jobs_ended(self, events: Sequence[JobEnded], /) -> None:
        """See `BatchObserver.jobs_ended`."""
        jobs = _job_logger()
        shown = {state for state in JobState if jobs.isEnabledFor(_level_of(state))}
        for event in events:
            if event.end.state in shown:
                self._log(jobs, event)

    def _log(self, jobs: "logging.Logger", event: JobEnded) -> None:
        state = event.end.state
        level = _level_of(state)
        extra: dict[str, Any] = {
            "job_id": event.claim.id,
            "function": event.claim.name,
            "state": state.value,
            "attempt": try_of(event.claim),
        }
        if event.end.error is not None:
            extra["error"] = event.end.error.value.text
        if event.lost:
            jobs.log(level, "job %s (%s) %s", event.claim.id, event.claim.name, _lost(event), extra=extra)
            return
        extra["duration_ms"] = event.ended_at - event.started_at
        extra["late_ms"] = max(0, event.started_at - event.claim.due_at)
        words = "will be retried" if state is JobState.PENDING else state.value
        if "error" in extra:
            jobs.log(level, "%s %s: %s", event.claim.name, words, one_line(extra["error"]), extra=extra)
        else:
            jobs.log(level, "%s %s", event.claim.name, words, extra=extra)


def _lost(event: JobEnded) -> str:
    """The state of a job after its worker died, as text."""
    if event.end.state is JobState.PENDING:
        return "is tried again, because its worker died"
    error = NO_ERROR if event.end.error is None else event.end.error.value
    return f"failed: {one_line(error.text)}; it is not tried again"

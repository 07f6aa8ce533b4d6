"""The job log: how jobs end, in the standard logger `evertick.jobs`, wherever a worker runs."""

from typing import Any

from evertick.base.records.jobs import JobState
from evertick.engine.runtime.metrics import JobEnded


class JobLog:
    """An observer that logs how jobs end: failures as warnings, retries as information, the rest for debugging."""

    def job_ended(self, event: JobEnded, /) -> None:
        """See `Observer.job_ended`."""
        import logging  # here, since a program that only registers functions loads this module too

        jobs = logging.getLogger("evertick.jobs")
        state = event.end.state
        level = {JobState.FAILED: logging.WARNING, JobState.PENDING: logging.INFO}.get(state, logging.DEBUG)
        if not jobs.isEnabledFor(level):
            return
        words = "will be retried" if state is JobState.PENDING else state.value
        extra: dict[str, Any] = {
            "job_id": event.claim.id,
            "function": event.claim.name,
            "state": state.value,
            "attempt": event.claim.attempt,
            "duration_ms": event.ended_at - event.started_at,
            "late_ms": max(0, event.started_at - event.claim.due_at),
        }
        if event.end.error is not None:
            extra["error"] = event.end.error.value.text
        jobs.log(level, "%s %s", event.claim.name, words, extra=extra)

"""`client.jobs` and `client.scheduler`, as requests."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Unpack

from evertick.api.jobs import AttemptView, JobLogs, JobPage, JobView, LogPage
from evertick.api.schema import Count
from evertick.app.jobs.log_lines import LinesWhere
from evertick.app.scheduling.choice import JobsWhere, name_of
from evertick.app.transacting import Page
from evertick.base.errors import InvalidDelay
from evertick.base.ids import JobId
from evertick.base.instants import duration_ms
from evertick.client.calls import (
    Call,
    Requests,
    RequestsWithOptions,
    function_call,
    given,
    new_id,
    new_key,
    part,
    sent,
    sent_in_pieces,
    wire,
)


class JobRequests(Requests):
    """What may be done with the jobs below `home`."""

    @sent
    def get(self, job_id: JobId | str) -> Call[JobView]:
        """A job. Raises JobNotFound."""
        return self._get(self._of(job_id), JobView)

    @sent
    def list(
        self, *, limit: int = 100, cursor: str | None = None, newest_first: bool = False, **where: Unpack[JobsWhere]
    ) -> Call[JobPage]:
        """A page of jobs; as `app.jobs.list`."""
        query = _where(where) | given({"limit": limit, "cursor": cursor, "newest_first": newest_first})
        return self._get(f"{self._home}/jobs", JobPage, query)

    @sent
    def upcoming(self, *, limit: int = 100, cursor: str | None = None, **where: Unpack[JobsWhere]) -> Call[JobPage]:
        """A page of the jobs that wait for their time, the soonest due first; as `app.jobs.upcoming`."""
        query = _where(where) | given({"limit": limit, "cursor": cursor})
        return self._get(f"{self._home}/jobs/upcoming", JobPage, query)

    @sent
    def count(self, **where: Unpack[JobsWhere]) -> Call[Count]:
        """How many jobs are chosen; as `app.jobs.count`."""
        return self._get(f"{self._home}/jobs/count", Count, _where(where))

    @sent
    def counts_by_function(self) -> Call[dict[str, dict[str, int]]]:
        """How many jobs of each function there are in each state."""
        return Call(method="GET", path=f"{self._home}/jobs/counts", read=dict)

    @sent
    def attempts(self, job_id: JobId | str) -> Call[tuple[AttemptView, ...]]:
        """The attempts at a job. Raises JobNotFound."""
        return self._get(f"{self._of(job_id)}/attempts", tuple[AttemptView, ...])

    @sent
    def logs(self, job_id: JobId | str, *, all_attempts: bool = False) -> Call[JobLogs]:
        """The lines that its last attempt wrote, or all of them. Raises JobNotFound."""
        query = {"all_attempts": all_attempts}
        return self._get(f"{self._of(job_id)}/logs", JobLogs, query)

    @sent
    def request(self, job_id: JobId | str) -> Call[tuple[JobView, ...]]:
        """The jobs of the request that a job belongs to; as `app.jobs.request`. Raises JobNotFound."""
        return self._get(f"{self._of(job_id)}/request", tuple[JobView, ...])

    @sent
    def log_lines(
        self, *, limit: int = 100, cursor: str | None = None, newest_first: bool = True, **where: Unpack[LinesWhere]
    ) -> Call[LogPage]:
        """A page of the lines that functions wrote; as `app.jobs.log_lines`. Raises JobNotFound."""
        if where.get("function") is not None:
            where["function"] = name_of(where["function"])
        query = given(where) | given({"limit": limit, "cursor": cursor, "newest_first": newest_first})
        return self._get(f"{self._home}/logs", LogPage, query)

    @sent
    def cancel(self, job_id: JobId | str) -> Call[JobView]:
        """Cancel a job; as `app.jobs.cancel`. Raises JobNotFound."""
        return self._changed(job_id, "cancel")

    @sent
    def stop(self, job_id: JobId | str) -> Call[JobView]:
        """Cancel a job, and end its function if it runs. Raises JobNotFound."""
        return self._changed(job_id, "stop")

    @sent
    def run_now(self, job_id: JobId | str) -> Call[JobView]:
        """Let a pending job run now. Raises JobNotFound, JobNotPending."""
        return self._changed(job_id, "run-now")

    @sent
    def reschedule(self, job_id: JobId | str, at: datetime) -> Call[JobView]:
        """Let a pending job run at another time. Raises JobNotFound, JobNotPending, InvalidDelay."""
        return self._changed(job_id, "reschedule", {"at": wire(at)})

    @sent
    def retry(self, job_id: JobId | str, *, args: Mapping[str, Any] | None = None) -> Call[JobId]:
        """Try a failed job again; returns the id of the new one. Raises JobNotFound, JobNotRetryable."""
        body = {} if args is None else {"args": dict(args)}
        return Call(method="POST", path=f"{self._of(job_id)}/retry", body=body, read=new_id)

    @sent_in_pieces
    def retry_all(self, after: str, **where: Unpack[JobsWhere]) -> Call[Page]:
        """Try all failed jobs again that are chosen; returns how many. Each request works for about a second."""
        return self._piece(f"{self._home}/jobs/retry-all", _where(where), after)

    @sent_in_pieces
    def cancel_all(self, after: str, **where: Unpack[JobsWhere]) -> Call[Page]:
        """Cancel all unfinished jobs that are chosen; returns how many. Each request works for about a second."""
        return self._piece(f"{self._home}/jobs/cancel-all", _where(where), after)

    @sent_in_pieces
    def run_now_all(self, after: str, **where: Unpack[JobsWhere]) -> Call[Page]:
        """Let all pending jobs run now that are chosen; returns how many. Each request works for about a second."""
        return self._piece(f"{self._home}/jobs/run-now-all", _where(where), after)

    def _changed(self, job_id: str, action: str, body: dict[str, Any] | None = None) -> Call[JobView]:
        return self._post(f"{self._of(job_id)}/{action}", JobView, body or {})

    def _of(self, job_id: str) -> str:
        return f"{self._home}/jobs/{part(job_id)}"


class ScheduleJobs(RequestsWithOptions):
    """What may be scheduled below `home`, with options."""

    def run_after(self, delay: float | timedelta, function: Any, /, *args: Any, **kwargs: Any) -> Call[JobId]:
        """Run a function `delay` (seconds, or a timedelta) from now; returns the job's id.

        `function` is the function itself, or its name with arguments by name. Raises InvalidDelay, InvalidArguments,
        FunctionNotFound, QuotaExceeded. It is scheduled once, however often it is sent.
        """
        return self._new({"after": duration_ms(delay, name="delay") / 1000}, function, args, kwargs)

    def enqueue(self, function: Any, /, *args: Any, **kwargs: Any) -> Call[JobId]:
        """Run a function now; as `run_after` with a delay of 0."""
        return self.run_after(0, function, *args, **kwargs)

    def run_at(self, at: datetime, function: Any, /, *args: Any, **kwargs: Any) -> Call[JobId]:
        """Run a function at an aware datetime; as `run_after`."""
        if not isinstance(at, datetime):
            raise InvalidDelay(f"run_at takes an aware datetime, not {at!r}")
        return self._new({"at": wire(at)}, function, args, kwargs)

    def _new(
        self, when: dict[str, Any], function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Call[JobId]:
        body = {**function_call(function, args, kwargs), **when, **self._options}
        return Call(method="POST", path=f"{self._home}/jobs", body=body, key=new_key(), read=new_id)


def _where(where: Mapping[str, Any]) -> dict[str, Any]:
    """Filters of jobs, as the API takes them."""
    found = given(where)
    if isinstance(found.get("state"), str):
        found["state"] = [found["state"]]
    elif "state" in found:
        found["state"] = [str(each) for each in found["state"]]
    return found

"""`client.scheduler`, as requests."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from evertick.app.scheduling.job_builder import delay_ms
from evertick.base.errors import InvalidDelay
from evertick.base.ids import JobId
from evertick.client.calls import Call, RequestsWithOptions, function_call, new_id, new_key, wire


class ScheduleJobs(RequestsWithOptions):
    """Requests that schedule jobs for the tenant at `home`, with options."""

    def run_after(self, delay: float | timedelta, function: Any, /, *args: Any, **kwargs: Any) -> Call[JobId]:
        """Run a function `delay` (seconds, or a timedelta) from now; returns the job's id.

        `function` is the function itself, or its name. With a name, arguments must be given by name. One job is
        created, however often the request is sent.

        Raises InvalidDelay, InvalidArguments, FunctionNotFound, QuotaExceeded.
        """
        return self._new({"after": delay_ms(delay) / 1000}, function, args, kwargs)

    def enqueue(self, function: Any, /, *args: Any, **kwargs: Any) -> Call[JobId]:
        """Run a function now: like `run_after` with a delay of 0."""
        return self.run_after(0, function, *args, **kwargs)

    def run_at(self, at: datetime, function: Any, /, *args: Any, **kwargs: Any) -> Call[JobId]:
        """Run a function at `at`, an aware datetime; otherwise like `run_after`."""
        if not isinstance(at, datetime):
            raise InvalidDelay(f"run_at takes an aware datetime, not {at!r}")
        return self._new({"at": wire(at)}, function, args, kwargs)

    def _new(
        self, when: dict[str, Any], function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Call[JobId]:
        body = {**function_call(function, args, kwargs), **when, **self._options}
        return Call(method="POST", path=f"{self._home}/jobs", body=body, key=new_key(), read=new_id)

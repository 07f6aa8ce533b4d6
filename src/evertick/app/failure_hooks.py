"""Failure hooks: functions that an app registers for failed jobs, such as the client of an error tracker."""

import atexit
import contextlib
import inspect
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from evertick.api.schema import RowReading
from evertick.base.errors import Misuse
from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import to_datetime
from evertick.base.records.jobs import Claim, JobState
from evertick.engine.runtime.metrics import JobEnded

_logger: Final = logging.getLogger("evertick.jobs")

WAITING_MAX: Final = 1_000
"""Failures that wait for their hooks; above this number the oldest are dropped."""
FLUSH_S: Final = 2.0
"""Seconds that the end of the program waits for the hooks."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt of a job, as passed to the functions of `app.on_failure`.

    `args` are the arguments by name, as JSON, and `key` is the key of the job. `schedule` is the schedule that started
    the job, and `nominal_time` is its nominal time; both are None for other jobs. `exception` is the exception that the
    function raised. It is None if it was not raised in this process: the worker died, or the job was quarantined; then
    `error` still has the reason. `will_retry` is True if another attempt follows.
    """

    job_id: JobId
    function: str
    tenant: TenantId
    args: dict[str, Any]
    key: str | None
    schedule: ScheduleId | None
    nominal_time: datetime | None
    attempt: int
    will_retry: bool
    error: str
    traceback: str
    exception: BaseException | None


Hook = Callable[[Failure], object]


class FailureHooks:
    """The failure hooks of one app. An observer of the engine.

    A hook may be slow, so hooks run one after another in their own thread. In a simulated world they run immediately,
    through `failed_now`. Errors of hooks are logged.
    """

    def __init__(self) -> None:
        self._hooks: list[Hook] = []
        self._exceptions: OrderedDict[tuple[JobId, int], BaseException] = OrderedDict()
        self._waiting: deque[Failure] = deque(maxlen=WAITING_MAX)
        self._changed = threading.Condition()
        self._is_idle = True
        self._thread: threading.Thread | None = None

    def add(self, hook: Hook) -> None:
        """Add a hook. Raises Misuse if it is not a plain function: nothing would await a coroutine."""
        if not callable(hook) or inspect.iscoroutinefunction(hook):
            raise Misuse(f"app.on_failure takes a plain function of one Failure, not {hook!r}")
        self._hooks.append(hook)

    def remember(self, claim: Claim, error: BaseException) -> None:
        """Keep the exception of a function until the end of its job is written."""
        self._exceptions[claim.id, claim.attempt] = error
        while len(self._exceptions) > WAITING_MAX:
            with contextlib.suppress(KeyError):
                self._exceptions.popitem(last=False)

    def job_ended(self, event: JobEnded, /) -> None:
        """Call the hooks, in their own thread, if the attempt of a job has failed; see `Observer.job_ended`."""
        failure = self._failure(event)
        if failure is not None:
            with self._changed:
                self._waiting.append(failure)
                self._changed.notify_all()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="evertick-failures", daemon=True)
                    self._thread.start()
                    atexit.register(self.flush)

    def failed_now(self, event: JobEnded, /) -> None:
        """Like `job_ended`, but the hooks run immediately in this thread."""
        failure = self._failure(event)
        if failure is not None:
            self._call(failure)

    def flush(self) -> None:
        """Wait until the hooks have run, for at most FLUSH_S."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_idle and not self._waiting, timeout=FLUSH_S)

    def _failure(self, event: JobEnded) -> Failure | None:
        exception = self._exceptions.pop((event.claim.id, event.claim.attempt), None)
        if event.end.error is None:
            return None
        claim, error = event.claim, event.end.error.value
        reading = RowReading()
        occurrence = reading.value("schedule", claim.schedule)
        return Failure(
            job_id=claim.id,
            function=claim.name,
            tenant=claim.tenant,
            args=reading.object("args", claim.args),
            key=claim.key,
            schedule=None if occurrence is None else occurrence.id,
            nominal_time=None if occurrence is None else to_datetime(occurrence.nominal_at),
            attempt=claim.failures + 1,
            will_retry=event.end.state is JobState.PENDING,
            error=error.text,
            traceback=error.traceback,
            exception=exception,
        )

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_idle = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting)
                self._is_idle = False
                failure = self._waiting.popleft()
            self._call(failure, caught=BaseException)  # a hook that calls sys.exit must not end this thread

    def _call(self, failure: Failure, *, caught: type[BaseException] = Exception) -> None:
        for hook in self._hooks:
            try:
                hook(failure)
            except caught:
                _logger.exception(
                    "a function of app.on_failure raised for %s of job %s", failure.function, failure.job_id,
                    extra={"job_id": failure.job_id},
                )  # fmt: skip

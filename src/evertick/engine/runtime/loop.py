"""Loops: the common shape of everything that runs without being called.

A loop does one bounded round of work, which returns when to poll again. Then it waits until that time, or for a poke.
A poke only makes a loop prompt: due work is read from the store. Sleeping, stopping, backing off and reporting happen
here and nowhere else.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from evertick.base.clock import Clock, wait_seconds
from evertick.base.errors import Conflict, EvertickError, TransactionRefused, Unavailable
from evertick.base.instants import SECOND_MS, Instant
from evertick.engine.runtime.deps import EngineDeps
from evertick.store.notifications import EVERYTHING, Notifications

# -- Repeated log: a repeated failure is logged at once, and later from time to time with the number of repetitions.

LOG_EVERY_MS: Final = 10 * SECOND_MS
FAILURES_MAX: Final = 100
"""Failures that are distinguished at a time; those that were logged longest ago are forgotten."""


@dataclass(slots=True)
class _Logged:
    at: Instant
    suppressed: int = 0


class RepeatedLog:
    """Logs errors with their tracebacks. Errors of one class from one line of code are the same failure."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._logged: dict[tuple[str, str, int], _Logged] = {}

    def error(self, error: BaseException, message: str, *args: object) -> None:
        """Log an error with a `message` as for `logging`, unless the same failure was logged recently."""
        now, failure = self._clock.now(), _failure(error)
        logged = self._logged.pop(failure, None)
        if logged is not None and 0 <= now - logged.at < LOG_EVERY_MS:
            logged.suppressed += 1
            self._logged[failure] = logged
            return
        if logged is not None and logged.suppressed:
            message, args = f"{message}; it came %d times more since this was said last", (*args, logged.suppressed)
        self._logged[failure] = _Logged(now)
        if len(self._logged) > FAILURES_MAX:
            del self._logged[min(self._logged, key=lambda each: self._logged[each].at)]
        self._logger.error(message, *args, exc_info=error)


def _failure(error: BaseException) -> tuple[str, str, int]:
    """The identity of a failure. It excludes the text, which may contain the name of a job, for example."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return type(error).__name__, "", 0
    return type(error).__name__, frame.tb_frame.f_code.co_filename, frame.tb_lineno


_logger: Final = logging.getLogger("evertick.engine")

BACKOFF_FIRST_S: Final = 0.1
BACKOFF_MAX_S: Final = 1.0
CONFLICT_PAUSE_S: Final = 0.005
LEAST_WAIT_S: Final = 0.001


class Loop(ABC):
    """A loop. A subclass does its work in `round`."""

    name = "loop"
    subscribes: Notifications = EVERYTHING
    """The notifications after which the loop must poll."""

    def __init__(self, deps: EngineDeps, *, poll_ms: int) -> None:
        self._deps = deps
        self._poll_ms = poll_ms
        self._poked = asyncio.Event()
        self._stopping = False
        self._away_since: Instant | None = None
        self._backoff_s = BACKOFF_FIRST_S
        self._unexpected = RepeatedLog(_logger, deps.clock)

    @abstractmethod
    async def round(self) -> Instant | None:
        """Do one bounded round of work. Return when to poll again, or None to wait for a poke."""

    def notify(self) -> None:  # noqa: B027
        """Note, in any thread and before a poke, that there may be new work. A round in progress may find it."""

    def poke(self) -> None:
        """Poll again at once. Call it in the loop's own thread."""
        self._poked.set()

    def stop(self) -> None:
        """End the loop after the current round."""
        self._stopping = True
        self._poked.set()

    @property
    def is_away(self) -> bool:
        """Whether the last round found the database unavailable."""
        return self._away_since is not None

    @property
    def stopping(self) -> bool:
        """Whether the loop was asked to stop."""
        return self._stopping

    async def run(self) -> None:
        """Run rounds until stopped.

        If the database refuses a statement of the loop (for example because of a trigger on an Evertick table), the
        loop waits and tries again. It does the same after an unexpected error, with a traceback in the log: a damaged
        row, for example, must not end the worker for all others.
        """
        while not self._stopping:
            self._poked.clear()
            try:
                wake_at = await self.round()
            except (Unavailable, TransactionRefused) as error:
                await self._back_off(error)
            except Conflict as error:
                _logger.debug("%s: %s; retrying", self.name, error, extra={"loop": self.name})
                await self._wait(CONFLICT_PAUSE_S)
            except Exception as error:
                self._deps.counters.add("loop_failures")
                self._unexpected.error(error, "%s failed unexpectedly, and tries again", self.name)
                await self._wait(BACKOFF_MAX_S)
            else:
                self._report_back()
                await self._wait(self._seconds_until(wake_at))

    async def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._poked.wait()
        except TimeoutError:
            pass

    def _seconds_until(self, wake_at: Instant | None) -> float:
        poll_s = self._poll_ms / 1000
        if wake_at is None:
            return poll_s
        wait_ms = wake_at - self._deps.clock.now()
        # With a clock that runs fast, a millisecond of that clock must not become no wait at all.
        return min(max(wait_seconds(self._deps.clock, wait_ms), LEAST_WAIT_S), poll_s) if wait_ms > 0 else 0.0

    async def _back_off(self, error: EvertickError) -> None:
        if self._away_since is None:
            self._away_since = self._deps.clock.now()
            _logger.warning("%s: %s", self.name, error, extra={"loop": self.name, "error": error.code})
        await self._wait(self._backoff_s)
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_MAX_S)

    def _report_back(self) -> None:
        if self._away_since is not None:
            away_ms = self._deps.clock.now() - self._away_since
            _logger.warning(
                "%s: the database is back after %.1f s", self.name, away_ms / 1000, extra={"loop": self.name}
            )
            self._away_since = None
            self._backoff_s = BACKOFF_FIRST_S

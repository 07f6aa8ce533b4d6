"""Repeated log: a failure that comes again and again is said at once, and then now and then with how often it came."""

import logging
from dataclasses import dataclass
from typing import Final

from evertick.base.clock import Clock
from evertick.base.instants import SECOND_MS, Instant

SAY_EVERY_MS: Final = 10 * SECOND_MS
FAILURES_MAX: Final = 100
"""Failures that are told apart at a time; those that were said longest ago are forgotten."""


@dataclass(slots=True)
class _Said:
    at: Instant
    unsaid: int = 0


class RepeatedLog:
    """Logs errors with their tracebacks. Those of one class from one line of code are the same failure."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._said: dict[tuple[str, str, int], _Said] = {}

    def error(self, error: BaseException, message: str, *args: object) -> None:
        """Log an error with a `message` as for `logging`, unless the same failure was said a moment ago."""
        now, failure = self._clock.now(), _failure(error)
        said = self._said.pop(failure, None)
        if said is not None and 0 <= now - said.at < SAY_EVERY_MS:
            said.unsaid += 1
            self._said[failure] = said
            return
        if said is not None and said.unsaid:
            message, args = f"{message}; it came %d times more since this was said last", (*args, said.unsaid)
        self._said[failure] = _Said(now)
        if len(self._said) > FAILURES_MAX:
            del self._said[min(self._said, key=lambda each: self._said[each].at)]
        self._logger.error(message, *args, exc_info=error)


def _failure(error: BaseException) -> tuple[str, str, int]:
    """What tells a failure from others. Its text does not: it may name the job, for example."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return type(error).__name__, "", 0
    return type(error).__name__, frame.tb_frame.f_code.co_filename, frame.tb_lineno

"""Write health: whether a database that can be read can also be written.

On a full disk, or with a read-only file or server, reads work while every write fails. So each store remembers the last
write that failed for such a reason, and writes a few bytes when someone asks. Their success proves little: on a full
disk a small change can still fit. So a failed write counts for some seconds, also if the bytes could be written.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from evertick.base.errors import EvertickError, Unavailable
from evertick.base.instants import Instant, to_iso

PROBE_EVERY_S: Final = 2.0
"""Within this time callers get the last result."""
BELIEVED_S: Final = 10.0
"""How long a failed write counts although the probe succeeds. An engine tries again more often."""

E = TypeVar("E", bound=Unavailable)


class WriteFailure(NamedTuple):
    """Why a database cannot be written: in a few words without its place, in full, and for how many milliseconds this
    process has known.
    """

    reason: str
    detail: str
    for_ms: int

    def since(self, now: Instant) -> Instant:
        """The instant from which on this process knows it."""
        return Instant(now - self.for_ms)

    def sentence(self, now: Instant) -> str:
        """The sentence for people who need not know the place: that it cannot be written, since when and why."""
        return f"the database cannot be written since {to_iso(self.since(now))}: {self.reason}"


def unwritable(error: E, reason: str) -> E:
    """Mark an error: the database can be read, and cannot be written for this reason."""
    error.reason = reason
    return error


class WriteHealth:
    """The state of one process's writes. `probe` writes a few bytes, or more if it is thorough; it returns False if it
    cannot find out because others are writing, and raises as `Store.write`.
    """

    def __init__(self, probe: Callable[[bool], bool]) -> None:
        self._probe = probe
        self._asking = threading.Lock()
        self._lock = threading.Lock()
        self._first_at: float | None = None
        self._error: Unavailable | None = None
        self._believed_until = 0.0
        self._asked_at = {False: -PROBE_EVERY_S, True: -PROBE_EVERY_S}
        """When it was probed last, by `thorough`."""

    def note(self, error: Unavailable) -> None:
        """Record that a write has failed."""
        self._failed(error, BELIEVED_S)

    def failure(self, *, thorough: bool = False) -> WriteFailure | None:
        """Why the database cannot be written; None if it can, or if it cannot be reached at all."""
        if self._asking.acquire(blocking=False):  # one thread queries the database, others get the last result
            try:
                if time.monotonic() - self._asked_at[thorough] >= PROBE_EVERY_S:
                    self._ask(thorough)
                    self._asked_at[False] = time.monotonic()
                    if thorough:  # a few bytes that were written just before do not prove enough
                        self._asked_at[True] = self._asked_at[False]
            finally:
                self._asking.release()
        with self._lock:
            if self._error is None or self._first_at is None or self._error.reason is None:
                return None
            for_ms = round((time.monotonic() - self._first_at) * 1000)
            return WriteFailure(self._error.reason, str(self._error), for_ms)

    def _ask(self, thorough: bool) -> None:
        try:
            is_written = self._probe(thorough)
        except Unavailable as error:
            self._failed(error, BELIEVED_S if thorough else 0.0)
        except EvertickError:
            return
        else:
            if is_written:
                with self._lock:
                    if time.monotonic() >= self._believed_until:
                        self._first_at = self._error = None

    def _failed(self, error: Unavailable, believed_s: float) -> None:
        if error.reason is None:
            return
        now = time.monotonic()
        with self._lock:
            self._error = error
            self._first_at = now if self._first_at is None else self._first_at
            self._believed_until = max(self._believed_until, now + believed_s)

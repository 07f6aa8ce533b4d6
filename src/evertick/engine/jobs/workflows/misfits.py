"""Runs whose journals this worker's code does not fit: how long each is left alone.

While a new release is rolled out, runs that it has begun or taken further meet the old code, and the other way round.
So a run is soon tried again, by whichever worker comes first: there is probably one that it fits. The waits of each
worker double, for it may also be that no code fits; then the journal need not be read all the time.
"""

import threading
from collections import OrderedDict
from typing import Final

from evertick.base.ids import JobId
from evertick.base.records.retry import RetryPolicy
from evertick.base.records.runs import TRY_AGAIN_MS
from evertick.rules.jobs.retry import grown_ms

WAITS: Final = RetryPolicy(attempts_max=1_000, first_ms=250, factor=2.0, cap_ms=TRY_AGAIN_MS, jitter=0.0)
"""How long a run is left alone. There is no last try."""
KNOWN_MAX: Final = 10_000


class Misfits:
    """The runs that did not fit when they were last tried here, the most recent ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tries: OrderedDict[JobId, int] = OrderedDict()

    def add(self, run_id: JobId) -> int:
        """The code does not fit the run. Returns how often that was so in a row, with this time."""
        with self._lock:
            tries = self._tries[run_id] = self._tries.pop(run_id, 0) + 1
            if len(self._tries) > KNOWN_MAX:
                self._tries.popitem(last=False)
        return tries

    def discard(self, run_id: JobId) -> None:
        """The code fits the run."""
        if self._tries:
            with self._lock:
                self._tries.pop(run_id, None)


def wait_ms(tries: int) -> int:
    """How long a run is left alone that did not fit so often in a row."""
    return round(grown_ms(tries, WAITS))

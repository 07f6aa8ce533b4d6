"""Heartbeat: a worker renews its lease from a thread and a connection of its own.

A busy event loop must not look like a dead worker, so the lease is renewed beside it. When a renewal finds the lease
gone, another worker has already given its jobs away: everything that runs here must be cancelled at once.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from evertick.base.errors import Conflict, Unavailable
from evertick.base.ids import WorkerId
from evertick.base.instants import Instant
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.repeated_log import RepeatedLog
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

_logger: Final = logging.getLogger("evertick.engine")

RETRIES: Final = 8
"""How often a renewal that failed is tried again in the time between two."""
STOP_TIMEOUT_S: Final = 0.5
"""How long `stop` waits for a renewal that is under way."""


class Heartbeat(Protocol):
    """Renews a worker's lease beside its event loop."""

    def start(self) -> None:
        """Begin to renew."""
        ...

    def stop(self) -> None:
        """Stop renewing, without giving the lease up."""
        ...


MakeHeartbeat = Callable[[EngineDeps, WorkerId, Callable[[], object]], Heartbeat]
"""Makes the heartbeat of a worker. The function it is given is called when the lease was lost, in any thread."""


def renew(deps: EngineDeps, worker_id: WorkerId) -> bool:
    """Renew a lease once; False if it was taken away."""
    until = Instant(deps.clock.now() + deps.settings.lease_ms)

    def work(transaction: Transaction) -> bool:
        is_there = transaction.renew_lease(worker_id, leased_until=until)
        if not is_there:
            transaction.confirm()  # before all that runs is cancelled
        return is_there

    return deps.store.write(work, isolation=Isolation.READ_COMMITTED)


class HeartbeatThread:
    """Renews until it is stopped or the lease is lost."""

    def __init__(self, deps: EngineDeps, worker_id: WorkerId, on_lost: Callable[[], object]) -> None:
        self._deps = deps
        self._worker_id = worker_id
        self._on_lost = on_lost
        self._unexpected = RepeatedLog(_logger, deps.clock)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evertick-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing, without giving the lease up."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_TIMEOUT_S)

    def _run(self) -> None:
        renew_every_s = self._deps.settings.renew_every_ms / 1000
        wait_s = 0.0  # at once: the commit of the registration may have been late
        while not self._stopped.wait(wait_s):
            wait_s = renew_every_s
            began_at = self._deps.clock.now()
            try:
                if not renew(self._deps, self._worker_id):
                    self._on_lost()
                    return
                if self._deps.clock.now() - began_at > self._deps.settings.renew_every_ms:
                    wait_s = 0.0  # the lease counts from before, and may be over already: the commit was late
            except (Unavailable, Conflict) as error:
                # While the database is away no other worker can take the lease, and when it is back they rest for as
                # long as a renewal takes (`Reaper`): the next one must come sooner than that.
                wait_s = renew_every_s / RETRIES
                _logger.debug("the lease could not be renewed: %s", error)
            except Exception as error:  # without this thread others would take what the worker runs, and run it again
                wait_s = renew_every_s / RETRIES
                self._unexpected.error(error, "the lease could not be renewed")

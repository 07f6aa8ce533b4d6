"""The lease: a worker's sign of life, from a thread and a connection of its own.

A busy event loop must not look like a dead worker, so the lease is renewed beside it. When a renewal finds the lease
gone, another worker has already given our jobs away: everything that runs here is a zombie, and is told so at once.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from evertick.base.clock import Clock
from evertick.base.errors import Conflict, Unavailable
from evertick.base.ids import WorkerId
from evertick.base.instants import Instant
from evertick.store.contract import Isolation, Store

_logger: Final = logging.getLogger("evertick.engine")

END_S: Final = 0.5
"""How long the end waits for a renewal that is under way."""


def renew(store: Store, worker_id: WorkerId, *, now: Instant, lease_ms: int) -> bool:
    """One sign of life; False when the lease was taken away."""
    until = Instant(now + lease_ms)
    return store.write(
        lambda transaction: transaction.renew_lease(worker_id, leased_until=until), isolation=Isolation.READ_COMMITTED
    )


class Lease(Protocol):
    """Somebody who renews a worker's lease beside its event loop."""

    def start(self) -> None:
        """Begin to renew."""
        ...

    def stop(self) -> None:
        """End, without giving the lease up."""
        ...


class MakeLease(Protocol):
    """Makes who renews. `on_lost` may be called from any thread."""

    def __call__(
        self,
        store: Store,
        clock: Clock,
        worker_id: WorkerId,
        *,
        lease_ms: int,
        every_ms: int,
        on_lost: Callable[[], object],
    ) -> Lease: ...


class LeaseThread:
    """Renews until it is stopped or the lease is lost."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        worker_id: WorkerId,
        *,
        lease_ms: int,
        every_ms: int,
        on_lost: Callable[[], object],
    ) -> None:
        self._store = store
        self._clock = clock
        self._worker_id = worker_id
        self._lease_ms = lease_ms
        self._every_ms = every_ms
        self._on_lost = on_lost
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evertick-lease", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self) -> None:
        """End, without giving the lease up."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=END_S)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_ms / 1000):
            try:
                if not renew(self._store, self._worker_id, now=self._clock.now(), lease_ms=self._lease_ms):
                    self._on_lost()
                    return
            except (Unavailable, Conflict) as error:
                # Nobody can take the lease while the database is away; the next renewal will tell.
                _logger.debug("the lease could not be renewed: %s", error)

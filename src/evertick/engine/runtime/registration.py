"""Registration: the identity under which a worker holds jobs, and the lease that keeps it.

A worker that loses its lease has lost its jobs to others. It continues under a new identity, so that later writes under
the old one have no effect.
"""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from evertick._version import __version__
from evertick.base.errors import Conflict, SchemaMismatch, Unavailable
from evertick.base.ids import WORKER_PREFIX, WorkerId
from evertick.base.instants import MILLISECOND, Instant
from evertick.base.records.jobs import SERVES, JobFilter, JobSummary, Serves, Worker
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import call_in_loop
from evertick.engine.runtime.loop import RepeatedLog
from evertick.recurrence.zones.names import zone_data_source
from evertick.store.schema import code_version
from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

# -- Heartbeat: a worker renews its lease in a separate thread with a separate connection.
#
# A busy event loop must not look like a dead worker, so the lease is renewed outside it. When a renewal finds that the
# lease is gone, other workers may already have these jobs: all running functions must be cancelled at once.

_logger: Final = logging.getLogger("evertick.engine")

RETRIES: Final = 8
"""How often a failed renewal is tried again in the time between two renewals."""
STOP_TIMEOUT_S: Final = 0.5
"""How long `stop` waits for a renewal in progress."""


class Heartbeat(Protocol):
    """Renews a worker's lease independently of its event loop."""

    def start(self) -> None:
        """Begin to renew."""
        ...

    def stop(self) -> None:
        """Stop renewing, without giving up the lease."""
        ...


MakeHeartbeat = Callable[[EngineDeps, WorkerId, Callable[[], object]], Heartbeat]
"""Creates the heartbeat of a worker. Its argument is called, in any thread, when the lease is lost."""


def renew(deps: EngineDeps, worker_id: WorkerId) -> bool:
    """Renew a lease once. Return False if it was taken away."""
    until = Instant(deps.clock.now() + deps.settings.lease // MILLISECOND)

    def work(transaction: Transaction) -> bool:
        is_there = transaction.renew_lease(worker_id, leased_until=until)
        if not is_there:
            transaction.confirm()  # before all running functions are cancelled
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
        """Stop renewing, without giving up the lease."""
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
                    wait_s = 0.0  # the lease counts from before the commit, which was late; it may have expired
            except (Unavailable, Conflict) as error:
                # While the database is unavailable no other worker can take the lease, and afterwards they pause for as
                # long as a renewal takes (`Reaper`): the next renewal must come sooner than that.
                wait_s = renew_every_s / RETRIES
                _logger.debug("the lease could not be renewed: %s", error)
            except Exception as error:  # without this thread others would take what the worker runs, and run it again
                wait_s = renew_every_s / RETRIES
                self._unexpected.error(error, "the lease could not be renewed")


HELD_MAX: Final = 10_000
"""Jobs that one worker can hold at most: many times what the default settings allow."""

RECENT_JOBS: Final = 100
"""Recent jobs that a worker checks at its start for those of another app."""
SHARING: Final = (
    "whose workers run its own jobs alone; if both are not meant to share documents, tenants and keys, give this one "
    "tables of its own by its address (?schema=NAME or ?prefix=NAME_)"
)
"""The warning for one of two apps that use the same tables."""


class Registration:
    """The row of one worker, under one identity after another.

    `on_lost` is called when the lease is lost, `on_renewed` when the worker is registered again; both in the event
    loop's thread.
    """

    def __init__(
        self,
        deps: EngineDeps,
        make_heartbeat: MakeHeartbeat,
        *,
        on_lost: Callable[[], object],
        on_renewed: Callable[[], object],
    ) -> None:
        self._deps = deps
        self._make_heartbeat = make_heartbeat
        self._on_lost = on_lost
        self._on_renewed = on_renewed
        self.refused = asyncio.Event()
        """Set when the worker cannot continue under a new identity, because of `refusal`."""
        self.refusal: SchemaMismatch | None = None
        self._worker_id = self._new_id()
        self._registered = False
        self._heartbeat: Heartbeat | None = None
        self._registering: asyncio.Task[None] | None = None
        self._stopped = False

    def current_id(self) -> WorkerId | None:
        """The identity under which jobs are claimed. None between a lost lease and the next identity."""
        return self._worker_id if self._registered else None

    async def begin(self) -> None:
        """Register, and keep the lease; a store with a single engine needs none. May be called again if it raises."""
        try:
            await self._register()
        except Unavailable:
            self._worker_id = self._new_id()  # the row of the last identity may exist
            raise
        if not self._deps.store.single_engine:
            self._start_heartbeat()

    def lost(self) -> None:
        """Continue under a new identity, because another worker has given this worker's jobs away."""
        _logger.error("worker %s lost its lease; its running actions are canceled", self._worker_id)
        self._deps.counters.add("leases_lost")
        self._registered = False
        self._on_lost()
        self._registering = asyncio.create_task(self._register_again(), name="register again")

    def stop(self) -> None:
        """Do not request a new identity any more."""
        self._stopped = True

    async def sign_off(self) -> None:
        """Give back the mutations and workflow runs that are still held, and remove the worker.

        A mutation has no effect before its end is written, and a running one cannot write its end any more because its
        job is not held. While an action is held, the worker's row is kept, and others recover the action after the
        lease has expired.
        """
        worker_id = self._worker_id

        def work(transaction: Transaction) -> None:
            held = transaction.held_jobs(worker_id, limit=HELD_MAX)
            for claim in held:
                if claim.is_transactional:
                    transaction.release_job(claim.id, worker_id=worker_id, attempt=claim.attempt)
            if not transaction.held_jobs(worker_id, limit=1):
                transaction.remove_worker(worker_id)

        await self._deps.executors.write(work, isolation=Isolation.READ_COMMITTED)

    def close(self) -> None:
        """Stop everything that runs outside the worker's loops."""
        if self._registering is not None:
            self._registering.cancel()
        if self._heartbeat is not None:
            self._heartbeat.stop()

    def _new_id(self) -> WorkerId:
        return WorkerId(self._deps.ids.make(WORKER_PREFIX, self._deps.clock.now()))

    async def _register(self) -> None:
        now = self._deps.clock.now()
        leased_until = Instant(now + self._deps.settings.lease // MILLISECOND)
        deps, code = self._deps, code_version(self._deps.store.dialect)
        serves = SERVES.value(Serves(tuple(deps.runner.functions()), deps.pools, deps.apps))
        host, pid, zone_data = socket.gethostname(), os.getpid(), zone_data_source()
        row = Worker(self._worker_id, now, leased_until, host, pid, deps.app, __version__, serves, code, zone_data)

        def work(transaction: Transaction) -> tuple[list[Worker], list[JobSummary]]:
            transaction.register_worker(row)
            recent = transaction.list_jobs(JobFilter(), limit=RECENT_JOBS, newest_first=True)
            return transaction.workers_alive(now), recent

        alive, recent = await self._deps.executors.write(work, isolation=Isolation.READ_COMMITTED)
        await self._check_release()
        self._registered = True
        _compare_zone_data(row, alive)
        _compare_apps(deps, alive, recent)

    async def _check_release(self) -> None:
        """After the row is visible to migrations: raise SchemaMismatch if a faster migration excludes this release."""
        try:
            await self._deps.executors.ask(self._deps.store.check_schema)
        except SchemaMismatch:
            worker_id = self._worker_id
            await self._deps.executors.write(
                lambda transaction: transaction.remove_worker(worker_id), isolation=Isolation.READ_COMMITTED
            )
            raise

    async def _register_again(self) -> None:
        while not self._stopped:
            # A new identity for each try: if the reply to a registration was lost, the row may exist.
            self._worker_id = self._new_id()
            try:
                await self._register()
            except SchemaMismatch as error:  # a newer release has migrated the database in the meantime
                self.refusal = error
                self.refused.set()
                return
            except Exception as error:
                if not isinstance(error, Unavailable | Conflict):
                    _logger.exception("the worker could not register again, and retries")
                await asyncio.sleep(self._deps.settings.renew_every_ms / 1000)
            else:
                self._start_heartbeat()
                self._on_renewed()
                return

    def _start_heartbeat(self) -> None:
        loop = asyncio.get_running_loop()
        self._heartbeat = self._make_heartbeat(self._deps, self._worker_id, lambda: call_in_loop(loop, self.lost))
        self._heartbeat.start()


def _compare_zone_data(worker: Worker, alive: Sequence[Worker]) -> None:
    """Warn if another worker computes the times of schedules with different time zone data."""
    others = {each.zone_data: each for each in alive if each.zone_data not in ("", worker.zone_data)}
    for each in others.values():
        _logger.warning(
            "this worker has the time zone data %s, worker %s on %s has %s: they may compute different times of one "
            "schedule; install the same version of tzdata for all workers",
            worker.zone_data,
            each.id,
            each.host,
            each.zone_data,
        )


def _compare_apps(deps: EngineDeps, alive: Sequence[Worker], recent: Sequence[JobSummary]) -> None:
    """Warn if other apps use these tables, according to live workers and the latest jobs."""
    found = {each.app: f"job {each.id} is one of" for each in recent if each.app}
    found |= {each.app: f"worker {each.id} on {each.host} runs" for each in alive if each.app}
    for app in sorted(found.keys() - {*deps.apps}):
        _logger.warning(
            "%s the app %s on the same tables, and this is the app %s, %s",
            found[app],
            app,
            deps.app,
            SHARING,
            extra={"app": deps.app, "other_app": app},
        )

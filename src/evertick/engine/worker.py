"""The worker: one process's engine: all loops, their start, their hints and their end.

A worker registers under a random identity, runs its loops, and on `stop` drains: it claims nothing more, lets running
actions end within a deadline, writes every end, and gives its identity back. If its lease is lost it drops what runs
and goes on under a new identity.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from evertick.base.clock import Clock, SystemClock
from evertick.base.errors import Conflict, Unavailable
from evertick.base.ids import WORKER_PREFIX, Entropy, IdMaker, WorkerId
from evertick.base.instants import Instant
from evertick.base.records import Worker as WorkerRow
from evertick.engine.actions import ActionLoop
from evertick.engine.claims import kind_known
from evertick.engine.evaluator import Evaluator
from evertick.engine.events import Counters
from evertick.engine.lanes import Lanes
from evertick.engine.lease import Lease, LeaseThread, MakeLease
from evertick.engine.loops import Loop
from evertick.engine.mutations import MutationLoop
from evertick.engine.runner import Runner
from evertick.engine.schedule_standing import OPEN, Targets
from evertick.engine.settings import Settings
from evertick.engine.stops import StopLoop
from evertick.engine.upkeep import ClockLoop, Pruner, Reaper, Unblocker, recover
from evertick.store.contract import EVERYTHING, Hints, Isolation, Store, Transaction

_logger: Final = logging.getLogger("evertick.engine")

LAST_WRITES_S: Final = 3.0
"""After the drain: time to write how everything ended. What is not written then, others find by the lease."""


class Worker:
    """Runs jobs until it is stopped."""

    def __init__(
        self,
        store: Store,
        lanes: Lanes,
        clock: Clock,
        runner: Runner,
        ids: IdMaker,
        entropy: Entropy,
        settings: Settings,
        counters: Counters,
        *,
        make_lease: MakeLease = LeaseThread,
        targets: Targets = OPEN,
    ) -> None:
        self._store = store
        self._make_lease = make_lease
        self._lanes = lanes
        self._clock = clock
        self._runner = runner
        self._ids = ids
        self._entropy = entropy
        self._settings = settings
        self._counters = counters
        self._worker_id = WorkerId(ids.make(WORKER_PREFIX, clock.now()))
        self._registered = False
        self._lease: Lease | None = None
        self._reborn: asyncio.Task[None] | None = None
        self._at_once = asyncio.Event()
        self.actions = ActionLoop(lanes, clock, runner, ids, entropy, settings, counters, worker_id=self.current_id)
        self._claiming: list[Loop] = [
            MutationLoop(
                lanes,
                clock,
                runner,
                ids,
                entropy,
                settings,
                counters,
                worker_id=self.current_id,
                actions=self.actions,
                claims_ahead=not store.single_engine,
            ),
            self.actions,
            Evaluator(lanes, clock, ids, settings, counters, targets=targets, kind_of=partial(kind_known, runner)),
            StopLoop(lanes, clock, settings, self.actions),
        ]
        self._upkeep: list[Loop] = [
            Pruner(lanes, clock, settings, counters),
            Unblocker(lanes, clock, runner, settings),
        ]
        if not store.single_engine:
            self._upkeep.append(Reaper(lanes, clock, ids, entropy, settings, counters))
            if isinstance(clock, SystemClock):
                self._upkeep.append(ClockLoop(lanes, clock, store))
        self._stopped = asyncio.Event()
        self.has_ended = False

    def current_id(self) -> WorkerId | None:
        """The identity under which jobs are claimed just now; None between a lost lease and the next identity."""
        return self._worker_id if self._registered else None

    @property
    def claiming(self) -> Sequence[Loop]:
        """The loops that take work, which hints poke."""
        return self._claiming

    async def run(self) -> None:
        """Run until `stop`. Raises what ended a loop unexpectedly, after stopping the others."""
        try:
            await self._run()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Let another worker take this one's place; `run` does so at its end."""
        if not self.has_ended:
            self.has_ended = True
            self._store.unlock_engine()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        await self._begin()
        unlisten = self._store.listen(lambda hints: _from_elsewhere(loop, self.poke, hints))
        loops = [*self._claiming, self.actions.ends, *self._upkeep]
        tasks = [asyncio.create_task(each.run(), name=f"loop {each.name}") for each in loops]
        stopped = asyncio.create_task(self._stopped.wait(), name="stop")
        try:
            await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
            await self._end(tasks)
        finally:
            unlisten()
            stopped.cancel()
            for task in tasks:
                task.cancel()
            if self._reborn is not None:
                self._reborn.cancel()
            if self._lease is not None:
                self._lease.stop()
            self._lanes.close(wait=all(task.done() for task in tasks))
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def poke(self, hints: Hints = EVERYTHING) -> None:
        """Something may be due: look now."""
        for loop in self._claiming:
            if not hints.isdisjoint(loop.hears):
                loop.poke()

    def stop(self, *, now: bool = False) -> None:
        """Drain and end; with `now`, do not wait for running actions. Call it in the loop's own thread."""
        if now:
            self._at_once.set()
        self.actions.stop()  # at once: what is being claimed just now need not begin
        self._stopped.set()

    # -- helpers

    async def _begin(self) -> None:
        now = self._clock.now()
        if self._store.single_engine:
            await self._lanes.write(lambda transaction: self._recover_predecessors(transaction, now))
        await self._register()
        if not self._store.single_engine:
            self._renew()

    def _recover_predecessors(self, transaction: Transaction, now: Instant) -> None:
        """Nobody else holds the file, so every worker found in it is dead."""
        for worker_id in [row.id for row in transaction.list_workers()] + transaction.holders_without_row():
            while recover(
                transaction, worker_id, now=now, ids=self._ids, entropy=self._entropy, counters=self._counters
            ):
                pass

    async def _register(self) -> None:
        now = self._clock.now()
        row = WorkerRow(self._worker_id, now, Instant(now + self._settings.lease_ms), socket.gethostname(), os.getpid())
        await self._lanes.write(
            lambda transaction: transaction.register_worker(row), isolation=Isolation.READ_COMMITTED
        )
        self._registered = True

    def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        self._lease = self._make_lease(
            self._store,
            self._clock,
            self._worker_id,
            lease_ms=self._settings.lease_ms,
            every_ms=self._settings.renew_every_ms,
            on_lost=lambda: _from_elsewhere(loop, self.lease_lost),
        )
        self._lease.start()

    def lease_lost(self) -> None:
        """Another worker gave our jobs away: drop them, and go on under a new identity."""
        _logger.error("worker %s lost its lease; its running actions are cancelled", self._worker_id)
        self._counters.add("leases_lost")
        self._registered = False
        self.actions.cancel_all()
        self._reborn = asyncio.create_task(self._be_reborn(), name="register again")

    async def _be_reborn(self) -> None:
        while not self._stopped.is_set():
            # A new one for each try: if the reply to a registration was lost, the row may be there.
            self._worker_id = WorkerId(self._ids.make(WORKER_PREFIX, self._clock.now()))
            try:
                await self._register()
            except (Unavailable, Conflict):
                await asyncio.sleep(self._settings.renew_every_ms / 1000)
            else:
                self._renew()
                self.poke()
                return

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        """Stop claiming, let actions end, write their ends, leave: all of it within the drain and LAST_WRITES_S."""
        for loop in (*self._claiming, *self._upkeep):
            loop.stop()
        time = asyncio.get_running_loop().time
        drained_by = time() + self._settings.drain_ms / 1000  # mutations that run, too, have until then
        await self.actions.drain(self._settings.drain_ms, self._at_once)
        last = time()
        while not all(task.done() for task in tasks):
            last = last if self._at_once.is_set() else max(last, min(time(), drained_by))
            if time() > last + LAST_WRITES_S:
                break
            if not self.actions.ends.waiting:
                self.actions.ends.stop()
            self.actions.ends.poke()
            await asyncio.wait(tasks, timeout=0.01)
        try:
            async with asyncio.timeout_at(last + LAST_WRITES_S):
                await self._sign_off()
        except (Unavailable, Conflict, TimeoutError) as error:
            _logger.warning("could not sign off: %s; others will notice by the lease", str(error) or "no answer")

    async def _sign_off(self) -> None:
        worker_id = self._worker_id
        await self._lanes.write(
            lambda transaction: (
                None if transaction.held_jobs(worker_id, limit=1) else transaction.remove_worker(worker_id)
            ),
            isolation=Isolation.READ_COMMITTED,
        )


def _from_elsewhere(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> None:
    """Call `function` in the loop's thread; nothing if it has ended meanwhile, which the calling thread cannot know."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)

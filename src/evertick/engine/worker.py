"""The worker: the engine of one process: its loops, their start, their notifications and their end.

A worker registers under a random identity and runs its loops. On `stop` it drains: it claims nothing more, lets running
actions end within a deadline, writes every end, and removes its registration. If it loses its lease, it cancels its
running functions and continues under a new identity.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from evertick.base.clock import SystemClock
from evertick.base.errors import Conflict, DatabaseUnavailable, OutcomeUnknown, Unavailable
from evertick.base.instants import MILLISECOND
from evertick.engine.jobs.actions import ActionLogs, ActionLoop, CancellationLoop
from evertick.engine.jobs.mutations import MutationLoop, WorkflowLoop
from evertick.engine.maintenance.activity import ActivityWriter
from evertick.engine.maintenance.blocked import BlockedJobs, UnreadableSchedules
from evertick.engine.maintenance.clock_sync import ClockSync
from evertick.engine.maintenance.pruner import CountSums, Pruner
from evertick.engine.maintenance.reaper import Reaper, recover_all
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import call_in_loop
from evertick.engine.runtime.loop import BACKOFF_MAX_S, Loop
from evertick.engine.runtime.registration import HeartbeatThread, MakeHeartbeat, Registration
from evertick.engine.schedules.eligibility import WORKFLOWS, Targets
from evertick.engine.schedules.evaluator import Evaluator
from evertick.store.notifications import EVERYTHING, Notifications

_logger: Final = logging.getLogger("evertick.engine")

LAST_WRITES_S: Final = 3.0
"""Time after the drain to write the ends. Other workers recover jobs without an end by the lease."""


class Worker:
    """Runs jobs until it is stopped."""

    def __init__(
        self, deps: EngineDeps, *, targets: Targets = WORKFLOWS, make_heartbeat: MakeHeartbeat = HeartbeatThread
    ) -> None:
        self._deps = deps
        self.registration = Registration(deps, make_heartbeat, on_lost=self._cancel_actions, on_renewed=self.poke)
        worker_id = self.registration.current_id
        self.actions = ActionLoop(deps, worker_id=worker_id)
        mutations = MutationLoop(deps, worker_id=worker_id, actions=self.actions)
        workflows = WorkflowLoop(deps, worker_id=worker_id, actions=self.actions)
        mutations.exclude(workflows)
        self._claiming: list[Loop] = [
            mutations,
            workflows,
            self.actions,
            Evaluator(deps, targets=targets),
            CancellationLoop(deps, self.actions),
        ]
        action_logs = ActionLogs(deps, running=self.actions.running_logs)
        self.actions.on_line = action_logs.notify
        self._maintenance: list[Loop] = [
            action_logs, Pruner(deps), BlockedJobs(deps), UnreadableSchedules(deps)
        ]  # fmt: skip
        self._activity = ActivityWriter(deps, worker_id)
        self._clock_sync: ClockSync | None = None
        if not deps.store.single_engine:
            if isinstance(deps.clock, SystemClock):
                self._clock_sync = ClockSync(deps, deps.clock)
                self._maintenance.append(self._clock_sync)
            self._maintenance += [Reaper(deps, self._clock_sync), CountSums(deps)]
        self._stopped = asyncio.Event()
        self._at_once = asyncio.Event()
        self.has_ended = False

    async def run(self) -> None:
        """Run until `stop`. Raises the unexpected error of a loop, after stopping the others.

        Raises CancelledError if it, or one of its loops, was cancelled before `stop`. Then running functions are asked
        to end, and the jobs that the worker holds are given back as after a crash.
        """
        try:
            await self._begin()
            await self._run_loops()
        except asyncio.CancelledError:
            self._cancel_actions()
            if not self._stopped.is_set():
                raise
            _logger.warning("a function has cancelled the tasks of its worker; others give back what it holds")
        finally:
            self.release_engine()

    def poke(self, notifications: Notifications = EVERYTHING) -> None:
        """Poll now, because something may be due."""
        for loop in self._concerned(notifications):
            loop.poke()

    def stop(self, *, now: bool = False) -> None:
        """Drain and end; with `now`, do not wait for running actions. Call it in the loop's own thread."""
        if now:
            self._at_once.set()
        self.registration.stop()
        self.actions.stop()  # at once, so that actions that are being claimed do not begin
        self._stopped.set()

    def release_engine(self) -> None:
        """Let another worker take this one's place. `run` does so at its end."""
        if not self.has_ended:
            self.has_ended = True
            self._deps.store.unlock_engine()

    # -- helpers

    async def _begin(self) -> None:
        """Begin, again after each outage of the database: a worker may start during a failover."""
        while not self._stopped.is_set():
            try:
                await self._begin_once()
                return
            except (DatabaseUnavailable, OutcomeUnknown, Conflict) as error:
                _logger.warning("the worker cannot begin yet, and tries again: %s", error, extra={"error": error.code})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BACKOFF_MAX_S):
                    await self._stopped.wait()

    async def _begin_once(self) -> None:
        if self._clock_sync is not None:
            await self._clock_sync.begin()
        if self._deps.store.single_engine:
            lost = await self._deps.executors.write(lambda transaction: recover_all(transaction, self._deps))
            self._deps.counters.jobs_ended(lost)
        await self.registration.begin()

    async def _run_loops(self) -> None:
        loop = asyncio.get_running_loop()
        poke = partial(call_in_loop, loop, self.poke)
        unlisten = self._deps.store.listen(poke if self._deps.store.single_engine else partial(self._notify, poke))
        loops = [*self._claiming, self.actions.ends, *self._maintenance, self._activity]
        tasks = [asyncio.create_task(each.run(), name=f"loop {each.name}") for each in loops]
        stopped = asyncio.create_task(self._stopped.wait(), name="stop")
        refused = asyncio.create_task(self.registration.refused.wait(), name="refused")
        try:
            ended, _ = await asyncio.wait([*tasks, stopped, refused], return_when=asyncio.FIRST_COMPLETED)
            if any(task.cancelled() for task in ended):
                raise asyncio.CancelledError
            await self._end(tasks)
        finally:
            unlisten()
            for task in (stopped, refused, *tasks):
                task.cancel()
            self.registration.close()
            self._deps.executors.close(wait=all(task.done() for task in tasks))
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        if self.registration.refusal is not None:
            raise self.registration.refusal

    def _concerned(self, notifications: Notifications) -> list[Loop]:
        return [loop for loop in self._claiming if not notifications.isdisjoint(loop.subscribes)]

    def _notify(self, poke: Callable[[Notifications], object], notifications: Notifications) -> None:
        """Notify loops in any thread: a claim in progress may find new jobs before the event loop calls `poke`."""
        for loop in self._concerned(notifications):
            loop.notify()
        poke(notifications)

    def _cancel_actions(self) -> None:
        self.actions.cancel_all()

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        """Stop claiming, let actions end, write their ends and sign off, all within the drain and LAST_WRITES_S."""
        for loop in (*self._claiming, *self._maintenance):
            loop.stop()
        time = asyncio.get_running_loop().time
        drain_ms = self._deps.settings.drain // MILLISECOND
        drained_by = time() + drain_ms / 1000  # the deadline also applies to running mutations
        await self.actions.drain(drain_ms, self._at_once)
        last = time()
        while not all(task.done() for task in tasks):
            last = last if self._at_once.is_set() else max(last, min(time(), drained_by))
            if time() > last + LAST_WRITES_S:
                break
            if not self.actions.ends.waiting:
                self.actions.ends.stop()
            if all(task.done() for task in tasks[:-1]):
                self._activity.stop()  # last, because it counts the ends of the others
            self.actions.ends.poke()
            await asyncio.wait(tasks, timeout=0.01)
        try:
            async with asyncio.timeout_at(last + LAST_WRITES_S):
                await self.registration.sign_off()
        except (Unavailable, Conflict, TimeoutError) as error:
            _logger.warning("could not sign off: %s; others will notice by the lease", str(error) or "no reply")

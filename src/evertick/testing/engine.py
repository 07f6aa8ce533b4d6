"""The engine of a world: successive worker processes on one database in memory, with a clock that jumps.

Everything is real except waiting: the loop jumps from timer to timer, there are no threads, and functions take no time.
Workers poll less often than in a real process, so that long times pass quickly.
"""

import asyncio
import contextlib
import random
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

from evertick.app.app import App
from evertick.app.execution.runner import Execution
from evertick.base.errors import Misuse
from evertick.base.ids import DEFAULT_TENANT, IdMaker, TenantId, pool_name
from evertick.base.instants import DAY_MS, HOUR_MS, NEVER, Instant, to_datetime
from evertick.base.records.jobs import belongs_to
from evertick.base.time_limit import Limit, TimeLimits
from evertick.engine.runtime.executors import InlineExecutors
from evertick.engine.runtime.metrics import Counters, JobEnded
from evertick.engine.runtime.settings import Settings
from evertick.engine.worker import Worker
from evertick.store.open import open_store
from evertick.store.sqlite.address import path_of
from evertick.store.transaction.transaction import Transaction
from evertick.testing.faults import Faults
from evertick.testing.loop import JumpingLoop, Process, as_in_a_thread
from evertick.testing.store import WorldStore
from evertick.testing.stories import WithWork, Work

# -- A world's executors: functions that a worker runs in threads run here immediately, in the thread of the test.
#
# As in a thread, they see no running event loop. So functions may use APIs that refuse to run in an event loop, such as
# Django's ORM. In the thread of the test they use the test's own connections, with its open transaction.

T = TypeVar("T")


class WorldExecutors(InlineExecutors):
    """Runs functions in the calling thread, with the environment that they would have in a separate thread."""

    async def call(self, function: Callable[[], T]) -> T:
        return await super().call(lambda: as_in_a_thread(function))

    async def run_job(self, function: Callable[[], T]) -> T:
        return await super().run_job(lambda: as_in_a_thread(function))


class NoTimeLimits(TimeLimits):
    """Runs functions in transactions as in a thread, without limits, because they take no simulated time."""

    limits_steps = False

    def call(self, limit: Limit, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call `function`."""
        return as_in_a_thread(function, *args, **kwargs)


P = ParamSpec("P")

PRUNE_MS: Final = 3 * HOUR_MS
"""The delay after its retention until a job is deleted."""

LEASE_MS: Final = 3_650 * DAY_MS
"""The lease of a world's worker, which sends no heartbeat. It ends when the worker is killed."""

CALL_DAYS: Final = 30
"""The limit of an action that the test calls, in simulated days."""
QUEUES_MAX: Final = 1_000
"""The number of queues that are checked for remaining work."""

_apps_in_worlds: "WeakSet[App]" = WeakSet()
"""Apps that belong to an open world."""


class SimulatedEngine:
    """A database, a clock and a worker for an app."""

    app: App

    def __init__(self, start: Instant, *, seed: int, settings: Settings | None, crons: bool) -> None:
        self._loop = JumpingLoop()
        self._clock = _WorldClock(start, self._loop)
        self._entropy = random.Random(seed)
        self._ids = IdMaker(self._entropy)
        self._faults = Faults(self._loop.kill)
        self._store = WorldStore(open_store("sqlite://"), self._faults)
        self._store.migrate()
        self._files: tempfile.TemporaryDirectory[str] | None = None
        self._settings = settings
        self._crons = crons
        self._process: Process | None = None
        self._boots = 0
        self._work = Work()
        self.counters = Counters()
        self.counters.observers.append(self)
        self._attempts = 0
        self._closed = False
        self._leave: Callable[[], None] = _nothing

    def close(self) -> None:
        """Close the world: end its worker, close its database, and remove unused faults."""
        if not self._closed:
            self._closed = True
            # The app leaves the world even if the worker cannot be ended, as while another connection writes.
            with contextlib.ExitStack() as closing:
                if self._files is not None:
                    closing.callback(self._files.cleanup)
                closing.callback(self._store.close)
                closing.callback(self._loop.close)
                closing.callback(self._leave)
                closing.callback(self._faults.close)
                closing.callback(self.kill)
            self._leave = _nothing

    @property
    def now(self) -> datetime:
        """The current time of this world, in UTC."""
        return to_datetime(self._clock.now())

    @property
    def database_url(self) -> str:
        """The address of this world's database: a file that exists until the world is closed.

        A world begins in memory. The first read of this property moves it to the file.
        """
        if self._files is None:
            self._files = tempfile.TemporaryDirectory(prefix="evertick-world-")
            self._store.move_to(Path(self._files.name) / "world.db")
            self._loop.poll = self._store.poll
        return self._store.url

    def kill(self) -> None:
        """Kill the worker process immediately, as by SIGKILL: no `finally` block of its code runs."""
        if self._process is not None and self._process.alive:
            self._loop.kill(self._process)
            self._store.end_leases(self._clock.now())
        self._store.forget_listeners()

    def restart(self) -> None:
        """Start a worker process, after killing a live one.

        It recovers the jobs of the dead one, and runs due jobs immediately.
        """
        self.kill()
        self._boots += 1
        self._process = Process(f"worker {self._boots}")
        e = self._environment
        self.app.sync_pools()
        if self._crons:
            self.app.sync_crons()
        self._execution = self._execution_for(DEFAULT_TENANT)
        worker = Worker(e.engine_deps(self._execution, self.counters), targets=e.targets)
        self._worker = worker
        self._working = self._loop.start(self._process, worker.run())
        self._run_until(self._clock.now())

    def deploy(self, app: App) -> None:
        """Replace the code: start a worker with the functions and tables of another app on the same database."""
        self.kill()
        self._faults.close()
        self._leave()
        self._leave = _nothing
        self._enter(app)
        self.restart()

    def job_ended(self, event: JobEnded, /) -> None:
        """Count the attempts. Called by the engine."""
        self._attempts += not event.lost
        if self.app.failures is not None:
            self.app.failures.failed_now(event)

    def _execution_for(self, tenant: TenantId) -> Execution:
        """The execution of the app's functions, with tracing if the app has it."""
        e = self._environment
        if e.tracing is None:
            return Execution(e, tenant)
        from evertick.app.execution.traced import TracedExecution

        return TracedExecution(e, tenant, e.tracing)

    def _enter(self, app: App) -> None:
        if app in _apps_in_worlds:
            raise Misuse(f"the app {app.name!r} belongs to another world; close that one first (world.close())")
        app.check()
        self.app = app
        settings = self._settings or app.settings
        executors = WorldExecutors(self._store)
        self._environment = replace(
            app._environment_on(self._store, executors, self._clock, self._ids, self._entropy),
            functions=WithWork(app.functions, self._work),
            settings=replace(
                settings,
                poll=max(settings.poll, timedelta(days=1)),
                evaluate_every=max(settings.evaluate_every, timedelta(days=1)),
                prune_every=max(settings.prune_every, timedelta(milliseconds=PRUNE_MS)),
                lease=timedelta(milliseconds=LEASE_MS),
                runs_in_memory=0,  # each step replays the run, which detects nondeterministic code
            ),
            time_limits=NoTimeLimits(),
            sleep=_no_sleep,
            waiting_passes_time=False,
            await_action=self._await_action,
        )
        leave = app.enter(self._environment)
        _apps_in_worlds.add(app)

        def leave_app() -> None:
            leave()
            _apps_in_worlds.discard(app)

        self._leave = leave_app

    def _await_action(self, action: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Run an action that the program has called on the world's loop, where time passes without waiting."""
        if asyncio.get_running_loop() is self._loop:
            return action

        if self._loop.is_running():
            action.close()
            raise Misuse(
                "in a world a `def` function cannot call an `async def` action, because no time can pass meanwhile; "
                "make the caller an `async def` action, too"
            )

        async def run() -> T:
            return self._run_action(action)

        return run()

    def _run_action(self, action: Coroutine[Any, Any, T]) -> T:
        result = self._loop.run_task(action, until_s=self._loop.time() + CALL_DAYS * DAY_MS / 1000)
        self._raise_what_ended_the_worker()
        return result

    def _run_until(self, at: Instant, *, enough: Callable[[], bool] | None = None) -> None:
        self._refuse_open_transactions()
        self._loop.run_until(self._clock.seconds_at(at), enough=enough)
        self._raise_what_ended_the_worker()

    def _refuse_open_transactions(self) -> None:
        """Raise Misuse if a connection of the test has an open write transaction, which would block all others."""
        if self._files is not None:
            with contextlib.closing(sqlite3.connect(path_of(self._store.url) or "", timeout=0)) as probe:
                try:
                    probe.execute("begin immediate")
                except sqlite3.OperationalError as error:
                    raise Misuse(
                        "a transaction is open on a connection to this world's database: commit it or roll it back "
                        "before time passes"
                    ) from error

    def _raise_what_ended_the_worker(self) -> None:
        if self._process is not None and self._process.alive and self._working.done():
            self._process.alive = False
            self._working.result()

    def _is_drained(self) -> bool:
        if self._worker.actions.running:
            return False
        worker_id = self._worker.registration.current_id()

        def is_waiting(transaction: Transaction) -> bool:
            if worker_id is not None and transaction.held_jobs(worker_id, limit=1):
                return True  # a mutation that retries after a conflict
            waiting_until = transaction.next_waiting_at()
            if waiting_until is not None and waiting_until < NEVER:
                return True
            queues = {head.queue for head in transaction.oldest_ready_jobs(limit=QUEUES_MAX)}
            named = [transaction.queue_name(queue) for queue in queues]
            found = [each for each in named if each is not None]
            found += [(each.pool, each.name) for each in transaction.suspects(limit=QUEUES_MAX)]
            # The others are blocked: the worker does not have their function or app.
            apps = self._environment.apps
            own = {pool_name(pool) for pool, name in found if belongs_to(pool, apps) and self._execution.function(name)}
            stopped = {pool for pool, each in transaction.pool_limits().items() if each.paused} if own else set()
            if own <= stopped:  # the remaining jobs wait for a paused pool, and runs can wait for them
                return waiting_until is not None and not own
            return True

        return not self._store.read(is_waiting)


class _WorldClock:
    """The wall clock of a world: its start, and the loop's time since then."""

    def __init__(self, start: Instant, loop: JumpingLoop) -> None:
        self._start = start
        self._loop = loop

    def now(self) -> Instant:
        """The current time."""
        return Instant(self._start + round(self._loop.time() * 1000))

    def seconds_at(self, at: Instant) -> float:
        """The loop's time at an instant; never before its current time."""
        return max(self._loop.time(), (at - self._start) / 1000)


def _nothing() -> None:
    """Used while the world has no app."""


def _no_sleep(seconds: float) -> None:
    """Return immediately: there are no threads here."""

"""A simulated cluster: worker processes and clients around one database, and who disturbs them.

Workers run the real engine: `Worker` with all its loops, over `SimulatedStore`. A worker that dies or ends is started
again after a while, under a new identity, as a supervisor does it. Clients schedule, call and cancel through the
public API, and note what they were told.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from evertick.app.app import App
from evertick.app.functions.function import Function
from evertick.app.registry import Registry
from evertick.app.scheduling.schedulers import AsyncScheduler
from evertick.base.errors import Conflict, OutcomeUnknown, Unavailable
from evertick.base.ids import DEFAULT_POOL, TenantId, WorkerId
from evertick.base.records.limits import PoolLimits
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.settings import Settings
from evertick.engine.worker import Worker
from evertick.store.notifications import Notifications
from tests.simulation.database import HeartbeatTask, SimulatedExecutors, SimulatedStore
from tests.simulation.functions import FUNCTIONS, KINDS, Planned, Spec, schedule, work
from tests.simulation.loop import SimulatedClock
from tests.simulation.processes import Process, ProcessState, current_process
from tests.simulation.world import START, World

SKEWS_MS: Final = (0.0, 300.0, -300.0, 2_000.0, -2_000.0, 20_000.0, -20_000.0)
RESTARTS_S: Final = (0.0, 0.5, 3.0)
LIMIT_CHANGES_S: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What kind of run a seed is. Extreme mixes find more than one average mix."""

    workers: int
    clients: int
    roots: int
    poison: bool
    flood: bool
    """Whether a small tenant's jobs come beside many of a large one."""
    old_workers: int
    """How many of the workers do not know `newer` until the faults end."""
    batch: int
    slots: int
    lease_ms: int
    retention_ms: int
    skewed: bool
    per_key: tuple[int | None, ...]
    """How many jobs of a key may run at a time, one after the other: the last holds once the faults have ended."""
    latencies: tuple[float, ...]
    rates: dict[str, float]


class NoTimeLimits:
    """Calls at once: the limit of a function's time needs a thread and a real clock."""

    is_limiting = False
    limits_steps = False

    def call(self, limit_ms: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """As `TimeLimits.call`, without a limit."""
        return function(*args, **kwargs)


class Cluster:
    """The processes of one run."""

    def __init__(self, world: World, profile: Profile, work_to_do: list[Spec], *, program: App = FUNCTIONS) -> None:
        self.world = world
        self.profile = profile
        self._program = program
        self.clocks: dict[str, SimulatedClock] = {}
        self.settings = Settings(
            batch=profile.batch,
            action_slots=profile.slots,
            poll=timedelta(seconds=1),
            lease=timedelta(milliseconds=profile.lease_ms),
            drain=timedelta(seconds=3),
            retention=timedelta(milliseconds=profile.retention_ms),
            prune_batch=5,
            prune_every=timedelta(seconds=2),
        )
        self._to_do = work_to_do
        self._boots: dict[str, int] = {}
        self._stores: dict[str, SimulatedStore] = {}
        self._workers: dict[str, Worker] = {}
        self._limits = list(profile.per_key)
        world.store.listen(self._tell_everybody)
        world.loop.on_end.append(self._ended)

    def start(self) -> None:
        """Start every process."""
        if self._limits:
            self._next_limit()
        for number in range(self.profile.workers):
            self._spawn(f"worker-{number}")
        for number in range(self.profile.clients):
            self._spawn(f"client-{number}")

    @property
    def everything_asked(self) -> bool:
        """Whether the clients have nothing more to ask for."""
        return not self._to_do

    async def disturb(self, seconds: float) -> None:
        """Set clocks and stop workers, now and then, for a while."""
        loop = self.world.loop
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(0.7)
            changed = len(self.profile.per_key) - len(self._limits)
            if self._limits and loop.time() >= LIMIT_CHANGES_S * changed:
                self._next_limit()
            for process in list(loop.processes):
                role = process.name.partition("#")[0]
                jump = loop.faults.strikes(f"jump/{role}", SKEWS_MS)
                if jump is not None:
                    self.world.rare["clock_jump"] += 1
                    self.clocks[role].skew_ms = int(jump.value)
                worker = self._workers.get(process.name)
                if worker is not None and loop.faults.strikes(f"stop/{role}"):
                    self.world.rare["told_to_stop"] += 1
                    loop.deliver(process, worker.stop)

    def _next_limit(self) -> None:
        """Change what a key may run, while jobs run and wait."""
        limits = PoolLimits(per_key=self._limits.pop(0))
        self.world.store.write(lambda transaction: transaction.save_pool_limits(DEFAULT_POOL, limits))

    def calm(self) -> None:
        """No more faults: clocks are right, the database answers, everybody runs the newest program."""
        while self._limits:
            self._next_limit()
        self.world.loop.faults.calm()
        self.world.away_until = 0.0
        for clock in self.clocks.values():
            clock.skew_ms = 0
        for process in list(self.world.loop.processes):
            process.paused_until = None
            if self._is_old(process.name):
                self.world.loop.kill(process)
        self.world.calm_at_ms = self.world.now_ms()

    def ask_more(self, specs: list[Spec]) -> None:
        """More work for the clients: also a cluster that has seen faults must still do it."""
        self._to_do += specs
        if not any(process.name.startswith("client") for process in self.world.loop.processes):
            self._spawn("client-0")

    # -- processes

    def _spawn(self, role: str) -> None:
        self._boots[role] = self._boots.get(role, 0) + 1
        name = f"{role}#{self._boots[role]}"
        target = self._run_worker if role.startswith("worker") else self._run_client
        self.world.loop.spawn(name, target, role)

    def _ended(self, process: Process) -> None:
        role = process.name.partition("#")[0]
        self._stores.pop(process.name, None)
        self._workers.pop(process.name, None)
        error = process.exception
        if error is not None and not isinstance(error, Unavailable):
            self.world.complaints.append(f"crash: {process.name} ended with {type(error).__name__}: {error}")
        if role.startswith("worker") or process.state is ProcessState.KILLED or error is not None:
            self.world.loop.call_later(self.world.loop.random.choice(RESTARTS_S), self._spawn, role)

    def _tell_everybody(self, hints: Notifications) -> None:
        for store in self._stores.values():
            store.hear(hints)

    def _is_old(self, name: str) -> bool:
        role = name.partition("#")[0]
        return role.startswith("worker") and int(role.partition("-")[2]) < self.profile.old_workers

    def _open(self, role: str) -> App:
        """An app of this process's own, on the shared database."""
        process, world = current_process(), self.world
        if role not in self.clocks:
            skew = world.loop.random.choice(SKEWS_MS) if self.profile.skewed else 0
            self.clocks[role] = SimulatedClock(world.loop, START, skew_ms=int(skew))
        entropy = random.Random(f"{world.loop.seed}/{process.name}")
        app = App("simulation", settings=self.settings, clock=self.clocks[role], entropy=entropy)
        app.functions = self._program.functions
        app.tables = self._program.tables
        if self._is_old(process.name) and not world.calm_at_ms:
            app.functions = without(self._program.functions, "newer")
        store = SimulatedStore(world, process)
        self._stores[process.name] = store
        environment = app.open_on(store, inline=True)
        environment.time_limits = NoTimeLimits()  # type: ignore[assignment]
        environment.sleep = lambda seconds: None  # a call from outside blocks its process between conflicts
        environment.executors = SimulatedExecutors(store, world, self.profile.latencies)
        world.counters.append(app.counters.snapshot)
        return app

    async def _run_worker(self, role: str) -> None:
        app = self._open(role)
        e = app.environment

        def make_heartbeat(deps: EngineDeps, worker_id: WorkerId, on_lost: Callable[[], object]) -> HeartbeatTask:
            def lost() -> None:
                if worker.actions.running:
                    self.world.rare["lease_lost_in_an_action"] += 1
                on_lost()

            return HeartbeatTask(deps, worker_id, lost)

        worker = Worker(e.engine_deps(app._execution, app.counters), make_heartbeat=make_heartbeat)
        self._workers[current_process().name] = worker
        await worker.run()

    async def _run_client(self, role: str) -> None:
        app = self._open(role)
        while self._to_do:
            await asyncio.sleep(self.world.loop.random.choice((0.0, 0.05, 0.4, 1.0)))
            if self._to_do:
                await self.ask(app, self._to_do.pop(0))

    async def ask(self, app: App, spec: Spec) -> None:
        """One request, and a note of what came back."""
        world, how, tag = self.world, spec["how"], spec["tag"]
        execution = app._execution
        scheduler = AsyncScheduler(app.environment.job_builder, TenantId(spec["tenant"]), execution)
        if how in ("call", "once"):
            world.note(tag)
        try:
            if how == "once":
                await self._call_until_answered(app, spec)
                return
            if how == "call":
                await app.call_async(work, spec)
                world.note(tag, least=1)
                return
            if how == "cancel":
                other = world.some_job()
                if other is not None:
                    await scheduler.cancel(other)
                    world.note_cancel(other, spec["tenant"])
                return
            world.acknowledged.add(await schedule(scheduler, spec))
        except Planned:
            world.note(tag, most=0)
        except OutcomeUnknown:
            world.rare["caller_left_unsure"] += 1
        except (Unavailable, Conflict):
            world.note(tag, most=0)

    async def _call_until_answered(self, app: App, spec: Spec) -> None:
        """A call under an idempotency key may be repeated as often as one likes."""
        while True:
            try:
                app.call_once(f"once-{spec['tag']}", work, spec)
            except (Unavailable, Conflict):
                await asyncio.sleep(0.3)
            except Planned:
                self.world.note(spec["tag"], most=0)
                return
            else:
                self.world.note(spec["tag"], least=1)
                return


def without(registry: Registry, name: str) -> Registry:
    """The same functions but one: an older version of the program."""
    older = Registry()
    function: Function[..., object]
    for function in registry:
        if function.name != name:
            older.add(function)
    return older


assert set(KINDS) >= {"newer"}

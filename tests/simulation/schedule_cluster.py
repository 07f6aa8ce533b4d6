"""A simulated cluster for schedules: workers with their evaluators around one database, and clients who change things.

Workers run the real engine, as in `tests.simulation.cluster`. Clients create, update, pause, trigger, backfill and
delete schedules through the requests that the public operations are made of, each with its own process's clock.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from evertick.app.app import App
from evertick.app.execution.contexts import ActionCtx, MutationCtx
from evertick.base.clock import Clock
from evertick.base.errors import Conflict, EvertickError, Unavailable
from evertick.base.ids import DEFAULT_TENANT, IdMaker, JobId, ScheduleId
from evertick.base.instants import Instant
from evertick.base.records.jobs import FunctionKind, RetryPolicy, Stop
from evertick.engine.jobs.completion import cancel
from evertick.engine.runtime.settings import Settings
from evertick.engine.schedules import commands as schedule_requests
from evertick.engine.schedules.commands import Requester
from evertick.engine.worker import Worker
from evertick.rules.schedules.events import (
    BackfillCanceled,
    BackfillRequested,
    Event,
    LimitSet,
    Paused,
    Resumed,
    Triggered,
)
from evertick.rules.schedules.policies import CatchUp, Overlap, Policies
from evertick.rules.schedules.state import Backfill
from evertick.store.notifications import Notifications
from evertick.store.records.schedule import Schedule, StoredSpec
from evertick.store.transaction.transaction import Transaction
from tests.schedules.rows import schedule_row
from tests.simulation.cluster import NoTimeLimits
from tests.simulation.database import HeartbeatTask, SimulatedExecutors, SimulatedStore
from tests.simulation.loop import SimulatedClock
from tests.simulation.processes import PROCESS, Process, ProcessState, current_process
from tests.simulation.schedule_specs import APIA, LORD_HOWE, DrawnSpec, draw_fast, draw_slow
from tests.simulation.schedule_truth import Kind, Truth, spec_text
from tests.simulation.world import World

EXCLUSIVE: Final = (
    Overlap.SKIP,
    Overlap.SKIP,
    Overlap.BUFFER_ONE,
    Overlap.BUFFER_ALL,
    Overlap.CANCEL_OTHER,
    Overlap.TERMINATE_OTHER,
)
SKEWS_MS: Final = (0, 0, 300, -300, 5_000, -5_000, 120_000, -120_000)
RETRY: Final = RetryPolicy(attempts=2, first_ms=1_000, factor=2.0, cap_ms=5_000, jitter=0.5)
FUNCTIONS: Final = App("schedules", database_url="sqlite://")


class Failed(Exception):
    """The failure of a run that was to fail."""


@FUNCTIONS.mutation(name="tick")
def tick(ctx: MutationCtx, fails: int) -> str:
    """A run that takes no time; some fail."""
    return _result(ctx, fails)


@FUNCTIONS.action(name="work")
async def work(ctx: ActionCtx, fails: int, takes: list[float]) -> str:
    """A run that takes its time; some fail."""
    assert ctx.schedule is not None
    await asyncio.sleep(takes[int(ctx.schedule.nominal_time.timestamp()) % len(takes)])
    return _result(ctx, fails)


def _result(ctx: MutationCtx | ActionCtx, fails: int) -> str:
    assert ctx.schedule is not None
    if fails and int(ctx.schedule.nominal_time.timestamp()) // 5 % fails == 0:
        raise Failed(ctx.schedule.run_id)
    return ctx.schedule.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What kind of run a seed is."""

    start: Instant
    night: str
    zone: str
    fast: bool
    span_s: float
    workers: int
    clients: int
    schedules: int
    poll_ms: int
    lease_ms: int
    retention_ms: int
    page: int
    reports: int
    due: int
    latencies: tuple[float, ...]
    skewed: bool
    clock_steps_ms: tuple[int, ...]
    """By how much everybody's clock is set, once each, at moments drawn from the seed."""
    outage_s: float
    rates: dict[str, float]


class ScheduleCluster:
    """The processes of one run."""

    def __init__(self, world: World, profile: Profile) -> None:
        self.world = world
        self.profile = profile
        self.chance = random.Random(f"{world.loop.seed}/cluster")
        self.everybodys_skew_ms = 0
        self.clocks: dict[str, SimulatedClock] = {}
        self.truth = Truth(world, self._clock_of_current)
        self.asking = True
        self._ids = IdMaker(random.Random(f"{world.loop.seed}/world"))
        self._held_until = 0.0
        self._boots: dict[str, int] = {}
        self._stores: dict[str, SimulatedStore] = {}
        self._settings = Settings(
            batch=20,
            poll=timedelta(milliseconds=profile.poll_ms),
            evaluate_every=timedelta(milliseconds=max(60_000, profile.poll_ms)),
            lease=timedelta(milliseconds=profile.lease_ms),
            action_timeout=timedelta(milliseconds=10**10),
            drain=timedelta(seconds=3),
            retention=timedelta(milliseconds=10**12),
            ledger_retention=timedelta(milliseconds=10**12),
            completed_retention=timedelta(milliseconds=profile.retention_ms),
            prune_every=timedelta(milliseconds=10**9),
        )
        world.store.listen(self._tell_everybody)
        world.loop.on_end.append(self._ended)

    def now(self) -> Instant:
        """The time as everybody should see it."""
        return Instant(self.profile.start + self.world.now_ms() + self.everybodys_skew_ms)

    def start(self) -> None:
        """Start every process."""
        if not self.profile.fast:
            self.world.rare[f"night {self.profile.night}"] += 1
        for number in range(self.profile.workers):
            self._spawn(f"worker-{number}")
        for number in range(self.profile.clients):
            self._spawn(f"client-{number}")

    async def step_clocks(self) -> None:
        """Set everybody's clock, now and then."""
        for step_ms in self.profile.clock_steps_ms:
            await asyncio.sleep(self.chance.uniform(0.1, 0.4) * self.profile.span_s)
            self.everybodys_skew_ms += step_ms
            self.world.rare[f"clock {step_ms // 1000:+} s"] += 1
            self._set_clocks()

    async def fall_out(self) -> None:
        """Nobody is there for a while."""
        if not self.profile.outage_s:
            return
        await asyncio.sleep(self.chance.uniform(0.2, 0.7) * self.profile.span_s)
        self.world.rare[f"outage {self.profile.outage_s:.0f} s"] += 1
        self._held_until = self.world.loop.time() + self.profile.outage_s
        for process in list(self.world.loop.processes):
            self.world.loop.kill(process)

    def calm(self) -> None:
        """No more faults and requests; clocks agree, and who is dead starts again."""
        self.world.loop.faults.calm()
        self.world.away_until = 0.0
        self._held_until = 0.0
        self.asking = False
        for process in self.world.loop.processes:
            process.paused_until = None
        for clock in self.clocks.values():
            clock.skew_ms = self.everybodys_skew_ms

    def ask(self, request: Callable[[Transaction, Requester], object]) -> None:
        """A request of the world's own, which meets no fault."""
        by = self.requester(self.now, self._ids)
        self.world.commit(lambda transaction: request(transaction, by))

    def requester(self, now: Callable[[], Instant], ids: IdMaker) -> Requester:
        """Somebody who asks."""
        return Requester(
            tenant=DEFAULT_TENANT,
            actor="simulation",
            now=now(),
            make_id=ids.make,
            retention_ms=self.profile.retention_ms,
        )

    # -- processes

    def _tell_everybody(self, hints: Notifications) -> None:
        for store in self._stores.values():
            store.hear(hints)

    def _spawn(self, role: str) -> None:
        wait_s = self._held_until - self.world.loop.time()
        if wait_s > 0:
            self.world.loop.call_later(min(wait_s, 60.0), self._spawn, role)
            return
        self._boots[role] = self._boots.get(role, 0) + 1
        target = self._run_worker if role.startswith("worker") else self._run_client
        self.world.loop.spawn(f"{role}#{self._boots[role]}", target, role)

    def _ended(self, process: Process) -> None:
        role = process.name.partition("#")[0]
        self._stores.pop(process.name, None)
        error = process.exception
        if error is not None and not isinstance(error, Unavailable | Conflict):
            self.world.complaints.append(f"crash: {process.name} ended with {type(error).__name__}: {error}")
        if role.startswith("worker") or process.state is ProcessState.KILLED:
            a_while_s = self.profile.poll_ms / 40_000
            self.world.loop.call_later(self.chance.choice((0.0, 0.5, 3.0, a_while_s)), self._spawn, role)

    def _open(self, role: str) -> App:
        process, world = current_process(), self.world
        if role not in self.clocks:
            self.clocks[role] = SimulatedClock(world.loop, self.profile.start)
            self._set_clocks()
        entropy = random.Random(f"{world.loop.seed}/{process.name}")
        app = App("schedules", settings=self._settings, clock=self.clocks[role], entropy=entropy)
        app.functions = FUNCTIONS.functions
        app.tables = FUNCTIONS.tables
        store = SimulatedStore(world, process)
        self._stores[process.name] = store
        environment = app.open_on(store, inline=True)
        environment.time_limits = NoTimeLimits()  # type: ignore[assignment]
        environment.sleep = lambda seconds: None
        environment.executors = SimulatedExecutors(store, world, self.profile.latencies)
        world.counters.append(app.counters.snapshot)
        return app

    async def _run_worker(self, role: str) -> None:
        app = self._open(role)
        deps = app.environment.engine_deps(app._execution, app.counters)
        await Worker(deps, make_heartbeat=HeartbeatTask).run()

    async def _run_client(self, role: str) -> None:
        app = self._open(role)
        e = app.environment
        client = ScheduleClient(self, e.clock, e.ids, self.chance)
        while self.asking:
            pause_s = self.chance.choice((0.0, 0.01, 0.1)) * self.profile.span_s
            await asyncio.sleep(pause_s)
            if self.asking:
                try:
                    await e.executors.write(client.ask)
                except EvertickError as error:
                    self.world.rare[f"request_{error.code}"] += 1

    def _set_clocks(self) -> None:
        for clock in self.clocks.values():
            own = self.chance.choice(SKEWS_MS) if self.profile.skewed else 0
            clock.skew_ms = self.everybodys_skew_ms + own

    def _clock_of_current(self) -> int:
        process = PROCESS.get(None)
        clock = None if process is None else self.clocks.get(process.name.partition("#")[0])
        return self.now() if clock is None else clock.now()


class ScheduleClient:
    """Draws one request after another."""

    def __init__(self, cluster: ScheduleCluster, clock: Clock, ids: IdMaker, chance: random.Random) -> None:
        self._cluster = cluster
        self._truth = cluster.truth
        self._clock = clock
        self._ids = ids
        self._chance = chance

    def ask(self, transaction: Transaction) -> None:
        """One request, whatever comes to mind."""
        chance, by = self._chance, self._cluster.requester(self._clock.now, self._ids)
        name = f"s{chance.randrange(self._cluster.profile.schedules)}"
        schedule_id = ScheduleId(name)
        if transaction.get_schedule(schedule_id, tenant=by.tenant) is None:
            schedule_requests.create(transaction, self._new(name, by.now), (), by)
            return
        draw = chance.random()
        if draw < 0.06:
            schedule_requests.delete(transaction, schedule_id, by)
        elif draw < 0.25:
            self._update(transaction, schedule_id, by)
        elif draw < 0.32:
            self._stop_a_run(transaction, by)
        else:
            change = schedule_requests.Change(action="asked", events=[self._event(name, by.now)])
            schedule_requests.apply(transaction, schedule_id, change, by)

    def _new(self, name: str, now: Instant) -> Schedule:
        chance, truth = self._chance, self._truth
        exclusive = chance.choice((1, 1, 2)) if chance.random() < 0.7 else 0
        truth.kinds.setdefault(name, Kind(exclusive, ordered=chance.random() < 0.5))
        kind = FunctionKind.ACTION if chance.random() < 0.6 else FunctionKind.MUTATION
        pace = 30.0 if self._cluster.profile.fast else 3_600.0
        args: dict[str, Any] = {"fails": chance.choice((0, 0, 2, 5))}
        if kind is FunctionKind.ACTION:
            args["takes"] = [chance.choice((0.0, 0.3, 1.0, 2.5)) * pace for _ in range(3)]
        return schedule_row(
            name,
            now=now,
            spec=self._spec(now).wire,
            function="work" if kind is FunctionKind.ACTION else "tick",
            kind=kind,
            args=args,
            retry=RETRY if chance.random() < 0.2 else None,
            policies=self._policies(name),
            remaining=chance.choice((None, None, None, 1, 7)),
        )

    def _spec(self, now: Instant) -> DrawnSpec:
        start_s = now // 1000
        profile = self._cluster.profile
        spec = draw_fast(self._chance, start_s) if profile.fast else draw_slow(self._chance, start_s, profile.zone)
        self._truth.specs[spec_text(spec)] = spec
        return spec

    def _policies(self, name: str) -> Policies:
        chance, kind = self._chance, self._truth.kinds[name]
        overlap = chance.choice(EXCLUSIVE if kind.exclusive else tuple(Overlap))
        if kind.ordered and chance.random() < 0.5:
            overlap = Overlap.BUFFER_ALL
        window_s = 60 if self._cluster.profile.fast else 4 * 3_600
        return Policies(
            overlap=overlap,
            concurrency_limit=1 if overlap is Overlap.ALLOW_ALL else kind.exclusive or chance.choice((1, 2)),
            catch_up=chance.choice((CatchUp.ALL, CatchUp.ALL, CatchUp.LATEST, CatchUp.NONE)),
            catch_up_window_ms=chance.choice((365 * 86_400, 365 * 86_400, window_s)) * 1000,
            pause_on_failure=chance.random() < 0.1,
            buffer_limit=chance.choice((0, 1, 4, 8)),
        )

    def _update(self, transaction: Transaction, schedule_id: ScheduleId, by: Requester) -> None:
        kind = self._truth.kinds[schedule_id]
        spec = self._spec(by.now) if self._chance.random() < 0.7 else None
        change = schedule_requests.Update(
            edit=None if spec is None else lambda row: row._replace(spec=StoredSpec(spec_text(spec))),
            policies=None if kind.ordered else self._policies(schedule_id),
        )
        schedule_requests.update(transaction, schedule_id, change, by)

    def _event(self, name: str, now: Instant) -> Event:
        chance = self._chance
        exclusive = self._truth.kinds[name].exclusive
        overlap = chance.choice((None, *(EXCLUSIVE if exclusive else tuple(Overlap))))
        draw = chance.random()
        if draw < 0.2:
            until = Instant(now + chance.choice((10, 600, 86_400)) * 1000) if chance.random() < 0.5 else None
            return Paused(at=now, note="simulated", until=until)
        if draw < 0.5:
            return Resumed(at=now)
        if draw < 0.75:
            return Triggered(at=now, request=self._ids.make("trigger", now), overlap=overlap)
        if draw < 0.9:
            span_s = chance.choice((60, 600)) if self._cluster.profile.fast else chance.choice((3_600, 86_400))
            start_at = Instant(now - span_s * 1000)
            backfill = Backfill(id=self._ids.make("backfill", now), start_at=start_at, end_at=now, overlap=overlap)
            return BackfillRequested(at=now, backfill=backfill)
        if draw < 0.95:
            return LimitSet(at=now, remaining=chance.choice((None, 3, 20)))
        return BackfillCanceled(at=now, backfill_id="unknown")

    def _stop_a_run(self, transaction: Transaction, by: Requester) -> None:
        """Somebody cancels or terminates a run by hand."""
        job = self._cluster.world.some_job()
        if job is not None:
            stop = self._chance.choice((Stop.CANCEL, Stop.FORCE))
            cancel(transaction, JobId(job), tenant=by.tenant, now=by.now, make_id=by.make_id, stop=stop)


def profile_of(seed: int) -> Profile:
    """What kind of run a seed is."""
    chance = random.Random(f"{seed}/profile")
    fast = chance.random() < 0.6
    rough = chance.choice((0.0, 0.3, 1.0, 1.0, 3.0))
    night, (night_s, zone) = chance.choice(tuple(NIGHTS.items()))
    day_s = 86_400
    steps_fast = ((), (), (-3_600_000,), (300_000, -3_600_000), (-40_000, 40_000))
    steps_slow = ((), (), (-3_600_000,), (3_600_000, -3_600_000), (365 * day_s * 1000,))
    steps_ms = chance.choice(steps_fast if fast else steps_slow)
    # A year that is over at once is worked off at one instant: by small pages that would look like a livelock.
    a_year = max(steps_ms, default=0) > day_s * 1000
    return Profile(
        start=Instant((night_s - (0 if fast else chance.choice((1, 2)) * day_s)) * 1000 + chance.randrange(3_000_000)),
        night=night,
        zone=zone,
        fast=fast,
        span_s=900.0 if fast else 3.0 * day_s,
        workers=chance.choice((1, 2, 3, 4)),
        clients=chance.choice((1, 2)),
        schedules=chance.choice((1, 2, 4, 8)),
        poll_ms=40_000 if fast else 7_200_000,
        lease_ms=60_000 if fast else 14_400_000,
        retention_ms=10**12 if chance.random() < 0.7 else (60_000 if fast else day_s * 1000),
        page=chance.choice((100,) if a_year else (1, 2, 100)),
        reports=chance.choice((1, 3, 2_000)),
        due=chance.choice((1_000,) if a_year else (1, 4, 1_000)),
        latencies=chance.choice(((0.0,), (0.0, 0.001, 0.02), (0.001, 0.3))),
        skewed=chance.random() < 0.4,
        clock_steps_ms=steps_ms,
        outage_s=chance.choice((0.0, 0.0, 300.0 if fast else 3.0 * day_s)),
        rates={
            # Who dies at every turn never comes to evaluate anything.
            "kill": rough * chance.choice((0.0, 0.0002, 0.0007)),
            "crash": rough * chance.choice((0.0, 0.003, 0.01)),
            "pause": rough * chance.choice((0.0, 0.0005, 0.002)),
            "unavailable": rough * chance.choice((0.0, 0.02)),
            "conflict": rough * chance.choice((0.0, 0.05)),
            "forgotten": rough * chance.choice((0.0, 0.02)),
            "lost": rough * chance.choice((0.0, 0.02, 0.1)),
            "unheard": rough * chance.choice((0.0, 0.02, 0.1)),
            "outage": rough * chance.choice((0.0, 0.0, 0.002)),
            "deaf": chance.choice((0.0, 0.1, 1.0)),
        },
    )


NIGHTS: Final = {
    "lord_howe_forward": (1_822_489_200, LORD_HOWE),  # 2027-10-02T15:00Z: in half an hour the clocks skip half an hour
    "lord_howe_back": (1_806_762_600, LORD_HOWE),  # 2027-04-03T14:30Z: in half an hour they go back
    "apia": (1_325_239_200, APIA),  # 2011-12-30T10:00Z: the moment at which 30 December was left out
}

"""One simulated run, from a seed to a verdict.

First safety: the cluster works while faults strike. Then liveness: the faults stop, what is dead starts again, and
within three leases of virtual time after everything is due, every job must have ended. At last the checker judges.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from unittest.mock import patch

from evertick.engine.jobs import actions
from tests.simulation.checker import violations
from tests.simulation.cluster import Cluster, Profile
from tests.simulation.faults import Fault, Plan
from tests.simulation.functions import Stage
from tests.simulation.loop import SimulationFailure, SimulationLoop
from tests.simulation.workload import Workload
from tests.simulation.world import START, World

TURMOIL_MAX_S: Final = 60.0
LIVENESS_LEASES: Final = 3
STEPS_MAX: Final = 100_000
FLOODS: Final = 0.2
"""The part of runs with a flood."""
LIMITS_OF_A_KEY: Final[tuple[tuple[int | None, ...], ...]] = (
    (), (), (1, 1, 1, 8), (2, 2, None), (1, 900, 1, 3, 8), (900, 2, 1, 0, 2, None),
)  # fmt: skip
"""Never a first limit while workers run: they hear of it within a second, and until then more may start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a run ended."""

    seed: int
    violations: tuple[str, ...]
    plan: Plan
    steps: int
    virtual_s: float
    jobs: int
    rare: Counter[str]
    points: Counter[str]
    timeline: str
    digest: str

    @property
    def failure(self) -> str | None:
        """The kind of the first violation, or None."""
        return self.violations[0].partition(":")[0] if self.violations else None


def profile_of(seed: int) -> Profile:
    """What kind of run a seed is: some have a flood, small batches and a database that takes its time."""
    profile, chance = _any_profile(seed), random.Random(f"{seed}/flood")
    if chance.random() >= FLOODS:
        return profile
    return replace(
        profile,
        flood=True,
        workers=chance.choice((1, 2)),
        batch=chance.choice((8, 16)),
        latencies=(0.001, chance.choice((0.02, 0.05))),
        per_key=chance.choice((profile.per_key, ())),
    )


def _any_profile(seed: int) -> Profile:
    chance = random.Random(f"{seed}/profile")
    workers = chance.choice((1, 2, 2, 3, 4))
    rough = chance.choice((0.0, 0.3, 1.0, 1.0, 3.0))
    clocks_differ = chance.random() < 0.2
    # Callers make few calls, and wait for each answer.
    calls_unheard = rough * chance.choice((0.0, 0.05, 0.2))
    jumps = 0.0 if clocks_differ else rough * chance.choice((0.0, 0.0, 0.0, 0.02))
    return Profile(
        workers=workers,
        clients=chance.choice((1, 1, 2)),
        roots=chance.choice((3, 6, 10, 16)),
        poison=chance.random() < 0.3,
        flood=False,
        old_workers=chance.choice((0, 0, 0, 1, workers)),
        batch=chance.choice((1, 2, 8, 64, 256)),
        slots=chance.choice((1, 2, 8)),
        lease_ms=chance.choice((1_000, 3_000)),
        # As long as what clocks may differ by, retention would be over at once.
        retention_ms=1_000_000_000 if clocks_differ or jumps else chance.choice((1_000_000_000, 20_000)),
        skewed=clocks_differ,
        per_key=random.Random(f"{seed}/keys").choice(LIMITS_OF_A_KEY),
        latencies=chance.choice(((0.0,), (0.0, 0.001, 0.02), (0.001, 0.3))),
        rates={
            # Most runs lack most kinds: what one kind of fault breaks, another soon mends.
            "kill": rough * chance.choice((0.0, 0.0, 0.0005, 0.002)),
            "crash": rough * chance.choice((0.0, 0.0, 0.002, 0.01)),
            "pause": rough * chance.choice((0.0, 0.0, 0.0005, 0.002)),
            "unavailable": rough * chance.choice((0.0, 0.0, 0.01)),
            "conflict": min(0.3, rough * chance.choice((0.0, 0.02, 0.2))),
            "conflict/prepare": 0.0,  # it waits with `time.sleep`, before there is an environment to wait otherwise
            "forgotten": rough * chance.choice((0.0, 0.02, 0.15)),
            "lost": rough * chance.choice((0.0, 0.01, 0.05)),
            "unheard": rough * chance.choice((0.0, 0.01, 0.05)),
            "unheard/call": calls_unheard,
            "unheard/call_once": calls_unheard,
            "outage": rough * chance.choice((0.0, 0.0, 0.001)),
            "deaf": chance.choice((0.0, 0.1, 1.0)),
            "jump": jumps,
            "stop": rough * chance.choice((0.0, 0.0, 0.01)),
        },
    )


def simulate(seed: int, *, plan: Sequence[Fault] | None = None, trace: bool = False) -> Report:
    """Run a seed, with the faults it draws or with those of a plan."""
    profile = profile_of(seed)
    loop = SimulationLoop(seed, rates=profile.rates, plan=plan, steps_max=STEPS_MAX, trace=trace)
    with loop, patch.object(actions, "CHECKS_PER_POLL", 1):  # workers poll every second here
        world = World(loop)
        Stage.world = world
        try:
            loop.run(_scenario(world, profile))
            found = violations(world, profile)
        except SimulationFailure as failure:
            left = "\n".join(map(str, world.unfinished()))
            found = [f"{type(failure).__name__.lower()}: {failure}\nunfinished jobs:\n{left}"]
        report = Report(
            seed=seed,
            violations=tuple(found),
            plan=loop.faults.plan,
            steps=loop.steps,
            virtual_s=loop.time(),
            jobs=int(world.rows("select count(*) from job_facts")[0][0]),
            rare=world.totals(),
            points=loop.points,
            timeline=loop.timeline() if found else "",
            digest=loop.digest() if trace else "",
        )
    world.store.close()
    return report


async def _scenario(world: World, profile: Profile) -> None:
    workload = Workload(random.Random(f"{world.loop.seed}/workload"))
    to_do = workload.roots(profile.roots)
    if profile.poison:
        to_do.insert(len(to_do) // 2, workload.poison())
    if profile.flood:
        third = len(to_do) // 3
        to_do[third:third] = workload.flood()
    cluster = Cluster(world, profile, to_do)
    cluster.start()
    disturbing = asyncio.create_task(cluster.disturb(TURMOIL_MAX_S), name="disturb")
    while world.loop.time() < TURMOIL_MAX_S and not (cluster.everything_asked and not world.unfinished()):
        await asyncio.sleep(0.5)
    disturbing.cancel()
    cluster.calm()
    await asyncio.sleep(2 * profile.lease_ms / 1000)
    world.quiet_at_ms = world.now_ms()
    cluster.ask_more(workload.simple(takes=2 * profile.lease_ms / 1000))
    await _come_to_rest(world, cluster, profile)


async def _come_to_rest(world: World, cluster: Cluster, profile: Profile) -> None:
    """Wait until every job has ended, as long as there is progress; complain when there is none."""
    seen, progress_at = -1, world.now_ms()
    # A clock that was ahead has promised its worker's life for longer than the worker may live.
    promised = [until - START for (until,) in world.rows("select leased_until from workers")]
    while True:
        unfinished = world.unfinished()
        if cluster.everything_asked and not unfinished:
            return
        progress = sum(world.rows("select count(*), coalesce(max(seq), 0) from sim_history where what = 'update'")[0])
        if progress != seen:
            seen, progress_at = progress, world.now_ms()
        due = [due_at - START for *_, due_at in unfinished]
        deadline = max([progress_at, *due, *promised]) + LIVENESS_LEASES * max(profile.lease_ms, 1_000) + 10_000
        if world.now_ms() > deadline:
            world.complaints.append(f"stuck: {len(unfinished)} jobs never ended: {unfinished[:3]}")
            return
        if world.now_ms() - world.calm_at_ms > 3_600_000:
            world.complaints.append(f"endless: {len(unfinished)} jobs go on for ever: {unfinished[:3]}")
            return
        await asyncio.sleep(1.0)

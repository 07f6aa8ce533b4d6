"""The simulation of schedules: evaluators, workers and clients on a virtual clock, and a ledger that must be complete.

    python -m tests.simulation.schedules --seeds 3000            as many seeds as --seconds allow, and every planted bug
    python -m tests.simulation.schedules --seed 4711             one seed, with its timeline if it fails

While faults strike, clients create, change and delete schedules, processes die at any await and at every commit,
commits are lost or their replies are, clocks are set, everybody is away for days. Then the faults stop. What was due
must have been judged without anybody asking; then everything is paused, every run ends, and the ledger is compared,
time by time, with an independent walk of every spec that any schedule ever had.

The run fails if a promise was broken, if a scene or a fate was seen too seldom to mean anything, or if a planted bug
was not found.
"""

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from unittest.mock import patch

import click

from evertick.base.errors import Unavailable
from evertick.base.ids import ScheduleId
from evertick.engine.jobs import actions
from evertick.engine.schedules import commands as schedule_requests
from evertick.engine.schedules import evaluation, evaluator
from evertick.rules.schedules.events import Event, Paused
from evertick.store.transaction import schedules as sql_schedules
from tests.simulation.faults import Fault, Plan, plan_text
from tests.simulation.functions import Stage
from tests.simulation.loop import SimulationFailure, SimulationLoop
from tests.simulation.planted import Verdict, search, search_all
from tests.simulation.run import base_of_commit
from tests.simulation.schedule_cluster import Profile, ScheduleCluster, profile_of
from tests.simulation.schedule_mutants import MUTANTS
from tests.simulation.world import World

CHUNK: Final = 20
STEPS_MAX: Final = 200_000
REST_TRIES: Final = 400
MUTANT_SEEDS: Final = 120
"""A planted bug must be found within so many seeds, the same for every commit."""
SEEDS_TO_COUNT: Final = 50

RARE_PER_100_SEEDS: Final = {
    "clock -3600 s": 15,
    "clock +3600 s": 1,
    "clock +31536000 s": 2,
    "night apia": 4,
    "night lord_howe_back": 3,
    "night lord_howe_forward": 3,
    "outage 259200 s": 2,
    "outage 300 s": 8,
    "fate after_wait": 300,
    "fate backfilled": 100,
    "fate buffer_full": 100,
    "fate catch_up_latest": 100,
    "fate catch_up_none": 100,
    "fate catch_up_window": 100,
    "fate caught_up": 30,
    "fate deleted": 3,
    "fate limit": 300,
    "fate on_time": 1_000,
    "fate overlap": 500,
    "fate paused": 300,
    "fate superseded": 40,
    "fate triggered": 100,
    "jobs_failed": 200,
    "jobs_reaped": 100,
    "unknown_applied": 500,
    "unknown_not_applied": 500,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a run ended."""

    seed: int
    violations: tuple[str, ...]
    plan: Plan
    steps: int
    occurrences: int
    runs: int
    rare: Counter[str]
    fates: Counter[str]
    timeline: str

    @property
    def failure(self) -> str | None:
        """The kind of the first violation, or None."""
        return self.violations[0].partition(":")[0] if self.violations else None


def simulate(seed: int, *, plan: Sequence[Fault] | None = None, profile: Profile | None = None) -> Report:
    """Run a seed, with the faults it draws or with those of a plan."""
    profile = profile or profile_of(seed)
    loop = SimulationLoop(seed, rates=profile.rates, plan=plan, steps_max=STEPS_MAX)
    with loop, _small_pages(profile):
        world = World(loop)
        Stage.world = world
        cluster = ScheduleCluster(world, profile)
        try:
            loop.run(_scenario(cluster))
        except SimulationFailure as failure:
            world.complaints.append(f"{type(failure).__name__.lower()}: {failure}")
        found = [*world.complaints, *_judge(cluster), *map(str, loop.errors)]
        report = Report(
            seed=seed,
            violations=tuple(found),
            plan=loop.faults.plan,
            steps=loop.steps,
            occurrences=world.rows("select count(*) from occurrences")[0][0],
            runs=world.rows("select count(*) from sim_runs")[0][0],
            rare=world.totals(),
            fates=cluster.truth.fates(),
            timeline=loop.timeline() if found else "",
        )
    world.store.close()
    return report


@contextmanager
def _small_pages(profile: Profile) -> Iterator[None]:
    """Limits so small that every one of them is met."""
    with (
        patch.multiple(evaluator, PAGE=profile.page, REPORTS_MAX=profile.reports, OCCURRENCES_MAX=2 * profile.due),
        patch.object(evaluation, "OCCURRENCES_PER_ROUND", profile.due),
        patch.object(sql_schedules, "FEW", 1),
        patch.object(schedule_requests, "ROUNDS_MAX", 3_000),
        patch.object(actions, "CHECKS_PER_POLL", 10),
    ):
        yield


async def _scenario(cluster: ScheduleCluster) -> None:
    profile = cluster.profile
    cluster.start()
    tasks = [asyncio.create_task(one()) for one in (cluster.step_clocks, cluster.fall_out)]
    await asyncio.sleep(profile.span_s + profile.outage_s)
    for task in tasks:
        task.cancel()
    cluster.calm()
    # Everything overdue is found without anybody asking: leases run out, then everybody has looked twice.
    await asyncio.sleep(3 * (profile.lease_ms + profile.poll_ms) / 1000 + 130)
    now = cluster.now()
    awake = {name: now for name, state in cluster.truth.living() if not state.paused and state.ending is None}
    lag_ms = profile.poll_ms + 60_000
    cluster.world.complaints += [
        f"late: {text}" for text in cluster.truth.missing(until=awake, lag_ms=lag_ms) if text.startswith("lost")
    ]
    _tell_everybody(cluster, [Paused(at=cluster.now(), note="the end")])
    await _come_to_rest(cluster)
    _tell_everybody(cluster, [])


def _tell_everybody(cluster: ScheduleCluster, events: Sequence[Event]) -> None:
    for name, _ in cluster.truth.living():
        for _attempt in range(100):
            try:
                cluster.ask(
                    lambda transaction, by, name=name: schedule_requests.apply(  # type: ignore[misc]
                        transaction, ScheduleId(name), schedule_requests.Change(action="told", events=events), by
                    )
                )
            except Unavailable:
                continue  # it is being caught up, page by page
            break


async def _come_to_rest(cluster: ScheduleCluster) -> None:
    """Wait until nothing runs or waits any more."""
    for _ in range(REST_TRIES):
        await asyncio.sleep(cluster.profile.span_s / 20)
        busy = any(state.open_runs or state.waits or state.backfills for _, state in cluster.truth.living())
        if not busy and not next(cluster.truth.unfinished(), None):
            return


def _judge(cluster: ScheduleCluster) -> Iterator[str]:
    truth = cluster.truth
    now = cluster.now()
    yield from truth.doubled()
    yield from truth.overlapping()
    yield from truth.started_before_an_end()
    yield from truth.disordered()
    yield from truth.misjudged_by_age()
    yield from truth.unfinished()
    yield from truth.miscounted()
    yield from truth.missing(until={name: now for name, _ in truth.living()})
    broken = cluster.world.totals()["schedules_broken"]
    if broken:
        yield f"broken: {broken} evaluations failed"


def run_seeds(seeds: Sequence[int], seconds: float, jobs: int) -> tuple[int, Counter[str], int]:
    """Run seeds until the time is over; returns how many failed, what was seen, and how many ran."""
    began, failed, seen, count = time.monotonic(), 0, Counter[str](), 0
    with ProcessPoolExecutor(jobs, initializer=logging.disable, initargs=(logging.CRITICAL,)) as pool:
        for start in range(0, len(seeds), CHUNK):
            for report in pool.map(simulate, seeds[start : start + CHUNK]):
                count += 1
                seen.update(report.rare)
                seen.update({f"fate {reason}": number for reason, number in report.fates.items()})
                seen.update({"occurrences": report.occurrences, "runs": report.runs, "steps": report.steps})
                if report.violations:
                    failed += 1
                    click.echo(f"seed {report.seed}: {report.violations[0][:300]}")
                    click.echo(f"replay: python -m tests.simulation.schedules --seed {report.seed}")
            if time.monotonic() - began > seconds:
                break
    return failed, seen, count


def where_found(name: str) -> Verdict:
    """Plant a bug and search for it, in a process of its own."""
    logging.disable(logging.CRITICAL)
    return search(next(mutant for mutant in MUTANTS if mutant.name == name), simulate, MUTANT_SEEDS)


def too_seldom(seen: Counter[str], count: int) -> list[str]:
    """What was not seen often enough for the number of seeds. A few seeds need not have seen anything."""
    if count < SEEDS_TO_COUNT:
        return []
    return [
        f"{name} was seen {seen[name]} times in {count} seeds; {least * count // 100} are needed"
        for name, least in RARE_PER_100_SEEDS.items()
        if seen[name] < least * count // 100
    ]


@click.command()
@click.option("--seeds", default=3_000, help="How many seeds.")
@click.option("--base", type=int, help="The first seed; the first digits of the commit unless given.")
@click.option("--seconds", default=300.0, help="Stop after this time.")
@click.option("--seed", type=int, help="Run this seed alone and tell all.")
@click.option("--jobs", default=2, help="Processes.")
@click.option("--mutants/--no-mutants", default=True, help="Also look for the planted bugs.")
def main(seeds: int, base: int | None, seconds: float, seed: int | None, jobs: int, mutants: bool) -> None:
    """Simulate schedules."""
    logging.disable(logging.CRITICAL)
    if base is None:
        base = int(base_of_commit(), 16)
    if seed is not None:
        report = simulate(seed)
        click.echo(f"{profile_of(seed)}\n{report.timeline}\nplan: {plan_text(report.plan)[:2000]}")
        click.echo("\n".join(report.violations) or f"seed {seed} holds: {report.occurrences} occurrences")
        sys.exit(bool(report.violations))
    unfound = search_all(MUTANTS, where_found, jobs) if mutants else 0
    failed, seen, count = run_seeds(range(base, base + seeds), seconds, jobs)
    for name, number in sorted(seen.items()):
        click.echo(f"  {name:40s} {number}")
    seldom = too_seldom(seen, count)
    for line in seldom:
        click.echo(f"TOO SELDOM: {line}")
    click.echo(f"{count} seeds, {failed} failed, {unfound} planted bugs not found")
    sys.exit(bool(failed or unfound or seldom))


if __name__ == "__main__":
    main()

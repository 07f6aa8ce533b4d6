"""The simulation of workflows: runs of random flows under faults, and journals that must tell what happened.

    python -m tests.simulation.workflows --seeds 3000            as many seeds as --seconds allow, and every planted bug
    python -m tests.simulation.workflows --seed 4711             one seed, with its timeline if it fails

As in `tests.simulation.run`: faults strike while clients start, signal, pause, cancel and terminate runs; then the
faults stop, paused runs are resumed, runs that still wait for an event are sent it, and every run must end. At last
`flow_checker` judges.
"""

import asyncio
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Final
from unittest.mock import patch

import click

from evertick.app.app import App
from evertick.base.errors import Conflict, JobNotFound, OutcomeUnknown, RunNotOpen, Unavailable
from evertick.base.instants import NEVER
from evertick.engine.jobs import actions, recovery
from evertick.rules.workflows import advance
from tests.simulation.cluster import Cluster, Profile
from tests.simulation.faults import Fault, plan_text
from tests.simulation.flow_checker import asleep, flow_violations
from tests.simulation.flow_mutants import MUTANTS
from tests.simulation.flows import FLOWS, FlowWorkload, flow
from tests.simulation.functions import Spec, Stage
from tests.simulation.loop import SimulationFailure, SimulationLoop
from tests.simulation.planted import Verdict, search, search_all
from tests.simulation.run import base_of_commit
from tests.simulation.scenario import STEPS_MAX, TURMOIL_MAX_S, Report, profile_of
from tests.simulation.world import START, World

CHUNK: Final = 20
MUTANT_SEEDS: Final = 200
"""A planted bug must be found within so many seeds, the same for every commit."""
SEEDS_TO_COUNT: Final = 50
REST_MAX_MS: Final = 600_000

RARE_PER_100_SEEDS: Final = {
    "flow_write_done": 200,
    "flow_write_failed": 20,
    "flow_act_done": 50,
    "flow_act_failed": 10,
    "flow_act_unknown": 5,
    "flow_chance_done": 40,
    "flow_child_done": 10,
    "flow_child_timeout": 2,
    "flow_child_failed": 2,
    "flow_wait_done": 8,
    "flow_wait_timeout": 20,
    "flow_withdrawn": 10,
    "flow_poked": 20,
    "flow_sleep_done": 20,
    "flow_dropped": 10,
    "flow_cleaned": 5,
    "flow_stopped": 10,
    "flow_paused": 10,
    "flow_resumed": 10,
    "jobs_reaped": 50,
    "unknown_applied": 50,
    "unknown_not_applied": 50,
    "runs_from_memory": 200,
}
"""About a third of what is usual."""


class FlowCluster(Cluster):
    """Clients that start runs and send them events."""

    def __init__(self, world: World, profile: Profile, work_to_do: list[Spec]) -> None:
        super().__init__(world, profile, work_to_do, program=FLOWS)
        in_memory = random.Random(f"{world.loop.seed}/memory").choice((0, 1, 3, 1_000))
        self.settings = replace(self.settings, runs_in_memory=in_memory)

    async def ask(self, app: App, spec: Spec) -> None:
        """One request, repeated until a reply comes."""
        while True:
            try:
                await self._request(app, spec)
            except (Unavailable, Conflict):
                await asyncio.sleep(0.3)
            else:
                return

    async def _request(self, app: App, spec: Spec) -> None:
        world, workflows, key = self.world, app.aio.workflows, f"flow {spec['tag']}"
        if spec["how"] == "start":
            try:
                world.acknowledged.add(await workflows.using(key=key).start(flow, spec["flow"]))
            except OutcomeUnknown:
                # It may have been started, and have ended already: so its key does not tell.
                world.rare["caller_left_unsure"] += 1
                if not self._id_of(key):
                    raise
            return
        run_id = self._id_of(key)
        if run_id is None:  # whoever was to start it died
            world.rare["flow_never_started"] += 1
            return
        try:
            if spec["how"] == "signal":
                world.sent[spec["event"]].append(spec["value"])
                await workflows.signal(run_id, spec["event"], spec["value"], key=spec["value"])
                return
            if spec["how"] == "pause":
                world.rare["flow_paused"] += await workflows.pause(run_id)
                return
            if spec["how"] == "resume":
                world.asked_to_resume.setdefault(run_id, world.last_seq())
                world.rare["flow_resumed"] += await workflows.resume(run_id)
                return
            world.asked_to_end.add(run_id)
            if spec["how"] == "cancel":
                if await workflows.cancel(run_id):
                    world.told_to_cancel.add(run_id)
            else:
                world.terminated.add(run_id)
                await workflows.terminate(run_id)
        except JobNotFound:  # removed by retention
            world.rare["flow_gone"] += 1
        except RunNotOpen:
            world.rare["flow_not_open"] += 1

    def _id_of(self, key: str) -> str | None:
        begun = self.world.rows("select id from job_facts where key = ?", key)
        return begun[0][0] if begun else None


def simulate(seed: int, *, plan: Sequence[Fault] | None = None, trace: bool = False) -> Report:
    """Run a seed, with the faults it draws or with those of a plan."""
    profile = profile_of(seed)
    loop = SimulationLoop(seed, rates=profile.rates, plan=plan, steps_max=STEPS_MAX, trace=trace)
    before = random.Random(f"{seed}/before").choice((0, recovery.READ_WITHIN_MAX))
    with (
        loop,
        patch.object(actions, "CHECKS_PER_POLL", 1),
        patch.object(advance, "DELIVERIES_MAX", 3),
        patch.object(recovery, "READ_WITHIN_MAX", before),
    ):
        world = World(loop)
        Stage.world = world
        try:
            loop.run(_scenario(world, profile))
            found = flow_violations(world, profile)
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
    chance = random.Random(f"{world.loop.seed}/flows")
    stops = random.Random(f"{world.loop.seed}/stops")
    takes = random.Random(f"{world.loop.seed}/takes")
    to_do = FlowWorkload(chance, flows=chance.choice((2, 4, 8)), stops=stops, takes=takes).requests()
    cluster = FlowCluster(world, profile, to_do)
    cluster.start()
    disturbing = asyncio.create_task(cluster.disturb(TURMOIL_MAX_S), name="disturb")
    while world.loop.time() < TURMOIL_MAX_S and not (cluster.everything_asked and not world.unfinished()):
        await asyncio.sleep(0.1)
        if overslept := list(asleep(world)):
            world.complaints += overslept
            return
    disturbing.cancel()
    cluster.calm()
    promised = [until - START for (until,) in world.rows("select leased_until from workers")]
    await asyncio.sleep(max([2 * profile.lease_ms, *(each - world.now_ms() for each in promised)]) / 1000 + 5)
    world.quiet_at_ms = world.now_ms()
    await _come_to_rest(world, cluster)


async def _come_to_rest(world: World, cluster: FlowCluster) -> None:
    """Wait until every run has ended. Who waits for an event is sent it, once it is known that none was overlooked."""
    number = 0
    while not cluster.everything_asked or world.unfinished():
        await asyncio.sleep(12.0)  # longer than any step of a flow takes
        world.complaints += asleep(world)
        if world.complaints:
            return
        if world.now_ms() - world.quiet_at_ms > REST_MAX_MS:
            world.complaints.append(f"stuck: {world.unfinished()[:3]}")
            return
        number += 1
        waiting = world.rows(
            "select key from jobs where kind = 'workflow' and due_at = ? and key is not null order by id", NEVER
        )
        paused = world.rows("select key from jobs where stage = 'paused' and key is not null order by id")
        more: list[Spec] = [{"how": "resume", "tag": key.removeprefix("flow ")} for (key,) in paused]
        more += [
            {"how": "signal", "tag": key.removeprefix("flow "), "event": event, "value": f"{key} late {number} {event}"}
            for (key,) in waiting
            for event in ("go", "stop")
        ]
        cluster.ask_more(more)


def run_seeds(seeds: Sequence[int], seconds: float, jobs: int) -> tuple[int, Counter[str], int]:
    """Run seeds until the time is over; returns how many failed, what was seen, and how many ran."""
    began, failed, seen, count = time.monotonic(), 0, Counter[str](), 0
    with ProcessPoolExecutor(jobs, initializer=logging.disable, initargs=(logging.CRITICAL,)) as pool:
        for start in range(0, len(seeds), CHUNK):
            for report in pool.map(simulate, seeds[start : start + CHUNK]):
                count += 1
                seen.update(report.rare)
                seen.update({"steps of the loop": report.steps, "jobs": report.jobs})
                if report.violations:
                    failed += 1
                    click.echo(f"seed {report.seed}: {report.violations[0][:300]}")
                    click.echo(f"replay: python -m tests.simulation.workflows --seed {report.seed}")
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
    """Simulate workflows."""
    logging.disable(logging.CRITICAL)
    if base is None:
        base = int(base_of_commit(), 16)
    if seed is not None:
        report = simulate(seed)
        click.echo(f"{profile_of(seed)}\n{report.timeline}\nplan: {plan_text(report.plan)[:2000]}")
        click.echo("\n".join(report.violations) or f"seed {seed} holds: {report.jobs} jobs")
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

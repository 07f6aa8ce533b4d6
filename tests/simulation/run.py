"""The simulation from the command line: seeds, planted bugs, and the line that replays a failure.

    python -m tests.simulation.run --seeds 20000                  as many seeds as --seconds allow, and every mutant
    python -m tests.simulation.run --seed 4711                    one seed, with its timeline if it fails
    python -m tests.simulation.run --seed 4711 --plan kill@81     the same under exactly these faults

The seeds of a run begin at its base, the first digits of the commit, so every commit explores new ground and can be
repeated. `regressions.txt` holds seeds and plans that failed once; they run first. The run fails if a promise was
broken, if a rare state was seen too seldom to mean anything, or if a planted bug was not found.
"""

import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import click

from tests.simulation.faults import Plan, parse_plan, plan_text
from tests.simulation.loop import PAUSES
from tests.simulation.minimise import minimise
from tests.simulation.mutants import MUTANTS
from tests.simulation.planted import Verdict, search, search_all
from tests.simulation.scenario import Report, simulate

ROOT: Final = Path(__file__).parent.parent.parent
REGRESSIONS: Final = Path(__file__).with_name("regressions.txt")
CHUNK: Final = 20
SEEDS_MIN: Final = 200
"""A full run (one of more seeds than that) on a slow machine stops early, but not before that many."""
SEEDS_TO_COUNT: Final = 200
MUTANT_SEEDS: Final = 400
"""A planted bug must be found within so many seeds, which are the same for every commit."""
MINIMISE_RUNS: Final = 300
MINIMISE_SECONDS: Final = 40.0
TIMELINE_LINES: Final = 40

RARE_PER_1000_SEEDS: Final = {
    "actions_taken": 20,
    "action_lost_its_worker": 100,
    "born_canceled": 20,
    "canceled_after_a_claim": 50,
    "caller_left_unsure": 50,
    "cancel_unknown": 1,
    "claimed_again": 500,
    "claims_found": 50,
    "clock_jump": 50,
    "counted": 500,
    "held_for_a_key": 500,
    "jobs_success": 5_000,
    "jobs_pruned": 100,
    "jobs_reaped": 500,
    "lease_lost_in_an_action": 10,
    "mutation_conflicts": 200,
    "mutations_taken": 50,
    "newcomers_claimed": 30,
    "outage": 10,
    "outcomes_unknown": 50,
    "poison_acted": 100,
    "poison_ran": 100,
    "suspects_claimed": 200,
    "quarantined": 50,
    "relaxed_commit_forgotten": 50,
    "told_to_stop": 50,
    "unknown_applied": 500,
    "unknown_not_applied": 500,
}
"""States without which a run proves little: how often each must be seen. About a tenth of what is usual."""


@dataclass(slots=True)
class Totals:
    """What many runs add up to."""

    seeds: int = 0
    faults: int = 0
    steps: int = 0
    jobs: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    rare: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    """Seed, plan, violation."""

    def add(self, report: Report) -> None:
        """Count one run."""
        self.seeds += 1
        self.faults += len(report.plan)
        self.steps += report.steps
        self.jobs += report.jobs
        self.virtual_s += report.virtual_s
        self.rare += report.rare
        if report.violations:
            self.failures.append((report.seed, plan_text(report.plan), report.violations[0]))

    def merge(self, other: "Totals") -> None:
        """Count what another process counted."""
        for name in ("seeds", "faults", "steps", "jobs", "virtual_s", "cpu_s", "rare", "failures"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def base_of_commit() -> str:
    """Eight digits that each commit has of its own; zeros outside of a repository."""
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout[:8] if told.returncode == 0 else "00000000"


@dataclass(frozen=True, slots=True)
class Regression:
    """A seed that failed once, with its plan, and the planted bug that makes it fail again."""

    seed: int
    bug: str
    plan: Plan | None


def regressions() -> Iterator[Regression]:
    """What `regressions.txt` holds."""
    for line in REGRESSIONS.read_text().splitlines():
        words = line.partition("#")[0].split()
        if words:
            seed, bug, *plan = words
            yield Regression(int(seed), bug, parse_plan(plan[0]) if plan else None)


def run_chunk(seeds: range) -> Totals:
    """Run some seeds, in a process of its own."""
    logging.disable(logging.CRITICAL)
    totals, began = Totals(), time.process_time()
    for seed in seeds:
        totals.add(simulate(seed))
    totals.cpu_s = time.process_time() - began
    return totals


def where_found(name: str) -> Verdict:
    """Plant a bug and search for it, in a process of its own."""
    logging.disable(logging.CRITICAL)
    return search(next(mutant for mutant in MUTANTS if mutant.name == name), simulate, MUTANT_SEEDS)


def run_seeds(pool: ProcessPoolExecutor, base: int, count: int, seconds: float, jobs: int) -> Totals:
    """Run seeds from `base` on until there are `count`, or time is over."""
    totals, deadline = Totals(), time.monotonic() + seconds
    chunks = iter([range(base + n, base + min(n + CHUNK, count)) for n in range(0, count, CHUNK)])
    while chunk := list(islice(chunks, jobs * 4)):
        for part in pool.map(run_chunk, chunk):
            totals.merge(part)
        if totals.failures or (time.monotonic() > deadline and totals.seeds >= min(count, SEEDS_MIN)):
            break
    return totals


def too_seldom(totals: Totals) -> list[str]:
    """Rare states that were not seen often enough for the number of seeds. A few seeds need not have seen any."""
    if totals.seeds < SEEDS_TO_COUNT:
        return []
    return [
        f"{name} was seen {totals.rare[name]} times in {totals.seeds} seeds; {least * totals.seeds // 1000} are needed"
        for name, least in RARE_PER_1000_SEEDS.items()
        if totals.rare[name] < least * totals.seeds // 1000
    ]


def shrink(seed: int, plan: Plan) -> Plan:
    """The few faults that are enough for the failure of a seed, or the best that can be found in MINIMISE_SECONDS."""
    failure, deadline = simulate(seed, plan=plan).failure, time.monotonic() + MINIMISE_SECONDS

    def run(candidate: Plan) -> str | None:
        return simulate(seed, plan=candidate).failure if time.monotonic() < deadline else None

    return plan if failure is None else minimise(run, plan, failure, values=PAUSES, runs_max=MINIMISE_RUNS).plan


def explain(seed: int, plan: Plan, violation: str) -> None:
    """How a seed failed, and the line that replays it."""
    small = shrink(seed, plan)
    report = simulate(seed, plan=small)
    for each in report.violations[:5] or (violation,):
        click.echo(f"  {each}")
    click.echo("\n".join(report.timeline.splitlines()[-TIMELINE_LINES:]))
    planned = f" --plan '{plan_text(small)}'" if small else " --plan ''"
    click.echo(f"replay: python -m tests.simulation.run --seed {seed}{planned}")
    click.echo("keep it: plant the bug in mutants.py, and add its name and the seed to regressions.txt")


def show(totals: Totals) -> None:
    """The figures of a run."""
    rate = totals.seeds / totals.cpu_s if totals.cpu_s else 0.0
    click.echo(
        f"{totals.seeds:,} seeds, {totals.faults:,} faults, {totals.steps:,} steps, {totals.jobs:,} jobs, "
        f"{totals.virtual_s / 86400:.2f} virtual days in {totals.cpu_s:.0f} CPU s ({rate:.1f} seeds/s)"
    )
    click.echo("rare states: " + ", ".join(f"{name} {count:,}" for name, count in sorted(totals.rare.items())))


@click.command()
@click.option("--seeds", default=1_000, show_default=True, help="How many seeds to run.")
@click.option("--seconds", default=420.0, show_default=True, help="When to stop with fewer.")
@click.option("--base", default=None, help="Where the seeds begin: hexadecimal digits (default: the commit's).")
@click.option("--seed", type=int, default=None, help="Run this seed only.")
@click.option("--plan", default=None, help="With --seed: exactly these faults.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
@click.option("--mutants/--no-mutants", default=True, help="Look for the planted bugs.")
def main(
    seeds: int, seconds: float, base: str | None, seed: int | None, plan: str | None, jobs: int, mutants: bool
) -> None:
    """Simulate Evertick's engine under faults; see the module's text."""
    logging.disable(logging.CRITICAL)
    if seed is not None:
        report = simulate(seed, plan=None if plan is None else parse_plan(plan))
        click.echo(report.timeline)
        click.echo(f"plan: {plan_text(report.plan) or 'no fault'}")
        click.echo("\n".join(report.violations) or f"seed {seed} holds: {report.steps} steps, {report.jobs} jobs")
        sys.exit(1 if report.violations else 0)
    base = base or base_of_commit()
    bad = False
    for old in regressions():
        report = simulate(old.seed, plan=old.plan)
        if report.violations:
            bad = True
            click.echo(f"REGRESSION ({old.bug}):")
            explain(old.seed, report.plan, report.violations[0])
    with ProcessPoolExecutor(jobs) as pool:
        click.echo(f"base {base}: seeds from {int(base, 16) * 1_000_000}")
        totals = run_seeds(pool, int(base, 16) * 1_000_000, seeds, seconds, jobs)
        show(totals)
        for failed, its_plan, violation in totals.failures[:2]:
            click.echo(f"FAILED: seed {failed}: {violation.partition(chr(10))[0]}")
            explain(failed, parse_plan(its_plan), violation)
        seldom = too_seldom(totals) if not totals.failures else []
        for line in seldom:
            click.echo(f"TOO SELDOM: {line}")
    # A simulation that fails anyway finds every bug.
    missed = search_all(MUTANTS, where_found, jobs) if mutants and not totals.failures else 0
    sys.exit(1 if bad or totals.failures or seldom or missed else 0)


if __name__ == "__main__":
    main()

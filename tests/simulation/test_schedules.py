"""A small part of the simulation of schedules; `python -m tests.simulation.schedules` runs as much as one likes."""

import pytest

from tests.simulation.mutants import Mutant
from tests.simulation.schedule_mutants import MUTANTS
from tests.simulation.schedules import find, simulate

SEEDS = 2
QUICKLY_FOUND = ("mark is now", "wrong overlap", "version ignored")
"""Planted bugs that the first seed finds within 20,000 steps; CI looks for all of them."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_time_a_schedule_names_is_in_the_ledger_once(seed: int) -> None:
    report = simulate(seed)

    assert not report.violations, f"python -m tests.simulation.schedules --seed {seed}"


def test_a_seed_is_one_story() -> None:
    first, second = simulate(3), simulate(3)

    assert (first.plan, first.steps, first.fates) == (second.plan, second.steps, second.fates)


@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each.name in QUICKLY_FOUND], ids=lambda each: each.name)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    assert find(mutant) is not None, mutant.wrong

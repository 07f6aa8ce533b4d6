"""A small part of the simulation of workflows; `python -m tests.simulation.workflows` runs as much as one likes."""

import pytest

from tests.simulation.flow_mutants import MUTANTS
from tests.simulation.mutants import Mutant
from tests.simulation.workflows import find, simulate

SEEDS = 2
QUICKLY_FOUND = ("journal later", "ends later", "messages kept", "signal sleeps", "children go on")
"""Planted bugs that one of the first seeds finds; CI looks for all of them."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_run_ends_as_its_journal_says(seed: int) -> None:
    report = simulate(seed)

    assert not report.violations, f"python -m tests.simulation.workflows --seed {seed}"


def test_a_seed_is_one_story() -> None:
    first, second = simulate(1, trace=True), simulate(1, trace=True)

    assert (first.plan, first.steps, first.digest) == (second.plan, second.steps, second.digest)


@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each.name in QUICKLY_FOUND], ids=lambda each: each.name)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    assert find(mutant) is not None, mutant.wrong

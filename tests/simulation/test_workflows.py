"""A small part of the simulation of workflows; `python -m tests.simulation.workflows` runs as much as one likes."""

import pytest

from tests.simulation.workflows import simulate

SEEDS = 2


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_run_ends_as_its_journal_says(seed: int) -> None:
    report = simulate(seed)

    assert not report.violations, f"python -m tests.simulation.workflows --seed {seed}"


def test_a_seed_is_one_story() -> None:
    first, second = simulate(1, trace=True), simulate(1, trace=True)

    assert (first.plan, first.steps, first.digest) == (second.plan, second.steps, second.digest)

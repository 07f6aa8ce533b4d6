"""A small part of the simulation of schedules; `python -m tests.simulation.schedules` runs as much as one likes."""

import pytest

from tests.simulation.schedules import simulate

SEEDS = 2


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_time_a_schedule_names_is_in_the_ledger_once(seed: int) -> None:
    report = simulate(seed)

    assert not report.violations, f"python -m tests.simulation.schedules --seed {seed}"


def test_a_seed_is_one_story() -> None:
    first, second = simulate(3), simulate(3)

    assert (first.plan, first.steps, first.fates) == (second.plan, second.steps, second.fates)

"""A small part of the simulation of schedules; `python -m tests.simulation.schedules` runs as much as one likes."""

from tests.simulation.schedules import simulate

SEED = 0


def test_every_time_a_schedule_names_is_in_the_ledger_once_and_a_seed_is_one_story() -> None:
    first, second = simulate(SEED), simulate(SEED)

    assert not first.violations, f"python -m tests.simulation.schedules --seed {SEED}"
    assert (first.plan, first.steps, first.fates) == (second.plan, second.steps, second.fates)

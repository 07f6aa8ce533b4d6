"""A small part of the simulation of workflows; `python -m tests.simulation.workflows` runs as much as one likes."""

from tests.simulation.workflows import simulate

SEED = 0


def test_every_run_ends_as_its_journal_says_and_a_seed_is_one_story() -> None:
    first, second = simulate(SEED, trace=True), simulate(SEED, trace=True)

    assert not first.violations, f"python -m tests.simulation.workflows --seed {SEED}"
    assert (first.plan, first.steps, first.digest) == (second.plan, second.steps, second.digest)

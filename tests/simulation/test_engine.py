"""The real engine in simulation: a sample of seeds holds every promise and replays exactly.

`python -m tests.simulation.run` does the same at length and searches for every planted bug.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.faults import plan_text
from tests.simulation.mutants import MUTANTS
from tests.simulation.scenario import simulate

SEEDS = 3


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What the engine logs under thousands of faults is of no use here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_promise_holds_under_faults(seed: int) -> None:
    """Nothing lost, nothing doubled, and everything ends once the faults stop."""
    report = simulate(seed)

    replay = f"python -m tests.simulation.run --seed {seed}"
    assert report.violations == (), f"{report.violations[0]}\n{replay}\nplan: {plan_text(report.plan)}"


def test_a_seed_and_its_faults_replay_exactly() -> None:
    """The same steps, the same history: drawn from the seed, or replayed from the faults that were drawn."""
    seed = 0
    first = simulate(seed, trace=True)

    assert simulate(seed, trace=True).digest == first.digest
    assert simulate(seed, plan=first.plan, trace=True).digest == first.digest


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_every_bug_can_be_planted(mutant: object) -> None:
    """The code that a mutant changes is still there."""
    with mutant.plant():  # type: ignore[attr-defined]
        pass

"""The real engine in simulation: a sample of seeds holds every promise, replays exactly, and finds planted bugs.

`python -m tests.simulation.run` does the same at length.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.faults import plan_text
from tests.simulation.mutants import MUTANTS
from tests.simulation.run import Regression, regressions
from tests.simulation.scenario import simulate

SEEDS_A_TEST = 5
BLOCKS = 4
SEEDS_FOR_A_REGRESSION = 60
FOUND_EARLY = {
    "no_fence": 25,
    "finish_outside": 5,
    "same_attempt": 5,
    "told_later": 5,
    "tenant_forgotten": 5,
}
"""Planted bugs that take few seeds: what a quick run looks for, and within how many. CI looks for all of them."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What the engine logs under thousands of faults is of no use here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_promise_holds_under_faults(block: int) -> None:
    """Nothing lost, nothing doubled, and everything ends once the faults stop."""
    for seed in range(block * SEEDS_A_TEST, (block + 1) * SEEDS_A_TEST):
        report = simulate(seed)
        replay = f"python -m tests.simulation.run --seed {seed}"
        assert report.violations == (), f"{report.violations[0]}\n{replay}\nplan: {plan_text(report.plan)}"


@pytest.mark.parametrize("seed", range(2))
def test_a_seed_and_its_faults_replay_exactly(seed: int) -> None:
    """The same steps, the same history: drawn from the seed, or replayed from the faults that were drawn."""
    first = simulate(seed, trace=True)

    assert simulate(seed, trace=True).digest == first.digest
    assert simulate(seed, plan=first.plan, trace=True).digest == first.digest


@pytest.mark.parametrize("old", tuple(regressions()), ids=lambda old: old.bug)
def test_what_failed_once_holds_and_would_be_found_again(old: Regression) -> None:
    """Every change of the engine changes what happens under a seed: so one of the seeds from there on must find it."""
    assert simulate(old.seed, plan=old.plan).violations == ()

    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == old.bug]
    with mutant.plant():
        again = simulate(old.seed, plan=old.plan).failure
        for seed in range(old.seed + 1, old.seed + SEEDS_FOR_A_REGRESSION):
            again = again or simulate(seed).failure

    assert again is not None


@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if mutant.name in FOUND_EARLY], ids=lambda m: m.name)
def test_a_planted_bug_is_found(mutant: object) -> None:
    """A simulation that cannot fail proves nothing."""
    found = None
    with mutant.plant():  # type: ignore[attr-defined]
        for seed in range(FOUND_EARLY[mutant.name]):  # type: ignore[attr-defined]
            found = found or simulate(seed).failure

    assert found is not None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_every_bug_can_be_planted(mutant: object) -> None:
    """The code that a mutant changes is still there."""
    with mutant.plant():  # type: ignore[attr-defined]
        pass

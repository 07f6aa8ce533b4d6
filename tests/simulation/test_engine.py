"""The real engine in simulation: a sample of seeds holds every promise and replays exactly.

`python -m tests.simulation.run` does the same at length and searches for every planted bug.
"""

import logging
from collections.abc import Iterator

import pytest

from evertick.engine.jobs.claims import Claims
from tests.simulation import flow_mutants, schedule_mutants
from tests.simulation.faults import plan_text
from tests.simulation.mutants import MUTANTS, Mutant, swap
from tests.simulation.planted import search
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


@pytest.mark.parametrize("mutant", (*MUTANTS, *schedule_mutants.MUTANTS, *flow_mutants.MUTANTS), ids=lambda m: m.name)
def test_every_bug_can_be_planted(mutant: Mutant) -> None:
    """The code that a mutant changes is still there, and takes the same arguments."""
    with mutant.plant():
        pass


def test_a_function_that_takes_other_arguments_is_no_bug_but_an_error() -> None:
    with pytest.raises(LookupError, match=r"the arguments of Claims\.\w+ have changed"):
        swap(Claims, "_promote", lambda self: 0)()


def test_errors_of_a_mutant_are_not_what_it_breaks() -> None:
    def raising(self: Claims, transaction: object, now: object) -> int:
        raise AttributeError("planted")

    verdict = search(Mutant("misfit", "raises", swap(Claims, "_promote", raising), seeds=(1,)), simulate, 0)

    assert not verdict.found
    assert "AttributeError: planted" in str(verdict)

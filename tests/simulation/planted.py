"""The search for a planted bug: first the seeds that found it last, then all seeds from 0 on.

A mutant patches code that changes under it. One that no longer fits raises errors of its own, which fail any seed and
find nothing: they are reported as an error of the mutant.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import click

from tests.simulation.mutants import Mutant

MISFITS: Final = (TypeError, AttributeError, NameError)
NAMES_OF_MISFITS: Final = re.compile(rf"\b({'|'.join(each.__name__ for each in MISFITS)})\b.*")


class Judged(Protocol):
    """The report of a run."""

    @property
    def violations(self) -> tuple[str, ...]:
        """The promises that were broken."""


Simulate = Callable[[int], Judged]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a search has led to: a seed that fails by the bug alone, or an error of the mutant, or nothing."""

    seed: int | None = None
    violation: str = ""
    error: str = ""

    @property
    def found(self) -> bool:
        """Did the simulation find the bug?"""
        return self.seed is not None and not self.error

    def __str__(self) -> str:
        if self.error:
            return f"ERROR: the mutant does not fit the code: {self.error}"
        return "NOT FOUND" if self.seed is None else f"seed {self.seed}: {self.violation}"


def search(mutant: Mutant, simulate: Simulate, seeds_max: int) -> Verdict:
    """The first seed that fails with the bug and holds without it."""
    for seed in dict.fromkeys((*mutant.seeds, *range(seeds_max))):
        with _misfits() as misfits, mutant.plant():
            violations = simulate(seed).violations
        misfits += [match[0] for each in violations if (match := NAMES_OF_MISFITS.search(each))]
        if misfits and not mutant.raises:
            return Verdict(seed, error=misfits[0][:200])
        if violations and not simulate(seed).violations:
            return Verdict(seed, violations[0].splitlines()[0][:120])
    return Verdict()


def search_all(mutants: Sequence[Mutant], where: Callable[[str], Verdict], jobs: int) -> int:
    """Search for every bug by name, in processes; prints each verdict and returns how many were not found."""
    with ProcessPoolExecutor(jobs) as pool:
        verdicts = pool.map(where, [mutant.name for mutant in mutants])
        missed = 0
        for mutant, verdict in zip(mutants, verdicts, strict=True):
            click.echo(f"planted bug {mutant.name!r} ({mutant.wrong}): {verdict}")
            missed += not verdict.found
    click.echo(f"{len(mutants) - missed} of {len(mutants)} planted bugs found")
    return missed


@contextmanager
def _misfits() -> Iterator[list[str]]:
    """Errors of Python code that the engine has caught and logged."""
    seen: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error: Any = record.exc_info[1] if record.exc_info else None
            if isinstance(error, MISFITS):
                seen.append(f"{type(error).__name__}: {error}")

    logger, collector, disabled = logging.getLogger("evertick"), Collector(), logging.root.manager.disable
    logging.disable(logging.NOTSET)
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(collector)
    try:
        yield seen
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagates
        logging.disable(disabled)

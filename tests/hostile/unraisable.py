"""Unraisable errors: what finalisers raise. Python prints each; here the expected ones are counted, others are faults.

Programs leave generators behind that write when they are collected. Evertick refuses that write, and Python reports the
refusal with a traceback: hundreds in a run, which would hide everything else in a log.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any, Final

from evertick.base.errors import Misuse
from evertick.base.time_limit import FunctionTimeout
from tests.hostile import programs

ENDED: Final = "this function has ended"


@dataclass(slots=True)
class Unraised:
    """What finalisers raised during a run."""

    expected: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


@contextmanager
def collecting_unraisable() -> Iterator[Unraised]:
    """Keep what finalisers raise instead of printing it."""
    found = Unraised()

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        error = unraisable.exc_value
        if _is_refused_write(unraisable.object, error):
            found.expected["refused writes of collected generators"] += 1
        elif isinstance(error, FunctionTimeout):  # a finaliser runs in the time of the function that it interrupts
            found.expected["time limits that struck a finaliser"] += 1
        else:
            found.faults.append(f"unraisable {type(error).__name__}: {error!s:.200} in {unraisable.object!r:.200}")

    before, sys.unraisablehook = sys.unraisablehook, hook
    try:
        yield found
    finally:
        sys.unraisablehook = before


def _is_refused_write(source: Any, error: BaseException | None) -> bool:
    of_programs = isinstance(source, GeneratorType) and source.gi_code.co_filename == programs.__file__
    return of_programs and isinstance(error, Misuse) and ENDED in str(error)

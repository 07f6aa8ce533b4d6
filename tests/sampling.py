"""A part of the cases in `make test`, and all of them in `make test-long`.

For tables and random examples that ask the same question of other values.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import pytest
from hypothesis import settings

Test = TypeVar("Test", bound=Callable[..., object])

DEPTH: Final = os.environ.get("EVERTICK_TEST_DEPTH", "")
ALL_EXAMPLES: Final = DEPTH in ("all", "full")
"""Set by `make test-long`."""
FULL_DEPTH: Final = DEPTH == "full"
"""Far more than CI runs: for a change of how times are computed."""
EXAMPLES_PART: Final = 6


def one_in(number: int, cases: Iterable[Any]) -> list[Any]:
    """The cases, all but one in `number` marked as long. A tuple holds the values of several parameters."""
    return [
        case
        if n % number == 0
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
        for n, case in enumerate(cases)
    ]


def examples(number: int, **options: Any) -> Callable[[Test], Test]:
    """Let Hypothesis draw so many examples, or a few of them in `make test`."""
    drawn = number if ALL_EXAMPLES else max(10, number // EXAMPLES_PART)

    def decorate(test: Test) -> Test:
        return pytest.mark.random(settings(max_examples=drawn, **options)(test))  # type: ignore[no-any-return]

    return decorate


def _long(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)

"""Which test covers which fact."""

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

COVERED: dict[str, str] = {}
"""Fact to the test that covers it."""


def fact(*ids: str) -> Callable[[F], F]:
    """This test covers these facts."""

    def note(test: F) -> F:
        for fact_id in ids:
            COVERED[fact_id] = test.__name__
        return test

    return note

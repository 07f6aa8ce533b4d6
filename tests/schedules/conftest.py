"""Apps on both databases, under a clock that the test sets."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from evertick import App
from evertick.base.instants import Instant


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.at = Instant(1_767_225_600_000)  # 2026-01-01T00:00:00Z

    def now(self) -> Instant:
        """The present."""
        return self.at

    def advance(self, duration: timedelta) -> None:
        """Let time pass."""
        self.at = Instant(self.at + duration // timedelta(milliseconds=1))


@pytest.fixture
def clock() -> SetClock:
    """The clock of the apps."""
    return SetClock()


@pytest.fixture
def open_app(database_url: str, clock: SetClock) -> Iterator[Callable[..., App]]:
    """Makes apps on the database, and closes them."""
    made: list[App] = []

    def open_one(name: str = "test", **options: Any) -> App:
        made.append(App(name, database_url=database_url, clock=clock, **options))
        return made[-1]

    yield open_one
    for app in made:
        app.close()

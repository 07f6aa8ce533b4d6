"""Apps on both databases, under a clock that the test sets."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evertick import App
from evertick.base.instants import Instant
from evertick.store.open import open_store
from tests.app.conftest import emptied


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


@pytest.fixture(scope="module")
def migrated_url(postgres_module_url: str) -> str:
    """A PostgreSQL database with the schema, which the tests of a module share one after another."""
    store = open_store(postgres_module_url)
    store.migrate()
    store.close()
    return postgres_module_url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database, of each kind."""
    if request.param == "sqlite":
        tmp_path: Path = request.getfixturevalue("tmp_path")
        return f"sqlite:///{tmp_path}/evertick.db"
    return emptied(request.getfixturevalue("migrated_url"))


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

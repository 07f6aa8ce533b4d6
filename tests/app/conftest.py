"""Apps on both databases: a SQLite file, and PostgreSQL."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evertick import App
from tests.postgres import emptied

OpenApp = Callable[..., App]


@pytest.fixture
def open_app(database_url: str) -> Iterator[OpenApp]:
    """Makes apps on the database, and closes them."""
    yield from _apps_at(database_url)


@pytest.fixture
def open_postgres_app(migrated_postgres_url: str) -> Iterator[OpenApp]:
    """The same on PostgreSQL alone: for what several workers do."""
    yield from _apps_at(emptied(migrated_postgres_url))


def _apps_at(url: str) -> Iterator[OpenApp]:
    made: list[App] = []

    def open_one(name: str = "test", **options: Any) -> App:
        made.append(App(name, database_url=url, **options))
        return made[-1]

    yield open_one
    for app in made:
        app.close()

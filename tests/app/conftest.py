"""Apps on both databases: a SQLite file, and PostgreSQL."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evertick import App

OpenApp = Callable[..., App]


@pytest.fixture
def open_app(database_url: str) -> Iterator[OpenApp]:
    """Makes apps on the database, and closes them."""
    made: list[App] = []

    def open_one(name: str = "test", **options: Any) -> App:
        made.append(App(name, database_url=database_url, **options))
        return made[-1]

    yield open_one
    for app in made:
        app.close()

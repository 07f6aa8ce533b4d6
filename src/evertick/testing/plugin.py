"""The pytest plugin: fixtures that open simulated worlds, and close them at the end of the test.

    def test_a_message_destroys_itself(world):
        w = world(app, at="2026-03-29T00:59:58Z")
        message_id = w.call(send_expiring_message, "hello", "ada")
        w.advance(5)
        assert w.get(message_id) is None

`evertick_world` is a world of the app in the ini option `evertick_app` (`shop.jobs:app`), or in the marker
`@pytest.mark.evertick(app=..., at=..., seed=..., settings=..., crons=...)`, whose other arguments are those of `World`.

pytest imports this file in every run, so it imports Evertick only when a test uses a fixture.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from evertick.app.app import App
    from evertick.testing.world import World

OPTION: Final = "evertick_app"
MARKER: Final = "evertick"
MARKED: Final = ("app", "at", "seed", "settings", "crons")
"""The arguments of the marker."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option."""
    parser.addini(OPTION, "The app of the fixture evertick_world, as module:variable.", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    takes = ", ".join(f"{name}=..." for name in MARKED)
    text = f"evertick({takes}): the app of the fixture evertick_world, and its world"
    config.addinivalue_line("markers", text)


@pytest.fixture
def world() -> "Iterator[Callable[..., World]]":
    """Opens worlds: `world(app, at=..., seed=..., settings=..., crons=...)`; see `evertick.testing.World`."""
    from evertick.testing.world import World

    opened: list[World] = []

    def open_world(app: "App", **options: Any) -> World:
        opened.append(World(app, **options))
        return opened[-1]

    yield open_world
    for one in reversed(opened):
        one.close()


@pytest.fixture
def evertick_app(request: pytest.FixtureRequest) -> "App":
    """The app under test: from the marker `evertick`, else from the ini option `evertick_app`. Can be overridden."""
    return _app_at(_marked(request).get("app") or request.config.getini(OPTION))


@pytest.fixture
def evertick_world(request: pytest.FixtureRequest, evertick_app: "App") -> "Iterator[World]":
    """A world of the app under test, closed at the end of the test."""
    from evertick.testing.world import World

    options = {name: value for name, value in _marked(request).items() if name != "app"}
    with World(evertick_app, **options) as one:
        yield one


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments of a test's markers; the nearest marker takes precedence. Raises UsageError."""
    found: dict[str, Any] = {}
    for marker in request.node.iter_markers(MARKER):
        if marker.args or not marker.kwargs.keys() <= {*MARKED}:
            wrong = ", ".join([*map(repr, marker.args), *sorted(marker.kwargs.keys() - {*MARKED})])
            raise pytest.UsageError(
                f"the marker {MARKER} takes {', '.join(f'{name}=' for name in MARKED)}; not {wrong}"
            )
        found = {**marker.kwargs, **found}
    return found


def _app_at(place: "App | str") -> "App":
    """The app at `module:variable`, or the app itself. Raises UsageError with the fix."""
    from importlib import import_module

    from evertick.app.app import App

    if isinstance(place, App):
        return place
    module, _, variable = str(place).partition(":")
    if not module or not variable:
        wrong = f"{place!r} is not module:variable" if place else "there is no app for evertick_world"
        raise pytest.UsageError(f'{wrong}; write {OPTION} = "app:app" in [tool.pytest.ini_options], or mark the test')
    found = getattr(import_module(module), variable, None)
    if not isinstance(found, App):
        raise pytest.UsageError(f"{place} is not an App of Evertick, but {found!r}")
    return found

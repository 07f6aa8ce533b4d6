"""Saved views of a list: tabs next to its own views, and the parameters for saving the current view."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from starlette.requests import Request

from evertick.api.access import SavedView

PLACES: Final = {"schedules": "schedules", "jobs": "functions", "workflows": "workflows"}
"""The path of the page of each list."""
NEVER_KEPT: Final = frozenset({"cursor", "tz", "view"})


@dataclass(frozen=True, slots=True)
class SavedTabs:
    """The saved views of a list, the one that is shown, and the parameters that a new view would store."""

    list: str
    tabs: tuple[tuple[SavedView, str], ...]
    """The views, each with its address."""
    shown: SavedView | None
    params: Mapping[str, str]

    @property
    def text(self) -> str:
        """The parameters as text for a form."""
        return json.dumps(dict(self.params))


class _Page(Protocol):
    """The part of a page that is needed: its request, and how addresses are built."""

    request: Request

    def url(self, *parts: str, **query: Any) -> str: ...


def saved_tabs(
    page: _Page, name: str, views: Sequence[SavedView], usual: Mapping[str, str], own: Sequence[Mapping[str, str]] = ()
) -> SavedTabs:
    """The tabs of the saved `views` of a list. `usual` has the default values, which its address may omit.

    `own` are the built-in views of the list, which need not be saved.
    """
    asked = page.request.query_params
    given = {each: ",".join(filter(None, asked.getlist(each))) for each in asked if each not in NEVER_KEPT}
    params = {each: value for each, value in given.items() if value and usual.get(each) != value}
    shown = next((view for view in views if view.params == params), None)
    tabs = tuple((view, address_of(page, view)) for view in views)
    return SavedTabs(name, tabs, shown, {} if params in own else params)


def address_of(page: _Page, view: SavedView) -> str:
    """The address of a view."""
    return page.url(PLACES[view.page], **view.params)

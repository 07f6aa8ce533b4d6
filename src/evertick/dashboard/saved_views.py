"""Saved views of a list: tabs beside its own, and what leads to saving the view that is shown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from starlette.requests import Request

from evertick.api.access import SavedView

PLACES: Final = {"schedules": "schedules", "jobs": "functions", "workflows": "workflows"}
"""Where each list has its page."""
NEVER_KEPT: Final = frozenset({"cursor", "tz", "view"})


@dataclass(frozen=True, slots=True)
class SavedTabs:
    """The saved views of a list, the one that is shown, and the parameters that a new view would keep."""

    list: str
    tabs: tuple[tuple[SavedView, str], ...]
    """The views, each with its address."""
    shown: SavedView | None
    params: Mapping[str, str]

    @property
    def text(self) -> str:
        """The parameters as a form carries them."""
        return json.dumps(dict(self.params))


class _Page(Protocol):
    """What of a page is asked: its address, and how others are written."""

    request: Request

    def url(self, *parts: str, **query: Any) -> str: ...


def saved_tabs(
    page: _Page, name: str, views: Sequence[SavedView], usual: Mapping[str, str], own: Sequence[Mapping[str, str]] = ()
) -> SavedTabs:
    """The tabs of the saved `views` of a list. `usual` is what its address need not say, such as the usual order.

    `own` are the views that the list has by itself: there is no need to save these.
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

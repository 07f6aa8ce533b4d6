"""`client.views`, as requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evertick.api.views import SavedView
from evertick.client.calls import Call, given, part, sent


@dataclass(frozen=True, slots=True)
class ViewRequests:
    """What may be done with the saved views below `home`."""

    home: str

    def list(self, page: str) -> Call[Sequence[SavedView]]:
        """The views of a list (`schedules`, `jobs`, `workflows`) that the client's token sees, by name."""
        return Call(method="GET", path=f"{self.home}/views", query={"page": page}, read=_views)

    def create(self, page: str, name: str, params: Mapping[str, str], *, shared: bool = False) -> Call[SavedView]:
        """Save a view of a list. A shared one needs a token with the scope edit."""
        body = {"page": page, "name": name, "params": dict(params), "shared": shared}
        return Call(method="POST", path=f"{self.home}/views", body=body, read=SavedView.model_validate)

    def update(
        self,
        view_id: str,
        *,
        name: str | None = None,
        params: Mapping[str, str] | None = None,
        shared: bool | None = None,
    ) -> Call[SavedView]:
        """Change what is given of a view."""
        body = given({"name": name, "params": params, "shared": shared})
        return Call(method="PATCH", path=self._of(view_id), body=body, read=SavedView.model_validate)

    def delete(self, view_id: str) -> Call[SavedView]:
        """Remove a view; returns what it was."""
        return Call(method="DELETE", path=self._of(view_id), read=SavedView.model_validate)

    def _of(self, view_id: str) -> str:
        return f"{self.home}/views/{part(view_id)}"


class ViewOperations:
    """The operations of a surface."""

    create = sent(ViewRequests.create)
    update = sent(ViewRequests.update)
    delete = sent(ViewRequests.delete)
    list = sent(ViewRequests.list)


def _views(found: Any) -> Sequence[SavedView]:
    return tuple(SavedView.model_validate(each) for each in found)

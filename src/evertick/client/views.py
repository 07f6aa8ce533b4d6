"""`client.views`, as requests."""

from collections.abc import Mapping, Sequence

from evertick.api.access import SavedView
from evertick.client.calls import Call, Requests, given, part, sent


class ViewRequests(Requests):
    """What may be done with the saved views below `home`."""

    @sent
    def list(self, page: str) -> Call[Sequence[SavedView]]:
        """The views of a list (`schedules`, `jobs`, `workflows`) that the client's token sees, by name."""
        return self._get(f"{self._home}/views", tuple[SavedView, ...], {"page": page})

    @sent
    def create(self, page: str, name: str, params: Mapping[str, str], *, shared: bool = False) -> Call[SavedView]:
        """Save a view of a list. A shared one needs a token with the scope edit."""
        body = {"page": page, "name": name, "params": dict(params), "shared": shared}
        return self._post(f"{self._home}/views", SavedView, body)

    @sent
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

    @sent
    def delete(self, view_id: str) -> Call[SavedView]:
        """Remove a view; returns what it was."""
        return Call(method="DELETE", path=self._of(view_id), read=SavedView.model_validate)

    def _of(self, view_id: str) -> str:
        return f"{self._home}/views/{part(view_id)}"

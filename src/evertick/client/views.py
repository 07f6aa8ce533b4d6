"""`client.views`, as requests."""

from collections.abc import Mapping, Sequence

from evertick.api.access import SavedView
from evertick.client.calls import Call, Requests, given, part, sent


class ViewRequests(Requests):
    """Requests about the saved views of the tenant at `home`."""

    @sent
    def list(self, page: str) -> Call[Sequence[SavedView]]:
        """The views of a list (`schedules`, `jobs` or `workflows`) that are visible to the client's token, by name."""
        return self._get(f"{self._home}/views", tuple[SavedView, ...], {"page": page})

    @sent
    def create(self, page: str, name: str, params: Mapping[str, str], *, shared: bool = False) -> Call[SavedView]:
        """Save a view of a list (`schedules`, `jobs` or `workflows`). With `shared`, every token of the tenant sees it;
        this needs a token with the scope edit.
        """
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
        """Change the name, the parameters, or who sees a view; None leaves them unchanged."""
        body = given({"name": name, "params": params, "shared": shared})
        return Call(method="PATCH", path=self._of(view_id), body=body, read=SavedView.model_validate)

    @sent
    def delete(self, view_id: str) -> Call[SavedView]:
        """Remove a view; returns the removed view."""
        return Call(method="DELETE", path=self._of(view_id), read=SavedView.model_validate)

    def _of(self, view_id: str) -> str:
        return f"{self._home}/views/{part(view_id)}"

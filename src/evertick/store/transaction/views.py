"""Saved views, over SQL."""

from evertick.base.ids import TenantId
from evertick.base.records.views import SavedViewRow
from evertick.store.transaction.driver import Driver


class SqlViews(Driver):
    """The contract `SavedViews`."""

    def list_views(self, tenant: TenantId, page: str, owner: str, *, limit: int) -> list[SavedViewRow]:
        params = {"tenant": tenant, "page": page, "owner": owner, "limit": limit}
        return [SavedViewRow(*row) for row in self._fetch("list_views", params)]

    def get_view(self, view_id: str, *, tenant: TenantId) -> SavedViewRow | None:
        rows = self._fetch("get_view", {"id": view_id, "tenant": tenant})
        return SavedViewRow(*rows[0]) if rows else None

    def find_view(self, tenant: TenantId, page: str, owner: str, name: str) -> SavedViewRow | None:
        rows = self._fetch("find_view", {"tenant": tenant, "page": page, "owner": owner, "name": name})
        return SavedViewRow(*rows[0]) if rows else None

    def save_view(self, view: SavedViewRow) -> None:
        self._run("save_view", view._asdict())

    def delete_view(self, view_id: str, *, tenant: TenantId) -> None:
        self._run("delete_view", {"id": view_id, "tenant": tenant})

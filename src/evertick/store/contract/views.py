"""The contract for views of lists that people have saved."""

from typing import Protocol

from evertick.base.ids import TenantId
from evertick.base.records.views import SavedViewRow


class SavedViews(Protocol):
    """What a transaction can do with saved views."""

    def list_views(self, tenant: TenantId, page: str, owner: str, *, limit: int) -> list[SavedViewRow]:
        """The views of a list that an owner sees, shared ones among them, by name."""
        ...

    def get_view(self, view_id: str, *, tenant: TenantId) -> SavedViewRow | None:
        """A view by its id."""
        ...

    def find_view(self, tenant: TenantId, page: str, owner: str, name: str) -> SavedViewRow | None:
        """The view of an owner that is called so."""
        ...

    def save_view(self, view: SavedViewRow) -> None:
        """Keep a new view, or what an old one is now."""
        ...

    def delete_view(self, view_id: str, *, tenant: TenantId) -> None:
        """Remove a view."""
        ...

    def hand_on_views(self, owner: str, *, to: str) -> None:
        """Make all views of an owner, in every tenant, those of one that has none yet."""
        ...

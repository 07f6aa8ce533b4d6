"""Tokens, the audit log and saved views, over SQL."""

from typing import Final

from evertick.base.ids import AUDIT_PREFIX, TenantId, first_id_from
from evertick.base.instants import Instant
from evertick.base.records.access import AccessToken, AuditLine, SavedViewRow, Scope
from evertick.store.transaction.statement_runner import Driver, Row

AFTER_ALL: Final = "~"


class Access(Driver):
    """Tokens, and the audit log."""

    def add_token(self, token: AccessToken) -> None:
        """Store a new token."""
        self._run("add_token", {**token._asdict(), "scope": token.scope.value})

    def get_token(self, token_id: str) -> AccessToken | None:
        """A token by its id, revoked or not."""
        rows = self._fetch("get_token", {"id": token_id})
        return _token(rows[0]) if rows else None

    def list_tokens(self, tenant: TenantId | None, *, after: str, limit: int) -> list[AccessToken]:
        """The tokens of a tenant, or with None every token, from the id `after` on, by id."""
        which = "list_tokens" if tenant is not None else "list_every_token"
        params = {"after": after, "limit": limit} | ({} if tenant is None else {"tenant": tenant})
        return [_token(row) for row in self._fetch(which, params)]

    def has_token_of_all_tenants(self) -> bool:
        """Whether a token of all tenants was ever made, revoked or not."""
        return bool(self._fetch("token_of_all_tenants", {}))

    def revoke_token(self, token_id: str, *, now: Instant) -> bool:
        """Revoke a token. Return whether it was not revoked before."""
        return self._run("revoke_token", {"id": token_id, "now": now}) > 0

    def use_token(self, token_id: str, *, now: Instant) -> None:
        """Store when a token was last used."""
        self._run("use_token", {"id": token_id, "now": now})

    def add_audit(self, line: AuditLine) -> None:
        """Add a line to the log."""
        self._run("add_audit", line._asdict())

    def list_audit(self, tenant: TenantId | None, *, before: str, limit: int) -> list[AuditLine]:
        """Audit lines below the id `before`, newest first: those of a tenant, or with None all of them."""
        params = {"before": before or AFTER_ALL, "limit": limit}
        if tenant is None:
            return [AuditLine(*row) for row in self._fetch("list_audit", params)]
        return [AuditLine(*row) for row in self._fetch("list_tenant_audit", params | {"tenant": tenant})]

    def prune_audit(self, *, before: Instant, limit: int) -> int:
        """Remove at most `limit` lines that were written before an instant. Return how many."""
        return self._run("prune_audit", {"before": first_id_from(AUDIT_PREFIX, before), "limit": limit})


class Views(Driver):
    """Views of lists that people have saved."""

    def list_views(self, tenant: TenantId, page: str, owner: str, *, limit: int) -> list[SavedViewRow]:
        """The views of a list that an owner sees, shared ones among them, by name."""
        params = {"tenant": tenant, "page": page, "owner": owner, "limit": limit}
        return [SavedViewRow(*row) for row in self._fetch("list_views", params)]

    def get_view(self, view_id: str, *, tenant: TenantId) -> SavedViewRow | None:
        """A view by its id; None if there is none."""
        rows = self._fetch("get_view", {"id": view_id, "tenant": tenant})
        return SavedViewRow(*rows[0]) if rows else None

    def find_view(self, tenant: TenantId, page: str, owner: str, name: str) -> SavedViewRow | None:
        """The view of an owner with a name; None if there is none."""
        rows = self._fetch("find_view", {"tenant": tenant, "page": page, "owner": owner, "name": name})
        return SavedViewRow(*rows[0]) if rows else None

    def save_view(self, view: SavedViewRow) -> None:
        """Write a view, new or changed."""
        self._run("save_view", view._asdict())

    def delete_view(self, view_id: str, *, tenant: TenantId) -> None:
        """Remove a view."""
        self._run("delete_view", {"id": view_id, "tenant": tenant})

    def transfer_views(self, owner: str, *, to: str) -> None:
        """Give all views of an owner, in every tenant, to another owner who has none yet."""
        self._run("transfer_views", {"owner": owner, "to": to})


def _token(row: Row) -> AccessToken:
    try:
        scope, digest = Scope(row[3]), row[4]
    except ValueError:
        # A scope of a newer release: the token can be listed and revoked, but without its digest it grants nothing.
        scope, digest = Scope.READ, ""
    return AccessToken._make((*row[:3], scope, digest, *row[5:]))

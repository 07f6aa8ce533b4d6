"""Tokens, the audit log and saved views, over SQL."""

from typing import Final

from evertick.base.ids import AUDIT_PREFIX, TenantId, first_id_from
from evertick.base.instants import Instant
from evertick.base.records.access import AccessToken, AuditLine, Scope
from evertick.base.records.views import SavedViewRow
from evertick.store.transaction.driver import Driver, Row

AFTER_ALL: Final = "~"


class SqlAccess(Driver):
    """The contract `AccessTokens`."""

    def add_token(self, token: AccessToken) -> None:
        self._run("add_token", {**token._asdict(), "scope": token.scope.value})

    def get_token(self, token_id: str) -> AccessToken | None:
        rows = self._fetch("get_token", {"id": token_id})
        return _token(rows[0]) if rows else None

    def list_tokens(self, tenant: TenantId | None, *, after: str, limit: int) -> list[AccessToken]:
        which = "list_tokens" if tenant is not None else "list_every_token"
        params = {"after": after, "limit": limit} | ({} if tenant is None else {"tenant": tenant})
        return [_token(row) for row in self._fetch(which, params)]

    def has_token_of_all_tenants(self) -> bool:
        return bool(self._fetch("token_of_all_tenants", {}))

    def revoke_token(self, token_id: str, *, now: Instant) -> bool:
        return self._run("revoke_token", {"id": token_id, "now": now}) > 0

    def use_token(self, token_id: str, *, now: Instant) -> None:
        self._run("use_token", {"id": token_id, "now": now})

    def add_audit(self, line: AuditLine) -> None:
        self._run("add_audit", line._asdict())

    def list_audit(self, tenant: TenantId | None, *, before: str, limit: int) -> list[AuditLine]:
        params = {"before": before or AFTER_ALL, "limit": limit}
        if tenant is None:
            return [AuditLine(*row) for row in self._fetch("list_audit", params)]
        return [AuditLine(*row) for row in self._fetch("list_tenant_audit", params | {"tenant": tenant})]

    def prune_audit(self, *, before: Instant, limit: int) -> int:
        return self._run("prune_audit", {"before": first_id_from(AUDIT_PREFIX, before), "limit": limit})


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

    def hand_on_views(self, owner: str, *, to: str) -> None:
        self._run("hand_on_views", {"owner": owner, "to": to})


def _token(row: Row) -> AccessToken:
    try:
        scope, digest = Scope(row[3]), row[4]
    except ValueError:
        # A scope of a newer release: the token is listed and can be revoked, and without its digest it opens nothing.
        scope, digest = Scope.READ, ""
    return AccessToken._make((*row[:3], scope, digest, *row[5:]))

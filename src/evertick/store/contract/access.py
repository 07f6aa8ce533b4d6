"""The contract for tokens of the HTTP API, and for the log of what was changed."""

from typing import Protocol

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.access import AccessToken, AuditLine


class AccessTokens(Protocol):
    """What a transaction can do with tokens, and with the audit log."""

    def add_token(self, token: AccessToken) -> None:
        """Keep a new token."""
        ...

    def get_token(self, token_id: str) -> AccessToken | None:
        """A token by its id, revoked or not."""
        ...

    def list_tokens(self, tenant: TenantId | None, *, after: str, limit: int) -> list[AccessToken]:
        """The tokens of a tenant, or with None every token, from the id `after` on, by id."""
        ...

    def has_token_of_all_tenants(self) -> bool:
        """Whether a token of all tenants was ever made, revoked or not."""
        ...

    def revoke_token(self, token_id: str, *, now: Instant) -> bool:
        """End a token. Returns whether it was not revoked before."""
        ...

    def use_token(self, token_id: str, *, now: Instant) -> None:
        """Note when a token was used last."""
        ...

    def add_audit(self, line: AuditLine) -> None:
        """Add a line to the log."""
        ...

    def list_audit(self, tenant: TenantId | None, *, before: str, limit: int) -> list[AuditLine]:
        """The lines below the id `before`, the newest first: of a tenant, or with None of all and of none."""
        ...

    def prune_audit(self, *, before: Instant, limit: int) -> int:
        """Remove at most `limit` lines that were written before an instant; returns how many."""
        ...

"""Rows of access tokens, of the audit log and of saved views."""

import re
from enum import StrEnum
from typing import Final, NamedTuple

from evertick.base.errors import Misuse
from evertick.base.ids import TenantId
from evertick.base.instants import Instant


class Scope(StrEnum):
    """The permissions of a token. Each scope includes those before it."""

    READ = "read"
    """Read everything."""
    OPERATE = "operate"
    """Act on existing things: cancel, retry, pause, resume, trigger, backfill, signal."""
    EDIT = "edit"
    """Create and change: schedules, new jobs and runs, calls of functions."""
    ADMIN = "admin"
    """Tokens, limits of tenants and pools, workflow types."""

    def includes(self, other: "Scope") -> bool:
        """Whether a token with this scope may do what `other` allows."""
        words = list(Scope)
        return words.index(self) >= words.index(other)


_TOKEN: Final = re.compile(r"[!-~]{1,1000}")


def authorization(token: str | None) -> dict[str, str]:
    """The header of requests with a token, without the spaces and line ends around it; none for None.

    Raises Misuse for a token that a header cannot have. The message does not contain the token.
    """
    if token is None:
        return {}
    if not isinstance(token, str) or not _TOKEN.fullmatch(token.strip()):
        raise Misuse("the token is empty, or has a space or another character that no token has")
    return {"Authorization": f"Bearer {token.strip()}"}


class AccessToken(NamedTuple):
    """A token of the HTTP API. `digest` is the SHA-256 of its secret, which is not stored."""

    id: str
    tenant: TenantId | None
    """The tenant whose data it reaches; None for all tenants and for data without a tenant."""
    name: str
    scope: Scope
    digest: str
    created_at: Instant
    created_by: str
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None


class AuditLine(NamedTuple):
    """A change: who made it, and the values before and after, as JSON text."""

    id: str
    tenant: TenantId | None
    at: Instant
    actor: str
    action: str
    target: str
    request: str
    before: str | None
    after: str | None


# -- Rows of saved views.


class SavedViewRow(NamedTuple):
    """A saved view of a list: `params` are filters, order and columns, as JSON text.

    `owner` is the id of the token that owns the view, empty for a view of the whole tenant.
    """

    id: str
    tenant: TenantId
    page: str
    name: str
    owner: str
    params: str
    created_by: str
    created_at: Instant
    updated_at: Instant

"""Rows about who may use the HTTP API, and about what was changed through it."""

from enum import StrEnum
from typing import NamedTuple

from evertick.base.ids import TenantId
from evertick.base.instants import Instant


class Scope(StrEnum):
    """What a token may do. Each includes those before it."""

    READ = "read"
    """Look at everything."""
    OPERATE = "operate"
    """Act on what there is: cancel, retry, pause, resume, trigger, backfill, signal."""
    EDIT = "edit"
    """Make and change: schedules, new jobs and runs, calls of functions."""
    ADMIN = "admin"
    """Tokens, limits of tenants and pools, workflow types."""

    def includes(self, other: "Scope") -> bool:
        """Whether a token with this scope may do what `other` allows."""
        words = list(Scope)
        return words.index(self) >= words.index(other)


class AccessToken(NamedTuple):
    """A token of the HTTP API. `digest` is the SHA-256 of its secret, which is kept nowhere."""

    id: str
    tenant: TenantId | None
    """Whose data it reaches; None for all tenants, and for what belongs to none."""
    name: str
    scope: Scope
    digest: str
    created_at: Instant
    created_by: str
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None


class AuditLine(NamedTuple):
    """Something that was changed: by whom, and what it was before and after, as JSON text."""

    id: str
    tenant: TenantId | None
    at: Instant
    actor: str
    action: str
    target: str
    request: str
    before: str | None
    after: str | None


# -- Rows of views that people have saved.


class SavedViewRow(NamedTuple):
    """A saved view of a list: `params` are filters, order and columns, as JSON text.

    `owner` is the id of the token whose view it is, empty for one that everybody of the tenant sees.
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

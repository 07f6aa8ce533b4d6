"""The schemas of tokens and of the audit log."""

from typing import Any, Self

from evertick.api.schema import Moment, Page, RowReading, Schema
from evertick.base.ids import TenantId
from evertick.base.instants import to_datetime, to_datetime_or_none
from evertick.base.records.access import AccessToken, AuditLine, SavedViewRow, Scope


class TokenView(Schema):
    """A token of the HTTP API, without its secret. The secret is not stored.

    `tenant` is None if the token is valid for all tenants. `expires_at` is None if the token does not expire.
    `revoked_at` is None if it was not revoked. `last_used_at` is accurate to one minute. It is None if the token was
    never used.
    """

    id: str
    name: str
    tenant: TenantId | None
    scope: Scope
    created_at: Moment
    created_by: str
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None

    @classmethod
    def of(cls, token: AccessToken) -> Self:
        """The view of a token's row."""
        return cls(**_shown(token))


class NewToken(TokenView):
    """A token that was just created. `secret` is what clients send. It cannot be displayed again."""

    secret: str

    @classmethod
    def with_secret(cls, token: AccessToken, secret: str) -> Self:
        """The view of a new token's row."""
        return cls(**_shown(token), secret=secret)


class TokenPage(Page):
    """A page of tokens. `cursor` continues the list; it is None on the last page."""

    tokens: tuple[TokenView, ...]
    cursor: str | None


class AuditView(Schema):
    """A change that was made over HTTP or with the command line: an entry of the audit log.

    `actor` is who made the change. `action` is the kind of change, such as `job.cancel`. `target` is the object that
    was changed. `before` and `after` are the object as the API shows it. `before` is None if the object was created,
    `after` is None if it was deleted. `request` is the id of the HTTP request. `unreadable` has one line for each
    column that this release cannot read: its name and the reason.
    """

    id: str
    at: Moment
    actor: str
    action: str
    target: str
    tenant: TenantId | None
    request: str
    before: Any
    after: Any
    unreadable: tuple[str, ...] = ()

    @classmethod
    def of(cls, line: AuditLine) -> Self:
        """The view of an entry of the audit log."""
        reading = RowReading()
        return cls(
            id=line.id,
            at=to_datetime(line.at),
            actor=line.actor,
            action=line.action,
            target=line.target,
            tenant=line.tenant,
            request=line.request,
            before=reading.any("before", line.before),
            after=reading.any("after", line.after),
            unreadable=reading.problems,
        )


class AuditPage(Page):
    """A page of the audit log. `cursor` continues the list; it is None on the last page."""

    changes: tuple[AuditView, ...]
    cursor: str | None


def _shown(token: AccessToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "tenant": token.tenant,
        "scope": token.scope,
        "created_at": to_datetime(token.created_at),
        "created_by": token.created_by,
        "expires_at": to_datetime_or_none(token.expires_at),
        "revoked_at": to_datetime_or_none(token.revoked_at),
        "last_used_at": to_datetime_or_none(token.last_used_at),
    }


# -- Schemas of views of lists that people have saved.


class SavedView(Schema):
    """A saved view of a list in the dashboard.

    `page` is the list: `schedules`, `jobs` or `workflows`. `params` are the filters, the order and the columns, as
    query parameters of the list's URL. If `shared` is True, everybody with access to the tenant sees the view. If it is
    False, only the token that created it does.
    """

    id: str
    page: str
    name: str
    shared: bool
    params: dict[str, str]
    created_by: str
    created: Moment
    updated: Moment

    @classmethod
    def of(cls, row: SavedViewRow) -> Self:
        """The view of a row."""
        return cls(
            id=row.id,
            page=row.page,
            name=row.name,
            shared=not row.owner,
            params={
                name: value
                for name, value in RowReading().object("params", row.params).items()
                if isinstance(value, str)
            },
            created_by=row.created_by,
            created=to_datetime(row.created_at),
            updated=to_datetime(row.updated_at),
        )

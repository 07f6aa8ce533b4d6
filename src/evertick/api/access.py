"""The schemas of tokens and of the audit log."""

from typing import Any, Self

from evertick.api.schema import Moment, Page, RowReading, Schema
from evertick.base.ids import TenantId
from evertick.base.instants import to_datetime, to_datetime_or_none
from evertick.base.records.access import AccessToken, AuditLine, SavedViewRow, Scope


class TokenView(Schema):
    """A token of the HTTP API, without its secret, which is kept nowhere.

    `tenant` is None for a token of all tenants. `expires_at` is None for one that does not expire. `last_used_at` is
    exact to a minute.
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
    """A token that was just made. `secret` is what a client sends; it is shown this once."""

    secret: str

    @classmethod
    def with_secret(cls, token: AccessToken, secret: str) -> Self:
        """The view of a new token's row."""
        return cls(**_shown(token), secret=secret)


class TokenPage(Page):
    """Tokens, and where the next page begins; `cursor` is None on the last one."""

    tokens: tuple[TokenView, ...]
    cursor: str | None


class AuditView(Schema):
    """Something that was changed over HTTP or on the command line.

    `actor` is who did it, `action` what was done (`job.cancel`), `target` to what. `before` and `after` are the thing
    as the API shows it; None where there was none, or will be none. `request` is the id of the HTTP request.
    `unreadable` says of each column that this release cannot read why.
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
        """The view of a line of the log."""
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
    """Lines of the audit log, and where the next page begins; `cursor` is None on the last one."""

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
    """A saved view of a list.

    `page` is the list: `schedules`, `jobs` or `workflows`. `params` are filters, order and columns, as the address of
    the list has them. Everybody of the tenant sees a view that is `shared`, others only the token that made them.
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

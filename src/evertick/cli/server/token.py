"""`evertick token ...`: tokens of the HTTP API. Imports no app."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.records.access import Scope
from evertick.cli.core.databases import named_tenant, source_options, token_tenant_option
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import OutputOptions, row_options, time_row_options
from evertick.cli.sessions.fleet import AnyFleet, open_fleet
from evertick.recurrence.parse.duration import parse_milliseconds

if TYPE_CHECKING:
    from evertick.api.access import NewToken

FIELDS: Final = ("id", "name", "tenant", "scope", "expires_at", "revoked_at", "last_used_at")


@click.group(cls=LazyGroup)
def token() -> None:
    """Tokens of the HTTP API (`evertick serve`): who may do what."""


@token.command("create")
@click.argument("name")
@click.option(
    "--scope", type=click.Choice([each.value for each in Scope]), default="read", show_default=True,
    help="What it may do; each includes those before it.",
)  # fmt: skip
@click.option(
    "--expires", default="90d", metavar="DURATION", show_default=True, help="After which it ends, or 'never'."
)
@source_options
@token_tenant_option
@row_options
def create_token(name: str, scope: str, expires: str, db: str | None, out: OutputOptions) -> None:
    """Make a token called NAME and print its secret, which is shown this once.

    With --tenant it reaches that tenant's data alone; without, that of all tenants.
    """
    lasts = None if expires == "never" else timedelta(milliseconds=parse_milliseconds(expires))
    with open_fleet(db) as fleet:
        if fleet.is_local:
            made = fleet.tokens.create(name, scope=scope, tenant=named_tenant(), expires_after=lasts)
        else:
            made = fleet.tokens.create(name, scope=scope, expires_after=lasts)
        _write_new(made, fleet, out)


@token.command("list")
@source_options
@token_tenant_option
@time_row_options
def list_tokens(db: str | None, out: OutputOptions) -> None:
    """List every token, or with --tenant those of one tenant; the oldest first."""
    from evertick.api.access import TokenView

    chosen = out.columns(TokenView.names() if out.is_data else FIELDS, FIELDS)
    with open_fleet(db) as fleet:
        found: list[TokenView] = []
        cursor = None
        of_tenant: Any = {"tenant": named_tenant()} if fleet.is_local else {}
        while True:
            page = fleet.tokens.list(limit=1_000, cursor=cursor, **of_tenant)
            found += page.tokens
            cursor = page.cursor
            if cursor is None:
                break
        now = fleet.now
    out.show_views(found, now, chosen)
    if not found and out.tells_of_nothing:
        click.echo("no tokens" if (tenant := named_tenant()) is None else f"no tokens of the tenant {tenant}", err=True)


@token.command("revoke")
@click.argument("token_id")
@source_options
@token_tenant_option
@row_options
def revoke_token(token_id: str, db: str | None, out: OutputOptions) -> None:
    """End the token TOKEN_ID at once."""
    from evertick.api.access import TokenView

    chosen = out.columns(TokenView.names() if out.is_data else FIELDS, FIELDS)
    with open_fleet(db) as fleet:
        view = fleet.tokens.revoke(token_id)
        out.show_view(view, fleet.now, chosen)


@token.command("rotate")
@click.argument("token_id")
@source_options
@token_tenant_option
@row_options
def rotate_token(token_id: str, db: str | None, out: OutputOptions) -> None:
    """Replace the token TOKEN_ID by a new one like it, and print its secret; the old one ends at once."""
    with open_fleet(db) as fleet:
        _write_new(fleet.tokens.rotate(token_id), fleet, out)


def _write_new(view: "NewToken", fleet: AnyFleet, out: OutputOptions) -> None:
    from evertick.api.access import NewToken

    fields = ("secret", "id", "name", "tenant", "scope", "expires_at")
    chosen = out.columns(NewToken.names() if out.is_data else fields, fields)
    out.show_view(view, fleet.now, chosen)
    click.echo("note: the secret is shown this once; keep it where others cannot read it", err=True)

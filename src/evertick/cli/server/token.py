"""`evertick token ...`: tokens of the HTTP API. Imports no app."""

import contextlib
import getpass
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import click

from evertick.api.access import NewToken, TokenView
from evertick.app.access_control.tokens import TokenOperations
from evertick.app.simulation import clock_of
from evertick.base.ids import IdMaker, system_entropy
from evertick.base.records.access import Scope
from evertick.cli.core.databases import db_option, named_tenant, now_of, open_database, tenants_option
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import OutputOptions, row_options, time_row_options, words_of
from evertick.recurrence.parse.duration import parse_milliseconds
from evertick.store.contract.store import Store

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
@db_option
@tenants_option
@row_options
def create_token(name: str, scope: str, expires: str, db: str | None, out: OutputOptions) -> None:
    """Make a token called NAME and print its secret, which is shown this once.

    With --tenant it reaches that tenant's data alone; without, that of all tenants.
    """
    lasts = None if expires == "never" else timedelta(milliseconds=parse_milliseconds(expires))
    with _opened(db) as (store, operations):
        work = operations.create(name, scope=scope, tenant=named_tenant(), expires_after=lasts)
        _write_new(store.write(work), store, out)


@token.command("list")
@db_option
@tenants_option
@time_row_options
def list_tokens(db: str | None, out: OutputOptions) -> None:
    """List the tokens of all tenants, or with --tenant those of one; the oldest first."""
    chosen = out.columns(TokenView.names() if out.is_data else FIELDS, FIELDS)
    with _opened(db) as (store, operations):
        found: list[TokenView] = []
        cursor = None
        while True:
            page = store.view(operations.list(tenant=named_tenant(), limit=1_000, cursor=cursor))
            found += page.tokens
            cursor = page.cursor
            if cursor is None:
                break
        moment = out.moments(now_of(store))
    out.write_rows([each.to_json() for each in found], [words_of(each, moment) for each in found], chosen)


@token.command("revoke")
@click.argument("token_id")
@db_option
@row_options
def revoke_token(token_id: str, db: str | None, out: OutputOptions) -> None:
    """End the token TOKEN_ID at once."""
    chosen = out.columns(TokenView.names() if out.is_data else FIELDS, FIELDS)
    with _opened(db) as (store, operations):
        view = store.write(operations.revoke(token_id))
        out.write_one(view.to_json(), words_of(view, out.moments(now_of(store))), chosen)


@token.command("rotate")
@click.argument("token_id")
@db_option
@row_options
def rotate_token(token_id: str, db: str | None, out: OutputOptions) -> None:
    """Replace the token TOKEN_ID by a new one like it, and print its secret; the old one ends at once."""
    with _opened(db) as (store, operations):
        _write_new(store.write(operations.rotate(token_id)), store, out)


@contextlib.contextmanager
def _opened(db: str | None) -> Iterator[tuple[Store, TokenOperations]]:
    with open_database(db) as store:
        ids = IdMaker(system_entropy())
        yield store, TokenOperations(actor=_user(), now=clock_of(store).now, make_id=ids.make)


def _write_new(view: NewToken, store: Store, out: OutputOptions) -> None:
    fields = ("secret", "id", "name", "tenant", "scope", "expires_at")
    chosen = out.columns(NewToken.names() if out.is_data else fields, fields)
    out.write_one(view.to_json(), words_of(view, out.moments(now_of(store))), chosen)
    click.echo("note: the secret is shown this once; keep it where others cannot read it", err=True)


def _user() -> str:
    """Who types the command."""
    try:
        return f"user {getpass.getuser()}"
    except (OSError, KeyError):
        return "command line"

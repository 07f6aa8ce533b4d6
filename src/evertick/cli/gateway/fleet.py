"""`evertick gateway list`, `get`, `join-token`, `rotate` and `remove`: what the platform knows of gateways."""

from typing import Final

import click

from evertick.cli.core.databases import data_options
from evertick.cli.core.flags import Number
from evertick.cli.core.output import OutputOptions, limit_option, output_option, row_options, time_row_options
from evertick.cli.gateway.session import open_gateways
from evertick.cli.sessions.base import say_nothing_found

LIST_FIELDS: Final = ("name", "health", "mode", "runtime", "last_seen_at", "crons_at", "reason")


@click.command("list")
@click.option("--after", metavar="NAME", default="", help="Begin beyond this name.")
@limit_option
@data_options
@time_row_options
def list_gateways(after: str, limit: int, db: str | None, out: OutputOptions) -> None:
    """List gateways by name: how they are, when they were last seen, and when the copy of their crons was current."""
    from evertick.api.gateway_fleet import GatewayView

    chosen = out.columns(GatewayView.names(), LIST_FIELDS)
    with open_gateways(db) as session:
        found = session.gateways.list(after=after, limit=limit)
        out.show_views(found, session.now, chosen)
        if not found and out.tells_of_nothing:
            say_nothing_found("gateways", session.store)


@click.command()
@click.argument("gateway", metavar="NAME")
@click.option("--now", "is_now", is_flag=True, help="Ask the gateway first: its health and its crons.")
@data_options
@row_options
def get(gateway: str, is_now: bool, db: str | None, out: OutputOptions) -> None:
    """Show a gateway: its health, its commands, and what it can do."""
    from evertick.api.gateway_fleet import GatewayView

    chosen = out.columns(GatewayView.names(), GatewayView.names())
    with open_gateways(db) as session:
        found = session.gateways.check(gateway) if is_now else session.gateways.get(gateway)
        out.show_view(found, session.now, chosen)


@click.command("join-token")
@click.argument("gateway", metavar="NAME")
@click.option(
    "--expires-in", type=Number(1, 2_592_000), default=3_600.0, show_default=True, metavar="SECONDS",
    help="How long it can be used.",
)  # fmt: skip
@data_options
@output_option
def join_token(gateway: str, expires_in: float, db: str | None, out: OutputOptions) -> None:
    """Make a token with which a gateway registers once under NAME. It is shown this once.

    Write it into the file that `join_token_file` in the gateway's configuration names.
    """
    with open_gateways(db) as session:
        made = session.gateways.join_token(gateway, expires_in=expires_in)
    out.say(made.token)
    out.write_view(made)


@click.command()
@click.argument("gateway", metavar="NAME")
@data_options
@output_option
def rotate(gateway: str, db: str | None, out: OutputOptions) -> None:
    """Make a gateway fetch a new secret and a new token with its next heartbeat."""
    with open_gateways(db) as session:
        session.gateways.rotate(gateway)
        found = session.gateways.get(gateway)
    out.write_view(found)
    out.say(f"{gateway} gets a new secret with its next heartbeat")


@click.command()
@click.argument("gateway", metavar="NAME")
@data_options
@output_option
def remove(gateway: str, db: str | None, out: OutputOptions) -> None:
    """Forget a gateway. It goes on with its crons by itself."""
    from evertick.api.gateway_fleet import RemovedGateway

    with open_gateways(db) as session:
        session.gateways.remove(gateway)
    out.write_view(RemovedGateway(name=gateway))
    out.say(f"{gateway} is forgotten; its process goes on with its crons")

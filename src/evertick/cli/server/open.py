"""`evertick open`: a page of a server's dashboard, in the browser or as an address."""

import webbrowser
from urllib.parse import quote

import click

from evertick.base.errors import Misuse
from evertick.base.ids import DEFAULT_TENANT
from evertick.cli.core.connections import Server, chosen_server, open_client, server_options
from evertick.cli.core.databases import named_tenant, tenant_option

PAGES = {"schedule": "schedules", "job": "jobs", "workflow": "workflows"}
"""The part of the address before the id, by the kind of object."""


@click.command("open")
@click.argument("what", type=click.Choice(tuple(PAGES)), required=False)
@click.argument("named_id", metavar="[ID]", required=False)
@click.option("--print", "only_prints", is_flag=True, help="Print the address; open nothing.")
@server_options
@tenant_option
def open_page(what: str | None, named_id: str | None, only_prints: bool) -> None:
    """Open the dashboard of a server in the browser: its overview, or the page of a schedule, job or run.

    The server is --url or --profile. Where no browser can be opened, the address is printed.
    """
    server = chosen_server()
    if server is None:
        raise Misuse("which server? give --url or --profile; `evertick dev` prints where its dashboard is")
    if what is not None and named_id is None:
        raise click.UsageError(f"which {what}? give its id; `evertick {what} list` shows them")
    url = f"{server.url.rstrip('/')}/t/{quote(_tenant(server), safe='')}"
    if what is not None:
        url += f"/{PAGES[what]}/{quote(named_id or '', safe='')}"
    if only_prints or not webbrowser.open(url):
        click.echo(url)
    else:
        click.echo(f"opened {url}", err=True)


def _tenant(server: Server) -> str:
    """The tenant to open: the given one, or else the one of the token."""
    named = named_tenant() or server.tenant
    if named is not None or server.token is None:
        return named or DEFAULT_TENANT
    with open_client(server, None) as client:
        return client.whoami().tenant or DEFAULT_TENANT

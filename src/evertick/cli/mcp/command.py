"""The command `evertick mcp`. stdout carries the protocol alone: what anything else prints there goes to stderr."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.errors import Misuse
from evertick.base.instants import Instant
from evertick.base.records.access import AccessToken, Scope, authorization
from evertick.cli.core.connections import Server, chosen_server
from evertick.cli.core.databases import actor, data_options, named_tenant
from evertick.cli.core.flags import not_empty
from evertick.cli.core.loading import FILE_DEFAULT
from evertick.cli.run import opened, refuse_app

if TYPE_CHECKING:
    import httpx2

SCOPES: Final = (Scope.READ, Scope.OPERATE, Scope.EDIT)
"""What an agent may be given. Tokens, limits and workflow types are left to people."""
DEFAULT: Final = ("schedules", "backfills", "jobs", "functions")
SUBJECTS: Final = (*DEFAULT, "workflows", "scripts", "gateways", "data", "insight", "tenants")
"""The subjects of the API (tags) of which there are tools."""


def _subjects(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    chosen = value.split(",")
    if unknown := [word for word in chosen if word not in SUBJECTS]:
        raise click.BadParameter(f"unknown subject {unknown[0]!r}; the subjects are {', '.join(SUBJECTS)}")
    return chosen


@click.command()
@click.option(
    "--scope", type=click.Choice([each.value for each in SCOPES]), default="read", show_default=True,
    help="What agents may do at most, whatever the token may.",
)  # fmt: skip
@click.option(
    "--tools", "subjects", default=",".join(DEFAULT), show_default=True, callback=_subjects, metavar="SUBJECTS",
    help=f"Of what there are tools: {', '.join(SUBJECTS)}.",
)  # fmt: skip
@click.option(
    "--app", "app_file", metavar="FILE", callback=not_empty, help="The app, if no server is named; app.py unless given."
)
@data_options
def mcp(scope: str, subjects: list[str], app_file: str | None, db: str | None) -> None:
    """Let an AI agent list, explain, create, change and run schedules and jobs.

    The agent starts this command and speaks the Model Context Protocol with it over stdin and stdout. It works on a
    server (--url or --profile), else on the database of an app.
    """
    import asyncio

    try:
        import evertick.cli.mcp.tools  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "httpx2", "mcp", "mcp_types", "starlette"):
            raise
        raise Misuse("agents need more libraries: pip install 'evertick[mcp]'") from None
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A thread waits for stdin, and nothing can wake it. A change under way is completed by the server, or undone.
        signal.signal(each, lambda *_: os._exit(0))
    requests, replies = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # code of the app must neither read requests nor write replies
    os.dup2(2, 1)
    server = chosen_server(db)
    with _client(server, app_file, db) as http:
        asyncio.run(_serve(http, Scope(scope), subjects, server, requests, replies))


@contextmanager
def _client(server: Server | None, app_file: str | None, db: str | None) -> "Iterator[httpx2.AsyncClient]":
    """An HTTP client for the server, or else for the API of the app in this process. Raises as `opened` does."""
    import httpx2

    from evertick.server.application import Server as Application

    if server is not None:
        refuse_app(app_file)
        yield httpx2.AsyncClient(base_url=server.url, headers=authorization(server.token))
        return
    agent = AccessToken("", None, f"agent {actor()}", Scope.EDIT, "", Instant(0), "")

    async def authorize(request: object) -> AccessToken:
        return agent

    with opened("", app_file or FILE_DEFAULT, db) as (app, _):
        local = httpx2.ASGITransport(Application(app, asks_tokens=False, authorize=authorize))
        yield httpx2.AsyncClient(base_url="http://localhost", transport=local)


async def _serve(
    http: "httpx2.AsyncClient",
    scope: Scope,
    subjects: list[str],
    server: Server | None,
    requests: int,
    replies: int,
) -> None:
    """Serve the protocol until stdin is closed. `requests` and `replies` are the original stdin and stdout."""
    import anyio
    from mcp.server.stdio import stdio_server

    from evertick.cli.mcp.tools import AgentLines, offered

    tenant = named_tenant() or (None if server is None else server.tenant)
    async with offered(http, scope, subjects, tenant) as (protocol, count):
        click.echo(f"{count} tools with the scope {scope} at most; an agent is expected at stdin", err=True)
        stdout = anyio.wrap_file(os.fdopen(replies, "w", encoding="utf-8"))
        # Bytes that are no text become lone surrogates, which are refused: functions must not be given other texts.
        lines: Any = AgentLines(anyio.wrap_file(os.fdopen(requests, encoding="utf-8", errors="surrogateescape")))
        try:
            async with stdio_server(stdin=lines, stdout=stdout) as (given, out):
                lines.replies = out
                await protocol.run(given, out, protocol.create_initialization_options())
        except* BrokenPipeError:  # the agent ended before it had its reply
            os.dup2(os.open(os.devnull, os.O_WRONLY), replies)  # what is still buffered is written at exit

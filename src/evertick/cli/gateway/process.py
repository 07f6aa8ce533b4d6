"""`evertick gateway run` and `evertick gateway check`: a gateway, and checks of one. Imports no app."""

import asyncio
import logging
from pathlib import Path
from typing import Final

import click

from evertick.base.errors import Misuse
from evertick.base.records.history import LEVELS
from evertick.cli.core.exits import Exit
from evertick.cli.core.output import OutputOptions, row_options

_logger: Final = logging.getLogger("evertick.cli")
STOP_S: Final = 40.0
"""How long what runs has to end."""
FIELDS: Final = ("check", "result", "detail")


@click.command()
@click.option(
    "--config", type=click.Path(path_type=Path, exists=True, dir_okay=False), default=Path("gateway.toml"),
    show_default=True, metavar="FILE", help="What the gateway is called, and what it may do.",
)  # fmt: skip
@click.option("--log-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def run(config: Path, log_format: str, log_level: str) -> int:
    """Run a gateway until asked to stop: its own crons, the API through which others add and run crons, and the
    connection to its platform, if the configuration names one.

    It needs no platform to run its crons. Logs go to stderr; SIGTERM, SIGHUP or Ctrl-C lets runs end.
    """
    from evertick.cli.core.logs import run_logged, set_up

    set_up(log_format, log_level)
    return run_logged("gateway", lambda: _run(config), log_format)


def _run(file: Path) -> int:
    from evertick.engine.runtime.stop_requests import StopRequests

    try:
        from evertick.gateway.process import gateway_of
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("fastapi", "starlette", "uvicorn", "httpx2"):
            raise
        raise Misuse("a gateway needs FastAPI, uvicorn and httpx2: pip install 'evertick[server,client]'") from None

    gateway = gateway_of(file)
    requests = StopRequests(lambda now: gateway.stop())

    async def serve() -> None:
        requests.begin(STOP_S)
        requests.handle_signals()
        await gateway.run()

    try:
        asyncio.run(serve())
    finally:
        requests.close()
    _logger.info("stopped")
    return Exit.INTERRUPTED if requests.count > 1 else Exit.OK


@click.command()
@click.argument("url")
@click.option(
    "--token-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=True, metavar="FILE",
    help="A file with the gateway's token.",
)  # fmt: skip
@click.option("--command", metavar="NAME", help="The gateway's command that the checks run; one without arguments.")
@row_options
def check(url: str, token_file: Path, command: str | None, out: OutputOptions) -> int:
    """Check that the gateway at URL does what the contract says.

    The checks add crons under keys that begin with conformance/, run them and remove them. Ends with 8 if one fails.
    """
    from evertick.api.gateways import GatewayAction, GatewayCheck
    from evertick.gateway.conformance import check_gateway
    from evertick.gateway.link import read_secret
    from evertick.gateway_client import HttpSend

    token = (read_secret(token_file) or "").strip()
    chosen = out.columns(GatewayCheck.names(), FIELDS)
    with HttpSend(url, token) as send, HttpSend(url) as without_token, HttpSend(url, f"{token}x") as wrong:
        action = None if command is None else GatewayAction(type="command", name=command)
        found = check_gateway(send, send_without_token=without_token, send_with_wrong_token=wrong, action=action)
    rows = [each.to_json() for each in found]
    out.write_rows(rows, rows, chosen)
    return Exit.NOT_FULFILLED if any(each.result == "failed" for each in found) else Exit.OK

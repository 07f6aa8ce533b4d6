"""`evertick serve`: the HTTP API of an app, and its dashboard. Logs to stderr; SIGTERM, SIGHUP and Ctrl-C end it."""

import ipaddress
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from evertick._version import __version__
from evertick.base.errors import Misuse
from evertick.base.instants import MILLISECOND
from evertick.base.records.access import Scope
from evertick.base.records.history import LEVELS
from evertick.cli.core.databases import db_option, open_on, require_file, shown_url
from evertick.cli.core.descriptors import descriptors_kept
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import flag, flags
from evertick.cli.core.loading import FILE_DEFAULT, load_app, parse_target

if TYPE_CHECKING:
    from evertick.app.app import App
    from evertick.app.embedded_worker import Running
    from evertick.engine.runtime.stop_requests import StopRequests
    from evertick.server.application import Server

_logger: Final = logging.getLogger("evertick.cli")


@dataclass(frozen=True, slots=True)
class ServeFlags:
    """The options for the address and the operation of a server."""

    host: str = flag("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
    port: int = flag(
        "--port", type=click.IntRange(0, 65_535), default=4400, show_default=True, help="0 takes a free one."
    )
    certificate: Path | None = flag(
        "--tls-certificate", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
        help="Serve HTTPS with this certificate and its --tls-key.",
    )  # fmt: skip
    key: Path | None = flag(
        "--tls-key", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
        help="The private key of the certificate.",
    )  # fmt: skip
    behind_proxy: bool = flag(
        "--behind-proxy", default=False,
        help="A proxy before it ends TLS; its X-Forwarded-For and X-Forwarded-Proto are believed.",
    )  # fmt: skip
    hosts: tuple[str, ...] = flag(
        "--allow-host", default=(), metavar="NAME",
        help="A name under which the server is called, in addition to localhost and --host; may be repeated.",
    )  # fmt: skip
    worker: bool = flag("--worker", default=False, help="Run the app's jobs, too, in this process.")
    log_format: str = flag("--log-format", type=click.Choice(("text", "json")), default="text", show_default=True)
    log_level: str = flag("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)

    def check(self) -> None:
        """Raise UsageError for options that contradict each other, or that would send secrets without encryption."""
        if (self.certificate is None) != (self.key is None):
            raise click.UsageError("--tls-certificate and --tls-key go together")
        if self.certificate is not None and self.key is not None:
            from evertick.server.process import check_pair

            try:
                check_pair(self.certificate, self.key)
            except Misuse as error:
                raise click.UsageError(f"--tls-certificate, --tls-key: {error}") from None
        if not _is_loopback(self.host) and self.certificate is None and not self.behind_proxy:
            raise click.UsageError(
                f"--host {self.host} can be reached from other machines, and tokens would travel in the clear: give "
                "--tls-certificate and --tls-key, or --behind-proxy if a proxy before it ends TLS"
            )


@click.command()
@click.argument("file", default=FILE_DEFAULT)
@db_option
@flags(ServeFlags, "flags")
def serve(file: str, db: str | None, flags: ServeFlags) -> int:
    """Serve the HTTP API and the dashboard of the app in FILE (app.py unless given) until asked to stop.

    A token is needed for all but /health and /ready; see `evertick token create`. If there is none for all tenants
    yet, one with the scope admin is made and printed at a terminal; a service, whose output is a log, only says so.
    `evertick migrate` creates the database. Jobs are run by `evertick worker`, or with --worker by this process.
    """
    from evertick.cli.core.logs import run_logged, set_up

    flags.check()
    set_up(flags.log_format, flags.log_level)
    return run_logged("server", lambda: _serve(file, db, flags), flags.log_format)


def _serve(file: str, db: str | None, flags: ServeFlags) -> int:
    from evertick.engine.runtime.event_loop import loop_of_its_own, program_frozen
    from evertick.server.process import listen
    from evertick.store.open import open_settled

    try:
        from evertick.dashboard.application import Dashboard
        from evertick.server.application import Server
        from evertick.server.limits import LOOPBACK, Limits
        from evertick.server.process import uvicorn_of
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("fastapi", "jinja2", "starlette", "uvicorn"):
            raise
        raise Misuse("the server needs FastAPI, Jinja and uvicorn: pip install 'evertick[server]'") from None
    app = load_app(parse_target(file)).app
    listening = listen(flags.host, flags.port)
    url = db or app.database_url
    require_file(url)
    store = open_settled(url)
    try:
        open_on(store, app)
        _first_token(app)
        names = [flags.host] if flags.host not in ("0.0.0.0", "::") else []  # noqa: S104  # those are no names
        hosts = [*LOOPBACK, *(f"[{name}]" if ":" in name else name for name in (*names, *flags.hosts))]
        running = app.running() if flags.worker else None
        served = Server(
            app,
            limits=Limits(hosts=hosts, behind_proxy=flags.behind_proxy),
            worker=None if running is None else lambda: running.worker_id,
        )
        served.show(Dashboard())
        tls = {"ssl_certfile": flags.certificate, "ssl_keyfile": flags.key}
        with descriptors_kept(store.url, listening.fileno()) as let_go:
            server = uvicorn_of(served, tls)
            requests = _requests(served, server, running, let_go)
            try:
                with program_frozen(), loop_of_its_own() as loop:
                    loop.run_until_complete(_run(served, server, listening, running, requests))
            finally:
                requests.close()
    finally:
        listening.close()
        app.close()
        store.close()
    _logger.info("stopped")
    return Exit.INTERRUPTED if requests.count > 1 else Exit.OK


def _requests(served: "Server", server: Any, running: "Running | None", let_go: Callable[[], None]) -> "StopRequests":
    """The handling of stop requests: the first lets running requests and actions end, the second interrupts them."""
    from evertick.app.embedded_worker import say_stopping
    from evertick.engine.runtime.stop_requests import StopRequests

    def stop(now: bool) -> None:
        let_go()  # uvicorn closes the socket
        server.should_exit = True
        server.force_exit = now
        served.hints.end()  # streams would keep it until they are cut off
        if running is not None:
            say_stopping(served.app.settings.drain // MILLISECOND, now=now)
            running.drain(now=now)

    return StopRequests(stop)


async def _run(
    served: "Server", server: Any, listening: socket.socket, running: "Running | None", requests: "StopRequests"
) -> None:
    from evertick.server.process import STOP_S

    app = served.app
    requests.begin(STOP_S if running is None else max(STOP_S, app.settings.drain.total_seconds()))
    requests.handle_signals()
    async with AsyncExitStack() as stack:
        if running is not None:
            await stack.enter_async_context(running)
        scheme = "https" if server.config.is_ssl else "http"
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        _logger.info(
            "evertick %s serves %s at %s://%s:%s", __version__, app.name, scheme, shown, port,
            extra={"app": app.name, "database": shown_url(app.environment.store.url)},
        )  # fmt: skip
        await stack.enter_async_context(served.syncing())
        await server.serve(sockets=[listening])


def _first_token(app: "App") -> None:
    """Create a token for all tenants if the database has none, and print it on a terminal.

    The output of a service goes to a log that others can read, so a service creates none; a command does.
    """
    tokens = app.tokens
    if tokens.read(lambda transaction: transaction.has_token_of_all_tenants()):
        return
    if not sys.stdout.isatty():
        _logger.warning(
            "there is no token of all tenants yet; make one at a terminal: evertick token create NAME --scope admin"
        )
    else:
        made = tokens.create("first start", scope=Scope.ADMIN)
        click.echo(
            f"There is no token of all tenants yet; this one may do everything, and is shown this once:\n{made.secret}"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

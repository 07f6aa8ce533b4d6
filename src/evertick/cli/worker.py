"""`evertick worker`: runs an app's jobs in production. No reload; logs to stderr; SIGTERM, SIGHUP and SIGINT drain."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final

import click

from evertick._version import __version__
from evertick.base.errors import Misuse
from evertick.base.escaping import printable
from evertick.base.records.history import LEVELS
from evertick.cli.core.databases import db_option, open_on, require_file, shown_url
from evertick.cli.core.descriptors import descriptors_kept
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import Number, flag, flags
from evertick.cli.core.loading import FILE_DEFAULT, load_app, parse_target

_logger: Final = logging.getLogger("evertick.cli")


class AddressType(click.ParamType[tuple[str, int]]):
    """An option value `[HOST:]PORT`; the default host is loopback."""

    name = "[HOST:]PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """The host and the port."""
        host, _, port = str(value).rpartition(":")
        if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
            self.fail(f"{printable(str(value))!r} is not [HOST:]PORT, such as 8081 or 0.0.0.0:8081", param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


@dataclass(frozen=True, slots=True)
class WorkerFlags:
    """The options of a worker."""

    pools: tuple[str, ...] = flag(
        "--pool", default=(), metavar="NAME",
        help="Run only the jobs of this pool; may be repeated.  [default: all pools]",
    )  # fmt: skip
    drain: float | None = flag(
        "--drain", type=Number(0), metavar="SECONDS", help="Time for running actions to end when stopping."
    )
    processes: int | None = flag(
        "--processes", type=click.IntRange(1), metavar="N",
        help="Run N worker processes, and another one for each that dies. Needs PostgreSQL.",
    )  # fmt: skip
    health: tuple[str, int] | None = flag(
        "--health-port", type=AddressType(),
        help="Serve GET /live, /ready and /metrics there, on loopback unless a host is given; with --processes on N "
        "ports.",
    )  # fmt: skip
    log_format: str = flag("--log-format", type=click.Choice(("text", "json")), default="text", show_default=True)
    log_level: str = flag("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
    supervised: int | None = flag("--supervised", hidden=True)

    def repeated(self, file: str, db: str | None) -> list[str]:
        """The command line of a child process, for several worker processes."""
        words = [file, "--log-format", self.log_format, "--log-level", self.log_level]
        words += [] if db is None else ["--db", db]
        for pool in self.pools:
            words += ["--pool", pool]
        return words + ([] if self.drain is None else ["--drain", str(self.drain)])


@click.command()
@click.argument("file", default=FILE_DEFAULT)
@db_option
@flags(WorkerFlags, "flags")
def worker(file: str, db: str | None, flags: WorkerFlags) -> int:
    """Run the jobs of the app in FILE (app.py unless given) until asked to stop.

    `evertick migrate` creates the database; a SQLite file is migrated here when this version needs it. SIGTERM, SIGHUP
    or Ctrl-C drains: nothing more is claimed, and running actions have --drain seconds to end; a second one ends at
    once.
    """
    from evertick.cli.core.logs import run_logged, set_up
    from evertick.cli.supervisor import Supervisor

    set_up(flags.log_format, flags.log_level)

    def work() -> int:
        if flags.processes is not None:
            return asyncio.run(Supervisor(flags.processes, flags.repeated(file, db), health=flags.health).run())
        return _work(file, db, flags)

    return run_logged("worker", work, flags.log_format)


def _work(file: str, db: str | None, flags: WorkerFlags) -> int:
    from evertick.app.embedded_worker import Stopper, close, serve, use_drain
    from evertick.app.functions.function import served_by
    from evertick.cli.core.health import HealthServer, WorkerHealth
    from evertick.cli.supervisor import Supervised
    from evertick.server.metrics_text import metrics_of
    from evertick.store.open import open_settled

    app = load_app(parse_target(file)).app
    drain_ms = use_drain(app, flags.drain)
    url = db or app.database_url
    require_file(url)
    store = open_settled(url)
    health: list[HealthServer] = []
    try:
        if flags.supervised is not None and store.single_engine:
            raise Misuse(
                f"--processes needs PostgreSQL: {shown_url(store.url)} is a SQLite file, which takes one worker"
            )
        open_on(store, app)
        metrics = None if flags.health is None else metrics_of(app)

        stopper = Stopper()

        def started() -> None:
            stopper.requests.handle_signals()
            if flags.health is not None:
                state = WorkerHealth(stopper, store)
                health.append(HealthServer(*flags.health, live=state.live, ready=state.ready, metrics=metrics))
            if flags.supervised is not None:
                Supervised(flags.supervised).runs(lambda: stopper.requests.ask("supervisor"))
            functions = len(served_by(app.functions))
            _logger.info(
                "evertick %s runs the jobs of %s", __version__, app.name,
                extra={"app": app.name, "database": shown_url(store.url), "functions": functions},
            )  # fmt: skip
            if not functions:
                _logger.warning(
                    "the app %s has no functions: import the modules that register them in its file", app.name
                )

        with descriptors_kept(store.url):
            at_once = serve(app, stopper, drain_ms=drain_ms, pools=flags.pools, started=started)
    finally:
        for server in health:
            server.close()
        close(app, store)
    _logger.info("stopped", extra=dict(sorted(app.counters.snapshot().items())))
    return Exit.INTERRUPTED if at_once else Exit.OK

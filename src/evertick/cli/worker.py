"""`evertick worker`: runs an app's jobs in production. No reload; logs to stderr; SIGTERM and SIGINT drain."""

import asyncio
import logging
import signal
from typing import Final

import click

from evertick._version import __version__
from evertick.app.simulation import simulation_of
from evertick.base.errors import EvertickError, Misuse
from evertick.cli.core.databases import db_option, shown_url
from evertick.cli.core.escaping import one_line
from evertick.cli.core.exits import Exit, exit_code_of
from evertick.cli.core.loading import FILE_DEFAULT, load_app, parse_target
from evertick.cli.core.logs import JobLog, set_up
from evertick.cli.core.serving import Stopper, close, once_per_keypress, serve, use_drain
from evertick.store.open import open_store

_logger: Final = logging.getLogger("evertick.cli")
LEVELS: Final = ("debug", "info", "warning", "error")


@click.command()
@click.argument("file", default=FILE_DEFAULT)
@db_option
@click.option(
    "--drain", type=click.FloatRange(0), metavar="SECONDS", help="Time for running actions to end when stopping."
)
@click.option("--log-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def worker(file: str, db: str | None, drain: float | None, log_format: str, log_level: str) -> int:
    """Run the jobs of the app in FILE (app.py unless given) until asked to stop.

    The database must be migrated: `evertick migrate` does it. SIGTERM or Ctrl-C drains: nothing more is claimed, and
    running actions have --drain seconds to end; a second one ends at once.
    """
    set_up(log_format, log_level)
    try:
        return _work(file, db, drain)
    except EvertickError as error:
        if log_format == "text":
            raise
        _logger.error("%s", one_line(str(error)), extra={"error": error.code})
        return exit_code_of(error)
    except Exception:
        _logger.exception("the worker ended by an unexpected error")
        return Exit.FAILED


def _work(file: str, db: str | None, drain: float | None) -> int:
    app = load_app(parse_target(file)).app
    drain_ms = use_drain(app, drain)
    store = open_store(db or app.database_url)
    try:
        store.check_schema()
        if simulation_of(store.url) is not None:
            raise Misuse(f"{shown_url(store.url)} is a simulation with a clock of its own; `evertick dev` continues it")
        app.open_on(store)
        app.counters.observers.append(JobLog())

        def started(stopper: Stopper) -> None:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, stopper.ask)
            loop.add_signal_handler(signal.SIGINT, once_per_keypress(stopper.ask))
            _logger.info(
                "evertick %s runs the jobs of %s", __version__, app.name,
                extra={"app": app.name, "database": shown_url(store.url), "functions": len(list(app.functions))},
            )  # fmt: skip

        at_once = asyncio.run(serve(app, drain_ms, started=started))
    finally:
        close(app, store)
    _logger.info("stopped", extra=dict(sorted(app.counters.snapshot().items())))
    return Exit.INTERRUPTED if at_once else Exit.OK

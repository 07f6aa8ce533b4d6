"""`--watch`: a list that is written again when something was committed, and at least every second, until Ctrl-C."""

import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from evertick.cli.core.change_waiter import ChangeWaiter
from evertick.cli.core.exits import Exit
from evertick.cli.core.output import OutputOptions, is_terminal
from evertick.store.contract.store import Store

EVERY_S: Final = 1.0
"""Relative times grow old by themselves."""
LEAST_S: Final = 0.2
"""A busy database commits more often than a person can read."""
_KEY: Final = "evertick.watch"
CLEAR: Final = "\x1b[H\x1b[2J"

Command = TypeVar("Command", bound=Callable[..., Any])


def watch_option(command: Command) -> Command:
    """`--watch`, which `refreshed` obeys."""
    return click.option(
        "--watch", is_flag=True, expose_value=False, callback=_keep,
        help="Write the list again when something has changed, until Ctrl-C.",
    )(command)  # fmt: skip


def _keep(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[_KEY] = value


def refreshed(store: Store, out: OutputOptions, write: Callable[[], None]) -> int:
    """Write once; with `--watch`, again and again. Returns the exit code.

    Raises UsageError for `--watch` with a form for programs.
    """
    if not click.get_current_context().meta.get(_KEY):
        write()
        return Exit.OK
    if out.output not in (None, "table"):
        raise click.UsageError(f"--watch writes for people; leave out -o {out.output}")
    with ChangeWaiter(store) as news:
        try:
            while True:
                if is_terminal(sys.stdout):
                    click.echo(CLEAR, nl=False)
                write()
                if not is_terminal(sys.stdout):
                    click.echo()  # an empty line ends each list
                time.sleep(LEAST_S)
                news.wait(EVERY_S - LEAST_S)
        except KeyboardInterrupt:
            return Exit.OK

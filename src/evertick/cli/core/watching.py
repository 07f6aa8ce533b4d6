"""`--watch`: a list that is written again until Ctrl-C: on a terminal when something was committed, and at least every
second; elsewhere only if it reads otherwise than before.
"""

import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from evertick.cli.core.change_waiter import ChangeWaiter
from evertick.cli.core.exits import Exit
from evertick.cli.core.output import OutputOptions, is_terminal

if TYPE_CHECKING:
    from evertick.store.store import Store

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


def refreshed(store: "Store | None", out: OutputOptions, write: Callable[[], int | None]) -> int:
    """Write once; with `--watch`, again and again, without a store every second. Returns the exit code.

    `write` may return one, which is that of what it has found.

    Raises UsageError for `--watch` with a form for programs.
    """
    if not click.get_current_context().meta.get(_KEY):
        return write() or Exit.OK
    if out.output not in (None, "table"):
        raise click.UsageError(f"--watch writes for people; leave out -o {out.output}")
    show = _shown_anew if is_terminal(sys.stdout) else _written_if_other()
    with ChangeWaiter(store, follows=True) as news:
        try:
            while True:
                show(write)
                time.sleep(LEAST_S)
                news.wait(EVERY_S - LEAST_S)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED


def _shown_anew(write: Callable[[], int | None]) -> None:
    click.echo(CLEAR, nl=False)
    write()


def _written_if_other() -> Callable[[Callable[[], int | None]], None]:
    """For files and pipes: writes what differs from what it wrote last, and an empty line after it."""
    last: tuple[str, str] | None = None

    def show(write: Callable[[], int | None]) -> None:
        nonlocal last
        with redirect_stdout(StringIO()) as data, redirect_stderr(StringIO()) as words:
            write()
        found = data.getvalue(), words.getvalue()
        if found != last:
            last = found
            click.echo(found[1], err=True, nl=False)
            click.echo(found[0])

    return show

"""`--watch`: a list that is written again until Ctrl-C: on a terminal when something was committed, and at least every
second; other output only if it has changed.
"""

import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from evertick.cli.core.exits import Exit
from evertick.cli.core.output import OutputOptions, is_terminal

if TYPE_CHECKING:
    from evertick.store.store import Store


# -- What wakes a command that waits: a hint that something was committed, Ctrl-C, or the time of the next poll.
#
# Ctrl-C is kept until the command waits again. Raised at any instruction, as Python does it, it could leave a lock of
# the store taken for ever, and the end of the program, which closes the store, would hang. A second Ctrl-C raises at
# once.
#
# The reader of standard output, such as `head`, may end while nothing is written, and only a write would fail. So a
# command that follows asks the pipe each time that it has waited.
#
# The hints stand in a SimpleQueue and no Event: a signal handler may put into it while the same thread gets.


class ChangeWaiter:
    """Waits for notifications of a store, and for Ctrl-C, inside a `with` block. Without a store only time ends a wait.

    `follows`: the command only writes to standard output, so it ends when the reader of that has ended.
    """

    def __init__(self, store: "Store | None", *, follows: bool = False) -> None:
        self._store = store
        self._follows = follows
        self._hints: SimpleQueue[object] = SimpleQueue()
        self._is_interrupted = False
        self._former_handler: Any = None

    def __enter__(self) -> Self:
        self._unlisten = None if self._store is None else self._store.listen(self._hints.put)
        if threading.current_thread() is threading.main_thread():
            self._former_handler = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unlisten is not None:
            self._unlisten()
        if self._former_handler is not None:
            signal.signal(signal.SIGINT, self._former_handler)

    def wait(self, seconds: float) -> None:
        """Return after a notification since the last call, or after so many seconds.

        Raises KeyboardInterrupt if Ctrl-C was pressed since the start of the block, and BrokenPipeError if the command
        `follows` and the reader of standard output has ended.
        """
        try:
            self._hints.get(timeout=seconds)
            while True:  # what has happened since is seen by the same poll
                self._hints.get_nowait()
        except Empty:
            pass
        if self._is_interrupted:
            raise KeyboardInterrupt
        if self._follows and _reader_is_gone():
            raise BrokenPipeError

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._is_interrupted:
            raise KeyboardInterrupt
        self._is_interrupted = True
        self._hints.put(None)


def _reader_is_gone() -> bool:
    """Whether standard output is a pipe whose reader has ended."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # closed, or no file
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


EVERY_S: Final = 1.0
"""Relative times grow old by themselves."""
LEAST_S: Final = 0.2
"""A busy database commits more often than a person can read."""
_KEY: Final = "evertick.watch"
CLEAR: Final = "\x1b[H\x1b[2J"

Command = TypeVar("Command", bound=Callable[..., Any])


def watch_option(command: Command) -> Command:
    """Add `--watch`, which `refreshed` reads."""
    return click.option(
        "--watch", is_flag=True, expose_value=False, callback=_keep,
        help="Write the list again when something has changed, until Ctrl-C.",
    )(command)  # fmt: skip


def _keep(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[_KEY] = value


def refreshed(store: "Store | None", out: OutputOptions, write: Callable[[], int | None]) -> int:
    """Call `write` once; with `--watch`, after each change, or every second without a store. Return the exit code.

    The exit code is what `write` returns; None means 0.

    Raises UsageError for `--watch` with a format for programs.
    """
    if not click.get_current_context().meta.get(_KEY):
        return write() or Exit.OK
    if out.output not in (None, "table"):
        raise click.UsageError(f"--watch writes for people; leave out -o {out.output}")
    show = _rewrite if is_terminal(sys.stdout) else _written_if_other()
    with ChangeWaiter(store, follows=True) as news:
        try:
            while True:
                show(write)
                time.sleep(LEAST_S)
                news.wait(EVERY_S - LEAST_S)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED


def _rewrite(write: Callable[[], int | None]) -> None:
    click.echo(CLEAR, nl=False)
    write()


def _written_if_other() -> Callable[[Callable[[], int | None]], None]:
    """A function for files and pipes that writes output only if it differs from the last one, and an empty line."""
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

"""Changes of many: their number is typed to confirm them, and a line on a terminal says how many are done.

Ctrl-C and errors leave that line behind.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self, TypeVar

import click

from evertick.base.errors import EvertickError
from evertick.cli.core.output import is_terminal

if TYPE_CHECKING:
    from evertick.store.store import Store

T = TypeVar("T")

CLEAR_LINE: Final = "\r\x1b[K"


class Line:
    """A line on a terminal that is rewritten again and again, and is removed at the end of its block.

    Where standard error is no terminal, nothing is written.
    """

    def __init__(self) -> None:
        self._is_shown = is_terminal(sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()

    def show(self, text: str) -> None:
        """Write a text in place of the one before."""
        if self._is_shown:
            click.echo(f"{CLEAR_LINE}{text}", nl=False, err=True)

    def wipe(self) -> None:
        """Leave the line empty, for what is to stand there."""
        self.show("")

    def over(self, things: Sequence[T], done: str) -> Iterator[T]:
        """The things one by one, saying how many are done: "12 of 500 schedules are done"."""
        for number, thing in enumerate(things, 1):
            yield thing
            self.show(f"{number:,} of {len(things):,} {done}")


def confirm_count(what: str, count: int) -> None:
    """Let a person type how many things `what` changes, such as "retry 4 jobs".

    Raises UsageError where no terminal can confirm it, Abort.
    """
    if not is_terminal(sys.stdin):
        raise click.UsageError(f"this would {what}; give --yes where no terminal can confirm it")
    if click.prompt(f"To {what}, type {count}", err=True) != str(count):
        raise click.Abort


@contextmanager
def counting(done: str, store: "Store | None") -> Iterator[Callable[[int], None]]:
    """Gives what is to be called with each count so far. `done` says what they are, such as "jobs are canceled".

    Without a store it is a server that works, which ends what it has begun.
    """
    line, so_far = Line(), 0

    def progress(count: int) -> None:
        nonlocal so_far
        so_far = count
        line.show(f"{count:,} {done}")

    def leave(words: str) -> None:
        line.wipe()
        click.echo(f"{so_far:,} {done}; {words}", err=True)

    try:
        yield progress
    except KeyboardInterrupt:
        # A thread may commit the page that it is at after this one has stopped to wait for it.
        leave(
            "the server ends its last request within a second or two"
            if store is None
            else "the others stay, but perhaps for those under way"
        )
        raise
    except EvertickError:
        if so_far:
            leave("the others may not be")
        raise
    finally:
        line.wipe()

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
    """A line on the terminal that is rewritten, and removed at the end of the `with` block.

    If standard error is not a terminal, nothing is written.
    """

    def __init__(self) -> None:
        self._is_shown = is_terminal(sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()

    def show(self, text: str) -> None:
        """Replace the text of the line."""
        if self._is_shown:
            click.echo(f"{CLEAR_LINE}{text}", nl=False, err=True)

    def wipe(self) -> None:
        """Clear the line, so that other output can use its place."""
        self.show("")

    def over(self, things: Sequence[T], done: str) -> Iterator[T]:
        """Iterate over the things, and show how many are done: "12 of 500 schedules are done"."""
        for number, thing in enumerate(things, 1):
            yield thing
            self.show(f"{number:,} of {len(things):,} {done}")


def confirm_count(what: str, count: int) -> None:
    """Let a person confirm a change by typing the number of changed things. `what` is such as "retry 4 jobs".

    Raises UsageError if no terminal can confirm it, Abort if the number is wrong.
    """
    if not is_terminal(sys.stdin):
        raise click.UsageError(f"this would {what}; give --yes where no terminal can confirm it")
    if click.prompt(f"To {what}, type {count}", err=True) != str(count):
        raise click.Abort


@contextmanager
def counting(done: str, store: "Store | None") -> Iterator[Callable[[int], None]]:
    """Yield a function that shows the count so far. `done` describes the counted things, such as "jobs are canceled".

    After Ctrl-C it writes how many are done. `store` is None if a server does the work: it completes its last request.
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

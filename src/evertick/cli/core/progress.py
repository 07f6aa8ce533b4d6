"""Changes of many: their number is typed to confirm them, and a line on a terminal says how many are done.

Ctrl-C and errors leave that line behind.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from evertick.base.errors import EvertickError
from evertick.cli.core.output import is_terminal

if TYPE_CHECKING:
    from evertick.store.contract.store import Store

LINE_ANEW: Final = "\r\x1b[K"


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
    is_shown, so_far = is_terminal(sys.stderr), 0

    def progress(count: int) -> None:
        nonlocal so_far
        so_far = count
        if is_shown:
            click.echo(f"{LINE_ANEW}{count:,} {done}", nl=False, err=True)

    def leave(words: str) -> None:
        click.echo(f"{LINE_ANEW if is_shown else ''}{so_far:,} {done}; {words}", err=True)

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
        if is_shown:
            click.echo(LINE_ANEW, nl=False, err=True)

"""Progress of changes of many: a line on a terminal with how many are done, which Ctrl-C and errors leave behind."""

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

"""What is wrong with the entries of files, told with their lines."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from evertick.base.errors import Misuse
from evertick.base.escaping import printable


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an entry."""

    where: str
    words: str


def write_problems(problems: Sequence[Problem]) -> None:
    """Write each problem as a line on stderr."""
    for each in problems:
        click.echo(f"{each.where}: {printable(each.words)}", err=True)


def refuse_problems(problems: Sequence[Problem]) -> None:
    """Raise Misuse if there are problems; they are written already."""
    if problems:
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        raise Misuse(f"{count} in what is to be applied; nothing was changed")

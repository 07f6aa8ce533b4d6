"""Reasons: why something is paused or goes on, as other people read it."""

import sys
from typing import Final

import click

from evertick.cli.core.output import is_terminal

reason_option: Final = click.option(
    "--reason", "--note", "reason", metavar="TEXT", help="Why; asked for at a terminal."
)


def asked_for(reason: str | None) -> str:
    """The given reason. If none was given, ask for one at a terminal."""
    if reason is None and is_terminal(sys.stdin):
        answer: str = click.prompt("Why", default="", show_default=False, err=True)
        return answer
    return reason or ""

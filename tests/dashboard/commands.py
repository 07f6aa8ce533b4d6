"""The lines of `evertick` that pages offer, as the command line reads them."""

import re
import shlex
from typing import Any, Final

import click
from bs4 import BeautifulSoup

from evertick.cli.root import root

ZONES: Final = re.compile(r'<datalist id="zones">.*?</datalist>', re.DOTALL)


def soup_of(html: str) -> BeautifulSoup:
    """A page as a tree, without the zones that are suggested for a field: they are half of what there is to read."""
    return BeautifulSoup(ZONES.sub("", html), "html.parser")


def commands_in(html: BeautifulSoup) -> list[str]:
    """The lines of `evertick` on a page. Each must be one that the command line understands."""
    lines = [line.get_text("") for line in html.select(".cli code")]
    for line in lines:
        parse(line)
    return lines


def parse(line: str) -> tuple[str, dict[str, Any]]:
    """What the command line reads of a line, without doing anything: the command, and what is given of its parameters.

    Raises click.UsageError.
    """
    first, *words = shlex.split(line)
    assert first == "evertick"
    command: click.Command = root
    context = click.Context(command, info_name="evertick")
    while isinstance(command, click.Group):
        command.parse_args(context, words)
        _, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, click.Context(found, info_name=found.name, parent=context)
    command.parse_args(context, words)
    is_given = click.core.ParameterSource.COMMANDLINE
    given = {name: each for name, each in context.params.items() if context.get_parameter_source(name) is is_given}
    if "--tenant" in words:
        given["tenant"] = words[words.index("--tenant") + 1]
    return context.command_path.removeprefix("evertick "), given

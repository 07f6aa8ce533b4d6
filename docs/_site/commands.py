"""The page of all commands with their flags, written from the click commands themselves."""

import re
from collections.abc import Iterator

import click

from evertick.cli.root import EPILOG, root

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|$#])")


def commands_page() -> str:
    """Every command as Markdown: what it does, its usage, its flags."""
    parts = [
        "# Every command and flag",
        "Generated from the program. [Command line](../guide/command-line.md) shows the commands at work.",
        _text(EPILOG),
    ]
    parts += [part for path, command in _walk(root, ("evertick",)) for part in _described(path, command)]
    return "\n\n".join(parts) + "\n"


def _walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and all below it, in the order of `--help`."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path[-1])
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            if member is None:
                raise LookupError(f"{' '.join(path)} lists {name}, which does not exist")
            yield from _walk(member, (*path, name))


def _described(path: tuple[str, ...], command: click.Command) -> Iterator[str]:
    """One command: a heading, its usage, what it does, its members, and its flags."""
    context = click.Context(command, info_name=path[-1], help_option_names=["-h", "--help"])
    yield f"{'#' * min(len(path) + 1, 4)} {' '.join(path)}"
    yield f"```text\n{' '.join([*path, *command.collect_usage_pieces(context)])}\n```"
    for paragraph in (command.help or "").replace("\b\n", "").split("\n\n"):
        yield _text(paragraph.strip())
    rows = [
        record
        for option in command.get_params(context)
        if isinstance(option, click.Option) and (record := option.get_help_record(context)) is not None
    ]
    yield "\n".join(["| flag | |", "|---|---|", *(f"| {_code(flag)} | {_text(words)} |" for flag, words in rows)])


def _code(text: str) -> str:
    """Text as it is typed, inside a table."""
    return "`" + text.replace("|", "\\|") + "`"


def _text(text: str) -> str:
    """Text in which no sign is Markdown."""
    return _MARKUP.sub(r"\\\1", text)

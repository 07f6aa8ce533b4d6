"""Lazy groups: a group of commands that imports a command when it is asked for, and not before.

A command is one line in a table: its name, where it lives, and the words that `--help` shows next to it.

    job = lazy_group("job", "Scheduled functions.", {"list": Lazy("evertick.cli.job.commands:list_jobs", "...")})
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from evertick.cli.core.completing.parameters import with_completion


@dataclass(frozen=True, slots=True)
class Lazy:
    """The place of a command (`module:attribute`), and its short help."""

    home: str
    words: str


class LazyGroup(click.Group):
    """A group whose commands are imported when needed, from a table of `Lazy`."""

    def __init__(self, *args: Any, table: Mapping[str, Lazy] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.table = dict(table or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the table's order, which is the order in which users need them."""
        return [*self.table, *(name for name, command in self.commands.items() if not command.hidden)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of this name; None if there is none."""
        lazy = self.table.get(cmd_name)
        if lazy is None:
            found = super().get_command(ctx, cmd_name)
            return None if found is None else with_completion(found)
        module, _, attribute = lazy.home.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101
        return with_completion(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command named by the first word. Raises click.UsageError, with similar names, if there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches  # only for a mistake

            near = get_close_matches(args[0], self.list_commands(ctx))
            if not near:
                raise
            raise click.UsageError(f"No such command {args[0]!r}; did you mean {' or '.join(near)}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for `--help`, without importing them."""
        rows = [(name, lazy.words) for name, lazy in self.table.items()]
        rows += [
            (name, command.get_short_help_str(limit=100).rstrip("."))
            for name, command in self.commands.items()
            if not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def lazy_group(name: str, words: str, table: Mapping[str, Lazy]) -> LazyGroup:
    """A group called `name`, with `words` as its help."""
    return LazyGroup(name, help=words, table=table)

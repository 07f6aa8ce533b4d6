"""`evertick worker [FILE]`, and `evertick worker list`."""

from typing import Final

import click

from evertick.cli.core.lazy import Lazy, LazyGroup

COMMANDS: Final = {
    "run": Lazy("evertick.cli.worker:worker", "Run the jobs of the app in FILE; `run` may be left out"),
    "list": Lazy("evertick.cli.status:list_workers", "List the workers of a database"),
}


class WorkerGroup(LazyGroup):
    """The group `worker`. If the first word is not one of its commands, all words are arguments of `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the command `run` if none is named."""
        is_named = bool(args) and args[0] in self.table
        completes_name = not args and ctx.resilient_parsing
        return super().parse_args(ctx, args if is_named or completes_name else ["run", *args])


worker = WorkerGroup("worker", help="Run an app's jobs in production, or list the workers.", table=COMMANDS)

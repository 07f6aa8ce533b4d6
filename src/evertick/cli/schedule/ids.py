"""Which schedule, and which app: options that most commands of `evertick schedule` have."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from evertick.base.errors import Misuse

Command = TypeVar("Command", bound=Callable[..., Any])


def named(sid: str | None) -> str:
    """The schedule's id. Raises Misuse if it is missing."""
    if sid is None:
        raise Misuse("which schedule? give --sid ID")
    return sid


def sid_option(command: Command) -> Command:
    """The schedule's id: `--sid ID`, or just the id; received as `sid: str`."""
    return _sid(command, required=True)


def sid_or_query(command: Command) -> Command:
    """As `sid_option`, but it may be missing: received as `sid: str | None`."""
    return _sid(command, required=False)


def _sid(command: Command, *, required: bool) -> Command:
    def chosen(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        bare = ctx.params.get("bare_id")
        ctx.params.pop("bare_id", None)
        if value is not None and bare is not None and value != bare:
            raise click.UsageError("the schedule is named twice; give --sid or the id alone")
        found = value if value is not None else bare
        if found is None and required:
            raise click.UsageError("which schedule? give --sid ID")
        return found

    option = click.option(
        "--sid", "-s", "--schedule-id", "sid", metavar="ID", callback=chosen, help="The schedule; or just its id."
    )
    argument = click.argument("bare_id", metavar="[ID]", required=False, is_eager=True)
    return argument(option(command))


app_option: Final = click.option(
    "--app", "app_file", metavar="FILE", help="Check the function, its arguments and limits against this app's code."
)

"""Choosing schedules: one by its id, or many by a query; and listing what is chosen, page by page."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from evertick.base.errors import Misuse
from evertick.base.instants import Instant
from evertick.cli.core.flags import Decorator, flag, flags, not_empty, shared
from evertick.cli.core.output import OutputOptions, is_terminal
from evertick.cli.core.progress import counting

if TYPE_CHECKING:
    from evertick.api.schedules import ScheduleSummary
    from evertick.app.schedules.queries import Where
    from evertick.cli.schedule.session import Session


Command = TypeVar("Command", bound=Callable[..., Any])

DONE: Final = {"pause": "paused", "resume": "resumed", "delete": "deleted"}
"""What is said of schedules when it is done."""


def named(sid: str | None) -> str:
    """Return the schedule's id. Raises Misuse if it is missing."""
    if sid is None:
        raise Misuse("which schedule? give its id")
    return sid


def sid_option(command: Command) -> Command:
    """Add the schedule's id, as `--schedule-id ID` or as an argument; received as `sid: str`."""
    return _sid(command, required=True)


def sid_or_query(command: Command) -> Command:
    """As `sid_option`, but the id may be missing: received as `sid: str | None`."""
    return _sid(command, required=False)


def _sid(command: Command, *, required: bool) -> Command:
    def chosen(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        bare = ctx.params.get("bare_id")
        ctx.params.pop("bare_id", None)
        if value is not None and bare is not None and value != bare:
            raise click.UsageError("the schedule is named twice; give the id once")
        found = value if value is not None else bare
        if found is None and required:
            raise click.UsageError("which schedule? give its id")
        return found

    option = click.option(
        "--schedule-id", "--sid", "-s", "sid", metavar="ID", callback=chosen, help="The schedule; or just its id."
    )
    argument = click.argument("bare_id", metavar="[ID]", required=False, is_eager=True)
    return argument(option(command))


app_option: Final = click.option(
    "--app",
    "app_file",
    metavar="FILE",
    callback=not_empty,
    help="Check the function, its arguments and limits against this app's code.",
)


LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 100_000

if_version_option: Final = click.option(
    "--if-version", type=int, metavar="N", help="Only if the schedule is still at version N."
)


@dataclass(frozen=True, slots=True)
class Selection:
    """One schedule by its id, or all schedules that a query selects."""

    sid: str | None = shared(sid_or_query)
    query: str | None = flag("--query", "-q", metavar="TERMS")
    if_version: int | None = shared(if_version_option)
    yes: bool = flag("--yes", default=False, help="Do not ask for confirmation.")

    def where(self, session: "Session", verb: str) -> "Where":
        """The filters of the query, after a confirmation. Raises UsageError if an id is given, too."""
        if self.sid is not None or self.if_version is not None:
            raise click.UsageError("--query chooses many schedules; leave out the id and --if-version")
        from evertick.app.schedules.lists import HELP

        where = queried(self.query or "", session.now)
        if not where:
            raise click.UsageError(f"an empty --query would {verb} everything; name what to {verb}: {HELP}")
        if self.yes:
            return where
        if not is_terminal(sys.stdin):
            raise click.UsageError(f"this may {verb} many schedules; give --yes where no terminal can confirm it")
        count = len(pages(session, where, "id", LIMIT_MAX))
        click.confirm(f"{verb.capitalize()} {counted(count)}?", abort=True, err=True)
        return where


def change_all(session: "Session", verb: str, where: "Where", out: OutputOptions, **how: Any) -> None:
    """Apply the operation `verb` to all selected schedules, and print their number."""
    from evertick.api.commands import ChangedCount

    with counting(f"schedules are {DONE[verb]}", session.store) as progress:
        count = getattr(session.schedules.with_progress(progress), f"{verb}_all")(**how, **where)
    click.echo(f"{DONE[verb]} {counted(count)}", err=True)
    out.write_view(ChangedCount(count=count))


def queried(text: str, now: Instant) -> "Where":
    """The filters in the text of `--query`. Raises Misuse with the name of the option."""
    from evertick.app.schedules.lists import parse_query

    try:
        return parse_query(text, now)
    except Misuse as error:
        raise Misuse(f"--query: {error}") from None


def selection_options(verb: str, example: str) -> Decorator[Any]:
    """Add `--sid`, `--query`, `--if-version` and `--yes`, received as `chosen: Selection`."""
    chosen = f"{verb.capitalize()} all that it chooses: {example}."
    return flags(Selection, "chosen", changed={"query": {"help": chosen}})


def pages(session: "Session", where: "Where", sort: str, limit: int) -> "list[ScheduleSummary]":
    """At most `limit` schedules, read in pages."""

    def page(size: int, cursor: str | None) -> tuple["tuple[ScheduleSummary, ...]", str | None]:
        found = session.schedules.list(sort=sort, limit=size, cursor=cursor, **where)
        return found.schedules, found.cursor

    return collected(limit, page)


def counted(count: int) -> str:
    """A number of schedules as text: `1 schedule`, `1,200 schedules`."""
    return f"{count:,} schedule{'' if count == 1 else 's'}"


T = TypeVar("T")


def collected(limit: int, page: Callable[[int, str | None], tuple[Sequence[T], str | None]]) -> list[T]:
    """At most `limit` items; `page(size, cursor)` returns a page and the cursor of the next one, None at the end."""
    from evertick.base.paging import PAGE_MAX

    found: list[T] = []
    cursor: str | None = None
    while len(found) < limit:
        items, cursor = page(min(PAGE_MAX, limit - len(found)), cursor)
        found += items
        if cursor is None:
            break
    return found

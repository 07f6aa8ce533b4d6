"""Choosing schedules: one by its id, or many by a query; and listing what is chosen."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.api.schedules import ScheduleSummary
from evertick.app.schedules.queries import Where
from evertick.cli.core.flags import Decorator, grouped
from evertick.cli.core.output import is_terminal
from evertick.cli.core.paging import collected
from evertick.cli.schedule.ids import sid_or_query
from evertick.cli.schedule.query import HELP, parse_query

if TYPE_CHECKING:
    from evertick.cli.schedule.session import ScheduleSession

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 100_000

if_version_option: Final = click.option(
    "--if-version", type=int, metavar="N", help="Only if the schedule is still at version N."
)


@dataclass(frozen=True, slots=True)
class Selection:
    """One schedule by its id, or all that a query chooses."""

    sid: str | None = None
    query: str | None = None
    if_version: int | None = None
    yes: bool = False

    def where(self, session: "ScheduleSession", verb: str) -> Where:
        """What the query chooses, once that is confirmed. Raises UsageError if the query stands beside an id."""
        if self.sid is not None or self.if_version is not None:
            raise click.UsageError("--query chooses many schedules; leave out --sid and --if-version")
        where = parse_query(self.query or "", session.now)
        if not where:
            raise click.UsageError(f"an empty --query would {verb} everything; name what to {verb}: {HELP}")
        if self.yes:
            return where
        if not is_terminal(sys.stdin):
            raise click.UsageError(f"this may {verb} many schedules; give --yes where no terminal can confirm it")
        count = len(pages(session, where, "id", LIMIT_MAX))
        click.confirm(f"{verb.capitalize()} {counted(count)}?", abort=True, err=True)
        return where


def selection_options(verb: str, example: str) -> Decorator[Any]:
    """`--query`, `--if-version` and `--yes` beside `--sid`, received as `chosen: Selection`."""
    return grouped(
        Selection, "chosen", sid_or_query,
        click.option("--query", "-q", metavar="TERMS", help=f"{verb.capitalize()} all that it chooses: {example}."),
        if_version_option,
        click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
    )  # fmt: skip


def pages(session: "ScheduleSession", where: Where, sort: str, limit: int) -> list[ScheduleSummary]:
    """At most `limit` schedules."""

    def page(size: int, cursor: str | None) -> tuple[tuple[ScheduleSummary, ...], str | None]:
        found = session.schedules.list(sort=sort, limit=size, cursor=cursor, **where)
        return found.schedules, found.cursor

    return collected(limit, page)


def counted(count: int) -> str:
    """How many schedules, in words."""
    return f"{count:,} schedule{'' if count == 1 else 's'}"

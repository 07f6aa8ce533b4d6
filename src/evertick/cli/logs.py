"""`evertick logs`: what functions write with ctx.log, across all jobs of a tenant."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from evertick.base.escaping import printable
from evertick.base.instants import Instant
from evertick.base.paging import PAGE_MAX
from evertick.base.records.history import LEVELS
from evertick.cli.core.databases import data_options
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import flag, flags
from evertick.cli.core.output import OutputOptions, output_option
from evertick.cli.core.watching import ChangeWaiter
from evertick.cli.job.filters import moment_at
from evertick.cli.sessions.base import Access, Session, open_session, say_nothing_found

if TYPE_CHECKING:
    from evertick.api.jobs import LogLineView, LogPage
    from evertick.app.jobs.log_lines import LinesWhere

POLL_EVERY_S: Final = 0.5
"""What a running action logs is stored half a second after it was written."""


@dataclass(frozen=True, slots=True)
class LogFlags:
    """The options that select log lines."""

    function: str | None = flag("--function", metavar="NAME", help="Only lines of this function.")
    level: str | None = flag("--level", type=click.Choice(LEVELS), help="Only lines of this level and those above it.")
    search: str | None = flag("--search", metavar="TEXT", help="Only lines with this text; a and A are the same.")
    request: str | None = flag(
        "--request", metavar="JOB", help="Only lines of the request that a job belongs to: all that followed from it."
    )
    since: str | None = flag("--since", metavar="TIME", help="Lines stored at this time or later, such as now-1h.")
    until: str | None = flag("--until", metavar="TIME", help="Lines stored before this time; a date: up to its end.")
    limit: int = flag(
        "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="The last so many lines."
    )

    def where(self, now: Instant) -> "LinesWhere":
        """The filters. Raises InvalidSpec for an invalid time."""
        return {
            "function": self.function,
            "level": self.level,
            "text": self.search,
            "request": self.request,
            "since": moment_at(now, self.since, "--since"),
            "until": moment_at(now, self.until, "--until", "after"),
        }


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on, until Ctrl-C.")
@flags(LogFlags, "flags")
@data_options
@output_option
def logs(follow: bool, flags: LogFlags, db: str | None, out: OutputOptions) -> int:
    """Show what functions wrote with ctx.log, of all jobs: the last lines, in the order in which they were stored.

    The lines of a mutation are stored when it is committed, those of a running action within a second.
    """
    if follow and out.output == "json":
        raise click.UsageError("-f writes line by line; take -o jsonl")
    if follow and flags.until is not None:
        raise click.UsageError("-f goes on until Ctrl-C; leave out --until")
    with open_session(db) as session:
        if flags.function is not None:
            session.require_function(flags.function)
        where = flags.where(session.now)
        latest, lines = _last(session, where, flags.limit)
        if out.output == "json":
            out.write_json([line.to_json() for line in lines])
        else:
            for line in lines:
                _write(line, out)
        if follow:
            return _follow(session, where, latest, {line.id for line in lines}, out)
        if not lines and out.tells_of_nothing:
            say_nothing_found("lines", session.store)
    return Exit.OK


def _last(session: Session, where: "LinesWhere", limit: int) -> "tuple[str, list[LogLineView]]":
    """The position after the newest line, and the last lines, oldest first."""
    pages = _pages(session, where, None, newest_first=True)
    latest = ""
    lines: list[LogLineView] = []
    for page in pages:
        latest = latest or page.latest
        lines += page.lines
        if len(lines) >= limit:
            break
    return latest, lines[:limit][::-1]


def _follow(session: Session, where: "LinesWhere", latest: str, known: set[str], out: OutputOptions) -> int:
    """Write the lines that are stored after the position `latest`, until Ctrl-C."""
    with ChangeWaiter(session.store, follows=True) as news:
        try:
            while True:
                found = set()
                for page in _pages(session, where, latest, newest_first=False):
                    for line in page.lines:
                        found.add(line.id)
                        if line.id not in known:
                            _write(line, out)
                    latest = page.latest
                known = found
                news.wait(POLL_EVERY_S)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED


def _pages(
    access: Access, where: "LinesWhere", cursor: str | None, *, newest_first: bool
) -> "Iterator[LogPage]":  # fmt: skip
    while True:
        page = access.jobs.log_lines(limit=PAGE_MAX, cursor=cursor, newest_first=newest_first, **where)
        yield page
        cursor = page.cursor
        if cursor is None:
            return


def _write(line: "LogLineView", out: OutputOptions) -> None:
    row = line.to_json()
    if out.is_data:
        out.write_json(row)
    elif not out.is_none:
        cut = " (cut)" if line.is_truncated else ""
        click.echo(f"{row['time']}  {line.level:<7}  {line.function}  {printable(line.message)}{cut}")

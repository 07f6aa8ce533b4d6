"""`evertick schedule list`, `describe` and `delete`."""

from dataclasses import dataclass
from typing import Final

import click

from evertick.base.escaping import printable
from evertick.base.ids import ScheduleId
from evertick.cli.core.databases import data_options
from evertick.cli.core.flags import flag, flags
from evertick.cli.core.output import OutputOptions, output_option, time_row_options
from evertick.cli.schedule.selection import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    Selection,
    change_all,
    counted,
    named,
    pages,
    queried,
    selection_options,
    sid_option,
)
from evertick.cli.schedule.session import open_session
from evertick.cli.sessions.base import say_nothing_found
from evertick.rules.schedules.metadata import CODE

SORTS: Final = ("id", "next", "last", "-id", "-next", "-last")
HIDDEN: Final = (
    "time_zone",
    "function",
    "spec",
    "source",
    "run_id_template",
    "recent",
    "backfills",
    "created",
    "script",
)
"""What `describe` leaves out for people; some of it only where it says nothing."""


@dataclass(frozen=True, slots=True)
class ListFlags:
    """The options that select and order schedules."""

    query: str = flag("--query", "-q", metavar="TERMS", default="", help="Such as 'state:paused kind:cron next<1h'.")
    sort: str = flag("--sort", type=click.Choice(SORTS), default="id", show_default=True)
    limit: int = flag("--limit", type=click.IntRange(1, LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True)
    is_long: bool = flag("--long", default=False, help="More columns.")


@click.command("list")
@flags(ListFlags, "chosen")
@data_options
@time_row_options
def list_schedules(chosen: ListFlags, db: str | None, out: OutputOptions) -> None:
    """List schedules and crons."""
    write_list(chosen, db, out)


def write_list(chosen: ListFlags, db: str | None, out: OutputOptions, *, kind: str | None = None) -> None:
    """Write the list of schedules; with `kind`, only of that kind."""
    from evertick.api.schedules import ScheduleSummary
    from evertick.cli.schedule.words import LIST_FIELDS, LONG_FIELDS, summary_words

    fields = out.columns(ScheduleSummary.names(), LONG_FIELDS if chosen.is_long else LIST_FIELDS)
    with open_session(db) as session:
        where = queried(chosen.query, session.now)
        if kind is not None:
            where["kind"] = kind
        found = pages(session, where, chosen.sort, chosen.limit + 1)
        more, found = len(found) > chosen.limit, found[: chosen.limit]
        out.show_views(found, session.now, fields, summary_words)
        if not found and out.tells_of_nothing:
            hint = ""
            if kind == "cron" and not chosen.query:
                hint = "; a worker writes those that code declares when it starts, in the tenant 'default'"
            say_nothing_found(f"{kind or 'schedule'}s{' match' if chosen.query else ''}", session.store, hint)
    if more and not out.is_none:
        click.echo(f"these are the first {chosen.limit}; there are more: --limit, or choose with --query", err=True)


@click.command()
@sid_option
@data_options
@time_row_options
def describe(sid: str, db: str | None, out: OutputOptions) -> None:
    """Show a schedule: times, function, policies, state, and its recent, current and coming runs."""
    write_description(sid, db, out)


def write_description(sid: str, db: str | None, out: OutputOptions, *, kind: str | None = None) -> None:
    """Write everything about a schedule. Raises ScheduleNotFound, also if it is of another kind than `kind`."""
    from evertick.api.schedules import ScheduleDescription
    from evertick.cli.schedule.words import description_words

    known = ScheduleDescription.names()
    chosen = out.columns(known, known)
    with open_session(db) as session:
        session.status(sid, kind=kind)
        found = session.schedules.get(sid)
        moment = out.moments(session.now)
    row = found.to_json()
    if out.fields is None and not out.is_data:
        shown = {name for name in ("recent", "backfills") if row[name]}
        shown |= {"time_zone"} if found.time_zone != "UTC" else set()
        chosen = [field for field in chosen if field not in HIDDEN or field in shown]
    out.write_one(row, description_words(found, moment), chosen)


@click.command()
@selection_options("delete", "'state:completed'")
@click.option("--force", is_flag=True, help="Also a cron that is declared in the code of an app that is gone.")
@data_options
@output_option
def delete(chosen: Selection, force: bool, db: str | None, out: OutputOptions) -> None:
    """Remove a schedule. Runs that were started go on; its ledger and history can be read for their time."""
    from evertick.api.commands import DeletedSchedule

    with open_session(db) as session:
        if chosen.query is None:
            schedule_id = named(chosen.sid)
            session.schedules.delete(schedule_id, if_version=chosen.if_version, force=force)
            click.echo(f"deleted {printable(schedule_id)}; runs that were started go on", err=True)
            out.write_view(DeletedSchedule(id=ScheduleId(schedule_id)))
            return
        where = chosen.where(session, "delete")
        change_all(session, "delete", where, out, force=force)
        left = sum(each.source == CODE for each in pages(session, where, "id", LIMIT_MAX))
    if left:
        click.echo(f"left {counted(left)} declared in code: remove them there, or pause them", err=True)

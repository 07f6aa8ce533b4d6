"""`evertick schedule list`, `describe` and `delete`."""

import sys
from typing import Final

import click

from evertick.app.schedule_reading import PAGE_MAX, Where
from evertick.app.schedule_views import ScheduleSummary
from evertick.cli.databases import db_option
from evertick.cli.output import chosen_fields, fields_option, is_terminal, output_option, write_one, write_rows
from evertick.cli.printable import printable
from evertick.cli.schedule_create import named
from evertick.cli.schedule_desk import Desk, open_desk, sid_option, sid_or_query
from evertick.cli.schedule_query import parse_query
from evertick.cli.schedule_rows import (
    DESCRIPTION_FIELDS,
    LIST_FIELDS,
    LONG_FIELDS,
    SUMMARY_FIELDS,
    cells,
    description_row,
    description_words,
    moments,
    summary_row,
    summary_words,
    time_option,
)

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 100_000


@click.command("list")
@click.option("--query", "-q", metavar="TERMS", default="", help="Such as 'state:paused kind:cron next<1h'.")
@click.option("--sort", type=click.Choice(("id", "next")), default="id", show_default=True)
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True)
@click.option("--long", "is_long", is_flag=True, help="More columns.")
@time_option
@db_option
@output_option
@fields_option
def list_schedules(
    query: str, sort: str, limit: int, is_long: bool, time_style: str | None, db: str | None, output: str | None,
    fields: str | None,
) -> None:  # fmt: skip
    """List schedules and crons."""
    write_list(query, None, sort, limit, is_long, time_style, db, output, fields)


def write_list(
    query: str, kind: str | None, sort: str, limit: int, is_long: bool, time_style: str | None, db: str | None,
    output: str | None, fields: str | None,
) -> None:  # fmt: skip
    """Write the list; `kind` narrows it."""
    default = SUMMARY_FIELDS if output in ("json", "jsonl") else LONG_FIELDS if is_long else LIST_FIELDS
    chosen = chosen_fields(fields, SUMMARY_FIELDS, default)
    with open_desk(db) as desk:
        where = parse_query(query, desk.now)
        if kind is not None:
            where["kind"] = kind
        found = pages(desk, where, sort, limit + 1)
        moment = moments(time_style, output, desk.now)
    more, found = len(found) > limit, found[:limit]
    words = [summary_words(each, moment) for each in found]
    write_rows([summary_row(each) for each in found], cells(words, chosen), chosen, output)
    if not found and output in (None, "table"):
        click.echo(f"no {kind or 'schedule'}s{' match' if query else ''}", err=True)
    if more and output != "none":
        click.echo(f"these are the first {limit}; there are more: --limit, or choose with --query", err=True)


def pages(desk: Desk, where: Where, sort: str, limit: int) -> list[ScheduleSummary]:
    """At most `limit` schedules."""
    found: list[ScheduleSummary] = []
    cursor: str | None = None
    while len(found) < limit:
        page = desk.schedules.list(sort=sort, limit=min(PAGE_MAX, limit - len(found)), cursor=cursor, **where)
        found += page.schedules
        cursor = page.cursor
        if cursor is None:
            break
    return found


@click.command()
@sid_option
@time_option
@db_option
@output_option
@fields_option
def describe(sid: str, time_style: str | None, db: str | None, output: str | None, fields: str | None) -> None:
    """Show a schedule: times, function, policies, state, and its recent, current and coming runs."""
    write_description(sid, None, time_style, db, output, fields)


def write_description(
    sid: str, kind: str | None, time_style: str | None, db: str | None, output: str | None, fields: str | None
) -> None:
    """Write everything about a schedule; of that kind, if one is given."""
    chosen = chosen_fields(fields, DESCRIPTION_FIELDS, DESCRIPTION_FIELDS)
    with open_desk(db) as desk:
        desk.row(sid, kind=kind)
        found = desk.schedules.get(sid)
        moment = moments(time_style, output, desk.now)
    row, words = description_row(found), description_words(found, moment)
    if fields is None and output not in ("json", "jsonl"):
        hidden = {"time_zone", "function", "spec", "source", "run_id_template", "recent", "backfills", "created"}
        hidden -= {name for name in ("recent", "backfills") if row[name]}
        hidden -= {"time_zone"} if found.time_zone != "UTC" else set()
        chosen = [field for field in chosen if field not in hidden]
    write_one(row, words, chosen, output)


@click.command()
@sid_or_query
@click.option("--query", "-q", metavar="TERMS", help="Delete all that it chooses, such as 'state:completed'.")
@click.option("--if-version", type=int, metavar="N", help="Only if nobody changed it since version N.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@db_option
def delete(sid: str | None, query: str | None, if_version: int | None, yes: bool, db: str | None) -> None:
    """Remove a schedule. Runs that were started go on; its ledger and history can be read for their time."""
    with open_desk(db) as desk:
        if query is None:
            schedule_id = named(sid)
            desk.schedules.delete(schedule_id, if_version=if_version)
            click.echo(f"deleted {printable(schedule_id)}; runs that were started go on", err=True)
            return
        where = chosen_by_query(desk, sid, query, if_version, "delete", yes=yes)
        count = desk.schedules.delete_all(**where)
    click.echo(f"deleted {counted(count)}", err=True)


def chosen_by_query(desk: Desk, sid: str | None, query: str, if_version: int | None, verb: str, *, yes: bool) -> Where:
    """What a bulk command is about, when somebody has agreed to it. Raises UsageError if nobody can be asked."""
    if sid is not None or if_version is not None:
        raise click.UsageError("--query chooses many schedules; leave out --sid and --if-version")
    where = parse_query(query, desk.now)
    if yes:
        return where
    if not is_terminal(sys.stdin):
        raise click.UsageError(f"this may {verb} many schedules and nobody can be asked; give --yes")
    count = len(pages(desk, where, "id", LIMIT_MAX))
    click.confirm(f"{verb.capitalize()} {counted(count)}?", abort=True, err=True)
    return where


def counted(count: int) -> str:
    """How many schedules, in words."""
    return f"{count:,} schedule{'' if count == 1 else 's'}"

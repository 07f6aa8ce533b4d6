"""`evertick schedule pause`, `resume` and `toggle`: let a schedule rest, and let it go on."""

import sys
from datetime import datetime

import click

from evertick.base.instants import Instant, from_datetime, to_datetime, to_iso
from evertick.cli.databases import db_option
from evertick.cli.output import is_terminal
from evertick.cli.printable import printable
from evertick.cli.schedule_create import named
from evertick.cli.schedule_desk import Desk, open_desk, sid_option, sid_or_query
from evertick.cli.schedule_list import chosen_by_query, counted
from evertick.cli.spec_flags import parse_when

_reason = click.option("--reason", "--note", "reason", metavar="TEXT", help="Why; asked for at a terminal.")
_until = click.option("--until", metavar="TIME", help="When it goes on by itself, such as 2026-12-24T09:00 or now+2h.")
from_now_option = click.option(
    "--from-now", is_flag=True, help="Count all times from now on, also those judged while the clock was ahead."
)
_if_version = click.option("--if-version", type=int, metavar="N", help="Only if nobody changed it since version N.")


@click.command()
@sid_option
@click.option("--pause", "pausing", flag_value=True, type=bool, default=None, help="Take no scheduled runs.")
@click.option("--unpause", "pausing", flag_value=False, type=bool, help="Go on from now; nothing is made up.")
@_reason
@_until
@_if_version
@db_option
def toggle(
    sid: str, pausing: bool | None, reason: str | None, until: str | None, if_version: int | None, db: str | None
) -> None:
    """Pause or unpause a schedule, and say why."""
    if pausing is None:
        raise click.UsageError("give --pause or --unpause")
    if until is not None and not pausing:
        raise click.UsageError("--until ends a pause; it goes with --pause")
    with open_desk(db) as desk:
        if pausing:
            pause_one(desk, sid, reason, until, if_version)
        else:
            resume_one(desk, sid, reason, if_version)


@click.command()
@sid_or_query
@click.option("--query", "-q", metavar="TERMS", help="Pause all that it chooses, such as 'function:app.mail'.")
@_reason
@_until
@_if_version
@click.option("--yes", is_flag=True, help="Do not ask before a query's schedules are paused.")
@db_option
def pause(
    sid: str | None, query: str | None, reason: str | None, until: str | None, if_version: int | None, yes: bool,
    db: str | None,
) -> None:  # fmt: skip
    """Let a schedule rest: its times are skipped, and not made up. Triggers and backfills run all the same."""
    with open_desk(db) as desk:
        if query is None:
            pause_one(desk, named(sid), reason, until, if_version)
            return
        if until is not None:
            raise click.UsageError("--until is for one schedule")
        where = chosen_by_query(desk, sid, query, if_version, "pause", yes=yes)
        count = desk.schedules.pause_all(asked_for(reason), **where)
    click.echo(f"paused {counted(count)}", err=True)


@click.command()
@sid_or_query
@click.option("--query", "-q", metavar="TERMS", help="Resume all paused ones that it chooses.")
@_reason
@from_now_option
@_if_version
@click.option("--yes", is_flag=True, help="Do not ask before a query's schedules are resumed.")
@db_option
def resume(
    sid: str | None, query: str | None, reason: str | None, from_now: bool, if_version: int | None, yes: bool,
    db: str | None,
) -> None:  # fmt: skip
    """Let a schedule go on, from now: what passed during the pause is not made up."""
    with open_desk(db) as desk:
        if query is None:
            resume_one(desk, named(sid), reason, if_version, from_now=from_now)
            return
        if from_now:
            raise click.UsageError("--from-now is for one schedule")
        where = chosen_by_query(desk, sid, query, if_version, "resume", yes=yes)
        count = desk.schedules.resume_all(reason or "", **where)
    click.echo(f"resumed {counted(count)}", err=True)


def pause_one(
    desk: Desk, sid: str, reason: str | None, until: str | None, if_version: int | None, *, kind: str | None = None
) -> None:
    """Pause a schedule, and say so."""
    desk.row(sid, kind=kind)
    end = None if until is None else _moment(desk, sid, until)
    note = asked_for(reason)
    desk.schedules.pause(sid, note, until=end, if_version=if_version)
    words = f"paused {sid}" + ("" if end is None else f" until {to_iso(from_datetime(end))}")
    click.echo(printable(f"{words}: {note}" if note else words), err=True)


def resume_one(
    desk: Desk, sid: str, reason: str | None, if_version: int | None, *, from_now: bool = False, kind: str | None = None
) -> None:
    """Resume a schedule, and say when it runs next."""
    was = desk.row(sid, kind=kind)
    found = desk.schedules.resume(sid, reason or "", from_now=from_now, if_version=if_version)
    did = "resumed" if was.status == "paused" else "was not paused:"
    following = "no further time" if found.next is None else f"next {to_iso(from_datetime(found.next))}"
    words = f"{did} {sid}" if did == "resumed" else f"{sid} was not paused"
    click.echo(printable(f"{words}; {following}"), err=True)


def asked_for(reason: str | None) -> str:
    """The reason; a person who gave none is asked."""
    if reason is None and is_terminal(sys.stdin):
        answer: str = click.prompt("Why", default="", show_default=False, err=True)
        return answer
    return reason or ""


def _moment(desk: Desk, sid: str, text: str) -> datetime:
    return to_datetime(Instant(parse_when(text, desk.zone_of(sid), "--until", desk.now // 1000) * 1000))

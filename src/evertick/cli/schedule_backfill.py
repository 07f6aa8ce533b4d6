"""`evertick schedule backfill`: run now what a schedule names in a span of time; first it is planned.

The plan says how many times there are and which ran before; what starts is exactly the plan, or nothing if the
schedule changed meanwhile. The backfill goes on by itself, in whatever process runs the engine. At a terminal its
progress is shown; Ctrl-C leaves it alone.
"""

import sys
from typing import Final, TypedDict

import click

from evertick.app.schedule_views import BackfillPlanView, BackfillView
from evertick.base.instants import Instant, to_datetime
from evertick.cli.databases import db_option
from evertick.cli.exits import Exit
from evertick.cli.news import News
from evertick.cli.output import chosen_fields, fields_option, output_option, write_one, write_rows
from evertick.cli.printable import printable
from evertick.cli.schedule_desk import Desk, open_desk, sid_option
from evertick.cli.schedule_rows import BACKFILL_FIELDS, backfill_line, backfill_row, iso, plain, time_row
from evertick.cli.spec_flags import parse_when
from evertick.rules.schedule import Overlap
from evertick.rules.state_text import from_text

LOOK_EVERY_S: Final = 0.5
LOSSY: Final = {
    Overlap.SKIP: "the first runs and the others are skipped while it runs",
    Overlap.BUFFER_ONE: "one runs, one waits and the others are skipped",
    Overlap.CANCEL_OTHER: "only the newest gets to run",
    Overlap.TERMINATE_OTHER: "only the newest gets to run",
}
"""What becomes of many times at once under the policies that are not meant for them."""
SHOWN: Final = ("id", "times", "started", "ended", "waiting", "skipped", "missed", "done")


class Choice(TypedDict):
    """How the times of a backfill run, and which of them."""

    overlap: str | None
    max_active: int | None
    skip_done: bool


@click.command()
@sid_option
@click.option("--start-time", metavar="TIME", help="The first moment, such as 2022-05-01T00:00:00Z; included.")
@click.option("--end-time", metavar="TIME", help="The last moment; included too.")
@click.option(
    "--overlap-policy",
    "overlap",
    metavar="POLICY",
    help="BufferAll runs one after the other, AllowAll all at once; the schedule's own unless given.",
)
@click.option("--max-active", type=int, metavar="N", help="Its runs that may be open at a time, beside all others.")
@click.option(
    "--include-done/--skip-done",
    "include_done",
    default=True,
    help="Run times again that ran before, as is usual; or leave them out.",
)
@click.option("--dry-run", is_flag=True, help="List the times it would run; start nothing.")
@click.option(
    "--wait/--detach",
    "waiting",
    default=None,
    help="Stay until it is done, as is usual at a terminal; or leave it to itself.",
)
@click.option("--watch", "watched", metavar="ID", help="Show the progress of a backfill that was started before.")
@click.option("--cancel", "canceled", metavar="ID", help="End a backfill: what waits is skipped, what runs goes on.")
@db_option
@output_option
@fields_option
def backfill(
    sid: str, start_time: str | None, end_time: str | None, overlap: str | None, max_active: int | None,
    include_done: bool, dry_run: bool, waiting: bool | None, watched: str | None, canceled: str | None, db: str | None,
    output: str | None, fields: str | None,
) -> int:  # fmt: skip
    """Run now what a schedule names between two moments, as the overlap policy says."""
    choice: Choice = {"overlap": overlap, "max_active": max_active, "skip_done": not include_done}
    if watched is not None or canceled is not None:
        named = (start_time, end_time, overlap, max_active) != (None, None, None, None) or dry_run or not include_done
        if named or None not in (watched, canceled):
            raise click.UsageError("--watch and --cancel are about a backfill that was started; give one of them alone")
    elif start_time is None or end_time is None:
        raise click.UsageError("a backfill is of a span of time; give --start-time and --end-time")
    chosen = chosen_fields(fields, BACKFILL_FIELDS, BACKFILL_FIELDS if output in ("json", "jsonl") else SHOWN)
    if waiting is None:
        waiting = sys.stderr.isatty() or watched is not None
    with open_desk(db) as desk:
        if canceled is not None:
            found = desk.schedules.backfill_cancel(sid, canceled)
            waiting = False
        elif watched is not None:
            found = desk.schedules.backfill_status(sid, watched)
        else:
            plan = _plan(desk, sid, start_time or "", end_time or "", choice)
            if dry_run:
                _list_times(plan, fields, output)
                return Exit.OK
            found = desk.schedules.backfill(sid, plan.start, plan.end, token=plan.token, **choice)
            click.echo(f"started {found.id}", err=True)
        return _follow(desk, found, chosen, output, waiting=waiting)


def _plan(desk: Desk, sid: str, start_time: str, end_time: str, choice: Choice) -> BackfillPlanView:
    zone, now_s = desk.zone_of(sid), desk.now // 1000
    start, end = (
        to_datetime(Instant(parse_when(text, zone, flag, now_s) * 1000))
        for text, flag in ((start_time, "--start-time"), (end_time, "--end-time"))
    )
    plan = desk.schedules.backfill_plan(sid, start, end, **choice)
    words = [f"{plan.count:,} time{'' if plan.count == 1 else 's'}"]
    words.append(f"from {iso(plan.start)} to {iso(plan.end)} (both included)")
    if plan.times:
        words += [f"first {iso(plan.times[0].nominal)}", f"last {iso(plan.times[-1].nominal)}"]
    again = "left out" if choice["skip_done"] else "will run again"
    words.append(f"{len(plan.already_ran):,} already ran" + (f" and {again}" if plan.already_ran else ""))
    click.echo("   ".join(words), err=True)
    policy = plan.overlap or from_text(desk.row(sid).state).policies.overlap
    if plan.count > 1 and policy in LOSSY and choice["max_active"] is None:
        click.echo(f"note: with {policy} {LOSSY[policy]}; choose BufferAll, AllowAll or --max-active", err=True)
    return plan


def _list_times(plan: BackfillPlanView, fields: str | None, output: str | None) -> None:
    """The times, each with whether it ran before."""
    known = ("nominal", "actual", "already_ran")
    chosen = chosen_fields(fields, known, known if output in ("json", "jsonl") else ("nominal",))
    ran = set(plan.already_ran)
    rows = [time_row(time) | {"already_ran": time.nominal in ran} for time in plan.times]
    write_rows(rows, [[plain(row[field]) for field in chosen] for row in rows], chosen, output)


def _follow(desk: Desk, found: BackfillView, fields: list[str], output: str | None, *, waiting: bool) -> int:
    """Show how it goes until it is done, if somebody waits for that; then write how far it has come."""
    if waiting:
        try:
            found = _until_done(desk, found)
        except KeyboardInterrupt:
            click.echo(printable(
                f"\nthe backfill goes on; look again with: evertick schedule backfill --sid {found.schedule} "
                f"--watch {found.id}".strip()), err=True)  # fmt: skip
            return Exit.INTERRUPTED
    row = backfill_row(found)
    write_one(row, {name: plain(value) for name, value in row.items()}, fields, output)
    return Exit.OK


def _until_done(desk: Desk, found: BackfillView) -> BackfillView:
    """Wait until all its runs have ended; says each step of progress on stderr."""
    try:
        with News(desk.store) as news:
            return _watched(desk, found, news)
    finally:
        if sys.stderr.isatty():
            click.echo(err=True)


def _watched(desk: Desk, found: BackfillView, news: News) -> BackfillView:
    said = ""
    alone_said = False
    while True:
        line = backfill_line(found)
        if line != said:
            click.echo(f"\r\x1b[K{line}" if sys.stderr.isatty() else line, nl=not sys.stderr.isatty(), err=True)
            said = line
        if found.done and found.ended == found.started:
            return found
        if not alone_said and not desk.ask(lambda transaction: transaction.workers_alive(desk.clock.now())):
            click.echo("note: nobody runs the engine on this database; it goes on when somebody does", err=True)
            alone_said = True
        news.wait(LOOK_EVERY_S)
        found = desk.schedules.backfill_status(found.schedule, found.id)

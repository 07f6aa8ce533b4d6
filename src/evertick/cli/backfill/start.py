"""`evertick schedule backfill`: run now what a schedule names in a span of time; first it is planned.

The plan says how many times there are and which ran before; what starts is exactly the plan, or nothing if the
schedule changed meanwhile. The backfill goes on by itself, in whatever process runs the engine. At a terminal its
progress is shown; Ctrl-C leaves it alone.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from evertick.base.escaping import printable, shell_word
from evertick.base.instants import from_datetime
from evertick.base.suggested_commands import tenant_option
from evertick.cli.backfill import many
from evertick.cli.backfill.flags import LOSSY, SAFE, BackfillFlags, lossy_policy
from evertick.cli.core.databases import chosen_tenant, data_options
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import flags
from evertick.cli.core.output import OutputOptions, is_terminal, plain, row_options
from evertick.cli.core.watching import ChangeWaiter
from evertick.cli.schedule.selection import named, sid_or_query
from evertick.cli.schedule.session import Session, note_if_alone, open_session

if TYPE_CHECKING:
    from evertick.api.schedules import BackfillPlanView, BackfillView

POLL_EVERY_S: Final = 0.5
SHOWN: Final = ("id", "times", "started", "ended", "waiting", "skipped", "missed", "done")


@click.command()
@sid_or_query
@click.option(
    "--query", "-q", metavar="TERMS", help="In place of an id: backfill all schedules that it chooses: 'health:missed'."
)
@flags(BackfillFlags, "flags")
@data_options
@row_options
def backfill(sid: str | None, query: str | None, flags: BackfillFlags, db: str | None, out: OutputOptions) -> int:
    """Run now what a schedule names between two moments, as the overlap policy says.

    With --wait the exit code is 6 if some of the times were skipped or missed. With --query, the schedules that have
    times to run are listed, and started once that is confirmed; the exit code is 6 if some could not be. There --wait
    is needed to wait for all of them.
    """
    flags.check()
    if query is not None:
        return many.backfill_all(query, sid, flags, db, out, _until_done)
    sid = named(sid)
    chosen = None if flags.dry_run else columns(out)
    waiting = flags.waiting
    if waiting is None:
        waiting = sys.stderr.isatty() or flags.watched is not None
    with open_session(db) as session:
        if flags.canceled is not None:
            found = session.schedules.backfill_cancel(sid, flags.canceled)
            waiting = False
        elif flags.watched is not None:
            found = session.schedules.backfill_status(sid, flags.watched)
        else:
            plan = _plan(session, sid, flags)
            if chosen is None:
                _list_times(plan, out)
                return Exit.OK
            _confirm_future(session, plan, yes=flags.yes)
            found = session.schedules.backfill(sid, plan.start, plan.end, token=plan.token, **flags.choice)
            click.echo(f"started {found.id}", err=True)
        if waiting:
            return finished(session, found, chosen or [], out)
        if flags.canceled is None:
            note_if_alone(session)
        return written(found, chosen or [], out)


def columns(out: OutputOptions) -> list[str]:
    """The fields of a backfill to write. Raises UsageError as `OutputOptions.columns`."""
    from evertick.api.schedules import BackfillView

    return out.columns(BackfillView.names(), SHOWN)


def finished(session: Session, found: "BackfillView", chosen: Sequence[str], out: OutputOptions) -> int:
    """Show the progress of a backfill until it is done; return the exit code. Ctrl-C reports the progress so far."""
    from evertick.cli.schedule.words import backfill_line

    try:
        found = _until_done(session, found)
    except KeyboardInterrupt:
        seen = session.schedules.backfill_status(found.schedule, found.id)
        again = f"evertick backfill watch {shell_word(found.schedule)} {found.id}{tenant_option(chosen_tenant())}"
        click.echo(printable(f"{backfill_line(seen)}; it goes on; see it with: {again}"), err=True)
        return Exit.INTERRUPTED
    written(found, chosen, out)
    return Exit.PARTLY if found.skipped + found.missed else Exit.OK


def written(found: "BackfillView", chosen: Sequence[str], out: OutputOptions) -> int:
    """Write a backfill; return the exit code."""
    row = found.to_json()
    out.write_one(row, {name: plain(value) for name, value in row.items()}, chosen)
    return Exit.OK


def _confirm_future(session: Session, plan: "BackfillPlanView", *, yes: bool) -> None:
    """Ask for a confirmation if the plan has times in the future. Raises UsageError if no terminal can confirm it."""
    now = session.now
    count = sum(from_datetime(time.nominal) > now for time in plan.times)
    if not count or yes:
        return
    said = f"{count:,} of these times {'is' if count == 1 else 'are'} still to come, and would run now and again then"
    if not is_terminal(sys.stdin):
        raise click.UsageError(f"{said}; give --yes where no terminal can confirm it, or an earlier --end-time")
    click.confirm(f"{said}. Start the backfill?", abort=True, err=True)


def _plan(session: Session, sid: str, flags: BackfillFlags) -> "BackfillPlanView":
    """Return the plan of a backfill, and describe it on stderr."""
    from evertick.cli.schedule.words import iso

    start, end = flags.span(session, sid)
    plan = session.schedules.backfill_plan(sid, start, end, **flags.choice)
    words = [f"{plan.count:,} time{'' if plan.count == 1 else 's'}"]
    words.append(f"from {iso(plan.start)} to {iso(plan.end)} (both included)")
    if plan.times:
        words += [f"first {iso(plan.times[0].nominal)}", f"last {iso(plan.times[-1].nominal)}"]
    ran = len(plan.already_ran)
    is_left_out = flags.only_missed or not flags.include_done
    again = f"{'is' if ran == 1 else 'are'} left out" if is_left_out else "will run again"
    words.append(f"{ran:,} already ran" + (f" and {again}" if ran else ""))
    click.echo("   ".join(words), err=True)
    if plan.count > 1 and (policy := lossy_policy(session, sid, flags, given=plan.overlap)) is not None:
        click.echo(f"note: with {policy} {LOSSY[policy]}; {SAFE}", err=True)
    return plan


def _list_times(plan: "BackfillPlanView", out: OutputOptions) -> None:
    """List the times, each with a mark if it ran before."""
    from evertick.api.commands import PlannedTime

    chosen = out.columns(PlannedTime.names(), ("nominal",))
    ran = set(plan.already_ran)
    rows = [PlannedTime(**dict(time), already_ran=time.nominal in ran).to_json() for time in plan.times]
    out.write_rows(rows, [{name: plain(value) for name, value in row.items()} for row in rows], chosen)


def _until_done(session: Session, found: "BackfillView") -> "BackfillView":
    """Wait until all runs of a backfill have ended, and return it. The progress is written to stderr."""
    try:
        with ChangeWaiter(session.store) as news:
            return _watched(session, found, news)
    finally:
        if sys.stderr.isatty():
            click.echo(err=True)


def _watched(session: Session, found: "BackfillView", news: ChangeWaiter) -> "BackfillView":
    from evertick.cli.schedule.words import backfill_line

    said = ""
    alone_said = False
    while True:
        line = backfill_line(found)
        if line != said:
            click.echo(f"\r\x1b[K{line}" if sys.stderr.isatty() else line, nl=not sys.stderr.isatty(), err=True)
            said = line
        if found.done and found.ended == found.started:
            return found
        alone_said = alone_said or note_if_alone(session)
        news.wait(POLL_EVERY_S)
        found = session.schedules.backfill_status(found.schedule, found.id)

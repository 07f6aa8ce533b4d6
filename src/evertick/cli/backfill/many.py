"""Backfills of all schedules that a query chooses: planned, listed, confirmed, and started one by one.

Each is started with the token of its plan, so one that changed meanwhile is left out and reported by name.
"""

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from evertick.base.errors import EvertickError
from evertick.base.escaping import printable
from evertick.base.instants import from_datetime
from evertick.cli.backfill.flags import BackfillFlags, notes_of_many
from evertick.cli.core.exits import Exit
from evertick.cli.core.output import OutputOptions, is_terminal, plain
from evertick.cli.schedule.selection import counted, queried
from evertick.cli.schedule.session import Session, note_if_alone, open_session

if TYPE_CHECKING:
    from evertick.api.schedules import BackfillView, PlannedBackfill

SHOWN = ("schedule", "count", "already_ran", "first", "last")


def backfill_all(
    query: str,
    sid: str | None,
    flags: BackfillFlags,
    db: str | None,
    out: OutputOptions,
    until_done: "Callable[[Session, BackfillView], BackfillView]",
) -> int:
    """List the planned backfills and start them after a confirmation; return the exit code.

    With --wait, each backfill is then watched by `until_done`, one after the other.
    """
    if sid is not None or flags.watched is not None or flags.canceled is not None:
        raise click.UsageError("--query chooses many schedules; leave out the id, --watch and --cancel")
    from evertick.api.schedules import PlannedBackfill

    chosen = out.columns(PlannedBackfill.names(), SHOWN)
    with open_session(db) as session:
        start, end = flags.span(session, None)  # once: each plan is of just this span
        plans = _plans(session, query, (start, end), flags)
        rows = [plan.to_json() for plan in plans]
        out.write_rows(rows, [{name: plain(value) for name, value in row.items()} for row in rows], chosen)
        todo = [plan for plan in plans if plan.count]
        failed = [(plan.schedule, plan.problem) for plan in plans if plan.problem is not None]
        if not plans and out.tells_of_nothing:
            click.echo(
                "no time to run: no schedule is chosen, or none of them has one between these moments that no backfill "
                "under way will run (evertick backfill list ID)",
                err=True,
            )
        for note in notes_of_many(session, [plan.schedule for plan in todo if plan.count > 1], flags):
            click.echo(note, err=True)
        if flags.dry_run or not todo:
            return _report_failures(failed)
        times = sum(plan.count for plan in todo)
        ahead = from_datetime(end) > session.now
        said = f"Backfill {times:,} time{'' if times == 1 else 's'} of {counted(len(todo))}"
        said += ", some of which are still to come and will run again then" if ahead else ""
        if not flags.yes:
            if not is_terminal(sys.stdin):
                raise click.UsageError("this may start many runs; give --yes where no terminal can confirm it")
            click.confirm(f"{said}?", abort=True, err=True)
        started: list[BackfillView] = []
        for plan in todo:
            try:
                started.append(session.schedules.backfill(plan.schedule, start, end, token=plan.token, **flags.choice))
            except EvertickError as error:
                failed.append((plan.schedule, str(error)))
        click.echo(f"started backfills of {counted(len(started))}", err=True)
        if not flags.waiting:
            note_if_alone(session)
            return _report_failures(failed)
        for backfill in map(partial(until_done, session), started):
            if lost := backfill.skipped + backfill.missed:
                failed.append((backfill.schedule, f"{lost:,} of its times were skipped or missed"))
    return _report_failures(failed)


def _plans(
    session: Session, query: str, span: tuple[datetime, datetime], flags: BackfillFlags
) -> "list[PlannedBackfill]":
    """The plans of the chosen schedules that have times to run, or that have a `problem`."""
    where = queried(query, session.now)
    found: list[PlannedBackfill] = []
    cursor: str | None = None
    while True:
        page = session.schedules.backfill_plans(*span, cursor=cursor, **flags.choice, **where)
        found += [plan for plan in page.plans if plan.count or plan.problem is not None]
        cursor = page.cursor
        if cursor is None:
            return found


def _report_failures(failed: Sequence[tuple[str, str | None]]) -> int:
    for name, why in failed:
        click.echo(printable(f"{name}: {why}"), err=True)
    return Exit.PARTLY if failed else Exit.OK

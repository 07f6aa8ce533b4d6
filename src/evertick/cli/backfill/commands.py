"""`evertick backfill ...`: backfills that were started, by their schedule and their id."""

import click

from evertick.cli.backfill.start import SHOWN, columns, finished, written
from evertick.cli.core.databases import Command, data_options
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import OutputOptions, row_options
from evertick.cli.schedule.session import open_session

LIST_FIELDS = ("id", "asked", "start", "end", *SHOWN[1:])

_schedule = click.argument("sid", metavar="SCHEDULE")


def _of_one(command: Command) -> Command:
    """Add SCHEDULE, ID, `--db`, `--tenant`, `-o` and `--fields` to a command about one backfill."""
    command = data_options(row_options(command))
    return _schedule(click.argument("backfill_id", metavar="ID")(command))


@click.group("backfill", cls=LazyGroup)
def backfills() -> None:
    """Backfills that were started with `evertick schedule backfill`."""


@backfills.command("list")
@_schedule
@click.option("--limit", type=click.IntRange(1, 100), default=100, show_default=True)
@data_options
@row_options
def list_backfills(sid: str, limit: int, db: str | None, out: OutputOptions) -> None:
    """List the last backfills of a schedule, the newest first."""
    from evertick.api.schedules import BackfillView

    chosen = out.columns(BackfillView.names(), LIST_FIELDS)
    with open_session(db) as session:
        found = session.schedules.backfills(sid, limit=limit)
        now = session.now
    out.show_views(found, now, chosen)
    if not found and out.tells_of_nothing:
        click.echo("no backfills", err=True)


@backfills.command("get")
@_of_one
def get(sid: str, backfill_id: str, db: str | None, out: OutputOptions) -> None:
    """Show how far a backfill has come."""
    chosen = columns(out)
    with open_session(db) as session:
        written(session.schedules.backfill_status(sid, backfill_id), chosen, out)


@backfills.command("watch")
@_of_one
def watch(sid: str, backfill_id: str, db: str | None, out: OutputOptions) -> int:
    """Show how a backfill goes on until it is done, or Ctrl-C, which leaves it alone.

    The exit code is 6 if some of its times were skipped or missed.
    """
    chosen = columns(out)
    with open_session(db) as session:
        return finished(session, session.schedules.backfill_status(sid, backfill_id), chosen, out)


@backfills.command("stop")
@_of_one
def stop(sid: str, backfill_id: str, db: str | None, out: OutputOptions) -> None:
    """End a backfill: what waits is skipped, and what runs goes on."""
    chosen = columns(out)
    with open_session(db) as session:
        written(session.schedules.backfill_cancel(sid, backfill_id), chosen, out)

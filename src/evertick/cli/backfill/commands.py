"""`evertick backfill ...`: backfills that were started, by their schedule and their id."""

import click

from evertick.cli.backfill.start import SHOWN, finished, written
from evertick.cli.core.databases import data_options
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import OutputOptions, row_options, words_of
from evertick.cli.schedule.session import open_session

LIST_FIELDS = ("id", "asked", "start", "end", *SHOWN[1:])

_schedule = click.argument("sid", metavar="SCHEDULE")
_backfill = click.argument("backfill_id", metavar="ID")


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
        moment = out.moments(session.now)
    out.write_rows([each.to_json() for each in found], [words_of(each, moment) for each in found], chosen)
    if not found and out.tells_of_nothing:
        click.echo("no backfills", err=True)


@backfills.command("get")
@_schedule
@_backfill
@data_options
@row_options
def get(sid: str, backfill_id: str, db: str | None, out: OutputOptions) -> None:
    """Show how far a backfill has come."""
    from evertick.api.schedules import BackfillView

    chosen = out.columns(BackfillView.names(), SHOWN)
    with open_session(db) as session:
        written(session.schedules.backfill_status(sid, backfill_id), chosen, out)


@backfills.command("watch")
@_schedule
@_backfill
@data_options
@row_options
def watch(sid: str, backfill_id: str, db: str | None, out: OutputOptions) -> int:
    """Show how a backfill goes on until it is done, or Ctrl-C, which leaves it alone.

    The exit code is 6 if some of its times were skipped or missed.
    """
    from evertick.api.schedules import BackfillView

    chosen = out.columns(BackfillView.names(), SHOWN)
    with open_session(db) as session:
        return finished(session, session.schedules.backfill_status(sid, backfill_id), chosen, out)


@backfills.command("stop")
@_schedule
@_backfill
@data_options
@row_options
def stop(sid: str, backfill_id: str, db: str | None, out: OutputOptions) -> None:
    """End a backfill: what waits is skipped, and what runs goes on."""
    from evertick.api.schedules import BackfillView

    chosen = out.columns(BackfillView.names(), SHOWN)
    with open_session(db) as session:
        written(session.schedules.backfill_cancel(sid, backfill_id), chosen, out)

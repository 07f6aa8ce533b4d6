"""`evertick cron ...`: the crons that an app's code declares, and those that it registers at run time.

They are schedules like any other, so `evertick schedule` shows and explains them too. What they are is changed in the
code; they can be paused and triggered here.
"""

import click

from evertick.cli.core.databases import data_options
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import OutputOptions, time_row_options
from evertick.cli.schedule.list import ListFlags, list_options, write_description, write_list
from evertick.cli.schedule.pause import (
    PauseFlags,
    ResumeFlags,
    pause_one,
    pause_options,
    resume_one,
    resume_options,
)
from evertick.cli.schedule.session import open_session
from evertick.cli.schedule.trigger import TriggerFlags, cron_trigger_options, trigger_one

KIND = "cron"


@click.group(cls=LazyGroup)
def cron() -> None:
    """Crons declared in code: when they run, and what became of them."""


@cron.command("list")
@list_options("next")
@data_options
@time_row_options
def list_crons(flags: ListFlags, db: str | None, out: OutputOptions) -> None:
    """List crons, the one that runs next first."""
    write_list(flags, db, out, kind=KIND)


@cron.command("get")
@click.argument("name")
@data_options
@time_row_options
def get(name: str, db: str | None, out: OutputOptions) -> None:
    """Show a cron: times, function, policies, state, and its recent, current and coming runs."""
    write_description(name, db, out, kind=KIND)


@cron.command("trigger")
@click.argument("name")
@cron_trigger_options
@data_options
@time_row_options
def trigger(name: str, flags: TriggerFlags, db: str | None, out: OutputOptions) -> int:
    """Start one run of a cron now."""
    with open_session(db) as session:
        return trigger_one(session, name, flags, out, kind=KIND)


@cron.command("pause")
@click.argument("name")
@pause_options
@data_options
def pause(name: str, flags: PauseFlags, db: str | None) -> None:
    """Pause a cron. Starting the app again does not resume it."""
    with open_session(db) as session:
        pause_one(session, name, flags, kind=KIND)


@cron.command("resume")
@click.argument("name")
@resume_options
@data_options
def resume(name: str, flags: ResumeFlags, db: str | None) -> None:
    """Let a cron go on, from now."""
    with open_session(db) as session:
        resume_one(session, name, flags, kind=KIND)

"""`evertick cron ...`: the crons that an app's code declares, and those that it registers at run time.

They are schedules like any other, so `evertick schedule` shows and explains them too. What they are is changed in the
code; they can be paused and triggered here.
"""

from collections.abc import Callable
from typing import Any

import click

from evertick.cli.core.databases import data_options
from evertick.cli.core.flags import flags
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import OutputOptions, output_option, time_row_options
from evertick.cli.schedule.list import ListFlags, write_description, write_list
from evertick.cli.schedule.pause import PauseFlags, ResumeFlags, pause_one, resume_one
from evertick.cli.schedule.session import open_session
from evertick.cli.schedule.trigger import TriggerFlags, trigger_one

KIND = "cron"


@click.group(cls=LazyGroup)
def cron() -> None:
    """Crons declared in code: when they run, and what became of them."""


def _on_one(command: str, *options: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command about one cron, which it receives as `name`."""

    def register(work: Callable[..., Any]) -> click.Command:
        for option in reversed((click.argument("name"), *options, data_options)):
            work = option(work)
        return cron.command(command)(work)

    return register


@cron.command("list")
@flags(ListFlags, "chosen", changed={"sort": {"default": "next"}})
@data_options
@time_row_options
def list_crons(chosen: ListFlags, db: str | None, out: OutputOptions) -> None:
    """List crons, the one that runs next first."""
    write_list(chosen, db, out, kind=KIND)


@_on_one("get", time_row_options)
def get(name: str, db: str | None, out: OutputOptions) -> None:
    """Show a cron: times, function, policies, state, and its recent, current and coming runs."""
    write_description(name, db, out, kind=KIND)


@_on_one("trigger", flags(TriggerFlags, "how"), time_row_options)
def trigger(name: str, how: TriggerFlags, db: str | None, out: OutputOptions) -> int:
    """Start one run of a cron now."""
    with open_session(db) as session:
        return trigger_one(session, name, how, out, kind=KIND)


@_on_one("pause", flags(PauseFlags, "how"), output_option)
def pause(name: str, how: PauseFlags, db: str | None, out: OutputOptions) -> None:
    """Pause a cron. Starting the app again does not resume it."""
    with open_session(db) as session:
        out.write_view(pause_one(session, name, how, kind=KIND))


@_on_one("resume", flags(ResumeFlags, "how"), output_option)
def resume(name: str, how: ResumeFlags, db: str | None, out: OutputOptions) -> None:
    """Let a cron go on, from now."""
    with open_session(db) as session:
        out.write_view(resume_one(session, name, how, kind=KIND))

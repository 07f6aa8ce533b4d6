"""`evertick schedule create`: make a schedule; with `--dry-run` only say what it would be."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from evertick.base.escaping import printable
from evertick.cli.core.databases import data_options
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import OutputOptions, output_option
from evertick.cli.schedule.flags import DefinitionFlags, SpecFlags, definition_options, say_if_unseen, spec_options
from evertick.cli.schedule.selection import app_option, sid_option
from evertick.cli.schedule.session import Session, open_session

if TYPE_CHECKING:
    from evertick.api.schedules import ScheduleDescription


@dataclass(frozen=True, slots=True)
class CreateFlags:
    """The options for the initial state of a schedule."""

    paused: bool = flag("--paused", default=False, help="Begin paused; --notes says why.")
    trigger: bool = flag("--trigger", default=False, help="Start one run at once, besides its times.")
    request_id: str | None = flag(
        "--request-id", metavar="ID", help="Make the call repeatable: again with it, the same schedule."
    )
    dry_run: bool = flag("--dry-run", default=False, help="Check everything and show the times; write nothing.")
    app_file: str | None = shared(app_option)
    db: str | None = shared(data_options)


@click.command()
@sid_option
@spec_options
@definition_options
@flags(CreateFlags, "initial")
@output_option
def create(
    sid: str, spec_flags: SpecFlags, definition: DefinitionFlags, initial: CreateFlags, out: OutputOptions
) -> None:
    """Create a schedule: when (flags of times, united), what (--function, --input), and its policies."""
    from evertick.app.schedules.options import CreateOptions
    from evertick.cli.schedule.words import SHOWN, write_times

    with open_session(initial.db, initial.app_file) as session:
        spec = spec_flags.spec(now=session.now // 1000)
        call = definition.call(session.functions)
        if call is None:
            raise click.UsageError("give --function NAME, the function to call, or --script NAME")
        definition.check_pool(call, session.pool_of)
        new = CreateOptions(
            sid, when=spec, do=call, paused=initial.paused, trigger=initial.trigger, request_id=initial.request_id,
            **definition.options(),
        )  # fmt: skip
        existed, made = session.created(new, dry_run=initial.dry_run)
        did = "exists already, as this" if existed else "would be created" if initial.dry_run else "created"
        _say(session, f"{made.id} {did}", made)
        if not existed:
            for warning in made.warnings:
                click.echo(f"note: {warning.message}", err=True)
            say_if_unseen(call.function, made.target.args)
            definition.say_if_lifted()
        if out.is_data:
            from evertick.api.commands import CreatedSchedule

            out.write_json(CreatedSchedule.of(made, dry_run=initial.dry_run).to_json())
        elif not out.is_none:
            write_times(made.upcoming[:SHOWN], made.spec, session.now)


def _say(session: Session, what: str, schedule: "ScheduleDescription") -> None:
    from evertick.cli.schedule.words import say_state
    from evertick.recurrence.lint import lint

    click.echo(printable(f"{what}: {schedule.sentence}" if schedule.sentence else what), err=True)
    say_state(schedule)
    notes = [f"{each.where}: {each.message}" for each in lint(schedule.spec, session.now // 1000)]
    for note in notes:
        click.echo(f"note: {printable(note)}", err=True)

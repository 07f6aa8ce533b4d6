"""`evertick schedule create`: make a schedule; with `--dry-run` only say what it would be."""

from typing import Any, Final

import click

from evertick.app.schedule_views import ScheduleDescription
from evertick.base.errors import Misuse
from evertick.base.ids import DEFAULT_TENANT, ScheduleId
from evertick.base.instants import Instant
from evertick.cli.databases import db_option
from evertick.cli.output import output_option
from evertick.cli.printable import json_text, printable
from evertick.cli.schedule_desk import Desk, app_option, open_desk, sid_option
from evertick.cli.schedule_flags import DefinitionFlags, definition_options, say_if_unseen
from evertick.cli.schedule_rows import description_row
from evertick.cli.schedule_times import write_times
from evertick.cli.spec_flags import SpecFlags, spec_options
from evertick.rules.recurrence import Spec
from evertick.rules.recurrence.lint import lint
from evertick.store.contract import Transaction

SHOWN: Final = 5
"""Coming times that are shown."""


@click.command()
@sid_option
@spec_options
@definition_options
@click.option("--paused", is_flag=True, help="Begin paused; --notes says why.")
@click.option("--trigger", is_flag=True, help="Start one run at once, besides its times.")
@click.option("--request-id", metavar="ID", help="Make the call repeatable: again with it, the same schedule.")
@click.option("--dry-run", is_flag=True, help="Check everything and show the times; write nothing.")
@app_option
@db_option
@output_option
def create(
    sid: str, spec_flags: SpecFlags, flags: DefinitionFlags, paused: bool, trigger: bool, request_id: str | None,
    dry_run: bool, app_file: str | None, db: str | None, output: str | None,
) -> None:  # fmt: skip
    """Create a schedule: when (flags of times, united), what (--type, --input), and its policies."""
    with open_desk(db, app_file) as desk:
        spec = spec_flags.spec(now=desk.now // 1000)
        call = flags.call(desk.operations.functions)
        if call is None:
            raise click.UsageError("what shall it do? give --type NAME, the function to call")
        making = desk.operations.create(
            sid, when=spec, do=call, paused=paused, note=flags.notes or "", trigger=trigger,
            remaining_actions=flags.remaining_actions, request_id=request_id, **flags.defining(),
        )  # fmt: skip
        name = ScheduleId(sid)

        def work(transaction: Transaction) -> tuple[bool, ScheduleDescription]:
            existed = transaction.get_schedule(name, tenant=DEFAULT_TENANT) is not None
            return existed, making(transaction)

        existed, made = desk.rehearse(work) if dry_run else desk.do(work)
        did = "exists already, as this" if existed else "would be created" if dry_run else "created"
        _say(desk, f"{made.id} {did}", made, spec)
        if not existed:
            say_if_unseen(call)
        show(made, output, desk.now, {"dry_run": True} if dry_run else {})


def show(schedule: ScheduleDescription, output: str | None, now: Instant, extra: dict[str, Any]) -> None:
    """Write a schedule that was made or changed: all of it for programs, its next times for people."""
    if output in ("json", "jsonl"):
        row = description_row(schedule) | extra
        click.echo(json_text(row, indent=2 if output == "json" else None))
    elif output != "none":
        write_times(schedule.upcoming[:SHOWN], schedule.spec, now)


def say_state(schedule: ScheduleDescription) -> None:
    """What somebody who expects runs should know."""
    if not schedule.spec.has_sources:
        click.echo("note: it names no times; runs of it are only triggered", err=True)
    if schedule.pause is not None:
        why = f": {printable(schedule.pause.note)}" if schedule.pause.note else ""
        click.echo(f"note: it is paused{why}", err=True)
    elif schedule.ending is not None:
        click.echo(f"note: it has ended ({schedule.ending})", err=True)


def named(sid: str | None) -> str:
    """The schedule's id. Raises Misuse if it is missing."""
    if sid is None:
        raise Misuse("which schedule? give --sid ID")
    return sid


def _say(desk: Desk, what: str, schedule: ScheduleDescription, spec: Spec) -> None:
    click.echo(printable(f"{what}: {schedule.sentence}" if schedule.sentence else what), err=True)
    say_state(schedule)
    for remark in lint(spec, desk.now // 1000):
        click.echo(f"note: {printable(f'{remark.where}: {remark.message}')}", err=True)

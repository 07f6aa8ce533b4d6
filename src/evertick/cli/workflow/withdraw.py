"""`evertick workflow withdraw`: an event that was sent is taken back."""

from dataclasses import dataclass

import click

from evertick.base.escaping import json_text, printable
from evertick.cli.core.databases import data_options
from evertick.cli.core.flags import flag, flags
from evertick.cli.core.output import OutputOptions, row_options, words_of
from evertick.cli.workflow.session import open_runs


@dataclass(frozen=True, slots=True)
class WhichFlags:
    """Which of several events of a name is meant."""

    id: str | None = flag("--id", metavar="EVENT_ID", help="Which one, where several of the name wait.")
    key: str | None = flag("--key", metavar="KEY", help="The one that was sent with this key.")


@click.command()
@click.argument("run_id", metavar="ID")
@click.argument("event")
@flags(WhichFlags, "which")
@data_options
@row_options
def withdraw(run_id: str, event: str, which: WhichFlags, db: str | None, out: OutputOptions) -> None:
    """Take back an EVENT that was sent to a run and that its code has not taken. It is written, with its value.

    What the code has taken is refused. An event under a wrong name can be sent again under the right one.
    """
    from evertick.api.workflows import WithdrawnEvent

    chosen = out.columns(WithdrawnEvent.names(), WithdrawnEvent.names())
    with open_runs(db) as session:
        found = session.runs.withdraw(run_id, event, id=which.id, key=which.key)
        words = words_of(found, out.moments(session.now)) | {"value": json_text(found.value)}
    click.echo(f"withdrew {printable(event)} from {printable(run_id)}", err=True)
    out.write_one(found.to_json(), words, chosen)

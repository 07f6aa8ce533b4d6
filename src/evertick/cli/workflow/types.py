"""`evertick workflow type ...`: the workflows themselves, and whether runs of them start. Imports no app."""

from collections.abc import Callable

import click

from evertick.api.workflows import WorkflowTypeView
from evertick.app.transacting import Work
from evertick.app.workflows.types import TypeOperations
from evertick.cli.core.databases import db_option, open_database
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import OutputOptions, row_options, words_of
from evertick.cli.workflow.session import session_on

FIELDS = WorkflowTypeView.names()


@click.group("type", cls=LazyGroup)
def types() -> None:
    """Workflows themselves: which there are, and whether runs of them start."""


@types.command("list")
@click.option("--deleted", is_flag=True, help="Deleted ones, too.")
@db_option
@row_options
def list_types(deleted: bool, db: str | None, out: OutputOptions) -> None:
    """List the workflows of live workers, and those that were given a status."""
    chosen = out.columns(FIELDS, FIELDS)
    with open_database(db) as store:
        session = session_on(store)
        found = session.read(TypeOperations(session.operations.job_builder).list(deleted=deleted))
        moment = out.moments(session.now)
    out.write_rows([view.to_json() for view in found], [words_of(view, moment) for view in found], chosen)
    if not found and out.tells_of_nothing:
        click.echo("no workflows", err=True)


def _add(operation: Callable[[TypeOperations, str], Work[WorkflowTypeView]], words: str) -> None:
    """Add a command, named as the operation, that does it with the workflow NAME and shows it."""

    @types.command(operation.__name__, help=words)
    @click.argument("name")
    @db_option
    @row_options
    def command(name: str, db: str | None, out: OutputOptions) -> None:
        chosen = out.columns(FIELDS, FIELDS)
        with open_database(db) as store:
            session = session_on(store)
            do = session.read if operation is TypeOperations.get else session.write
            view = do(operation(TypeOperations(session.operations.job_builder), name))
            moment = out.moments(session.now)
        out.write_one(view.to_json(), words_of(view, moment), chosen)


_add(TypeOperations.get, "Show a workflow: its status, and since when it has it.")
_add(TypeOperations.pause, "Let no run of a workflow start: schedules skip their times. Runs that have begun go on.")
_add(TypeOperations.resume, "Let runs of a paused, deprecated or deleted workflow start again.")
_add(TypeOperations.deprecate, "As pause, for a workflow that is to start no more.")
_add(
    TypeOperations.delete,
    "As deprecate; it is not listed, and its schedules are removed at their next time. Runs stay.",
)

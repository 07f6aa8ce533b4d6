"""`evertick workflow type ...`: the workflows themselves, and whether runs of them start. Imports no app."""

import click

from evertick.cli.core.databases import source_options
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import OutputOptions, row_options
from evertick.cli.workflow.session import open_runs


@click.group("type", cls=LazyGroup)
def types() -> None:
    """Workflows themselves: which there are, and whether runs of them start."""


@types.command("list")
@click.option("--deleted", is_flag=True, help="Deleted ones, too.")
@source_options
@row_options
def list_types(deleted: bool, db: str | None, out: OutputOptions) -> None:
    """List the workflows of live workers, and those that were given a status."""
    from evertick.api.workflows import WorkflowTypeView

    chosen = out.columns(WorkflowTypeView.names(), WorkflowTypeView.names())
    with open_runs(db) as session:
        found = session.types.list(deleted=deleted)
        now = session.now
    out.show_views(found, now, chosen)
    if not found and out.tells_of_nothing:
        click.echo("no workflows", err=True)


def _add(operation: str, words: str) -> None:
    """Add a command, named as the operation, that does it with the workflow NAME and shows it."""

    @types.command(operation, help=words)
    @click.argument("name")
    @source_options
    @row_options
    def command(name: str, db: str | None, out: OutputOptions) -> None:
        from evertick.api.workflows import WorkflowTypeView

        chosen = out.columns(WorkflowTypeView.names(), WorkflowTypeView.names())
        with open_runs(db) as session:
            view: WorkflowTypeView = getattr(session.types, operation)(name)
            now = session.now
        out.show_view(view, now, chosen)


_add("get", "Show a workflow: its status, and since when it has it.")
_add("pause", "Let no run of a workflow start: schedules skip their times. Runs that have begun go on.")
_add("resume", "Let runs of a paused, deprecated or deleted workflow start again.")
_add("deprecate", "As pause, for a workflow that is to start no more.")
_add(
    "delete",
    "As deprecate; it is not listed, and its schedules are removed at their next time. Runs stay.",
)

"""`evertick workflow signal`, `cancel`, `terminate`, `pause` and `resume`."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evertick.base.errors import Conflict, EvertickError
from evertick.base.escaping import json_text, printable
from evertick.base.paging import PAGE_MAX
from evertick.base.records.workflows import OPEN, RunState
from evertick.cli.core.connections import chosen_server
from evertick.cli.core.databases import data_options, source_options
from evertick.cli.core.exits import Exit, exit_code_of
from evertick.cli.core.flags import flag, flags, not_empty, shared
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import OutputOptions, output_option, row_options, words_of
from evertick.cli.core.progress import confirm_count
from evertick.cli.json_values import given_json, json_or_text
from evertick.cli.root import fail
from evertick.cli.run import refuse_app
from evertick.cli.sessions.base import naming_other_tenants, say_nothing_found
from evertick.cli.workflow.runs import RunFilters
from evertick.cli.workflow.session import AnyRunSession, open_runs

if TYPE_CHECKING:
    from evertick.api.workflows import RunDetails, RunTimeline


class RunEnded(Conflict):
    """The run has ended, or is not paused, so nothing can be changed."""

    code = "run_ended"


@dataclass(frozen=True, slots=True)
class SignalFlags:
    """The options for the value of an event."""

    word: str | None = shared(click.argument("word", metavar="[VALUE]", required=False))
    json_words: str | None = flag("--json", metavar="JSON", help="The value as JSON, instead of VALUE.")
    json_file: Path | None = flag(
        "--file", type=click.Path(path_type=Path), metavar="FILE", help="The same, from a file; - is stdin."
    )
    key: str | None = flag("--key", metavar="KEY", help="Of several events with a key the run sees the first one.")
    app_file: str | None = flag(
        "--app", metavar="FILE", callback=not_empty, help="Check the event against this app's code."
    )

    def value(self) -> Any:
        """The value of the event; None if none is given. Raises UsageError."""
        given = given_json(self.json_words, self.json_file, "the value")
        if given is None:
            return None if self.word is None else json_or_text(self.word, "VALUE")
        if self.word is not None:
            raise click.UsageError(f"VALUE and {given[1]} both bring the value; give one")
        return given[0]


@click.command()
@click.argument("run_id", metavar="ID")
@click.argument("event")
@flags(SignalFlags, "what")
@data_options
@output_option
def signal(run_id: str, event: str, what: SignalFlags, db: str | None, out: OutputOptions) -> None:
    """Send EVENT to a run, which takes it with step.wait_for. VALUE is read as JSON if it is, else as text.

    What begins as JSON, with {, [ or ", and is none is refused.
    """
    from evertick.api.commands import SentEvent

    value = what.value()
    if chosen_server(db) is not None:
        refuse_app(what.app_file)
    with open_runs(db) as session:
        if what.app_file is not None:
            value = _declared(what.app_file, session.runs.get(run_id).function, event, value)
        seen = session.runs.timeline(run_id, limit=1)
        waits = seen.waits_for_event(event)
        session.runs.signal(run_id, event, value, key=what.key)
    kept = "" if waits else f"; its code does not wait for that now, the event is kept{_meant(run_id, event, seen)}"
    click.echo(f"sent {printable(event)} to {printable(run_id)}{kept}", err=True)
    out.write_view(SentEvent(run=run_id, event=event, awaited=waits))


def _meant(run_id: str, event: str, seen: "RunTimeline") -> str:
    """A hint after an event for which the run does not wait: the events for which it waits, and similar names."""
    from evertick.app.registry import nearest_names

    names = seen.awaited_events
    if not names:
        return ""
    near = nearest_names(event, names)
    words = " or ".join(map(printable, near))
    waits = f"; it waits for {', '.join(map(printable, names))}"
    if not near:
        return waits
    run, sent = shlex.quote(printable(run_id)), shlex.quote(printable(event))
    return f"{waits}; did you mean {words}? `evertick workflow withdraw {run} {sent}` takes the other one back"


@dataclass(frozen=True, slots=True)
class OpenRuns(RunFilters):
    """Open runs, given by their ids or keys, or selected by filters."""

    run_ids: tuple[str, ...] = shared(click.argument("run_ids", metavar="[ID]...", nargs=-1))
    is_all: bool = flag("--all", default=False, help="All open runs.")
    yes: bool = flag("--yes", default=False, help="Do not ask for confirmation.")

    def check(self, states: tuple[RunState, ...]) -> None:
        """Raise UsageError for options that contradict each other, or for a state that is not one of `states`."""
        if bool(self.run_ids) == (self.is_all or self.is_given):
            raise click.UsageError(
                "name the runs by their ids or keys, or choose them with --workflow, --state, --prefix, --schedule, "
                "--attribute, --error, --since, --until, --occurrence-from, --occurrence-until or --all"
            )
        if self.not_retried or not set(self.states) <= set(states):
            raise click.UsageError(f"--state is {' or '.join(states)} here")

    def ids(self, session: AnyRunSession, states: tuple[RunState, ...]) -> tuple[str, ...]:
        """The ids of the runs that the filters select, in the given states, or else in any of `states`."""
        where = self.where(session.now)
        where["state"] = self.states or states
        found, cursor = list[str](), None
        while True:
            page = session.runs.list(self.workflow, limit=PAGE_MAX, cursor=cursor, **where)
            found += [run.id for run in page.runs]
            cursor = page.cursor
            if cursor is None:
                return tuple(found)


def _of_each_run(operation: str, says: str, words: str, states: tuple[RunState, ...]) -> click.Command:
    """Make a command with the name of the operation, which changes one run after the other and prints each.

    `states` are the states of runs that it can change.
    """

    @click.command(operation, help=words)
    @flags(OpenRuns, "choice")
    @data_options
    @output_option
    def command(choice: OpenRuns, db: str | None, out: OutputOptions) -> int:
        choice.check(states)
        with open_runs(db) as session:
            run_ids = choice.run_ids or choice.ids(session, states)
            if not run_ids:
                if choice.workflow is not None:
                    session.require_known(choice.workflow)
                say_nothing_found("runs", session.store)
            elif not choice.run_ids and not choice.yes:
                count = len(run_ids)
                confirm_count(f"{operation} {'1 run' if count == 1 else f'{count:,} runs'}", count)
            return each_run(session, run_ids, getattr(session.runs, operation), says, out)

    return command


cancel = _of_each_run(
    "cancel",
    "asked {} to end",
    "Ask runs to end: their code meets CancelledError where it waits, and can clean up. An ended one is refused.",
    OPEN,
)
terminate = _of_each_run(
    "terminate",
    "terminated {}",
    "End runs at once: none of their code runs any more. An ended one is refused.",
    OPEN,
)
pause = _of_each_run(
    "pause",
    "paused {}",
    """Let runs take no further step until they are resumed or canceled. An ended one is refused.

    Events are kept, and timers that come due meanwhile are seen when the run is resumed.
    """,
    (RunState.PENDING, RunState.RUNNING),
)
resume = _of_each_run(
    "resume", "resumed {}", "Let paused runs go on. One that is not paused is refused.", (RunState.PAUSED,)
)


# -- helpers


def each_run(
    session: AnyRunSession, run_ids: tuple[str, ...], change: Callable[[str], bool], says: str, out: OutputOptions
) -> int:
    """Change one run after the other; return the exit code."""
    codes, changed = list[int](), list["RunDetails"]()
    for run_id in run_ids:
        try:
            with naming_other_tenants(session.store):
                is_changed = change(run_id)
            if not is_changed:
                run = session.runs.get(run_id)
                is_open = not run.has_ended
                raise RunEnded(f"run {run.id} {f'is {run.state}' if is_open else f'has ended already ({run.state})'}")
        except EvertickError as error:
            codes.append(fail(str(error), exit_code_of(error)))
        else:
            codes.append(int(Exit.OK))
            click.echo(says.format(printable(run_id)), err=True)
            if out.is_data:
                changed.append(session.runs.get(run_id))
    out.write_views(changed)
    failures = [code for code in codes if code]
    return Exit.PARTLY if failures and len(failures) < len(codes) else max(failures, default=Exit.OK)


def _declared(app_file: str, workflow: str, event: str, value: Any) -> Any:
    """The value of an event, as the workflow's code declares its type. Raises Misuse, InvalidArguments."""
    from evertick.cli.core.loading import load_app, parse_target

    events = load_app(parse_target(app_file)).app.functions.resolve(workflow).events
    return value if events is None else json.loads(events.write(event, value))


# -- `evertick workflow withdraw`: an event that was sent is taken back.


@dataclass(frozen=True, slots=True)
class WhichFlags:
    """The options that select one of several events with the same name."""

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


# -- `evertick workflow type ...`: the workflows themselves, and whether runs of them start. Imports no app.


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
    """Add a command with the name of the operation, which applies it to the workflow NAME and shows the result."""

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

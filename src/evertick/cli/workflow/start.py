"""`evertick workflow start` and `wait`: a run from its beginning to its end.

`start` imports the app, which the name of the workflow's module names, to check the arguments; the run goes on in the
app's worker.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.app.functions.options import OnConflict
from evertick.base.errors import Misuse
from evertick.base.escaping import printable, shell_word
from evertick.base.records.jobs import FunctionKind
from evertick.base.records.workflows import RunState
from evertick.base.suggested_commands import tenant_option
from evertick.cli.core.connections import chosen_server
from evertick.cli.core.databases import chosen_tenant, data_options
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import OutputOptions, row_options
from evertick.cli.core.watching import ChangeWaiter
from evertick.cli.run import CallFlags, encoded, given_arguments, opened, refuse_app, unread
from evertick.cli.schedule.flags import window
from evertick.cli.workflow.runs import ATTRIBUTE_HELP, attributes_of, write_run
from evertick.cli.workflow.session import AnyRunSession, open_runs, run_options

if TYPE_CHECKING:
    from evertick.app.app import App

POLL_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class StartFlags(CallFlags):
    """The options for the id and arguments of a run, and for waiting for its end."""

    key: str | None = flag("--id", "--key", metavar="KEY", help="An id of yours; only one unfinished run has it.")
    on_conflict: str = flag(
        "--on-conflict", type=click.Choice([each.value for each in OnConflict]), default=OnConflict.KEEP.value,
        show_default=True, help="If an unfinished run has the id: keep it, refuse, or cancel it and start.",
    )  # fmt: skip
    attributes: tuple[str, ...] = flag("--attribute", default=(), metavar="NAME=VALUE", help=ATTRIBUTE_HELP)
    wait: bool = flag("--wait", default=False, help="Wait for the run's end; the exit code tells how it ended.")
    timeout: str | None = flag("--timeout", metavar="DURATION", help="With --wait: wait no longer than this.")
    db: str | None = shared(data_options)


@click.command()
@click.argument("workflow")
@flags(StartFlags, "how")
@row_options
def start(workflow: str, how: StartFlags, out: OutputOptions) -> int:
    """Start a run of WORKFLOW (module.function) and print its id; its app's worker runs it.

    Arguments are NAME=VALUE, as for `evertick run`; on a server, a value that reads as JSON is JSON, any other is text.
    With --wait: 0 if the run succeeded, 1 if it failed or was canceled, 8 if it did not end in time.
    """
    from evertick.api.workflows import RunDetails

    if how.timeout is not None and not how.wait:
        raise click.UsageError("--timeout limits --wait")
    limit_s, given = _seconds(how.timeout), given_arguments(how.json_words, how.json_file)
    out.columns(RunDetails.names(), ())
    with _opened(workflow, given, how) as (session, begin):
        there = None if how.key is None else session.with_key(how.key)
        run_id = begin()
        if run_id == there:
            click.echo(f"note: run {run_id} has this id and has not ended; no other one was started", err=True)
        if how.wait:
            if run_id != there:
                click.echo(f"started {run_id}; it goes on if this command ends", err=True)
            return _wait(session, run_id, limit_s, out)
        _say_if_alone(session)
        if out.is_data or out.fields is not None:
            write_run(session, session.runs.get(run_id), out)
        elif not out.is_none:
            click.echo(run_id)
        return Exit.OK


@click.command()
@click.option("--timeout", metavar="DURATION", help="Wait no longer than this, such as 30s.")
@run_options
def wait(run_id: str, timeout: str | None, db: str | None, out: OutputOptions) -> int:
    """Wait until a run has ended, and show it.

    Exit code: 0 if it succeeded, 1 if it failed or was canceled, 8 if it did not end in time.
    """
    from evertick.api.workflows import RunDetails

    out.columns(RunDetails.names(), ())
    limit_s = _seconds(timeout)
    with open_runs(db) as session:
        return _wait(session, run_id, limit_s, out)


# -- helpers


@contextmanager
def _opened(workflow: str, given: dict[str, Any], how: StartFlags) -> Iterator[tuple[AnyRunSession, Callable[[], str]]]:
    """Yield the session for the run, and a function that starts it: on the app's database, or on the given server."""
    if chosen_server(how.db) is None:
        from evertick.cli.workflow.local_session import session_on

        with opened(workflow, how.app_file, how.db) as (app, store):
            yield session_on(store), lambda: _start(app, workflow, given, how)
        return
    refuse_app(how.app_file)
    with open_runs(how.db) as session:
        attributes = attributes_of(how.attributes)
        runs: Any = session.runs.using(key=how.key, on_conflict=how.on_conflict, attributes=attributes)
        yield session, lambda: runs.start(workflow, **given, **unread(given, how.words))


def _start(app: "App", workflow: str, given: dict[str, Any], how: StartFlags) -> str:
    function = app.functions.resolve(workflow)
    if function.kind is not FunctionKind.WORKFLOW:
        line = " ".join(map(shell_word, (function.name, *how.words)))
        raise Misuse(f"{function.name} is no workflow but a {function.kind.value}; run it: evertick run {line}")
    args, kwargs = function.decode_args(encoded(function, given, how.words))
    options: dict[str, Any] = {"attributes": attributes_of(how.attributes)}
    workflows = app.tenant(chosen_tenant()).workflows.using(key=how.key, on_conflict=how.on_conflict, **options)
    return workflows.start(function, *args, **kwargs)  # type: ignore[arg-type]  # it refuses what is no workflow


def _seconds(timeout: str | None) -> float:
    """The seconds to wait. Raises InvalidSpec."""
    return float("inf") if timeout is None else window(timeout).total_seconds()


def _wait(session: AnyRunSession, run_id: str, limit_s: float, out: OutputOptions) -> int:
    """Wait for the end of a run and write it; returns the exit code."""

    deadline = time.monotonic() + limit_s
    run = session.runs.get(run_id)
    if not run.has_ended:
        _say_if_alone(session)
    try:
        with ChangeWaiter(session.store) as news:
            while not run.has_ended and (left := deadline - time.monotonic()) > 0:
                news.wait(min(POLL_EVERY_S, left))
                run = session.runs.get(run.id)
    except KeyboardInterrupt:
        again = f"evertick workflow wait {run.id}{tenant_option(chosen_tenant())}"
        click.echo(f"run {run.id} goes on; see it with: {again}", err=True)
        return Exit.INTERRUPTED
    write_run(session, run, out)
    if not run.has_ended:
        click.echo("the time is over; the run has not ended yet", err=True)
        return Exit.NOT_FULFILLED
    return Exit.OK if run.state is RunState.SUCCESS else Exit.FAILED


def _say_if_alone(session: AnyRunSession) -> None:
    if session.has_no_worker():
        words = "no worker runs on this database; the run goes on when `evertick dev` or `evertick worker` is started"
        click.echo(f"note: {printable(words)}", err=True)

"""`evertick job attempts`, `logs` and `counts`: attempts, log lines and counts of jobs."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from evertick.base.durations import length
from evertick.base.escaping import printable
from evertick.base.records.jobs import UNFINISHED, FunctionKind
from evertick.cli.core.databases import data_options
from evertick.cli.core.exits import Exit
from evertick.cli.core.output import OutputOptions, output_option, row_options, words_of
from evertick.cli.core.watching import ChangeWaiter
from evertick.cli.job.session import job_named, require_known
from evertick.cli.sessions.base import Session, open_session, say_nothing_found

if TYPE_CHECKING:
    from evertick.api.jobs import JobLogLine, JobView

POLL_EVERY_S: Final = 0.5
"""What a running action logs is stored half a second after it was written."""
ATTEMPT_FIELDS: Final = ("attempt", "outcome", "started_at", "duration_ms", "worker_id", "error")


@click.command()
@click.argument("job_id", metavar="ID")
@data_options
@row_options
def attempts(job_id: str, db: str | None, out: OutputOptions) -> None:
    """Show every attempt at a job: when it began, how long it took, on which worker, and how it ended."""
    from evertick.api.jobs import AttemptView
    from evertick.cli.dev.lines import error_line_of

    chosen = out.columns(AttemptView.names(), ATTEMPT_FIELDS)
    with open_session(db) as session:
        found = session.jobs.get(job_named(session, job_id))
        views = session.jobs.attempts(found.id)
        moment = out.moments(session.now)
    shown = []
    for view in views:
        words = words_of(view, moment) | {"outcome": view.outcome or "runs"}
        words["duration_ms"] = "" if view.duration_ms is None else length(view.duration_ms)
        words["error"] = "" if view.error is None else error_line_of(view.error)
        shown.append(words)
    out.write_rows([view.to_json() for view in views], shown, chosen)
    if not views and out.tells_of_nothing:
        click.echo("no attempts yet" if found.state in UNFINISHED else "no attempts", err=True)


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended; further attempts included.")
@data_options
@output_option
def logs(job_id: str, follow: bool, db: str | None, out: OutputOptions) -> int:
    """Show the lines a job wrote with ctx.log in its last attempt; those of a running action come within a second.

    Of a run of a workflow those of its code (step.log) and of its steps, up to where it waits.
    """
    if follow and out.output == "json":
        raise click.UsageError("-f writes line by line; take -o jsonl")
    with open_session(db) as session:
        found = session.jobs.get(job_named(session, job_id))
        if follow:
            return _follow(session, found, out)
        kept = session.jobs.logs(found.id)
    if out.output == "json":
        out.write_json([line.to_json() for line in kept.lines])
    else:
        for line in kept.lines:
            write_line(line, out)
    if not kept.lines and out.tells_of_nothing:
        click.echo("no lines" if found.state not in UNFINISHED else "no lines yet", err=True)
    if kept.is_truncated and not out.is_none:
        _tell_of_cut()
    return Exit.OK


@click.command()
@click.option("--function", metavar="NAME", help="Only jobs of this function.")
@data_options
@row_options
def counts(function: str | None, db: str | None, out: OutputOptions) -> None:
    """Show how many jobs each function has, by state. The counts are kept, so this takes no longer with more jobs."""
    from evertick.api.commands import FunctionCounts

    chosen = out.columns(FunctionCounts.names(), FunctionCounts.names())
    with open_session(db) as session:
        known = session.jobs.counts_by_function()
        found = {name: each for name, each in known.items() if function in (None, name)}
        if not found and function is not None:
            require_known(session, {"function": function})
        if not found and out.tells_of_nothing:
            say_nothing_found("jobs", session.store)
    rows = [FunctionCounts(function=name, **each).to_json() for name, each in found.items()]
    shown = [{name: value if isinstance(value, str) else f"{value:,}" for name, value in row.items()} for row in rows]
    out.write_rows(rows, shown, chosen)


# -- helpers


def _follow(session: Session, job: "JobView", out: OutputOptions) -> int:
    """Write the lines of a job, beginning with its last attempt, as they are stored; until it has ended or Ctrl-C."""
    from evertick.app.jobs.views import ALONE

    is_run = job.kind is FunctionKind.WORKFLOW  # whose lines are all shown
    shown, is_cut, noted = (0 if is_run else job.attempt, -1), False, False
    with ChangeWaiter(session.store, follows=True) as news:
        try:
            while True:
                job, kept = session.jobs.get(job.id), session.jobs.logs(job.id, all_attempts=True)
                for place, line in _placed(kept.lines):
                    if place > shown:
                        shown = place
                        write_line(line, out)
                is_cut = is_cut or kept.is_truncated
                if job.state not in UNFINISHED:
                    break
                if job.held == ALONE and not noted and not out.is_none:
                    click.echo("note: no worker runs on this database; the job goes on when one is started", err=True)
                    noted = True
                news.wait(POLL_EVERY_S)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    if out.tells_of_nothing:
        click.echo(f"ended: {_ended(job)}", err=True)
    if is_cut and not out.is_none:
        _tell_of_cut()
    return Exit.OK


def _placed(lines: "Sequence[JobLogLine]") -> "Iterator[tuple[tuple[int, int], JobLogLine]]":
    """Each line with its attempt and its number in that attempt."""
    for attempt, each in groupby(lines, lambda line: line.attempt):
        yield from (((attempt, number), line) for number, line in enumerate(each))


def write_line(line: "JobLogLine", out: OutputOptions) -> None:
    """Write a line of a log."""
    row = line.to_json()
    if out.is_data:
        out.write_json(row)
    elif not out.is_none:
        click.echo(f"{row['time']}  {line.level:<7}  {printable(line.message)}")


def _ended(job: "JobView") -> str:
    """A short phrase for how a job has ended."""
    from evertick.cli.dev.lines import error_line_of

    return str(job.state) if job.error is None else f"{job.state}, {error_line_of(job.error)}"


def _tell_of_cut() -> None:
    click.echo("some lines were too many or too long, and are not kept", err=True)

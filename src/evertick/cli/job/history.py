"""`evertick job attempts`, `logs` and `counts`: what is known of jobs beside their rows."""

from typing import Final

import click

from evertick.api.jobs import AttemptView, JobLogLine, JobLogs
from evertick.base.ids import JobId
from evertick.base.instants import Instant
from evertick.base.records.history import JobCounts, JobLine
from evertick.base.records.jobs import UNFINISHED, Job, JobFilter
from evertick.cli.core.change_waiter import ChangeWaiter
from evertick.cli.core.databases import chosen_tenant, data_options, now_of, open_database
from evertick.cli.core.durations import length
from evertick.cli.core.escaping import printable
from evertick.cli.core.exits import Exit
from evertick.cli.core.output import OutputOptions, output_option, row_options, words_of
from evertick.cli.dev.lines import error_line
from evertick.cli.job.choosing import require_known
from evertick.cli.job.commands import found_in
from evertick.engine.jobs.repair import job_found
from evertick.store.contract.store import Store, Transaction

LOOK_EVERY_S: Final = 0.5
"""What a running action logs is stored half a second after it was written."""
ATTEMPT_FIELDS: Final = ("attempt", "outcome", "started_at", "duration_ms", "worker_id", "error")
COUNT_FIELDS: Final = ("function", *JobCounts._fields)


@click.command()
@click.argument("job_id", metavar="ID")
@data_options
@row_options
def attempts(job_id: str, db: str | None, out: OutputOptions) -> None:
    """Show every attempt at a job: when it began, how long it took, on which worker, and how it ended."""
    chosen = out.columns(AttemptView.names(), ATTEMPT_FIELDS)
    with open_database(db) as store:
        found = found_in(store, job_id)
        rows = store.view(lambda transaction: transaction.list_attempts(found.id))
        moment = out.moments(now_of(store))
    views = [AttemptView.of(row) for row in rows]
    shown = []
    for row, view in zip(rows, views, strict=True):
        words = words_of(view, moment) | {"outcome": view.outcome or "runs"}
        words["duration_ms"] = "" if view.duration_ms is None else length(view.duration_ms)
        words["error"] = "" if row.error is None else error_line(row.error.value)
        shown.append(words)
    out.write_rows([view.to_json() for view in views], shown, chosen)
    if not views and out.tells_of_nothing:
        click.echo("no attempts yet" if found.visible_state in UNFINISHED else "no attempts", err=True)


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended; further attempts included.")
@data_options
@output_option
def logs(job_id: str, follow: bool, db: str | None, out: OutputOptions) -> int:
    """Show the lines a job wrote with ctx.log in its last attempt; those of a running action come within a second."""
    if follow and out.output == "json":
        raise click.UsageError("-f writes line by line; take -o jsonl")
    with open_database(db) as store:
        found = found_in(store, job_id)
        if follow:
            return _follow(store, found, out)
        written = store.view(lambda transaction: transaction.list_logs(found.id))
    kept = JobLogs.of(written, found.attempt)
    if out.output == "json":
        out.write_json([line.to_json() for line in kept.lines])
    else:
        for line in kept.lines:
            _write(line, out)
    if not kept.lines and out.tells_of_nothing:
        click.echo("no lines" if found.visible_state not in UNFINISHED else "no lines yet", err=True)
    if kept.is_truncated and not out.is_none:
        _tell_of_cut()
    return Exit.OK


@click.command()
@click.option("--function", metavar="NAME", help="Only jobs of this function.")
@data_options
@row_options
def counts(function: str | None, db: str | None, out: OutputOptions) -> None:
    """Show how many jobs each function has, by state. The counts are kept, so this takes no longer with more jobs."""
    chosen = out.columns(COUNT_FIELDS, COUNT_FIELDS)
    with open_database(db) as store:
        found = store.view(lambda transaction: transaction.count_jobs(chosen_tenant(), name=function))
        if not found:
            require_known(store, JobFilter(tenant=chosen_tenant(), name=function))
    rows = [{"function": name, **each._asdict()} for name, each in found.items()]
    shown = [{name: value if isinstance(value, str) else f"{value:,}" for name, value in row.items()} for row in rows]
    out.write_rows(rows, shown, chosen)
    if not rows and out.tells_of_nothing:
        click.echo("no jobs", err=True)


# -- helpers


def _follow(store: Store, job: Job, out: OutputOptions) -> int:
    """Write the lines of a job from its last attempt on, as they are stored, until it has ended or Ctrl-C."""
    job_id, shown, is_cut, told = job.id, (job.attempt, -1), False, False
    with ChangeWaiter(store) as news:
        try:
            while True:
                job, lines, is_alone = store.view(lambda transaction: _look(transaction, job_id, now_of(store)))
                for each in lines:
                    place = (each.attempt, each.line.number)
                    if place > shown:
                        shown, is_cut = place, is_cut or each.line.is_cut
                        for line in JobLogs.of([each], each.attempt).lines:
                            _write(line, out)
                if job.visible_state not in UNFINISHED:
                    break
                if is_alone and not told and not out.is_none:
                    click.echo("note: no worker runs on this database; the job goes on when one is started", err=True)
                    told = True
                news.wait(LOOK_EVERY_S)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    if out.tells_of_nothing:
        click.echo(f"ended: {_ended(job)}", err=True)
    if is_cut and not out.is_none:
        _tell_of_cut()
    return Exit.OK


def _look(transaction: Transaction, job_id: JobId, now: Instant) -> tuple[Job, list[JobLine], bool]:
    """A job, all that its attempts have logged, and whether no worker lives."""
    job = job_found(transaction, job_id, chosen_tenant())
    return job, transaction.list_logs(job_id), not transaction.workers_alive(now)


def _write(line: JobLogLine, out: OutputOptions) -> None:
    row = line.to_json()
    if out.is_data:
        out.write_json(row)
    elif not out.is_none:
        click.echo(f"{row['time']}  {line.level:<7}  {printable(line.message)}")


def _ended(job: Job) -> str:
    """How a job has ended, in a few words."""
    return job.state.value if job.error is None else f"{job.state.value}, {error_line(job.error.value)}"


def _tell_of_cut() -> None:
    click.echo("some lines were too many or too long, and are not kept", err=True)

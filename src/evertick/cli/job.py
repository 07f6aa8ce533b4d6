"""`evertick job ...`: scheduled functions, read and canceled beside a running engine. Imports no app."""

import json
import sys
from typing import Any

import click

from evertick.base.errors import Conflict, InvalidArguments, JobNotFound
from evertick.base.ids import DEFAULT_TENANT, JOB_PREFIX, IdMaker, JobId, system_entropy, table_of
from evertick.base.instants import Instant, to_iso
from evertick.base.records import UNFINISHED, Job, JobFilter, JobState
from evertick.cli.databases import db_option, now_of, open_database
from evertick.cli.exits import Exit
from evertick.cli.job_rows import FIELDS, LIST_FIELDS, exact, near, row_of, words_of
from evertick.cli.lazy import LazyGroup
from evertick.cli.output import (
    chosen_fields,
    fields_option,
    is_terminal,
    on_terminal,
    output_option,
    write_one,
    write_rows,
)
from evertick.cli.printable import json_text, printable, printable_lines
from evertick.cli.root import fail
from evertick.engine.finish import cancel, cancel_many
from evertick.store.contract import Store, Transaction

LIMIT_DEFAULT = 50
LIMIT_MAX = 100_000
CANCEL_BATCH = 500


class JobFinished(Conflict):
    """The job has ended, so there is nothing to cancel."""

    code = "job_finished"


@click.group(cls=LazyGroup)
def job() -> None:
    """Scheduled functions: what is pending, what ran, and how it ended."""


@job.command("list")
@click.option(
    "--state", "states", multiple=True, type=click.Choice([state.value for state in JobState]), help="Repeatable."
)
@click.option("--function", metavar="NAME", help="Jobs of this function, such as app.destruct.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True)
@db_option
@output_option
@fields_option
def list_jobs(
    states: tuple[str, ...], function: str | None, limit: int, db: str | None, output: str | None, fields: str | None
) -> None:
    """List jobs, the newest first."""
    where = JobFilter(states=tuple(JobState(state) for state in states), name=function)
    chosen = chosen_fields(fields, FIELDS, FIELDS if output in ("json", "jsonl") else LIST_FIELDS)
    with open_database(db) as store:
        jobs = store.read(lambda transaction: transaction.list_jobs(where, limit=limit + 1, newest_first=True))
        now = now_of(store)
    more, jobs = len(jobs) > limit, jobs[:limit]
    moment = near(now) if output == "table" or on_terminal() else to_iso
    shown = [words_of(each, moment) for each in jobs]
    write_rows([row_of(each) for each in jobs], [[cells[f] for f in chosen] for cells in shown], chosen, output)
    if not jobs and output in (None, "table"):
        click.echo("no jobs", err=True)
    if more and limit == LIMIT_DEFAULT and output != "none":
        click.echo(f"these are the newest {limit}; there are more: --limit", err=True)


@job.command("get")
@click.argument("job_id", metavar="ID")
@db_option
@output_option
@fields_option
def get_job(job_id: str, db: str | None, output: str | None, fields: str | None) -> None:
    """Show one job with its arguments, its result or its error, and where that was raised."""
    chosen = chosen_fields(fields, FIELDS, FIELDS)
    with open_database(db) as store:
        found = _found(store, job_id)
        now = now_of(store)
    moment = exact(now) if output == "table" or on_terminal() else to_iso
    write_one(row_of(found), words_of(found, moment), chosen, output)
    trace = json.loads(found.error).get("traceback") if found.error else None
    if trace and output in (None, "table") and fields is None:
        click.echo(f"\n{printable_lines(trace)}")


@job.command("cancel")
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@db_option
def cancel_jobs(job_ids: tuple[str, ...], db: str | None) -> int:
    """Cancel jobs. A pending one never starts; of a running one nothing more is scheduled; an ended one is refused."""
    codes = []
    with open_database(db) as store:
        for job_id in job_ids:
            try:
                _cancel(store, job_id)
            except (JobNotFound, InvalidArguments) as error:
                codes.append(fail(str(error), Exit.NOT_FOUND if isinstance(error, JobNotFound) else Exit.USAGE))
            except JobFinished as error:
                codes.append(fail(str(error), Exit.CONFLICT))
            else:
                click.echo(f"canceled {printable(job_id)}", err=True)
                codes.append(Exit.OK)
    failures = [code for code in codes if code]
    if failures and len(failures) < len(codes):
        return Exit.PARTLY
    return max(failures, default=Exit.OK)


@job.command("cancel-all")
@click.option("--function", metavar="NAME", help="Only jobs of this function.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@db_option
def cancel_all(function: str | None, yes: bool, db: str | None) -> None:
    """Cancel every pending job, or every pending one of a function."""
    where = JobFilter(states=(JobState.PENDING,), name=function)
    whose = f" of {function}" if function else ""
    if not yes and not is_terminal(sys.stdin):
        raise click.UsageError("this cancels many jobs and nobody can be asked; give --yes")
    with open_database(db) as store:
        if not yes:
            click.confirm(f"Cancel all pending jobs{printable(whose)}?", abort=True, err=True)
        canceled, after = 0, ""
        while True:
            page, count = _cancel_page(store, where, after)
            canceled += count
            if len(page) < CANCEL_BATCH:
                break
            after = page[-1]
    click.echo(f"canceled {canceled:,} job{'' if canceled == 1 else 's'}{printable(whose)}", err=True)


@job.command("logs")
@click.argument("job_id", metavar="ID")
@db_option
@output_option
def logs(job_id: str, db: str | None, output: str | None) -> None:
    """Show the lines a job wrote with ctx.log in its last attempt."""
    with open_database(db) as store:
        found = _found(store, job_id)
    kept: dict[str, Any] = json.loads(found.logs) if found.logs else {"lines": [], "is_truncated": False}
    lines = [{"time": to_iso(Instant(at)), "level": level, "message": text} for at, level, text in kept["lines"]]
    if output == "json":
        click.echo(json_text(lines, indent=2))
    elif output == "jsonl":
        for line in lines:
            click.echo(json_text(line))
    elif output != "none":
        for line in lines:
            click.echo(f"{line['time']}  {line['level']:<7}  {printable(line['message'])}")
    if not lines and output in (None, "table"):
        click.echo("no lines" if found.visible_state not in UNFINISHED else "no lines yet", err=True)
    if kept["is_truncated"] and output != "none":
        click.echo("some lines were too many or too long, and are not kept", err=True)


# -- helpers


def _job_id(text: str) -> JobId:
    if table_of(text) != JOB_PREFIX:
        raise InvalidArguments(f"{text!r} is no id of a job; `evertick job list` shows them")
    return JobId(text)


def _found(store: Store, text: str) -> Job:
    job_id = _job_id(text)
    found = store.read(lambda transaction: transaction.get_job(job_id, tenant=DEFAULT_TENANT))
    if found is None:
        raise JobNotFound(f"no job {job_id}: it never existed in this database, or its retention is over")
    return found


def _cancel_page(store: Store, where: JobFilter, after: str) -> tuple[list[JobId], int]:
    """Cancel one page of jobs; answers their ids, and how many were unfinished."""
    now, ids = now_of(store), IdMaker(system_entropy())

    def work(transaction: Transaction) -> tuple[list[JobId], int]:
        page = [each.id for each in transaction.list_jobs(where, limit=CANCEL_BATCH, after=after)]
        return page, cancel_many(transaction, page, tenant=DEFAULT_TENANT, now=now, make_id=ids.make)

    return store.write(work)


def _cancel(store: Store, text: str) -> None:
    found = _found(store, text)
    now, ids = now_of(store), IdMaker(system_entropy())
    if not store.write(lambda t: cancel(t, found.id, tenant=DEFAULT_TENANT, now=now, make_id=ids.make)):
        state = _found(store, text).visible_state
        raise JobFinished(f"job {found.id} has ended already ({state.value}), so it cannot be canceled")

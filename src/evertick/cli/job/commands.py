"""`evertick job ...`: scheduled functions, read and canceled beside a running engine. Imports no app."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

import click

from evertick.api.jobs import JobView
from evertick.app.documents.tables import require_job_id
from evertick.app.limits.waiting import pool_waits
from evertick.app.paging import page_of_jobs
from evertick.base.errors import Conflict, InvalidArguments, JobNotFound
from evertick.base.ids import IdMaker, JobId, system_entropy
from evertick.base.instants import Instant
from evertick.base.outcomes import STUCK
from evertick.base.records.jobs import Job, JobFilter, JobState, Stop, blocked
from evertick.cli.core.databases import chosen_tenant, data_options, now_of, open_database
from evertick.cli.core.durations import length
from evertick.cli.core.escaping import json_text, printable, printable_lines
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import flags
from evertick.cli.core.lazy import Lazy, LazyGroup
from evertick.cli.core.output import MomentWriter, OutputOptions, is_terminal, row_options, words_of
from evertick.cli.core.watching import refreshed, watch_option
from evertick.cli.dev.lines import error_line
from evertick.cli.job.choosing import JobFilters, require_known
from evertick.cli.root import fail
from evertick.engine.jobs.completion import cancel, cancel_page
from evertick.engine.jobs.repair import job_found, no_job
from evertick.store.contract.store import Store, Transaction

LIST_FIELDS = ("id", "function", "state", "due_at", "duration_ms", "completed_at", "attempt", "error")
"""The columns of the table unless --fields is given."""

FURTHER = {
    "retry": Lazy("evertick.cli.job.repair:retry", "Run failed or canceled jobs again, also with other arguments"),
    "run-now": Lazy("evertick.cli.job.repair:run_now", "Let pending jobs run now"),
    "reschedule": Lazy("evertick.cli.job.repair:reschedule", "Let pending jobs run at another time"),
    "attempts": Lazy("evertick.cli.job.history:attempts", "Show every attempt at a job, and how it ended"),
    "logs": Lazy("evertick.cli.job.history:logs", "Show what a job has logged; with -f, as it logs it"),
    "counts": Lazy("evertick.cli.job.history:counts", "Show how many jobs each function has, by state"),
}
"""Commands in files of their own."""

LIMIT_DEFAULT = 50
LIMIT_MAX = 100_000
BLOCKED: Final = "blocked: no worker runs this function"


class JobFinished(Conflict):
    """The job has ended, so there is nothing to cancel."""

    code = "job_finished"


@click.group(cls=LazyGroup, table=FURTHER)
def job() -> None:
    """Scheduled functions: what is pending, what ran, and how it ended."""


@job.command("list")
@click.option(
    "--state", "states", multiple=True, type=click.Choice([state.value for state in JobState]), help="Repeatable."
)
@flags(JobFilters, "filters")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True)
@click.option("--cursor", metavar="ID", help="Go on after this job: where a page has ended.")
@watch_option
@data_options
@row_options
def list_jobs(
    states: tuple[str, ...], filters: JobFilters, limit: int, cursor: str | None, db: str | None, out: OutputOptions
) -> int:
    """List jobs, the newest first."""
    chosen = out.columns(JobView.names(), LIST_FIELDS)
    after = None if cursor is None else job_id_of(cursor)
    with open_database(db) as store:
        where = filters.where(store, tuple(JobState(state) for state in states))
        return refreshed(store, out, lambda: _write_list(store, where, limit, after, chosen, out))


def _write_list(
    store: Store, where: JobFilter, limit: int, after: JobId | None, chosen: list[str], out: OutputOptions
) -> None:
    now = now_of(store)
    if where.blocked_at is not None:
        where = replace(where, blocked_at=now)
    jobs, more, held = store.view(lambda transaction: _page(transaction, where, limit, after, now))
    if not jobs and more is None:
        require_known(store, where)
    moment = out.moments(now)
    views = [JobView.of(each, blocked=held.get(each.id) == BLOCKED) for each in jobs]
    shown = [_words(each, view, moment, held) for each, view in zip(jobs, views, strict=True)]
    out.write_rows([view.to_json() for view in views], shown, chosen)
    if not jobs and more is None and out.tells_of_nothing:
        click.echo("no jobs", err=True)
    if more is None or out.is_none:
        return
    if len(jobs) < limit:
        click.echo(f"only some of the jobs were looked through; go on with --cursor {more}", err=True)
    elif limit == LIMIT_DEFAULT:
        click.echo(f"these are the newest {limit}; there are more: --limit, or --cursor {more}", err=True)


@job.command("get")
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@data_options
@row_options
def get_jobs(job_ids: tuple[str, ...], db: str | None, out: OutputOptions) -> int:
    """Show a job with its arguments, its result or its error, and where that was raised; several as `job list` does."""
    if len(job_ids) > 1:
        return _get_many([job_id_of(each) for each in job_ids], db, out)
    _get_one(job_ids[0], db, out)
    return Exit.OK


def _get_many(ids: list[JobId], db: str | None, out: OutputOptions) -> int:
    """Write the jobs that there are, in the order of the ids, each once; and say which there are not."""
    chosen = out.columns(JobView.names(), LIST_FIELDS)
    with open_database(db) as store:
        now = now_of(store)
        found = {job.id: job for job in store.view(lambda tx: tx.get_jobs(ids, tenant=chosen_tenant()))}
        jobs = [found[each] for each in dict.fromkeys(ids) if each in found]
        held = store.view(lambda transaction: _held(transaction, jobs, now))
    moment = out.moments(now)
    views = [JobView.of(each, blocked=held.get(each.id) == BLOCKED) for each in jobs]
    shown = [_words(each, view, moment, held) for each, view in zip(jobs, views, strict=True)]
    out.write_rows([view.to_json() for view in views], shown, chosen)
    codes = [fail(str(no_job(each)), Exit.NOT_FOUND) for each in dict.fromkeys(ids) if each not in found]
    return Exit.PARTLY if codes and jobs else max(codes, default=Exit.OK)


def _get_one(job_id: str, db: str | None, out: OutputOptions) -> None:
    chosen = out.columns(JobView.names(), JobView.names())
    with open_database(db) as store:
        found = found_in(store, job_id)
        now = now_of(store)
        held = store.view(lambda transaction: _held(transaction, [found], now))
    view = JobView.of(found, blocked=held.get(found.id) == BLOCKED)
    relative, exact = out.moments(now), OutputOptions(time_style="iso").moments(now)

    def moment(at: datetime | None) -> str:
        return f"{exact(at)} ({relative(at)})" if at is not None and out.is_table else exact(at)

    out.write_one(view.to_json(), _words(found, view, moment, held), chosen)
    trace = None if view.error is None else view.error.get("traceback")
    if trace and out.tells_of_nothing and out.fields is None:
        click.echo(f"\n{printable_lines(trace)}")


@job.command("cancel")
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@data_options
def cancel_jobs(job_ids: tuple[str, ...], db: str | None) -> int:
    """Cancel jobs. A pending one never starts; a running action is asked to stop; an ended one is refused."""
    return _cancel_each(job_ids, db, Stop.CANCEL)


@job.command("stop")
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@data_options
def stop_jobs(job_ids: tuple[str, ...], db: str | None) -> int:
    """Cancel jobs, and interrupt those that run until they have ended; an ended one is refused."""
    return _cancel_each(job_ids, db, Stop.FORCE)


def _cancel_each(job_ids: tuple[str, ...], db: str | None, stop: Stop) -> int:
    codes = []
    with open_database(db) as store:
        for job_id in job_ids:
            try:
                still_runs = _cancel(store, job_id, stop)
            except (JobNotFound, InvalidArguments) as error:
                codes.append(fail(str(error), Exit.NOT_FOUND if isinstance(error, JobNotFound) else Exit.USAGE))
            except JobFinished as error:
                codes.append(fail(str(error), Exit.CONFLICT))
            else:
                ends = ", which still runs: it ends as canceled when its function has ended" if still_runs else ""
                click.echo(f"canceled {printable(job_id)}{ends}", err=True)
                codes.append(Exit.OK)
    failures = [code for code in codes if code]
    if failures and len(failures) < len(codes):
        return Exit.PARTLY
    return max(failures, default=Exit.OK)


@job.command("cancel-all")
@flags(JobFilters, "filters")
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_options
def cancel_all(filters: JobFilters, yes: bool, db: str | None) -> None:
    """Cancel every pending job, or every pending one that filters choose."""
    if not yes and not is_terminal(sys.stdin):
        raise click.UsageError("this cancels many jobs; give --yes where no terminal can confirm it")
    with open_database(db) as store:
        where = filters.where(store, (JobState.PENDING,))
        require_known(store, where)
        if not yes and store.view(lambda transaction: transaction.list_jobs(where, limit=1)):
            click.confirm(f"Cancel all {filters.words('pending jobs')}?", abort=True, err=True)
        ids, canceled, after = IdMaker(system_entropy()), 0, ""
        while True:
            work = partial(cancel_page, where=where, after=after, now=now_of(store), make_id=ids.make)
            count, following = store.write(work)
            canceled += count
            if following is None:
                break
            after = following
    click.echo(f"canceled {canceled:,} {filters.words('job' if canceled == 1 else 'jobs')}", err=True)


# -- helpers


def _page(
    transaction: Transaction, where: JobFilter, limit: int, after: JobId | None, now: Instant
) -> tuple[list[Job], str | None, dict[JobId, str]]:
    """The newest jobs, where to go on, and why those wait that are due."""
    jobs, more = page_of_jobs(transaction, where, limit=limit, after=after, newest_first=True)
    return jobs, more, _held(transaction, jobs, now)


def _held(transaction: Transaction, jobs: Sequence[Job], now: Instant) -> dict[JobId, str]:
    """Why jobs wait that are due: no live worker runs them, or their pool has no room."""
    return pool_waits(transaction, jobs, now) | dict.fromkeys(
        blocked(jobs, transaction.workers_alive(now), now), BLOCKED
    )


def _words(job: Job, view: JobView, moment: MomentWriter, held: Mapping[JobId, str]) -> dict[str, str]:
    """A job as text."""
    words = words_of(view, moment)
    words["args"] = json_text(json.loads(job.args))
    words["result"] = job.result if job.result is not None and job.visible_state is JobState.SUCCESS else ""
    for name in ("late_ms", "duration_ms"):
        words[name] = "" if (span := getattr(view, name)) is None else length(span)
    words["blocked"] = "yes" if view.blocked else ""
    words["error"] = "" if job.error is None else error_line(job.error.value)
    words["cancel_requested"] = "yes" if job.is_canceled else ""
    if job.state is JobState.IN_PROGRESS and job.is_canceled:
        words["state"] = f"{job.state.value} (cancel requested)"
    elif job.state is JobState.IN_PROGRESS and job.error is not None and job.error.value.type == STUCK:
        words["state"] = f"{job.state.value} (stuck)"
    if job.id in held:
        words["error"] = held[job.id] if view.blocked or job.error is None else f"{held[job.id]}; {words['error']}"
    return words


def job_id_of(text: str) -> JobId:
    """The id of a job. Raises InvalidArguments if it is none."""
    try:
        return require_job_id(text)
    except InvalidArguments as error:
        raise InvalidArguments(f"{error}; `evertick job list` shows them") from None


def found_in(store: Store, text: str) -> Job:
    """The job with this id. Raises InvalidArguments, JobNotFound."""
    job_id = job_id_of(text)
    return store.view(lambda transaction: job_found(transaction, job_id, chosen_tenant()))


def _cancel(store: Store, text: str, stop: Stop) -> bool:
    """Cancel a job; returns whether its function still runs. Raises JobNotFound, JobFinished."""
    found = found_in(store, text)
    now, ids = now_of(store), IdMaker(system_entropy())
    canceled = store.write(lambda t: cancel(t, found.id, tenant=chosen_tenant(), now=now, make_id=ids.make, stop=stop))
    state = found_in(store, text).visible_state
    if not canceled:
        raise JobFinished(f"job {found.id} has ended already ({state.value}), so it cannot be canceled")
    return state is JobState.IN_PROGRESS

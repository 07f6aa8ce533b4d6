"""`evertick job ...`: scheduled functions, read and canceled while an engine runs. Imports no app."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from evertick.base.durations import length
from evertick.base.errors import InvalidArguments, JobNotFound
from evertick.base.escaping import json_text, printable
from evertick.base.outcomes import STUCK
from evertick.base.records.jobs import FunctionKind, JobState, Stop
from evertick.cli.core.databases import data_options
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import flags
from evertick.cli.core.lazy import Lazy, LazyGroup
from evertick.cli.core.output import MomentWriter, OutputOptions, is_terminal, output_option, row_options, words_of
from evertick.cli.core.progress import counting
from evertick.cli.core.watching import refreshed, watch_option
from evertick.cli.job.filters import JobFilters
from evertick.cli.job.session import JobFinished, cancel, job_id_of, job_named, read_jobs, require_known
from evertick.cli.root import fail
from evertick.cli.sessions.base import Session, naming_other_tenants, open_session, say_nothing_found

if TYPE_CHECKING:
    from evertick.api.jobs import JobView
    from evertick.app.scheduling.choice import JobsWhere

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
RUNS_SEARCHED_MAX: Final = 1_000
"""Jobs that are searched for runs of workflows before a question is asked."""


@click.group(cls=LazyGroup, table=FURTHER)
def job() -> None:
    """Scheduled functions: what is pending, what ran, and how it ended."""


@job.command("list")
@click.option(
    "--state", "states", multiple=True, type=click.Choice([state.value for state in JobState]), help="Repeatable."
)
@flags(JobFilters, "filters")
@click.option("--upcoming", is_flag=True, help="Those that wait for their time, the soonest due first.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True)
@click.option("--cursor", metavar="PLACE", help="Go on where a page has ended.")
@watch_option
@data_options
@row_options
def list_jobs(
    states: tuple[str, ...],
    filters: JobFilters,
    upcoming: bool,
    limit: int,
    cursor: str | None,
    db: str | None,
    out: OutputOptions,
) -> int:
    """List jobs, the newest first."""
    from evertick.api.jobs import JobView

    if upcoming and (states or filters.blocked or filters.not_retried):
        leave_out = "--state" if states else "--blocked" if filters.blocked else "--not-retried"
        raise click.UsageError(f"--upcoming: such jobs are pending and not due yet; leave out {leave_out}")
    chosen = out.columns(JobView.names(), LIST_FIELDS)
    after = cursor if cursor is None or upcoming else job_id_of(cursor)
    with open_session(db) as session:
        where = filters.chosen_at(session.now, tuple(JobState(state) for state in states))
        asked = _Asked(where, limit, after, upcoming)
        return refreshed(session.store, out, lambda: _write_list(session, asked, chosen, out))


class _Asked(NamedTuple):
    """The options for a page of a list of jobs."""

    where: "JobsWhere"
    limit: int
    cursor: str | None
    is_upcoming: bool


def _write_list(session: Session, asked: _Asked, chosen: list[str], out: OutputOptions) -> None:
    now = session.now
    found = read_jobs(session, asked.where, asked.limit, asked.cursor, is_upcoming=asked.is_upcoming)
    jobs, more = found.jobs, found.cursor
    if not jobs and more is None:
        require_known(session, asked.where)
    out.show_views(jobs, now, chosen, _words)
    if not jobs and more is None and out.tells_of_nothing:
        say_nothing_found("jobs", session.store)
    if more is None or out.is_none:
        return
    if len(jobs) < asked.limit:
        click.echo(f"only some of the jobs were searched; continue with --cursor {more}", err=True)
    elif asked.limit == LIMIT_DEFAULT:
        first = "the {} due soonest" if asked.is_upcoming else "the newest {}"
        click.echo(f"these are {first.format(asked.limit)}; there are more: --limit, or --cursor {more}", err=True)


@job.command("get")
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@data_options
@row_options
def get_jobs(job_ids: tuple[str, ...], db: str | None, out: OutputOptions) -> int:
    """Show a job with its arguments, its result or its error, and where that was raised; several as `job list` does."""
    if len(job_ids) > 1:
        return _get_many(job_ids, db, out)
    _get_one(job_ids[0], db, out)
    return Exit.OK


def _get_many(job_ids: tuple[str, ...], db: str | None, out: OutputOptions) -> int:
    """Write the existing jobs, each once, in the order of the ids. Report the ids that do not exist."""
    from evertick.api.jobs import JobView

    chosen = out.columns(JobView.names(), LIST_FIELDS)
    found, missing = dict[str, JobView](), list[JobNotFound]()
    with open_session(db) as session:
        now = session.now
        for each in dict.fromkeys(job_ids):
            try:
                view = session.jobs.get(job_named(session, each))
            except JobNotFound as error:
                missing.append(error)
            else:
                found.setdefault(view.id, view)
    out.show_views(list(found.values()), now, chosen, _words)
    codes = [fail(str(error), Exit.NOT_FOUND) for error in missing]
    return Exit.PARTLY if codes and found else max(codes, default=Exit.OK)


def _get_one(job_id: str, db: str | None, out: OutputOptions) -> None:
    from evertick.api.jobs import JobView

    chosen = out.columns(JobView.names(), JobView.names())
    with open_session(db) as session:
        now, view = session.now, session.jobs.get(job_named(session, job_id))
    out.show_whole(view, now, chosen, _words)


@job.command("cancel")
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@data_options
@output_option
def cancel_jobs(job_ids: tuple[str, ...], db: str | None, out: OutputOptions) -> int:
    """Cancel jobs. A pending one never starts; a running action is asked to stop; an ended one is refused."""
    return _cancel_each(job_ids, db, Stop.CANCEL, out)


@job.command("stop")
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@data_options
@output_option
def stop_jobs(job_ids: tuple[str, ...], db: str | None, out: OutputOptions) -> int:
    """Cancel jobs, and interrupt those that run until they have ended; an ended one is refused."""
    return _cancel_each(job_ids, db, Stop.FORCE, out)


def _cancel_each(job_ids: tuple[str, ...], db: str | None, stop: Stop, out: OutputOptions) -> int:
    from evertick.api.commands import CanceledJob

    codes, canceled = list[int](), list[CanceledJob]()
    with open_session(db) as session:
        for job_id in job_ids:
            try:
                with naming_other_tenants(session.store):
                    found = job_named(session, job_id)
                    still_runs = cancel(session, found, stop)
            except (JobNotFound, InvalidArguments) as error:
                codes.append(fail(str(error), Exit.NOT_FOUND if isinstance(error, JobNotFound) else Exit.USAGE))
            except JobFinished as error:
                codes.append(fail(str(error), Exit.CONFLICT))
            else:
                ends = ", which still runs: it ends as canceled when its function has ended" if still_runs else ""
                click.echo(f"canceled {printable(job_id)}{ends}", err=True)
                codes.append(Exit.OK)
                canceled.append(CanceledJob(job_id=found, still_runs=still_runs))
    out.write_views(canceled)
    failures = [code for code in codes if code]
    if failures and len(failures) < len(codes):
        return Exit.PARTLY
    return max(failures, default=Exit.OK)


@job.command("cancel-all")
@flags(JobFilters, "filters")
@click.option("--state", type=click.Choice(("pending", "in_progress")), default="pending", show_default=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_options
@output_option
def cancel_all(filters: JobFilters, state: str, yes: bool, db: str | None, out: OutputOptions) -> None:
    """Cancel every pending job, or every pending one that filters choose; with --state, those that run."""
    from evertick.api.commands import ChangedCount

    if not yes and not is_terminal(sys.stdin):
        raise click.UsageError("this cancels many jobs; give --yes where no terminal can confirm it")
    with open_session(db) as session:
        where = filters.chosen_at(session.now, (JobState(state),))
        require_known(session, where)
        if not yes and (found := session.jobs.list(limit=RUNS_SEARCHED_MAX, **where).jobs):
            jobs = "pending jobs" if state == "pending" else "running jobs"
            click.confirm(f"Cancel all {filters.words(jobs)}{_runs_in(found)}?", abort=True, err=True)
        with counting("jobs are canceled", session.store) as progress:
            canceled = session.jobs.with_progress(progress).cancel_all(**where)
    click.echo(f"canceled {canceled:,} {filters.words('job' if canceled == 1 else 'jobs')}", err=True)
    out.write_view(ChangedCount(count=canceled))


# -- helpers


def _runs_in(found: "Sequence[JobView]") -> str:
    """A remark about the workflow runs among the selected jobs: a run is a job, too. Empty if there are none."""
    count = sum(job.kind is FunctionKind.WORKFLOW for job in found)
    if not count:
        return ""
    more = " at least" if len(found) == RUNS_SEARCHED_MAX else ""
    return f",{more} {count:,} open {'run' if count == 1 else 'runs'} of workflows among them"


def _words(view: "JobView", moment: MomentWriter) -> dict[str, str]:
    """The fields of a job as text."""
    from evertick.cli.dev.lines import error_line_of

    words = words_of(view, moment)
    words["args"] = json_text(view.args)
    is_done = view.state is JobState.SUCCESS and view.result is not None
    words["result"] = json_text(view.result) if is_done else ""
    for name in ("late_ms", "duration_ms"):
        words[name] = "" if (span := getattr(view, name)) is None else length(span)
    words["blocked"] = "yes" if view.blocked else ""
    words["error"] = "" if view.error is None else error_line_of(view.error)
    words["cancel_requested"] = "yes" if view.cancel_requested else ""
    if view.state is JobState.IN_PROGRESS and view.cancel_requested:
        words["state"] = f"{view.state} (cancel requested)"
    elif view.state is JobState.IN_PROGRESS and view.error is not None and view.error["type"] == STUCK:
        words["state"] = f"{view.state} (stuck)"
    elif view.retried_as is not None:
        words["state"] = f"{view.state} (retried)"
    if view.held is not None:
        words["error"] = view.held if view.blocked or view.error is None else f"{view.held}; {words['error']}"
    return words

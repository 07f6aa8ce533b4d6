"""`evertick job retry`, `run-now` and `reschedule`: jobs that failed, wait, or do not fit the code any more."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from evertick.base.errors import EvertickError, JobNotRetryable
from evertick.base.escaping import printable
from evertick.base.instants import from_datetime, to_iso
from evertick.base.records.jobs import JobState
from evertick.cli.core.databases import data_options
from evertick.cli.core.exits import Exit, exit_code_of
from evertick.cli.core.flags import flag, flags, not_empty, shared
from evertick.cli.core.output import OutputOptions, output_option
from evertick.cli.core.progress import confirm_count
from evertick.cli.core.renames import names_of, rename_option
from evertick.cli.job.filters import JobFilters, moment_at
from evertick.cli.job.session import all_of, job_named, require_known
from evertick.cli.json_values import json_or_text
from evertick.cli.root import fail
from evertick.cli.sessions.base import Session, naming_other_tenants, open_session

if TYPE_CHECKING:
    from evertick.api.jobs import JobView
    from evertick.api.schema import Schema

JOBS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class JobChoice(JobFilters):
    """The jobs to change: given by their ids, or selected by filters."""

    job_ids: tuple[str, ...] = shared(click.argument("job_ids", metavar="[ID]...", nargs=-1))
    is_all: bool = flag("--all", default=False, help="All of them.")
    yes: bool = flag("--yes", default=False, help="Do not ask for confirmation.")
    db: str | None = shared(data_options)

    @property
    def is_filtered(self) -> bool:
        """Whether filters select the jobs, because no ids are given."""
        return self.is_all or self.is_given

    def chosen(
        self,
        session: Session,
        state: JobState,
        verb: str,
        meant: "Callable[[JobView], bool]" = lambda job: True,
    ) -> list[str]:
        """The ids of the jobs to change. If filters select them, the number is confirmed first.

        Filters exclude jobs for which `meant` is false, and failed jobs that were retried already. Raises UsageError,
        InvalidSpec.
        """
        if bool(self.job_ids) == self.is_filtered:
            raise click.UsageError(
                f"name the jobs to {verb} by their ids, or choose them with --function, --schedule, --key, "
                "--pool, --error, --blocked, --without-runs, --since, --until or --all"
            )
        if not self.is_filtered:
            return list(self.job_ids)
        where = self.chosen_at(session.now, (state,))
        if state is JobState.FAILED:
            where["not_retried"] = True
        found = all_of(session, where, JOBS_MAX)
        if not found:
            require_known(session, where)
        ids: list[str] = [job.id for job in found if meant(job)]
        if ids and not self.yes:
            count = len(ids)
            confirm_count(f"{verb} {count:,} job{'' if count == 1 else 's'}", count)
        return ids


@dataclass(frozen=True, slots=True)
class NewArguments:
    """New arguments for jobs whose stored arguments no longer fit the code."""

    args: str | None = flag(
        "--args", metavar="JSON",
        help="All arguments, by name, for one job, which may be pending; those left out get their defaults.",
    )  # fmt: skip
    changes: tuple[str, ...] = flag(
        "--set", default=(), metavar="NAME=VALUE",
        help="Another value (JSON, else text) for one argument; the others stay. May be repeated.",
    )  # fmt: skip
    renames: tuple[str, ...] = shared(rename_option, default=())
    app_file: str | None = flag(
        "--app", metavar="FILE", callback=not_empty, help="Check the arguments against this app's code."
    )

    def has_names_of(self, job: "JobView") -> bool:
        """Whether a job has all arguments that are renamed."""
        return job.args.keys() >= names_of(self.renames).keys()

    def of_jobs(self, ids: int) -> "Callable[[JobView], dict[str, object]] | None":
        """A function that returns the new arguments of a job; None if jobs keep their arguments.

        Raises UsageError, InvalidArguments.
        """
        from evertick.app.functions.renaming import renamed_args
        from evertick.cli.schedule.flags import json_object

        if self.args is not None and ids != 1:
            raise click.UsageError("--args are of one job; give its id")
        if self.args is not None and (self.renames or self.changes):
            raise click.UsageError("--args are all arguments of the job; give either it or --set and --rename")
        names, values = names_of(self.renames), dict(map(_change, self.changes))
        given = None if self.args is None else json_object(self.args, "--args", "arguments by name")
        if given is None and not names and not values:
            return None
        check = self._check()
        return lambda job: check(
            job, {**renamed_args(job.args, names, f"job {job.id}"), **values} if given is None else given
        )

    def _check(self) -> "Callable[[JobView, dict[str, object]], dict[str, object]]":
        """A function that checks the arguments of a job against the code of the app; without an app, nothing."""
        if self.app_file is None:
            return lambda job, given: given
        from evertick.cli.core.loading import load_app, parse_target

        functions = load_app(parse_target(self.app_file)).app.functions
        return lambda job, given: json.loads(functions.resolve(job.function).encode_args((), given))


@click.command()
@flags(JobChoice, "choice")
@click.option("--state", type=click.Choice(("failed", "canceled", "pending")), default="failed", show_default=True,
              help="Of the jobs that a filter chooses; pending with --rename or --set.")  # fmt: skip
@flags(NewArguments, "new")
@output_option
def retry(choice: JobChoice, state: str, new: NewArguments, out: OutputOptions) -> int:
    """Run failed or canceled jobs again, as new jobs; with --args, --set or --rename, with other arguments.

    A pending job that no longer fits the code is replaced by one with these arguments, due at the same time. A filter
    leaves out jobs that were retried already, pending runs of schedules, and with --rename jobs without the argument.
    """
    if state == "pending" and not (new.renames or new.changes):
        raise click.UsageError("pending jobs have not failed yet; --rename and --set give them other arguments")
    from evertick.api.commands import RetriedJob

    arguments = new.of_jobs(len(choice.job_ids))
    # What a filter has chosen has ended for good: it cannot be retried only if that was done before.
    retried = JobNotRetryable if choice.is_filtered and state != "pending" else None
    with open_session(choice.db) as session:

        def work(named: str) -> "tuple[str, Schema]":
            job_id = job_named(session, named)
            args = None if arguments is None else arguments(session.jobs.get(job_id))
            again = session.jobs.retry(job_id, args=args)
            return f"{job_id} runs again as {again}", RetriedJob(job_id=job_id, retried_as=again)

        def is_meant(job: "JobView") -> bool:
            return new.has_names_of(job) and (state != "pending" or job.schedule is None)

        ids = choice.chosen(session, JobState(state), "retry", is_meant)
        return _each(ids, naming_other_tenants(session.store)(work), out, left_out=retried)


@click.command("run-now")
@flags(JobChoice, "choice")
@output_option
def run_now(choice: JobChoice, out: OutputOptions) -> int:
    """Let pending jobs run now, whenever they were due."""
    return _reschedule(choice, "run now", None, out)


@click.command()
@flags(JobChoice, "choice")
@click.option("--at", required=True, metavar="TIME", help="Such as 2026-12-24T09:00:00Z, tomorrow or now+2h.")
@output_option
def reschedule(choice: JobChoice, at: str, out: OutputOptions) -> int:
    """Let pending jobs run at another time."""
    return _reschedule(choice, "reschedule", at, out)


# -- helpers


def _reschedule(choice: JobChoice, verb: str, at: str | None, out: OutputOptions) -> int:
    from evertick.api.commands import MovedJob

    with open_session(choice.db) as session:
        due_at = moment_at(session.now, at, "--at")

        def work(named: str) -> "tuple[str, Schema]":
            job_id = job_named(session, named)
            jobs = session.jobs
            moved = MovedJob.of(jobs.run_now(job_id) if due_at is None else jobs.reschedule(job_id, due_at))
            return f"{job_id} is due at {to_iso(from_datetime(moved.due_at))}", moved

        return _each(choice.chosen(session, JobState.PENDING, verb), naming_other_tenants(session.store)(work), out)


def _each(
    job_ids: Sequence[str],
    work: "Callable[[str], tuple[str, Schema]]",
    out: OutputOptions,
    *,
    left_out: type[EvertickError] | None = None,
) -> int:
    """Apply a change to one job after the other; return the exit code. Jobs for which it raises `left_out` are counted.

    Ctrl-C stops after the current job; the rows of the changed jobs are still written.
    """
    codes, rows, left = list[int](), list["Schema"](), 0
    try:
        for text in job_ids:
            try:
                said, row = work(text)
            except EvertickError as error:
                if left_out is not None and isinstance(error, left_out):
                    left += 1
                    continue
                codes.append(fail(str(error), exit_code_of(error)))
            else:
                codes.append(int(Exit.OK))
                rows.append(row)
                click.echo(printable(said), err=True)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {len(rows):,} of {len(job_ids):,} jobs are done", err=True)
        codes.append(Exit.INTERRUPTED)
    out.write_views(rows)
    if left:
        click.echo(f"{left:,} {'was' if left == 1 else 'were'} retried already", err=True)
    if not job_ids:
        click.echo("no jobs", err=True)
    if Exit.INTERRUPTED in codes:
        return Exit.INTERRUPTED
    failures = [code for code in codes if code]
    return Exit.PARTLY if failures and len(failures) < len(codes) else max(failures, default=Exit.OK)


def _change(text: str) -> tuple[str, object]:
    name, separator, value = text.partition("=")
    if not (name.isidentifier() and separator):
        raise click.UsageError(f"--set {text!r}: name an argument and its value, for example --set amount=12")
    return name, json_or_text(value, f"--set {name}")

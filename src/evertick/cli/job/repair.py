"""`evertick job retry`, `run-now` and `reschedule`: jobs that failed, wait, or do not fit the code any more."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

import click

from evertick.app.jobs.operations import as_they_are
from evertick.app.paging import whole_jobs
from evertick.app.scheduling.job_builder import check_horizon
from evertick.app.scheduling.quotas import Quotas
from evertick.base.errors import EvertickError, InvalidArguments
from evertick.base.escaping import printable
from evertick.base.ids import IdMaker, JobId, system_entropy
from evertick.base.instants import Instant, to_iso
from evertick.base.records.jobs import Job, JobFilter, JobState
from evertick.cli.core.databases import chosen_tenant, data_options, now_of, open_database
from evertick.cli.core.exits import Exit, exit_code_of
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import OutputOptions, is_terminal, output_option
from evertick.cli.job.choosing import JobFilters, moment_of, require_known
from evertick.cli.job.session import job_id_of
from evertick.cli.root import fail
from evertick.cli.schedule.flags import json_object
from evertick.engine.jobs import repair
from evertick.engine.runtime.executors import retry_conflicts
from evertick.store.contract.store import Store, Transaction

JOBS_MAX: Final = 100_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobChoice(JobFilters):
    """Jobs by their ids, or all that filters choose."""

    job_ids: tuple[str, ...] = shared(click.argument("job_ids", metavar="[ID]...", nargs=-1))
    is_all: bool = flag("--all", default=False, help="All of them.")
    yes: bool = flag("--yes", default=False, help="Do not ask for confirmation.")
    db: str | None = shared(data_options)

    def chosen(
        self,
        store: Store,
        states: tuple[JobState, ...],
        verb: str,
        meant: Callable[[Transaction, Job], bool] = lambda transaction, job: True,
    ) -> list[str]:
        """The ids, once that is confirmed where a filter chooses; it leaves out jobs that are not `meant`.

        Raises UsageError, InvalidSpec.
        """
        is_filtered = self.is_all or self.is_given
        if bool(self.job_ids) == is_filtered:
            raise click.UsageError(
                f"name the jobs to {verb} by their ids, or choose them with --function, --schedule, --key, "
                "--pool, --error, --blocked, --since, --until or --all"
            )
        if not is_filtered:
            return list(self.job_ids)
        where = self.where(store, states)
        found = _ids(store, where, meant)
        if not found:
            require_known(store, where)
        if found and not self.yes:
            _confirm(verb, len(found))
        return found


@dataclass(frozen=True, slots=True)
class NewArguments:
    """Other arguments for jobs that do not fit the code any more."""

    args: str | None = flag(
        "--args", metavar="JSON",
        help="All arguments anew, by name, for one job, which may be pending; those left out get their defaults.",
    )  # fmt: skip
    changes: tuple[str, ...] = flag(
        "--set", default=(), metavar="NAME=VALUE",
        help="Another value (JSON, else text) for one argument; the others stay. May be repeated.",
    )  # fmt: skip
    renames: tuple[str, ...] = flag(
        "--rename",
        default=(),
        metavar="OLD=NEW",
        help="Give an argument another name; may be repeated.",
    )
    app_file: str | None = flag("--app", metavar="FILE", help="Check the arguments against this app's code.")

    def has_names_of(self, job: Job) -> bool:
        """Whether a job has all arguments that get another name."""
        return not self.renames or json.loads(job.args).keys() >= {old for old, _ in map(_rename, self.renames)}

    def of_jobs(self, ids: int) -> Callable[[Job], str | None]:
        """The arguments of each job as text; None for those that it has. Raises UsageError, InvalidArguments."""
        if self.args is not None and ids != 1:
            raise click.UsageError("--args are of one job; give its id")
        if self.args is not None and (self.renames or self.changes):
            raise click.UsageError("--args are all arguments of the job; give either it or --set and --rename")
        names, values = dict(map(_rename, self.renames)), dict(map(_change, self.changes))
        given = None if self.args is None else json_object(self.args, "--args", "arguments by name")
        if given is None and not names and not values:
            return lambda job: None
        encode = self._encoder()
        return lambda job: encode(job, {**_renamed(job, names), **values} if given is None else given)

    def _encoder(self) -> Callable[[Job, dict[str, object]], str]:
        """How arguments are written: checked against the code of the app, or as they are."""
        if self.app_file is None:
            return lambda job, given: as_they_are(job.name, given)
        from evertick.cli.core.loading import load_app, parse_target

        functions = load_app(parse_target(self.app_file)).app.functions
        return lambda job, given: functions.resolve(job.name).encode_args((), given)


@click.command()
@flags(JobChoice, "choice")
@click.option("--state", type=click.Choice(("failed", "canceled", "pending")), default="failed", show_default=True,
              help="Of the jobs that a filter chooses; pending with --rename only.")  # fmt: skip
@flags(NewArguments, "new")
@output_option
def retry(choice: JobChoice, state: str, new: NewArguments, out: OutputOptions) -> int:
    """Run failed or canceled jobs again, as new jobs; with --args, --set or --rename, with other arguments.

    A pending job that no longer fits the code is replaced by one with these arguments, due at the same time. A filter
    leaves out jobs that were retried already, and with --rename those without such an argument.
    """
    if state == "pending" and not new.renames:
        raise click.UsageError("pending jobs have not failed yet; --rename gives them other arguments")
    arguments = new.of_jobs(len(choice.job_ids))

    def meant(transaction: Transaction, job: Job) -> bool:
        return new.has_names_of(job) and repair.retried_as(transaction, job) is None

    def work(transaction: Transaction, /, *, job_id: JobId, now: Instant) -> tuple[str, dict[str, str]]:
        job = repair.job_found(transaction, job_id, chosen_tenant())
        args = arguments(job)
        again = repair.retry(transaction, job, args=args, now=now, make_id=ids.make, check=quotas.check)
        return f"{job_id} runs again as {again}", {"job_id": job_id, "retried_as": again}

    ids, quotas = IdMaker(system_entropy()), Quotas()
    with open_database(choice.db) as store:
        return _each(store, choice.chosen(store, (JobState(state),), "retry", meant), work, out)


@click.command("run-now")
@flags(JobChoice, "choice")
@output_option
def run_now(choice: JobChoice, out: OutputOptions) -> int:
    """Let pending jobs run now, whenever they were due."""
    with open_database(choice.db) as store:
        return _reschedule(store, choice, "run now", lambda now: now, out)


@click.command()
@flags(JobChoice, "choice")
@click.option("--at", required=True, metavar="TIME", help="Such as 2026-12-24T09:00:00Z, tomorrow or now+2h.")
@output_option
def reschedule(choice: JobChoice, at: str, out: OutputOptions) -> int:
    """Let pending jobs run at another time."""
    with open_database(choice.db) as store:
        due_at = moment_of(store, at, "--at")
        check_horizon(due_at or now_of(store), now_of(store))
        return _reschedule(store, choice, "reschedule", lambda now: due_at or now, out)


# -- helpers


class Change(Protocol):
    """What is done to one job."""

    def __call__(self, transaction: Transaction, /, *, job_id: JobId, now: Instant) -> tuple[str, dict[str, str]]:
        """Returns what is said of the job, and its row for programs."""
        ...


def _reschedule(
    store: Store, choice: JobChoice, verb: str, due: Callable[[Instant], Instant], out: OutputOptions
) -> int:
    def work(transaction: Transaction, /, *, job_id: JobId, now: Instant) -> tuple[str, dict[str, str]]:
        job = repair.reschedule(transaction, job_id, due(now), tenant=chosen_tenant(), now=now)
        return f"{job_id} is due at {to_iso(job.due_at)}", {"job_id": job_id, "due_at": to_iso(job.due_at)}

    return _each(store, choice.chosen(store, (JobState.PENDING,), verb), work, out)


def _each(store: Store, job_ids: list[str], work: Change, out: OutputOptions) -> int:
    """Change job by job, each in a transaction; returns the exit code."""
    codes, rows = [], []
    for text in job_ids:
        try:
            job_id, now = job_id_of(text), now_of(store)
            said, row = _written(store, partial(work, job_id=job_id, now=now))
        except EvertickError as error:
            codes.append(fail(str(error), exit_code_of(error)))
        else:
            codes.append(int(Exit.OK))
            rows.append(row)
            click.echo(printable(said), err=True)
    if out.output == "json":
        out.write_json(rows)
    elif out.output == "jsonl":
        for row in rows:
            out.write_json(row)
    if not job_ids:
        click.echo("no jobs", err=True)
    failures = [code for code in codes if code]
    return Exit.PARTLY if failures and len(failures) < len(codes) else max(failures, default=Exit.OK)


def _written(store: Store, work: Callable[[Transaction], T]) -> T:
    return retry_conflicts(lambda: store.write(work), system_entropy())


def _confirm(verb: str, count: int) -> None:
    """Let a person type how many jobs that is. Raises UsageError where no terminal can confirm it, Abort."""
    what = f"{verb} {count:,} job{'' if count == 1 else 's'}"
    if not is_terminal(sys.stdin):
        raise click.UsageError(f"this would {what}; give --yes where no terminal can confirm it")
    if click.prompt(f"To {what}, type {count}", err=True) != str(count):
        raise click.Abort


def _ids(store: Store, where: JobFilter, meant: Callable[[Transaction, Job], bool]) -> list[str]:
    def work(transaction: Transaction) -> list[str]:
        jobs = whole_jobs(transaction, where, limit=JOBS_MAX)
        return [job.id for job in jobs if meant(transaction, job)]

    return store.view(work)


def _change(text: str) -> tuple[str, object]:
    name, separator, value = text.partition("=")
    if not (name.isidentifier() and separator):
        raise click.UsageError(f"--set {text!r}: name an argument and its value, for example --set amount=12")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _rename(text: str) -> tuple[str, str]:
    old, _, new = text.partition("=")
    if not (old.isidentifier() and new.isidentifier()):
        raise click.UsageError(f"--rename {text!r}: name both arguments, for example --rename email=address")
    return old, new


def _renamed(job: Job, names: dict[str, str]) -> dict[str, object]:
    """A job's arguments under new names. Raises InvalidArguments if it lacks one, or has one of the new names."""
    args: dict[str, object] = json.loads(job.args)
    for old, new in names.items():
        if old not in args:
            raise InvalidArguments(f"job {job.id} has no argument {old!r}; it has {', '.join(args) or 'none'}")
        if new in args:
            raise InvalidArguments(f"job {job.id} has the argument {new!r} already")
    return {names.get(name, name): value for name, value in args.items()}

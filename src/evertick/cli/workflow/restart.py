"""`evertick workflow restart`: a run, several, or all that filters choose."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from evertick.base.errors import EvertickError
from evertick.base.paging import PAGE_MAX
from evertick.cli.core.databases import data_options
from evertick.cli.core.exits import Exit, exit_code_of
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import OutputOptions, row_options
from evertick.cli.core.progress import confirm_count, counting
from evertick.cli.root import fail
from evertick.cli.sessions.base import naming_other_tenants, say_nothing_found
from evertick.cli.workflow.runs import CHILD_FIELDS, RunFilters, write_run, write_runs
from evertick.cli.workflow.session import AnyRunSession, open_runs

if TYPE_CHECKING:
    from evertick.app.workflows.choice import RunsWhere


@dataclass(frozen=True, slots=True)
class RunChoice(RunFilters):
    """The runs to restart, given by their ids or keys or selected by filters; and the step to restart from."""

    run_ids: tuple[str, ...] = shared(click.argument("run_ids", metavar="[ID]...", nargs=-1))
    is_all: bool = flag("--all", default=False, help="All failed runs, or all in a --state.")
    step: str | None = flag(
        "--step", metavar="STEP",
        help="Its number in the history, or its name: of several the last. Steps before it stay.",
    )  # fmt: skip
    from_failed: bool = flag(
        "--from-failed", default=False,
        help="From the step that it failed with; where its code failed behind a step, all outcomes stay.",
    )  # fmt: skip
    yes: bool = flag("--yes", default=False, help="Do not ask for confirmation.")

    @property
    def chosen_step(self) -> int | str | None:
        """The number or the name of the step; None if none is given."""
        return int(self.step) if self.step is not None and self.step.isdecimal() else self.step

    def check(self) -> None:
        """Raise UsageError for options that contradict each other."""
        if bool(self.run_ids) == (self.is_all or self.is_given):
            raise click.UsageError(
                "name the runs to restart by their ids or keys, or choose them with --workflow, --state, --prefix, "
                "--schedule, --attribute, --error, --since, --until, --occurrence-from, --occurrence-until or --all"
            )
        if self.step is not None and self.from_failed:
            raise click.UsageError("--step and --from-failed both say where a run is restarted; give one")


@click.command()
@flags(RunChoice, "choice")
@data_options
@row_options
def restart(choice: RunChoice, db: str | None, out: OutputOptions) -> int:
    """Run workflows again as new runs, from one of their steps or from the beginning; prints the new ids.

    Filters choose failed runs, unless --state names others, and leave out those that were run again already. A run
    that has not ended is terminated.
    """
    choice.check()
    with open_runs(db) as session:
        return _each(session, choice, out) if choice.run_ids else _all(session, choice, out)


def _each(session: AnyRunSession, choice: RunChoice, out: OutputOptions) -> int:
    """Restart one run after the other; return the exit code."""
    from evertick.api.workflows import RunView

    step, codes, made = choice.chosen_step, list[int](), list[str]()
    for run_id in choice.run_ids:
        try:
            with naming_other_tenants(session.store):
                made.append(session.runs.restart(run_id, step=step, from_failed=choice.from_failed))
        except EvertickError as error:
            if len(choice.run_ids) == 1:
                raise
            codes.append(fail(str(error), exit_code_of(error)))
        else:
            codes.append(int(Exit.OK))
    if out.is_data or out.fields is not None:
        runs = [session.runs.get(each) for each in made]
        if len(choice.run_ids) == 1:
            write_run(session, runs[0], out)
        else:
            write_runs(session, runs, out.columns(RunView.names(), CHILD_FIELDS), out)
    elif not out.is_none:
        for each in made:
            click.echo(each)
    failures = [code for code in codes if code]
    return Exit.PARTLY if failures and made else max(failures, default=Exit.OK)


def _all(session: AnyRunSession, choice: RunChoice, out: OutputOptions) -> int:
    """Restart all runs that the filters select, after their number is confirmed; return the exit code."""
    from evertick.api.commands import RestartedRuns

    where = choice.where(session.now)
    if not choice.states:
        where["not_retried"] = True
    where["roots"] = True  # a child is called again by the run that called it
    count = _count(session, choice.workflow, where)
    if not count:
        if choice.workflow is not None:
            session.require_known(choice.workflow)
        say_nothing_found("runs", session.store)
    elif not choice.yes:
        confirm_count(f"restart {_runs(count)}", count)
    done = 0
    if count:
        with counting("runs are restarted", session.store) as progress:
            done = session.runs.with_progress(progress).restart_all(
                choice.workflow, step=choice.chosen_step, from_failed=choice.from_failed, **where
            )
    left = max(count - done, 0)
    if out.is_data:
        out.write_json(RestartedRuns(restarted=done, left_out=left).to_json())
    elif count and not out.is_none:
        why = "" if not left else (
            f"; {left:,} left out: their key is held, a call of theirs has no end yet, they made no such step, their "
            "workflow is not active, or they were run again meanwhile; `evertick workflow restart ID` says which it is"
        )  # fmt: skip
        click.echo(f"restarted {_runs(done)}{why}", err=True)
    return Exit.PARTLY if left and done else Exit.CONFLICT if left else Exit.OK


def _count(session: AnyRunSession, workflow: str | None, where: "RunsWhere") -> int:
    """The number of selected runs that were not restarted already."""
    count, cursor = 0, None
    while True:
        page = session.runs.list(workflow, limit=PAGE_MAX, cursor=cursor, **where)
        count += sum(run.retried_as is None for run in page.runs)
        cursor = page.cursor
        if cursor is None:
            return count


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"

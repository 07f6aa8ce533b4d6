"""`evertick schedule apply FILE`: make the schedules of a database or a server as a file says."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.errors import EvertickError
from evertick.base.escaping import printable
from evertick.base.ids import ScheduleId
from evertick.cli.core.databases import data_options
from evertick.cli.core.exits import Exit, exit_code_of
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import OutputOptions, colorful, is_terminal, output_option
from evertick.cli.core.progress import Line
from evertick.cli.schedule.files.reading import Problem, refuse_problems, write_problems
from evertick.cli.schedule.files.scope import Scope
from evertick.cli.schedule.files.steps import Action, Step
from evertick.cli.schedule.flags import force_option, say_if_unseen
from evertick.cli.schedule.selection import app_option, counted
from evertick.cli.schedule.session import open_session

if TYPE_CHECKING:
    from evertick.api.schedules import AppliedSchedule

SIGNS: Final = {Action.CREATE: ("+", "green"), Action.UPDATE: ("~", "yellow"), Action.DELETE: ("-", "red")}
VERBS: Final = {Action.CREATE: "created", Action.UPDATE: "changed", Action.DELETE: "deleted"}


@dataclass(frozen=True, slots=True)
class ApplyFlags:
    """The options of `apply` that limit or confirm the changes."""

    prune: bool = flag(
        "--prune", default=False, help="Delete the schedules of --prefix or --label that the files do not have."
    )
    resets: bool = flag(
        "--reset-remaining", default=False, help="Let existing schedules begin their remaining_actions again."
    )
    dry_run: bool = flag("--dry-run", default=False, help="Show what would change; write nothing.")
    check: bool = flag("--check", default=False, help="As --dry-run, with exit code 8 if anything differs.")
    yes: bool = flag("--yes", default=False, help="Do not ask for confirmation.")
    force: bool = shared(force_option, default=False)
    app_file: str | None = shared(app_option)
    db: str | None = shared(data_options)

    @property
    def only_shows(self) -> bool:
        """Whether the changes are only shown, and nothing is written."""
        return self.dry_run or self.check


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@flags(Scope, "scope")
@flags(ApplyFlags, "how")
@output_option
def apply(files: tuple[str, ...], scope: Scope, how: ApplyFlags, out: OutputOptions) -> int:
    """Create and change schedules as files say, after showing what differs. FILE is YAML or JSON; - is stdin.

    `schedule export` writes such files. A wrong entry is reported with its line before anything is changed, and a
    schedule that is edited at the same time is left alone, with exit code 5, or 6 if others were changed.
    """
    from evertick.cli.schedule.files.plan import deletions, planned
    from evertick.cli.schedule.files.reading import read_files

    if how.prune and not scope:
        raise click.UsageError("--prune deletes what is missing; say of which schedules with --prefix or --label")
    declared = read_files(files)
    outside = [each for each in declared.entries if not scope.holds(each.schedule.id, each.schedule.memo or {})]
    problems = [
        *declared.problems,
        *(Problem(each.where, f"{each.schedule.id}: it is outside of {scope}") for each in outside),
    ]
    write_problems(problems)
    with open_session(how.db, how.app_file) as session:
        with Line() as line:
            entries = line.over(declared.entries, "schedules are compared")
            found = [planned(session, each, resets=how.resets, force=how.force) for each in entries]
        unplanned = [problem for each in found if isinstance(each, list) for problem in each]
        write_problems(unplanned)
        refuse_problems([*problems, *unplanned])
        steps = [each for each in found if isinstance(each, Step)]
        if how.prune:
            steps += deletions(session, scope, [each.schedule_id for each in steps])
        changing = [each for each in steps if each.action is not Action.UNCHANGED]
        if not (out.is_data or out.is_none):
            for step in changing:
                write_step(step)
        _warn(changing)
        for step in {each.function.name: each for each in changing if each.function}.values():
            say_if_unseen(step.function, None if step.after is None else step.after.target.args)
        if declared.crons:
            click.echo(f"note: the crons of the file ({declared.crons}) are declared in code and left alone", err=True)
        if changing and not how.only_shows:
            _confirm(changing, yes=how.yes)
        failures = {} if how.only_shows else _done(changing)
    _report(steps, failures, how, out)
    if how.check and changing:
        return Exit.NOT_FULFILLED
    return _exit_code(len(changing), failures)


def write_step(step: Step) -> None:
    """Write a line that describes a step."""
    from evertick.cli.schedule.differences import next_times, text_of

    sign, color = SIGNS[step.action]
    words = printable(f"{sign} {step.schedule_id}")
    words = click.style(words, fg=color) if colorful() else words
    if step.action is Action.CREATE and step.after is not None:
        words += printable(f"  {step.after.sentence or 'no times'}: {step.after.function}")
    click.echo(words, color=colorful())
    for name, (old, new) in step.changes.items():
        click.echo(f"    {name:<17} {printable(text_of(old))} -> {printable(text_of(new))}")
    if step.after is None:
        return
    if step.before is None:
        _write_next([time for _, time in next_times(None, step.after)][:1])
    elif {"spec", "times"} & step.changes.keys():
        pairs = next_times(step.before, step.after)
        _write_next([new if old == new else f"{old} -> {new}" for old, new in pairs])


def _warn(changing: Sequence[Step]) -> None:
    """Print the warnings that the steps add to schedules, each once, with the first schedule that has it."""
    warned: dict[str, list[str]] = {}
    for step in changing:
        before = () if step.before is None else step.before.warnings
        for remark in () if step.after is None else step.after.warnings:
            if remark not in before:
                warned.setdefault(remark.message, []).append(step.schedule_id)
    for message, names in warned.items():
        others = "" if len(names) == 1 else f" and {len(names) - 1:,} more"
        click.echo(f"note: {printable(f'{names[0]}{others}: {message}')}", err=True)


def _write_next(times: Sequence[str]) -> None:
    for index, time in enumerate(times):
        click.echo(f"    {'' if index else 'next':<18}{time}")


def _confirm(changing: Sequence[Step], *, yes: bool) -> None:
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise click.UsageError(f"this changes {counted(len(changing))}; give --yes where no terminal can confirm it")
    click.confirm(f"Apply this to {counted(len(changing))}?", abort=True, err=True)


def _done(changing: Sequence[Step]) -> dict[str, EvertickError]:
    """Execute the steps; return the errors by schedule."""
    failures: dict[str, EvertickError] = {}
    with Line() as line:
        for index, step in enumerate(line.over(changing, "schedules are done")):
            try:
                step.do()
            except EvertickError as error:
                failures[step.schedule_id] = error
                line.wipe()
                click.echo(printable(f"{step.schedule_id}: {error}"), err=True)
            except KeyboardInterrupt:
                line.wipe()
                click.echo(f"interrupted after {index} of {counted(len(changing))}; apply again to go on", err=True)
                raise
    return failures


def _report(steps: Sequence[Step], failures: dict[str, EvertickError], how: ApplyFlags, out: OutputOptions) -> None:
    from evertick.api.schedules import ApplyReport

    counts = dict.fromkeys(Action, 0)
    for step in steps:
        counts[step.action] += step.schedule_id not in failures
    if out.is_data:
        rows = tuple(_row(step, failures.get(step.schedule_id)) for step in steps)
        report = ApplyReport(
            dry_run=how.only_shows,
            created=counts[Action.CREATE],
            updated=counts[Action.UPDATE],
            deleted=counts[Action.DELETE],
            unchanged=counts[Action.UNCHANGED],
            failed=len(failures),
            schedules=rows,
        )
        out.write_json(report.to_json())
    would = "would be " if how.only_shows else ""
    said = [f"{counts[action]} {would}{verb}" for action, verb in VERBS.items() if counts[action]]
    said += [f"{counts[Action.UNCHANGED]} unchanged"] if counts[Action.UNCHANGED] or not (said or failures) else []
    said += [f"{len(failures)} failed"] if failures else []
    click.echo(", ".join(said), err=True)


def _row(step: Step, error: EvertickError | None) -> "AppliedSchedule":
    from evertick.api.schedules import AppliedSchedule
    from evertick.cli.schedule.words import SHOWN

    def times(schedule: Any) -> tuple[Any, ...]:
        return () if schedule is None else tuple(time.nominal for time in schedule.upcoming[:SHOWN])

    return AppliedSchedule(
        id=ScheduleId(step.schedule_id),
        action=step.action.value,
        changes=step.changes,
        next_before=times(step.before),
        next_after=times(step.after),
        error=None if error is None else str(error),
    )


def _exit_code(changing: int, failures: dict[str, EvertickError]) -> int:
    if not failures:
        return Exit.OK
    first = next(iter(failures.values()))
    return Exit.PARTLY if len(failures) < changing else exit_code_of(first)

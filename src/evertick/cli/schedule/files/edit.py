"""`evertick schedule edit`: a schedule as YAML in an editor; what differs is shown, and done if that is wanted."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.errors import Misuse, VersionConflict
from evertick.base.escaping import one_line, printable
from evertick.base.suggested_commands import no_schedule
from evertick.cli.core.databases import chosen_tenant, data_options
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import OutputOptions, is_terminal, output_option
from evertick.cli.schedule.files.apply import write_step
from evertick.cli.schedule.files.forms import CRONS, SCHEDULES, json_of
from evertick.cli.schedule.files.scope import Scope
from evertick.cli.schedule.files.steps import Action, Step
from evertick.cli.schedule.flags import force_option, say_if_unseen
from evertick.cli.schedule.selection import app_option, sid_option
from evertick.cli.schedule.session import Session, open_session
from evertick.rules.schedules.metadata import CODE

if TYPE_CHECKING:
    from evertick.api.schedules import ScheduleDescription, ScheduleSummary
    from evertick.app.schedules.bodies import WrittenSchedule


# -- `evertick schedule export`: schedules as a file that `schedule apply` reads.


@dataclass(frozen=True, slots=True)
class ExportFlags:
    """The options that select schedules, and the format."""

    query: str = flag("--query", "-q", metavar="TERMS", default="", help="Such as 'state:paused function:app.send'.")
    with_crons: bool = flag("--crons", default=False, help="Also crons of code, to be read; apply leaves them alone.")
    form: str = flag("-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", show_default=True)


@click.command()
@click.argument("names", metavar="[ID]...", nargs=-1)
@flags(Scope, "scope")
@flags(ExportFlags, "chosen")
@data_options
def export(names: tuple[str, ...], scope: Scope, chosen: ExportFlags, db: str | None) -> None:
    """Write schedules as a file: all, those that are named, or those that the flags choose.

    It has what differs from the defaults. Schedules that have ended are left out, since none can be made that way.
    """
    from evertick.app.schedules.bodies import written
    from evertick.store.records.schedule import UNREADABLE

    yaml_of = yaml_writer() if chosen.form == "yaml" else json_of
    with open_session(db) as session:
        found = _chosen(session, names, scope, chosen.query)
        of_code = [each for each in found if each.source == CODE and each.status != UNREADABLE]
        ended = [each.id for each in found if each.status == "completed" and each.source != CODE]
        unreadable = [each.id for each in found if each.status == UNREADABLE]
        kept = [each for each in found if each not in of_code and each.id not in {*ended, *unreadable}]
        value = {SCHEDULES: [written(session.schedules.get(each.id)) for each in kept]}
        if chosen.with_crons:
            value[CRONS] = [written(session.schedules.get(each.id)) for each in of_code]
    click.echo(yaml_of(value), nl=False)
    for left, why in ((ended, "have ended"), (unreadable, "cannot be read by this release")):
        if left:
            click.echo(f"note: left out, because they {why}: {printable(', '.join(left))}", err=True)


def yaml_writer() -> Callable[[Any], str]:
    """The function that writes YAML. Raises Misuse if the library is not installed."""
    try:
        from evertick.cli.schedule.files.forms import yaml_of
    except ModuleNotFoundError:
        raise Misuse("YAML needs the extra: pip install 'evertick[yaml]'; or give -o json") from None
    return yaml_of


def _chosen(session: Session, names: tuple[str, ...], scope: Scope, query: str) -> "list[ScheduleSummary]":
    from evertick.app.schedules.lists import parse_query

    if names and (scope or query):
        raise click.UsageError("give ids, or choose with flags, not both")
    found = list(scope.found(session, **parse_query(query, session.now)))
    if not names:
        return found
    known: dict[str, ScheduleSummary] = {each.id: each for each in found}
    for name in names:
        if name not in known:
            raise no_schedule(name, chosen_tenant(), known)
    return [known[name] for name in sorted(set(names))]


HEAD: Final = "#| "
"""How the lines begin that stand above the text for the person who edits it; they are not read."""


@dataclass(frozen=True, slots=True)
class EditFlags:
    """The options of `edit` for confirmations and checks."""

    yes: bool = flag("--yes", default=False, help="Do not ask for confirmation.")
    force: bool = shared(force_option, default=False)
    app_file: str | None = shared(app_option)
    db: str | None = shared(data_options)


@dataclass(slots=True)
class Draft:
    """The text of a schedule that is being edited, in a file that only this user can read."""

    schedule_id: str
    body: str
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="evertick-edit-")))

    @property
    def file(self) -> Path:
        """The path of the file."""
        return self.folder / "schedule.yaml"

    def edited(self, problems: Sequence[str]) -> bool:
        """Open the editor, with the problems at the top of the text. Return whether the text was changed.

        Raises ClickException.
        """
        self._write([f"{self.schedule_id}: save and close; what differs is shown before it is done", *problems])
        before = self.body
        click.edit(filename=str(self.file))
        lines = self.file.read_text("utf-8").splitlines(keepends=True)
        while lines and lines[0].startswith(HEAD.rstrip()):
            lines.pop(0)
        self.body = "".join(lines)
        return self.body != before

    def entry(self) -> "WrittenSchedule | list[str]":
        """The schedule in the text; or its problems, with the line numbers that they have below these messages."""
        found = self._read(lines_above=0)
        if not isinstance(found, list):
            return found
        again = self._read(lines_above=1 + len(found))
        assert isinstance(again, list), "blank lines above a text change nothing"  # noqa: S101
        return again

    def remove(self) -> None:
        """Remove the file."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, head: Sequence[str]) -> None:
        self.file.write_text("".join(f"{HEAD}{one_line(line)}\n" for line in head) + self.body, "utf-8")

    def _read(self, *, lines_above: int) -> "WrittenSchedule | list[str]":
        from evertick.cli.schedule.files.reading import read_files

        self.file.write_text("\n" * lines_above + self.body, "utf-8")
        try:
            declared = read_files([str(self.file)])
        except Misuse as error:
            return [self._shown(str(error))]
        if declared.problems:
            return [self._shown(f"{each.where}: {each.words}") for each in declared.problems]
        if [each.schedule.id for each in declared.entries] != [self.schedule_id]:
            return [f"it must hold the schedule {self.schedule_id} alone; `schedule apply` takes files of several"]
        return declared.entries[0].schedule

    def _shown(self, words: str) -> str:
        return words.replace(f"{self.file}:", "line ")


@click.command()
@sid_option
@flags(EditFlags, "how")
@output_option
def edit(sid: str, how: EditFlags, out: OutputOptions) -> None:
    """Change a schedule in an editor, as `schedule export` writes it.

    The editor is VISUAL, else EDITOR. What cannot be applied comes back to the editor with the reason above it. Then
    what differs is shown, and confirmed. If the schedule was changed meanwhile, nothing is done (exit code 5). The text
    is kept in a file unless it was applied.
    """
    if not how.yes and not is_terminal(sys.stdin):
        raise click.UsageError("what differs must be confirmed; give --yes where no terminal can confirm it")
    to_yaml = yaml_writer()
    from evertick.api.commands import UpdatedSchedule
    from evertick.app.schedules.bodies import written

    with open_session(how.db, how.app_file) as session:
        before = session.schedules.get(sid)
        if before.source == CODE:
            raise Misuse(f"{sid} is a cron that is declared in code; change it there")
        draft = Draft(sid, first := to_yaml({SCHEDULES: [written(before)]}))
        try:
            step = _edited(session, before, draft, force=how.force)
            if step is not None:
                if not (out.is_data or out.is_none):
                    write_step(step)
                say_if_unseen(step.function)
                if not how.yes:
                    click.confirm(f"Apply this to {printable(sid)}?", abort=True, err=True)
                step.do()
            if out.is_data:
                changes = {} if step is None else step.changes
                out.write_view(UpdatedSchedule.after(session.schedules.get(sid), changes, dry_run=False))
        except BaseException:
            if draft.body == first:
                draft.remove()
            else:
                click.echo(f"note: your text is kept in {draft.file}", err=True)
            raise
    draft.remove()
    click.echo(printable(f"{sid} changed" if step is not None else f"{sid}: nothing changed"), err=True)


def _edited(session: Session, before: "ScheduleDescription", draft: Draft, *, force: bool) -> Step | None:
    """Open the editor until the text is valid. Return the step; None if the text changes nothing.

    Raises Misuse if the text remains invalid.
    """
    problems: list[str] = []
    while True:
        is_changed = draft.edited(problems)
        if not draft.body.strip() or not (is_changed or problems):
            return None
        if not is_changed:
            raise Misuse(f"the text was not mended: {problems[0]}")
        entry = draft.entry()
        found = entry if isinstance(entry, list) else _step(session, before, entry, force=force)
        if isinstance(found, Step):
            return found if found.action is Action.UPDATE else None
        problems = found


def _step(
    session: Session, before: "ScheduleDescription", edited: "WrittenSchedule", *, force: bool
) -> Step | list[str]:
    """The step that applies the text, or the problems of the text. Raises VersionConflict, ScheduleNotFound."""
    from evertick.cli.schedule.files.plan import planned
    from evertick.cli.schedule.files.reading import Entry

    now = session.schedules.get(before.id).version
    if now != before.version:
        raise VersionConflict(f"{before.id} was changed meanwhile, from version {before.version} to {now}")
    if before.pause is not None and edited.paused is None:  # the line was there, and was deleted
        edited = edited.model_copy(update={"paused": False})
    found = planned(session, Entry("", edited), resets=edited.remaining_actions != before.remaining, force=force)
    return found if isinstance(found, Step) else [each.words for each in found]

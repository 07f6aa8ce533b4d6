"""`evertick script create`, `edit`, `test`, `publish`, `rollback`, `run`, `limits` and `delete`.

A source comes from a file, or from stdin as `-`. Its syntax is checked in the sandbox; a mistake is reported with its
line and column. With --app scripts have the plan, the tables and the functions of that app.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.durations import length
from evertick.base.errors import InvalidScript
from evertick.base.escaping import json_text, one_line, printable
from evertick.cli.core.databases import data_options
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import MomentWriter, OutputOptions, output_option, row_options, words_of
from evertick.cli.json_values import json_or_text, text_of
from evertick.cli.schedule.flags import parse_json, text_or_file
from evertick.cli.script.reading import error_words, outcome_words
from evertick.cli.script.session import AnyScriptSession, app_option, open_scripts
from evertick.recurrence.parse.duration import parse_milliseconds

if TYPE_CHECKING:
    from evertick.api.scripts import ScriptPlanView, ScriptTestView, ScriptView

LANGUAGES: Final = {".js": "javascript", ".mjs": "javascript", ".py": "python"}
"""By how a file's name ends."""
ENDINGS: Final = {"javascript": ".js", "python": ".py"}
TEST_FIELDS: Final = (
    "outcome", "error", "result", "logs", "staged", "host_calls", "wall_ms", "cpu_ms", "rss_kb", "isolation",
)  # fmt: skip
PLAN_FIELDS: Final = ("limits", "own", "scripts", "schedules", "runs_last_hour", "cpu_ms_last_hour")


@dataclass(frozen=True, slots=True)
class DraftFlags:
    """The options for a draft, except its source."""

    language: str | None = flag(
        "--language", type=click.Choice(tuple(ENDINGS)), help="That of the file's ending unless given."
    )
    parameters: str | None = flag(
        "--parameters", metavar="JSON|@FILE", help="A JSON schema of the input; 'none' removes it."
    )
    note: str | None = flag("--note", metavar="TEXT", help="What people should know about it.")
    app_file: str | None = shared(app_option)
    db: str | None = shared(data_options)

    def given(self, file: Path | None) -> dict[str, Any]:
        """The given options as keywords of `scripts.edit`. Raises InvalidSpec for parameters that are not JSON."""
        language = self.language or (None if file is None else LANGUAGES.get(file.suffix))
        found = {"language": language, "note": self.note}
        schema = {} if self.parameters is None else {"parameters": _json_of(self.parameters, "--parameters")}
        return {name: value for name, value in found.items() if value is not None} | schema


input_option: Final = click.option(
    "--input", "-i", "input_text", metavar="JSON|@FILE", help="The input of the script, as JSON."
)
version_option: Final = click.option(
    "--version", type=click.IntRange(1), metavar="N", help="This version, in place of the usual one."
)


@click.command()
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@flags(DraftFlags, "draft")
@output_option
def create(name: str, file: Path, draft: DraftFlags, out: OutputOptions) -> None:
    """Write the new script NAME as a draft, from FILE or - for stdin. It runs when it is published."""
    given = draft.given(file)
    if "language" not in given:
        raise click.UsageError("--language says what it is written in: javascript or python")
    source = text_of(file, str(file))
    with open_scripts(draft.db, draft.app_file) as session:
        made = session.scripts.create(name, source, **given)
    _say(f"created the draft of {made.name}; test it, then: evertick script publish {made.name}", out)
    out.write_view(made)


@click.command()
@click.argument("script", metavar="NAME")
@click.argument("file", metavar="[FILE]", type=click.Path(path_type=Path), required=False)
@click.option("--if-revision", type=int, metavar="N", help="Only if the script has still this revision.")
@flags(DraftFlags, "draft")
@output_option
def edit(script: str, file: Path | None, if_revision: int | None, draft: DraftFlags, out: OutputOptions) -> None:
    """Change the draft of a script: from FILE (- for stdin), by options, or with neither in an editor.

    The editor is VISUAL, else EDITOR. What has a mistake can be edited again.
    """
    given = draft.given(file)
    with open_scripts(draft.db, draft.app_file) as session:
        if file is None and not given:
            found = _edited(session, script, if_revision)
        else:
            source = None if file is None else text_of(file, str(file))
            found = session.scripts.edit(script, source, if_revision=if_revision, **given)
    if found is None:
        _say("nothing was changed", out)
        return
    state = "it differs from the version that runs" if found.is_changed else "it is the version that runs"
    _say(f"saved the draft of {found.name}; {state}", out)
    out.write_view(found)


@click.command()
@click.argument("script", metavar="NAME")
@input_option
@click.option("--file", type=click.Path(path_type=Path), metavar="FILE", help="This source, in place of the draft.")
@version_option
@app_option
@data_options
@row_options
def test(
    script: str, input_text: str | None, file: Path | None, version: int | None, app_file: str | None, db: str | None,
    out: OutputOptions,
) -> int:  # fmt: skip
    """Run the draft of a script now, write nothing, and show what it did. The exit code is 1 if it did not end well.

    On a database it has the tables and functions of the app that --app names.
    """
    from evertick.api.scripts import ScriptTestView

    chosen = out.columns(ScriptTestView.names(), TEST_FIELDS)
    if file is not None and version is not None:
        raise click.UsageError("--file and --version both say what is run; give one")
    source = None if file is None else text_of(file, f"--file {file}")
    with open_scripts(db, app_file) as session:
        _note_missing_code(session, out, "the test has no tables and no functions of the app")
        found = session.scripts.test(script, _json_of(input_text, "--input"), source=source, version=version)
        now = session.now
    out.show_view(found, now, chosen, _test_words)
    return Exit.OK if found.outcome == "ok" else Exit.FAILED


@click.command()
@click.argument("script", metavar="NAME")
@click.option("--note", metavar="TEXT", help="Why; the note of the draft unless given.")
@data_options
@output_option
def publish(script: str, note: str | None, db: str | None, out: OutputOptions) -> None:
    """Make the draft of a script the version that runs."""
    with open_scripts(db) as session:
        found = session.scripts.publish(script, note=note)
    _say(found.sentence, out)
    out.write_view(found)


@click.command()
@click.argument("script", metavar="NAME")
@click.argument("version", type=click.IntRange(1))
@data_options
@output_option
def rollback(script: str, version: int, db: str | None, out: OutputOptions) -> None:
    """Let an earlier version of a script run again. The draft stays as it is."""
    with open_scripts(db) as session:
        found = session.scripts.rollback(script, version)
    _say(found.sentence, out)
    out.write_view(found)


@click.command()
@click.argument("script", metavar="NAME")
@input_option
@version_option
@click.option("--after", metavar="DURATION", help="This long from now, such as 5s or 1h30m.")
@app_option
@data_options
@output_option
def run(
    script: str, input_text: str | None, version: int | None, after: str | None, app_file: str | None, db: str | None,
    out: OutputOptions,
) -> None:  # fmt: skip
    """Run the published version of a script as a job, and print the job's id."""
    from evertick.api.commands import ScheduledCall

    delay = 0.0 if after is None else parse_milliseconds(after) / 1000
    with open_scripts(db, app_file) as session:
        job_id = session.start(script, _json_of(input_text, "--input"), version=version, delay=delay)
        due_at = session.due_at(job_id) if out.is_data else None
    if out.is_data:
        out.write_view(ScheduledCall(job_id=job_id, due_at=due_at))
    elif not out.is_none:
        click.echo(job_id)


@click.command()
@click.argument("words", nargs=-1, metavar="[NAME=VALUE]...")
@app_option
@data_options
@row_options
def limits(words: tuple[str, ...], app_file: str | None, db: str | None, out: OutputOptions) -> None:
    """Show what the scripts of the tenant may use, and what they use; or change limits of its own.

    As cpu_ms=5000 runs_per_hour=100 hosts=api.example.com,b.example; none takes a limit back to the app's. On a server
    a change needs a token of all tenants.
    """
    from evertick.api.scripts import ScriptPlanView

    chosen = out.columns(ScriptPlanView.names(), PLAN_FIELDS)
    changes: Any = dict(map(_limit, words))
    with open_scripts(db, app_file) as session:
        _note_missing_code(session, out, "limits that are not the tenant's own are those of no app")
        found = session.scripts.set_plan(**changes) if changes else session.scripts.limits()
        now = session.now
    if found.warning:
        click.echo(f"note: {found.warning}", err=True)
    out.show_view(found, now, chosen, _plan_words)


@click.command()
@click.argument("script", metavar="NAME")
@data_options
@output_option
def delete(script: str, db: str | None, out: OutputOptions) -> None:
    """Delete a script with its versions; refused while schedules run it or runs of it have not ended.

    Records of its runs stay for their time.
    """
    from evertick.api.scripts import DeletedScript

    with open_scripts(db) as session:
        session.scripts.delete(script)
    _say(f"deleted {script}", out)
    out.write_view(DeletedScript(name=script))


# -- helpers


def _edited(session: AnyScriptSession, name: str, if_revision: int | None) -> "ScriptView | None":
    """Open the source in an editor. Return the changed script; None if it was not changed."""
    before = session.scripts.get(name)
    folder = Path(tempfile.mkdtemp(prefix="evertick-script-"))  # which only this user can read
    file = folder / f"script{ENDINGS.get(before.language, '')}"
    file.write_text(before.source, "utf-8")
    revision = before.revision if if_revision is None else if_revision
    while True:
        click.edit(filename=str(file))
        source = file.read_text("utf-8")
        try:
            found = None if source == before.source else session.scripts.edit(name, source, if_revision=revision)
        except InvalidScript as error:
            click.echo(f"error: {one_line(str(error))}", err=True)
            if not click.confirm("edit it again?", default=True, err=True):
                raise click.ClickException(f"nothing was changed; what you wrote is in {file}") from None
            continue
        file.unlink()
        folder.rmdir()
        return found


def _json_of(text: str | None, what: str) -> Any:
    """The value of an option: JSON, or the name of a JSON file; None for `none`. Raises InvalidSpec."""
    return None if text in (None, "none") else parse_json(text_or_file(text, what))


def _limit(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{printable(word)!r} is no limit; write NAME=VALUE")
    name = name.replace("-", "_")
    if value == "none":
        return name, None
    found = json_or_text(value, f"the limit {name}")
    return name, found.split(",") if name == "hosts" and isinstance(found, str) else found


def _note_missing_code(session: AnyScriptSession, out: OutputOptions, words: str) -> None:
    if not session.has_code and not out.is_none:
        click.echo(f"note: {words}; name it with --app FILE", err=True)


def _say(words: str, out: OutputOptions) -> None:
    if not out.is_none:
        click.echo(printable(words), err=True)


def _test_words(view: "ScriptTestView", moment: MomentWriter) -> Mapping[str, str]:
    words = words_of(view, moment)
    words["outcome"] = outcome_words(view)
    words["error"] = error_words(view.error)
    words["logs"] = "\n".join(f"{line.level:<7}  {line.text}" for line in view.logs)
    words["staged"] = "\n".join(map(json_text, view.staged))
    words["wall_ms"], words["cpu_ms"] = length(view.wall_ms), length(view.cpu_ms)
    return words


def _plan_words(view: "ScriptPlanView", moment: MomentWriter) -> Mapping[str, str]:
    words = words_of(view, moment)
    words["limits"] = "\n".join(
        f"{name}={json_text(value)}" for name, value in view.limits.items() if value is not None
    )
    words["own"] = ", ".join(view.own)
    return words

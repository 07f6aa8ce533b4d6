"""`evertick script list`, `get`, `versions`, `runs` and `logs`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.durations import length
from evertick.base.error_text import place_words
from evertick.base.errors import JobNotFound
from evertick.base.escaping import printable
from evertick.cli.core.databases import data_options
from evertick.cli.core.output import (
    MomentWriter,
    OutputOptions,
    limit_option,
    output_option,
    row_options,
    time_row_options,
    words_of,
)
from evertick.cli.script.session import open_scripts
from evertick.cli.sessions.base import say_nothing_found

if TYPE_CHECKING:
    from evertick.api.scripts import ScriptRunView, ScriptTestView

LIST_FIELDS: Final = ("name", "language", "published", "is_changed", "updated", "note")
VERSION_FIELDS: Final = ("version", "language", "created", "sha256", "note")
RUN_FIELDS: Final = ("ended", "script", "version", "outcome", "wall_ms", "cpu_ms", "waited_ms", "job_id", "error")


@click.command("list")
@click.option("--after", metavar="NAME", default="", help="Begin beyond this name.")
@limit_option
@data_options
@time_row_options
def list_scripts(after: str, limit: int, db: str | None, out: OutputOptions) -> None:
    """List scripts by name: their language, the version that runs, and whether the draft differs from it."""
    from evertick.api.scripts import ScriptSummary

    chosen = out.columns(ScriptSummary.names(), LIST_FIELDS)
    with open_scripts(db) as session:
        found = session.scripts.list(after=after, limit=limit)
        out.show_views(found, session.now, chosen)
        if not found and out.tells_of_nothing:
            say_nothing_found("scripts", session.store)


@click.command()
@click.argument("script", metavar="NAME")
@click.option("--version", type=click.IntRange(1), metavar="N", help="This version, in place of the draft.")
@click.option("--source", "is_source", is_flag=True, help="Write the source alone.")
@data_options
@row_options
def get(script: str, version: int | None, is_source: bool, db: str | None, out: OutputOptions) -> None:
    """Show a script with its draft, or one of its versions."""
    with open_scripts(db) as session:
        found: Any = session.scripts.get(script) if version is None else session.scripts.version(script, version)
        now = session.now
    if is_source:
        click.echo(found.source, nl=not found.source.endswith("\n"))
        return
    out.show_view(found, now, out.columns(type(found).names(), type(found).names()))


@click.command()
@click.argument("script", metavar="NAME")
@limit_option
@data_options
@time_row_options
def versions(script: str, limit: int, db: str | None, out: OutputOptions) -> None:
    """List the versions of a script, the newest first."""
    from evertick.api.scripts import ScriptVersionSummary

    chosen = out.columns(ScriptVersionSummary.names(), VERSION_FIELDS)
    with open_scripts(db) as session:
        found = session.scripts.versions(script, limit=limit)
        out.show_views(found, session.now, chosen)
    if not found and out.tells_of_nothing:
        click.echo("no version yet: publish the draft", err=True)


@click.command()
@click.argument("script", metavar="[NAME]", required=False)
@limit_option
@data_options
@time_row_options
def runs(script: str | None, limit: int, db: str | None, out: OutputOptions) -> None:
    """List attempts at runs of a script, or of all, that have ended; the newest first."""
    from evertick.api.scripts import ScriptRunView

    chosen = out.columns(ScriptRunView.names(), RUN_FIELDS)
    with open_scripts(db) as session:
        if script is not None:
            session.scripts.get(script)
        found = session.scripts.runs(script, limit=limit)
        out.show_views(found, session.now, chosen, _run_words)
        if not found and out.tells_of_nothing:
            say_nothing_found("runs", session.store)


@click.command()
@click.argument("script", metavar="NAME")
@click.option("--runs", "limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many runs.")
@data_options
@output_option
def logs(script: str, limit: int, db: str | None, out: OutputOptions) -> None:
    """Show what the last runs of a script have logged, the oldest first."""
    from evertick.api.scripts import ScriptRunLine

    lines: list[ScriptRunLine] = []
    with open_scripts(db) as session:
        session.scripts.get(script)
        found = session.scripts.runs(script, limit=limit)
        for job_id in dict.fromkeys(each.job_id for each in reversed(found)):
            try:
                kept = session.logs(job_id).lines
            except JobNotFound:  # its retention is over
                continue
            lines += [ScriptRunLine(job_id=job_id, **line.model_dump()) for line in kept]
    out.write_views(lines)
    if not out.is_data and not out.is_none:
        for line in lines:
            click.echo(f"{line.to_json()['time']}  {line.level:<7}  {printable(line.message)}")
    if not lines and out.tells_of_nothing:
        click.echo("no lines", err=True)


def outcome_words(view: "ScriptRunView | ScriptTestView") -> str:
    """The outcome of a run as text, with the limit that it exceeded."""
    return view.outcome if view.exceeded is None else f"{view.outcome} ({view.exceeded})"


def error_words(error: Any) -> str:
    """The error of a script as one line, with its place."""
    if error is None:
        return ""
    place = place_words(error.line, error.column)
    return f"{error.name}: {error.message}{place}" if error.name else f"{error.message}{place}"


def _run_words(view: "ScriptRunView", moment: MomentWriter) -> Mapping[str, str]:
    words = words_of(view, moment)
    for name in ("waited_ms", "cpu_ms", "wall_ms"):
        words[name] = length(getattr(view, name))
    words["outcome"] = outcome_words(view)
    words["error"] = error_words(view.error).partition("\n")[0]
    return words

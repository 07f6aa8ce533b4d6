"""`evertick workflow history`: what a run has done, as a timeline in the terminal or as data."""

import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from evertick.base.durations import length
from evertick.base.escaping import printable
from evertick.base.ids import JobId
from evertick.base.instants import Instant, from_datetime
from evertick.base.records.jobs import JobError
from evertick.base.records.workflows import CallKind
from evertick.cli.core.databases import data_options
from evertick.cli.core.output import OutputOptions, output_option, words_of
from evertick.cli.core.watching import refreshed, watch_option
from evertick.cli.job.history import write_line
from evertick.cli.workflow.runs import note_of_events, words_of_run
from evertick.cli.workflow.session import AnyRunSession, open_runs
from evertick.rules.workflows.timeline import Axis, Span

if TYPE_CHECKING:
    from evertick.api.workflows import RunDetails, RunHistory, RunStep, RunView
    from evertick.rules.workflows.timeline import Span


FIELDS: Final = ("step", "name", "kind", "outcome", "started_at", "duration")
BAR_MIN, BAR_MAX, WORDS_WIDTH = 16, 60, 80
OUTCOME_CHARS: Final = 60
LIMIT_DEFAULT: Final = 200
JOBS: Final = frozenset({CallKind.ACTION, CallKind.JOB})
"""Calls that run as jobs; a child workflow has a state of its own."""
WAITING: Final = frozenset({CallKind.SLEEP, CallKind.TIMER, CallKind.EVENT})


@click.command()
@click.argument("run_id", metavar="ID")
@click.option("--limit", type=click.IntRange(1), default=LIMIT_DEFAULT, show_default=True, help="So many last steps.")
@click.option("--log", "with_log", is_flag=True, help="Below them, what its code and steps have logged.")
@watch_option
@data_options
@output_option
def history(run_id: str, limit: int, with_log: bool, db: str | None, out: OutputOptions) -> int:
    """Draw what a run has done: a line and a bar for each step. Long idle times are folded, drawn as dots.

    -o json writes the whole history, which evertick.testing.replay takes; -o jsonl its events, one a line.
    """
    if with_log and out.is_data:
        raise click.UsageError("--log is for people; `evertick job logs ID -o json` has the lines as data")
    with open_runs(db) as session:
        return refreshed(session.store, out, lambda: _write(session, run_id, limit, with_log, out))


def _write(session: AnyRunSession, run_id: str, limit: int, with_log: bool, out: OutputOptions) -> None:
    run, found = session.runs.get(run_id), session.runs.history(run_id)
    if out.output == "json":
        out.write_json(found.to_json())
    elif out.output == "jsonl":
        for event in found.events:
            out.write_json(event.to_json())
    elif not out.is_none:
        _draw(run, found, limit, out, session)
        if with_log:
            _write_log(session, run, out)


def _draw(run: "RunDetails", found: "RunHistory", limit: int, out: OutputOptions, session: AnyRunSession) -> None:
    """Write the steps for people; if columns are aligned, with bars."""
    steps = found.steps()
    last, fields = steps[-limit:], list(FIELDS)
    held, now = _held(session, run, last), session.now
    shown = [_words(step, run, held) for step in last]
    if out.is_table:
        click.echo(_headline(run, out, now))
        width = max(BAR_MIN, min(BAR_MAX, shutil.get_terminal_size().columns - WORDS_WIDTH))
        end = now if run.completed_at is None else from_datetime(run.completed_at)
        for words, bar in zip(shown, bars([_span(step, end) for step in last], width), strict=True):
            words["timeline"] = bar
        fields.append("timeline")
    out.write_rows([], shown, fields)
    if len(steps) > limit:
        click.echo(f"these are the last {limit} of {len(steps):,} steps; there are more: --limit", err=True)
    if run.waiting_event_count:
        click.echo(printable(note_of_events(run, out.moments(now))), err=True)
    if not steps:
        click.echo("no steps" if run.has_ended else "no steps yet", err=True)


def _write_log(session: AnyRunSession, run: "RunView", out: OutputOptions) -> None:
    kept = session.logs(run.id)
    click.echo()
    for line in kept.lines:
        write_line(line, out)
    if not kept.lines:
        click.echo("no lines" if run.has_ended else "no lines yet", err=True)


def _held(session: AnyRunSession, run: "RunView", steps: "Sequence[RunStep]") -> Mapping[JobId, str]:
    """The reason why the job of each waiting step has not started: the pool is at its limit, or no worker took it."""
    from evertick.app.workflows.details import STEPS_MAX

    if not any(step.outcome == "running" and step.kind in JOBS for step in steps):
        return {}
    found = session.runs.timeline(run.id, limit=min(len(steps), STEPS_MAX)).steps
    return {
        step.job_id: step.held or "waits"
        for step in found
        if step.job_id is not None and step.kind in JOBS and all(each.outcome is not None for each in step.attempts)
    }


def _words(step: "RunStep", run: "RunView", held: Mapping[JobId, str]) -> dict[str, str]:
    """The fields of a step as text. Times are exact, so that steps can be compared."""
    from evertick.cli.dev.lines import error_line

    words = words_of(step, OutputOptions(time_style="iso").moments(Instant(0)))
    words["duration"] = "" if step.duration_ms is None else length(step.duration_ms)
    if step.outcome == "running":
        waits = "waits" if step.kind in WAITING else "runs"
        if step.job_id is not None:
            waits = held.get(step.job_id, waits)
        words["outcome"] = "not ended" if run.has_ended else waits
    elif step.sent_by is not None:
        words["outcome"] = f"{step.outcome}, by {step.sent_by}"
    elif step.error is not None:
        said = error_line(JobError(step.error["type"], step.error["message"]))
        words["outcome"] = f"failed: {said if len(said) <= OUTCOME_CHARS else f'{said[:OUTCOME_CHARS]}…'}"
    return words


def _span(step: "RunStep", now: Instant) -> "Span":
    from evertick.rules.workflows.timeline import Span

    start = from_datetime(step.started_at)
    end = max(start, now) if step.ended_at is None else from_datetime(step.ended_at)
    return Span(start, end, step.kind in WAITING)


def _headline(run: "RunView", out: OutputOptions, now: Instant) -> str:
    """The run as one line."""
    words = words_of_run(run, out.moments(now))
    moments = (("started", "created_at"), ("wakes", "wakes_at"), ("ended", "completed_at"))
    parts = [run.function, run.id, run.key or "", run.state.value]
    parts += [f"{what} {words[field]}" for what, field in moments if words[field]]
    return printable("  ".join(part for part in (*parts, words["error"]) if part))


# -- The timeline of a run in the terminal: a bar for each step, over one axis of time in which idle time is folded.
#
# A folded piece of the axis has a few columns, drawn as `┄`.

FOLDED: Final = 3.0
"""Columns of a piece that is folded; fewer where there are many."""
WORKS, WAITS, FOLD = "█", "░", "┄"


def bars(spans: Sequence[Span], width: int) -> list[str]:
    """A bar of at most `width` columns for each span."""
    axis = Axis(spans, width, FOLDED)
    return [_bar(axis, span, width) for span in spans]


def _bar(axis: Axis, span: Span, width: int) -> str:
    """The bar of a span. Even the shortest span has one column."""
    start, end = axis.at(span.start), axis.at(span.end)
    first = min(int(start), width - 1)
    last = max(first + 1, min(round(end), width))
    mark = WAITS if span.waits else WORKS
    drawn = (FOLD if span.waits and axis.is_folded(column + 0.5) else mark for column in range(first, last))
    return " " * first + "".join(drawn)

"""`evertick workflow list` and `get`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from evertick.base.errors import Misuse
from evertick.base.instants import Instant
from evertick.base.paging import PAGE_MAX
from evertick.base.records.jobs import JobError
from evertick.base.records.workflows import CallKind, RunState, Value, from_words
from evertick.cli.core.databases import data_options
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.core.output import MomentWriter, OutputOptions, row_options, words_of
from evertick.cli.core.watching import refreshed, watch_option
from evertick.cli.job.filters import moment_at, occurrence_from_option, occurrence_until_option
from evertick.cli.sessions.base import say_nothing_found
from evertick.cli.workflow.session import AnyRunSession, open_runs, run_options

if TYPE_CHECKING:
    from evertick.api.workflows import DetailedRun, RunDetails, RunView, RunWait, WaitingEvent
    from evertick.app.workflows.choice import RunsWhere


# -- What a run waits for, and the events that wait for it, in words.

NAMED: Final = 3
"""Calls that are named; of more it is said how many."""


def words_of_waits(waits: "Sequence[RunWait]", moment: MomentWriter) -> str:
    """The waits of a run as text: `event paid until 2026-11-27T09:00:00Z, action shop.charge`; empty for none."""
    named = [_words(each, moment) for each in waits[:NAMED]]
    return ", ".join([*named, f"{len(waits) - NAMED:,} more"] if len(waits) > NAMED else named)


def words_of_events(run: "RunDetails", moment: MomentWriter) -> str:
    """The events that a run has not taken, one per line: `decison (sent 04:27, 13 characters)`; empty for none."""
    lines = [
        f"{each.name} (sent {moment(each.sent_at)}{_by(each)}, {each.size:,} characters)" for each in run.waiting_events
    ]
    left = run.waiting_event_count - len(lines)
    return "\n".join([*lines, f"and {left:,} more"] if left else lines)


def note_of_events(run: "RunDetails", moment: MomentWriter) -> str:
    """A sentence about the events that a run has not taken; empty for none."""
    count = run.waiting_event_count
    if not count:
        return ""
    named = [f"{each.name}, sent {moment(each.sent_at)}{_by(each)}" for each in run.waiting_events[:NAMED]]
    named += [f"{count - NAMED:,} more"] if count > NAMED else []
    what = "1 event waits" if count == 1 else f"{count:,} events wait"
    return f"{what}, not taken by its code: {'; '.join(named)}"


def _by(event: "WaitingEvent") -> str:
    return "" if event.sent_by is None else f" by {event.sent_by}"


def _words(wait: "RunWait", moment: MomentWriter) -> str:
    name = "" if wait.kind in (CallKind.SLEEP, CallKind.TIMER) else f" {wait.name}"
    until = "" if wait.until is None else f" until {moment(wait.until)}"
    return f"{wait.kind}{name}{until}{'' if wait.held is None else f' ({wait.held})'}"


LIST_FIELDS: Final = ("id", "key", "function", "state", "waits_for", "created_at", "completed_at", "error")
"""The columns of the table unless --fields is given."""
CHILD_FIELDS: Final = ("id", "key", "function", "state", "created_at", "wakes_at", "completed_at", "error")
"""The same for child workflows."""
PAGE: Final = 100
"""Runs that are read at a time."""
LIMIT_DEFAULT: Final = 50
ATTRIBUTE_HELP: Final = 'Repeatable. 7 is a number, true and false are booleans, "7" in quotes is a text.'


def attributes_of(words: Sequence[str]) -> dict[str, Value]:
    """The attributes in the arguments NAME=VALUE. Raises click.UsageError."""
    try:
        return from_words(words)
    except Misuse as error:
        raise click.UsageError(f"--attribute: {error}") from None


@dataclass(frozen=True, slots=True)
class RunFilters:
    """The options that select runs."""

    workflow: str | None = flag("--workflow", metavar="NAME", help="Runs of this workflow, such as app.onboard.")
    states: tuple[str, ...] = flag(
        "--state", default=(), type=click.Choice([state.value for state in RunState]), help="Repeatable."
    )
    prefix: str | None = flag("--prefix", metavar="TEXT", help="Runs whose key or id begins with this.")
    schedule: str | None = flag("--schedule", metavar="ID", help="Runs that this schedule or cron has started.")
    attributes: tuple[str, ...] = flag(
        "--attribute", default=(), metavar="NAME=VALUE", help=f"{ATTRIBUTE_HELP} All must match."
    )
    roots: bool = flag(
        "--roots", is_flag=True, default=False, help="Only those that no other run has called: no child workflows."
    )
    error: str | None = flag("--error", metavar="TEXT", help="Runs whose error says this, such as ReplayMismatch.")
    since: str | None = flag("--since", metavar="TIME", help="Runs started at this time or later, such as now-1h.")
    until: str | None = flag("--until", metavar="TIME", help="Runs started before this time; a date: up to its end.")
    occurrence_from: str | None = shared(occurrence_from_option)
    occurrence_until: str | None = shared(occurrence_until_option)
    not_retried: bool = flag("--not-retried", default=False, help="Failed runs, not run again; no child runs.")

    @property
    def is_given(self) -> bool:
        """Whether any filter is given."""
        texts = (
            self.workflow, self.prefix, self.schedule, self.error, self.since, self.until, self.occurrence_from,
            self.occurrence_until,
        )  # fmt: skip
        return (
            self.roots
            or self.not_retried
            or bool(self.states or self.attributes)
            or any(each is not None for each in texts)
        )

    def where(self, now: Instant) -> "RunsWhere":
        """The filters as keywords of `app.workflows.list`. Raises InvalidSpec."""
        where: RunsWhere = {"prefix": self.prefix, "schedule": self.schedule}
        where["attributes"] = attributes_of(self.attributes)
        if self.error is not None:
            where["error"] = self.error
        if self.roots:
            where["roots"] = True
        if self.states:
            where["state"] = self.states
        if (since := moment_at(now, self.since, "--since")) is not None:
            where["started_from"] = since
        if (until := moment_at(now, self.until, "--until", "after")) is not None:
            where["started_until"] = until
        if (first := moment_at(now, self.occurrence_from, "--occurrence-from")) is not None:
            where["occurrence_from"] = first
        if (end := moment_at(now, self.occurrence_until, "--occurrence-until", "after")) is not None:
            where["occurrence_until"] = end
        if self.not_retried:
            where["not_retried"] = True
        return where


@dataclass(frozen=True, slots=True)
class ListFilters(RunFilters):
    """The options that select the runs of a list."""

    limit: int = flag("--limit", type=click.IntRange(1, PAGE_MAX), default=LIMIT_DEFAULT, show_default=True)
    cursor: str | None = flag("--cursor", metavar="ID", help="Go on after this run: where a page has ended.")


@click.command("list")
@flags(ListFilters, "filters")
@watch_option
@data_options
@row_options
def list_runs(filters: ListFilters, db: str | None, out: OutputOptions) -> int:
    """List the runs of workflows, the newest first, and what each waits for."""
    from evertick.api.workflows import DetailedRun

    chosen = out.columns(DetailedRun.names(), LIST_FIELDS)
    with open_runs(db) as session:
        return refreshed(session.store, out, lambda: _write_list(session, filters, chosen, out))


def _write_list(session: AnyRunSession, filters: ListFilters, chosen: list[str], out: OutputOptions) -> None:
    runs, cursor = _found(session, filters)
    if not runs and filters.workflow is not None:
        session.require_known(filters.workflow)
    write_runs(session, runs, chosen, out)
    if cursor is not None and filters.limit == LIMIT_DEFAULT and not out.is_none:
        click.echo(f"these are the newest {filters.limit}; there are more: --limit, or --cursor {cursor}", err=True)


def _found(session: AnyRunSession, filters: ListFilters) -> "tuple[list[DetailedRun], str | None]":
    """The runs of the list, and the cursor of the next page.

    Reads several pages: a page can have few runs, or none, although others follow.
    """
    from evertick.api.workflows import DetailedRun

    where, runs, cursor = filters.where(session.now), list[DetailedRun](), filters.cursor
    while True:
        limit = min(PAGE, filters.limit - len(runs))
        page = session.runs.list_detailed(filters.workflow, limit=limit, cursor=cursor, **where)
        runs += page.runs
        cursor = page.cursor
        if cursor is None or len(runs) == filters.limit:
            return runs, cursor


def write_runs(session: AnyRunSession, runs: "Sequence[RunView]", chosen: list[str], out: OutputOptions) -> None:
    """Write several runs."""
    out.show_views(runs, session.now, chosen, words_of_run)
    if not runs and out.tells_of_nothing:
        say_nothing_found("runs", session.store)


@click.command()
@run_options
def children(run_id: str, db: str | None, out: OutputOptions) -> None:
    """List the child workflows that a run has called, in the order of the calls."""
    from evertick.api.workflows import RunView

    chosen = out.columns(RunView.names(), CHILD_FIELDS)
    with open_runs(db) as session:
        write_runs(session, session.runs.children(run_id), chosen, out)


@click.command("get")
@run_options
def get_run(run_id: str, db: str | None, out: OutputOptions) -> None:
    """Show one run by its id or key: its state, what it waits for, its progress, its result or error.

    Also the events that were sent to it and that its code has not taken.
    """
    with open_runs(db) as session:
        write_run(session, session.runs.get(run_id), out)


def write_run(session: AnyRunSession, run: "RunDetails", out: OutputOptions) -> None:
    """Write one run. People also get the traceback of its error."""
    from evertick.api.workflows import RunDetails

    chosen = out.columns(RunDetails.names(), RunDetails.names())
    out.show_whole(run, session.now, chosen, words_of_run)


def words_of_run(run: "RunView", moment: MomentWriter) -> dict[str, str]:
    """The fields of a run as text."""
    from evertick.api.workflows import DetailedRun, RunDetails
    from evertick.cli.dev.lines import error_line

    words = words_of(run, moment)
    if isinstance(run, DetailedRun):
        words["waits_for"] = words_of_waits(run.waits_for, moment)
    if isinstance(run, RunDetails):
        words["waiting_events"] = words_of_events(run, moment)
        words["waiting_event_count"] = str(run.waiting_event_count or "")
    error = run.error
    if run.retried_as is not None:
        words["state"] = f"{run.state} (run again)"
    if error is not None:
        words["error"] = error_line(JobError(error["type"], error["message"], error["traceback"]))
    return words

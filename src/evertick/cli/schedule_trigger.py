"""`evertick schedule trigger`: start one run now, and say what became of that; with `--wait`, how it ended."""

import time
from collections.abc import Callable
from typing import Final

import click

from evertick.app.schedule_views import OccurrenceView, occurrence_view
from evertick.base.errors import NotFound
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.instants import from_datetime
from evertick.base.records import JobState
from evertick.cli.databases import db_option
from evertick.cli.exits import Exit
from evertick.cli.news import News
from evertick.cli.output import chosen_fields, fields_option, output_option, write_one
from evertick.cli.printable import printable
from evertick.cli.schedule_desk import Desk, app_option, open_desk, sid_option
from evertick.cli.schedule_flags import json_object, window
from evertick.cli.schedule_rows import OCCURRENCE_FIELDS, moments, occurrence_row, occurrence_words, time_option
from evertick.rules.schedule import Fate, RunOutcome

LOOK_EVERY_S: Final = 0.5
HINT_AFTER_S: Final = 3.0
"""When somebody who waits for a run that has not begun is told what it needs."""

SHOWN: Final = ("fate", "reason", "run", "job_id", "outcome")


@click.command()
@sid_option
@click.option("--overlap-policy", "overlap", metavar="POLICY", help="For this run; AllowAll means now, whatever runs.")
@click.option("--input", "-i", "input_text", metavar="JSON", help="Other arguments, for this run.")
@click.option("--request-id", metavar="ID", help="Make the call repeatable: again with it, nothing more is started.")
@click.option("--wait", is_flag=True, help="Wait for the run's end; the exit code tells how it ended.")
@click.option("--timeout", metavar="DURATION", help="With --wait: wait no longer than this.")
@app_option
@time_option
@db_option
@output_option
@fields_option
def trigger(
    sid: str, overlap: str | None, input_text: str | None, request_id: str | None, wait: bool, timeout: str | None,
    app_file: str | None, time_style: str | None, db: str | None, output: str | None, fields: str | None,
) -> int:  # fmt: skip
    """Start one run now, as the overlap policy allows.

    With --wait: 0 if the run succeeded, 1 if it failed, 7 if the time was over, 8 if it was not started.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout limits --wait")
    chosen = chosen_fields(fields, OCCURRENCE_FIELDS, OCCURRENCE_FIELDS if output in ("json", "jsonl") else SHOWN)
    seconds = None if timeout is None else window(timeout).total_seconds()
    with open_desk(db, app_file) as desk:
        return trigger_one(desk, sid, overlap, input_text, request_id, chosen, time_style, output,
                           wait_s=(seconds if seconds is not None else float("inf")) if wait else None)  # fmt: skip


def trigger_one(
    desk: Desk, sid: str, overlap: str | None, input_text: str | None, request_id: str | None, fields: list[str],
    time_style: str | None, output: str | None, *, wait_s: float | None = None, kind: str | None = None,
) -> int:  # fmt: skip
    """Trigger a schedule and say what became of it; answers the exit code."""
    desk.row(sid, kind=kind)
    args = None if input_text is None else json_object(input_text, "--input", "arguments by name")
    found = desk.schedules.trigger(sid, overlap=overlap, args=args, request_id=request_id)
    click.echo(printable(said(found)), err=True)
    if wait_s is not None:
        found = until_ended(desk, found, wait_s)
        if found.outcome is not None:
            click.echo(printable(f"{found.run} ended: {found.outcome}"), err=True)
    write_one(occurrence_row(found), occurrence_words(found, moments(time_style, output, desk.now)), fields, output)
    if wait_s is None:
        return Exit.OK
    if found.fate in (Fate.SKIPPED, Fate.MISSED):
        return Exit.NOT_FULFILLED
    if found.outcome is None:
        click.echo("the time is over; the run goes on", err=True)
        return Exit.UNAVAILABLE
    return Exit.OK if found.outcome is RunOutcome.SUCCESS else Exit.FAILED


def said(found: OccurrenceView) -> str:
    """What became of a trigger, in a sentence."""
    match found.fate:
        case Fate.STARTED:
            return f"started {found.run}"
        case Fate.BUFFERED:
            return f"waits: {found.detail or found.reason}"
        case _:
            behind = f" ({found.run})" if found.run and found.run not in found.detail else ""
            cure = "; to run it all the same: --overlap-policy AllowAll" if found.reason == "overlap" else ""
            return f"{found.fate}: {found.detail or found.reason}{behind}{cure}"


def until_ended(desk: Desk, found: OccurrenceView, seconds: float) -> OccurrenceView:
    """The occurrence when its run has ended, or when it will not start, or when the time is over."""
    hint_at: float | None = time.monotonic() + HINT_AFTER_S

    def look() -> OccurrenceView | None:
        nonlocal hint_at
        row = desk.ask(lambda transaction: transaction.get_occurrence(
            found.schedule, tenant=DEFAULT_TENANT, nominal_at=from_datetime(found.nominal),
            origin=found.origin.value, request=found.request))  # fmt: skip
        if row is None:
            raise NotFound(f"the trigger of {found.schedule!r} is not in the ledger any more")
        seen = occurrence_view(row)
        ended = seen.outcome is not None or seen.fate in (Fate.SKIPPED, Fate.MISSED)
        if not ended and hint_at is not None and time.monotonic() >= hint_at:
            hint_at = None
            _hint(desk, seen)
        return seen if ended else None

    return watch(desk, look, seconds) or found


def _hint(desk: Desk, seen: OccurrenceView) -> None:
    """Tell what a run needs that has not begun."""
    job_id = seen.job_id
    job = None if job_id is None else desk.ask(lambda transaction: transaction.get_job(job_id, tenant=DEFAULT_TENANT))
    if job is not None and job.state is JobState.PENDING:
        click.echo(
            "it has not begun: it needs `evertick dev` or `evertick worker` on this database; Ctrl-C leaves it alone",
            err=True,
        )


def watch(desk: Desk, look: Callable[[], OccurrenceView | None], seconds: float) -> OccurrenceView | None:
    """Look, again when something happens and now and then anyway, until there is an answer or the time is over."""
    deadline = time.monotonic() + seconds
    with News(desk.store) as news:
        while True:
            answer = look()
            left = deadline - time.monotonic()
            if answer is not None or left <= 0:
                return answer
            news.wait(min(LOOK_EVERY_S, left))

"""`evertick schedule trigger`: start one run now, and say what became of that; with `--wait`, how it ended."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from evertick.base.errors import NotFound
from evertick.base.escaping import printable
from evertick.base.records.jobs import JobState
from evertick.base.suggested_commands import tenant_option
from evertick.cli.core.databases import chosen_tenant, data_options
from evertick.cli.core.exits import Exit
from evertick.cli.core.flags import flag, flags
from evertick.cli.core.output import OutputOptions, time_row_options
from evertick.cli.core.watching import ChangeWaiter
from evertick.cli.schedule.flags import json_object, window
from evertick.cli.schedule.selection import app_option, sid_option
from evertick.cli.schedule.session import Session, open_session
from evertick.rules.schedules.fates import Fate, RunOutcome

if TYPE_CHECKING:
    from evertick.api.schedules import OccurrenceView

POLL_EVERY_S: Final = 0.5
HINT_AFTER_S: Final = 3.0
"""How long `--wait` waits for a run to begin before it says what the run needs."""

SHOWN: Final = ("fate", "reason", "run", "job_id", "outcome")


@dataclass(frozen=True, slots=True)
class TriggerFlags:
    """The options for starting one run, and for waiting for its end."""

    overlap: str | None = flag(
        "--overlap-policy", metavar="POLICY", help="For this run; AllowAll means now, whatever runs."
    )
    input_text: str | None = flag("--input", "-i", metavar="JSON", help="Other arguments, for this run.")
    request_id: str | None = flag(
        "--request-id", metavar="ID", help="Make the call repeatable: again with it, nothing starts."
    )
    wait: bool = flag("--wait", default=False, help="Wait for the run's end; the exit code tells how it ended.")
    timeout: str | None = flag("--timeout", metavar="DURATION", help="With --wait: wait no longer than this.")

    @property
    def wait_s(self) -> float | None:
        """The seconds to wait for the end of the run; None to not wait. Raises UsageError, InvalidSpec."""
        if self.timeout is not None and not self.wait:
            raise click.UsageError("--timeout limits --wait")
        if not self.wait:
            return None
        return float("inf") if self.timeout is None else window(self.timeout).total_seconds()


@click.command()
@sid_option
@flags(TriggerFlags, "how")
@app_option
@data_options
@time_row_options
def trigger(sid: str, how: TriggerFlags, app_file: str | None, db: str | None, out: OutputOptions) -> int:
    """Start one run now, as the overlap policy allows.

    With --wait: 0 if the run succeeded, 1 if it failed, 8 if it was not started or did not end in time.
    """
    with open_session(db, app_file) as session:
        return trigger_one(session, sid, how, out)


def trigger_one(session: Session, sid: str, how: TriggerFlags, out: OutputOptions, *, kind: str | None = None) -> int:
    """Trigger a schedule and print the result; return the exit code."""
    from evertick.api.schedules import OccurrenceView
    from evertick.cli.schedule.words import occurrence_words

    chosen, wait_s = out.columns(OccurrenceView.names(), SHOWN), how.wait_s
    session.status(sid, kind=kind)
    args = None if how.input_text is None else json_object(how.input_text, "--input", "arguments by name")
    found = session.schedules.trigger(sid, overlap=how.overlap, args=args, request_id=how.request_id)
    is_alone = session.has_no_worker()
    is_awaited = wait_s is not None and not is_alone and found.fate in (Fate.STARTED, Fate.BUFFERED)
    click.echo(f"{printable(said(found))}{'; it goes on if this command ends' if is_awaited else ''}", err=True)
    if is_alone:
        _hint(session, found, waits=wait_s is not None)
    if wait_s is not None:
        found = until_ended(session, found, wait_s, says_what_it_needs=not is_alone)
        if found.outcome is not None:
            click.echo(printable(f"{found.run} ended: {found.outcome}{_error_of(session, found)}"), err=True)
    out.show_view(found, session.now, chosen, occurrence_words)
    if wait_s is None:
        return Exit.OK
    if found.fate in (Fate.SKIPPED, Fate.MISSED):
        return Exit.NOT_FULFILLED
    if found.outcome is None:
        click.echo("the time is over; the run has not ended yet", err=True)
        return Exit.NOT_FULFILLED
    return Exit.OK if found.outcome is RunOutcome.SUCCESS else Exit.FAILED


def _error_of(session: Session, found: "OccurrenceView") -> str:
    """The error of a failed run as text; empty if there is none."""
    from evertick.cli.dev.lines import error_line_of

    job = None if found.job_id is None else session.job(found.job_id)
    if job is None or job.error is None:
        return ""
    return f": {error_line_of(job.error)} (evertick job get {job.id}{tenant_option(chosen_tenant())})"


def said(found: "OccurrenceView") -> str:
    """The result of a trigger as a sentence."""
    match found.fate:
        case Fate.STARTED:
            return f"started {found.run}"
        case Fate.BUFFERED:
            return f"waits: {found.detail or found.reason}"
        case _:
            behind = f" ({found.run})" if found.run and found.run not in found.detail else ""
            cure = "; to run it all the same: --overlap-policy AllowAll" if found.reason == "overlap" else ""
            return f"{found.fate}: {found.detail or found.reason}{behind}{cure}"


def until_ended(
    session: Session, found: "OccurrenceView", seconds: float, *, says_what_it_needs: bool
) -> "OccurrenceView":
    """Wait until the run has ended, will not start, or the time is over; return the occurrence."""
    hint_at = time.monotonic() + HINT_AFTER_S if says_what_it_needs else None

    def find() -> "OccurrenceView | None":
        nonlocal hint_at
        seen = session.occurrence(found)
        if seen is None:
            raise NotFound(f"the trigger of {found.schedule!r} is not in the ledger any more")
        ended = seen.outcome is not None or seen.fate in (Fate.SKIPPED, Fate.MISSED)
        if not ended and hint_at is not None and time.monotonic() >= hint_at:
            hint_at = None
            _hint(session, seen, waits=True)
        return seen if ended else None

    return watch(session, find, seconds) or found


def _hint(session: Session, seen: "OccurrenceView", *, waits: bool) -> None:
    """If a run has not begun, print what it waits for."""
    job = None if seen.job_id is None else session.job(seen.job_id)
    if job is not None and job.state is JobState.PENDING and job.attempt == 0:
        needed = "`evertick dev` or `evertick worker` on this database"
        if job.blocked:
            needed = f"code that defines {printable(job.function)}; no worker knows that function"
        leave = "; Ctrl-C leaves it alone" if waits else ""
        click.echo(f"it has not begun: it needs {needed}{leave}", err=True)


def watch(session: Session, find: "Callable[[], OccurrenceView | None]", seconds: float) -> "OccurrenceView | None":
    """Call `find` after every change and every half second until it returns a value; None if the time is over."""
    deadline = time.monotonic() + seconds
    with ChangeWaiter(session.store) as news:
        while True:
            answer = find()
            left = deadline - time.monotonic()
            if answer is not None or left <= 0:
                return answer
            news.wait(min(POLL_EVERY_S, left))

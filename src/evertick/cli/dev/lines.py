"""What `evertick dev` says: one line for each thing that happens.

    14:03:21 + app.destruct   in 5 s, at 14:03:26
    14:03:26 ✓ app.destruct   1 ms, late 3 ms
    14:03:30 ✕ app.charge     12 ms, late 2 ms   ValueError: no such card (app.py:31)
    14:04:00 ▶ clear messages   14:04:00 started
    14:05:00 ↷ clear messages   14:05:00 skipped: clear messages-2026-11-21T14:04:00Z has not ended
    14:03:30 ↻ app.charge     12 ms, late 2 ms   again in 1.2 s   ConnectionError: ... (app.py:29)

Ends come from the engine. What was scheduled is read from the database, so it is shown wherever it was scheduled: this
process, another command, or a program of the user.
The lines are written by a thread of their own, because the engine must not wait for a terminal.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.base.clock import Clock, ScaledClock
from evertick.base.durations import clock_time, distance, length, wait, wall_clock
from evertick.base.errors import EvertickError
from evertick.base.escaping import one_line, printable
from evertick.base.ids import JOB_PREFIX
from evertick.base.instants import NEVER, Instant, to_local
from evertick.base.records.jobs import JobError, JobFilter, JobState, JobSummary
from evertick.base.records.schedules import OccurrenceRow
from evertick.cli.core.loading import is_users, shown_path
from evertick.cli.core.output import colorful
from evertick.rules.schedules.fates import Fate, Reason

if TYPE_CHECKING:
    from evertick.engine.runtime.metrics import JobEnded
    from evertick.store.store import Store
    from evertick.store.transaction.transaction import Transaction

LINES_MAX: Final = 10
"""Lines of one kind about one function in one second; what goes beyond is counted."""
WORDS_MAX: Final = 2_000
"""Characters of a log line; those beyond are counted."""
SOON_MS: Final = 1_000
"""A job that is due so soon is not announced: its end follows."""
POLL_EVERY_S: Final = 1.0
LATE_COMMIT_MS: Final = 2_000
"""Ids are made before their commit, so one that is smaller than the newest seen may still appear."""
PAGE: Final = 500
SIGNS: Final = {JobState.SUCCESS: "✓", JobState.FAILED: "✕", JobState.CANCELED: "✕", JobState.PENDING: "↻"}

COLORS: Final = {"✓": "green", "✕": "red", "!": "red", "↻": "yellow", "+": "cyan", "▶": "cyan", "↷": "yellow"}
SHOWN_BY_LINES: Final = {"evertick.jobs": "state", "evertick.schedules": "fate"}
"""Loggers whose records with this field say what `DevLines` shows: ends of attempts, and times that did not start."""
FATES: Final = {Fate.STARTED: "▶", Fate.BUFFERED: "≡", Fate.SKIPPED: "↷", Fate.MISSED: "!"}


def say(sign: str, words: str) -> None:
    """Print one line immediately: the time (of the simulation, if there is one), a sign, and words."""
    shown = click.style(sign, fg=COLORS[sign]) if sign in COLORS and colorful() else sign
    _write(f"  {_time_shown()} {shown} {words}\n")


def _write(text: str) -> None:
    """Write to standard output immediately. If the reader or the terminal has ended, ask this process to end."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        # What else is written until then, also by functions of the user's, must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        os.kill(os.getpid(), signal.SIGTERM)


def show_times_of(clock: Clock) -> None:
    """Begin every line of this process with the date and time of a simulation."""
    global _time_shown  # noqa: PLW0603

    def shown() -> str:
        return f"{to_local(clock.now()):%Y-%m-%d %H:%M:%S}"

    _time_shown = shown


_time_shown: Callable[[], str] = wall_clock


class DevHandler(logging.Handler):
    """Prints log lines of functions, and all warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record as a line."""
        if (record.name, True) in ((name, hasattr(record, field)) for name, field in SHOWN_BY_LINES.items()):
            return
        words = cut(printable(record.getMessage()))
        if record.name == "evertick.functions":
            say(" ", f"{getattr(record, 'function', '')}: {words}")
        else:
            say("!" if record.levelno >= logging.WARNING else " ", words)
        if record.exc_info:
            _write(f"{logging.Formatter().formatException(record.exc_info)}\n")


class DevLines(threading.Thread):
    """Prints what happens to the jobs and schedules of one store.

    It is an observer of the engine, and also reads the database.
    """

    def __init__(self, store: "Store", clock: Clock, *, name_width: int) -> None:
        super().__init__(name="evertick-dev-lines", daemon=True)
        self._store = store
        self._clock = clock
        self._name_width = min(name_width, 40)
        self._ends: deque[JobEnded] = deque()
        self._decided: deque[OccurrenceRow] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._cursor = ""  # the newest job seen
        self._floor = ""  # jobs up to here have been read
        self._seen: set[str] = set()
        self._second = 0.0
        self._written: Counter[tuple[str, str]] = Counter()
        self._unlisten = store.listen(lambda _: self._wake.set())
        for job in store.view(lambda transaction: _newest(transaction, 1)):
            self._cursor = self._floor = job.id

    def announce_waiting(self) -> None:
        """Print a line for each job that was scheduled before the start for later, at most for the newest LINES_MAX."""
        now = self._clock.now()
        where = JobFilter(states=(JobState.PENDING,), due_from=Instant(now + SOON_MS))
        jobs = self._store.view(lambda tx: tx.list_jobs(where, limit=LINES_MAX + 1, newest_first=True))
        for job in reversed(jobs[:LINES_MAX]):
            say("+", f"{printable(job.name):<{self._name_width}}   {_announcement(job, now)}")
        if len(jobs) > LINES_MAX:
            say("+", "and more: evertick job list --state pending")

    def job_ended(self, event: "JobEnded", /) -> None:
        """See `Observer.job_ended`."""
        self._ends.append(event)
        self._wake.set()

    def occurrences_decided(self, function: str, rows: Sequence[OccurrenceRow], /) -> None:
        """See `ScheduleObserver.occurrences_decided`."""
        self._decided.extend(rows)
        self._wake.set()

    def stop(self) -> None:
        """Print the remaining lines, and end."""
        self._stopping = True
        self._wake.set()
        if self.ident is not None:  # a worker that could not begin has nothing to receive
            self.join()
        self._unlisten()

    def run(self) -> None:
        """Print lines until stopped."""
        while not self._stopping:
            self._wake.wait(POLL_EVERY_S)
            self._wake.clear()
            self._poll()
        self._poll()
        self._count_left_out(force=True)

    # -- helpers

    def _poll(self) -> None:
        ends = [self._ends.popleft() for _ in range(len(self._ends))]
        for row in [self._decided.popleft() for _ in range(len(self._decided))]:
            self._write(FATES[Fate(row.fate)], row.schedule_id, _fate(row))
        try:
            scheduled = self._scheduled()
        except EvertickError:
            scheduled = []  # the engine says that the database is away
        children: dict[str, list[JobSummary]] = defaultdict(list)
        ended = {event.claim.id for event in ends}
        for job in scheduled:
            if job.parent_id in ended:
                children[job.parent_id or ""].append(job)
            elif job.due_at - job.created_at >= SOON_MS:
                self._write("+", job.name, _announcement(job, job.created_at))
        for event in ends:
            self._write(SIGNS[event.end.state], event.claim.name, _end(event, children[event.claim.id]))
        self._count_left_out(force=False)

    def _scheduled(self) -> list[JobSummary]:
        """Jobs that were written since the last poll. If there are many, only the first and the newest page of them."""
        now = self._clock.now()
        speed = self._clock.speed if isinstance(self._clock, ScaledClock) else 1.0
        since = max(0, now - round(LATE_COMMIT_MS * speed))
        after = max(self._floor, min(self._cursor, f"{JOB_PREFIX}_{since:012x}"))
        jobs = self._store.view(lambda transaction: transaction.list_jobs(JobFilter(), limit=PAGE, after=after))
        if len(jobs) == PAGE:
            last = self._store.view(lambda transaction: _newest(transaction, PAGE))
            self._floor = last[0].id
            jobs += last
        new = {job.id: job for job in jobs if job.id not in self._seen}
        self._seen = {job.id for job in jobs}
        self._cursor = max([self._cursor, *new])
        return [new[job_id] for job_id in sorted(new)]

    def _write(self, sign: str, name: str, words: str) -> None:
        written = self._written[sign, name] = self._written[sign, name] + 1
        if written <= LINES_MAX:
            say(sign, f"{printable(name):<{self._name_width}}   {words}")

    def _count_left_out(self, *, force: bool) -> None:
        if force or time.monotonic() - self._second >= 1.0:
            for (sign, name), written in self._written.items():
                if written > LINES_MAX:
                    say(sign, f"{printable(name):<{self._name_width}}   and {written - LINES_MAX:,} more")
            self._second = time.monotonic()
            self._written.clear()


def _fate(row: OccurrenceRow) -> str:
    """The result of an occurrence as text: `14:05:00 started, late 3 s`, `14:05:00 skipped: r-77 has not ended`."""
    at = clock_time(row.nominal_at, row.decided_at)
    if row.fate != Fate.STARTED:
        return f"{at} {row.fate if row.fate != Fate.BUFFERED else 'waits'}: {printable(row.detail or row.reason)}"
    after_ms = max(0, row.decided_at - row.actual_at)
    match row.reason:
        case Reason.CAUGHT_UP:
            return f"{at} started, late {length(after_ms)}"
        case Reason.AFTER_WAIT:
            return f"{at} started, after waiting"
        case Reason.TRIGGERED | Reason.BACKFILLED:
            return f"{at} started ({row.reason})"
        case _:
            return f"{at} started"


def cut(words: str) -> str:
    """Text for one line. Text beyond WORDS_MAX characters is replaced by the number of its characters."""
    return words if len(words) <= WORDS_MAX else f"{words[:WORDS_MAX]}… and {len(words) - WORDS_MAX:,} characters more"


def error_line(error: JobError) -> str:
    """A job's error in one line: its type, its message, and the place in the user's code that raised it."""
    place = place_in(error.traceback)
    message = one_line(error.message)
    if len(message) > 200:
        message = f"{message[:200]}…"
    return f"{error.type}: {message}" + (f" ({place})" if place else "")


def error_line_of(error: Mapping[str, Any]) -> str:
    """As `error_line`, for an error in its JSON form."""
    return error_line(JobError(error["type"], error["message"], error.get("traceback", "")))


def place_in(traceback_text: str) -> str | None:
    """The last place of the user's code in a traceback, also in one of an error group: `app.py:31`; else None."""
    place = None
    for line in traceback_text.splitlines():
        begin, is_frame, frame = line.partition('  File "')
        if is_frame and not begin.strip(" |"):
            file, _, rest = frame.partition('", line ')
            number = rest.partition(",")[0]
            if not file.startswith("<") and is_users(file):
                place = f"{shown_path(file)}:{number}"
    return place


def _newest(transaction: "Transaction", limit: int) -> list[JobSummary]:
    return transaction.list_jobs(JobFilter(), limit=limit, newest_first=True)


def _announcement(job: JobSummary, now: Instant) -> str:
    state = "   canceled" if job.state is JobState.CANCELED else ""
    if job.due_at >= NEVER:
        return f"waits for an event{state}"
    return f"{distance(job.due_at, now)}, at {clock_time(job.due_at, now)}{state}"


def _end(event: "JobEnded", children: list[JobSummary]) -> str:
    claim, end = event.claim, event.end
    late_ms = max(0, event.started_at - claim.due_at)
    took = f"{length(max(0, event.ended_at - event.started_at))}, late {length(late_ms)}"
    parts = ["its worker died" if event.lost else took]
    if end.state is JobState.PENDING:
        parts.append(f"again {wait(end.due_at, event.ended_at)}")
    if end.state is JobState.CANCELED:
        parts.append("canceled")
    if end.error is not None:
        parts.append(error_line(end.error.value))
    if children:
        parts.append(f"scheduled {_listed(children, event.ended_at)}")
    return "   ".join(parts)


def _listed(jobs: Iterable[JobSummary], now: Instant) -> str:
    """Up to three jobs as text, and the number of the others."""
    jobs = list(jobs)
    words = [
        f"{printable(job.name)} {'now' if job.due_at <= job.created_at else f'for {clock_time(job.due_at, now)}'}"
        for job in jobs[:3]
    ]
    return ", ".join(words) + (f" and {len(jobs) - 3:,} more" if len(jobs) > 3 else "")

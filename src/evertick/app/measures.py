"""Measures: the metrics of an app, for Prometheus (`evertick.metrics`) and OpenTelemetry.

What this process does is reported to an observer, event by event. The state of the database is read on request.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

from evertick.api.status import StatusView
from evertick.app.status import status_of
from evertick.base.errors import EvertickError
from evertick.base.instants import DAY_MS, Instant
from evertick.base.records.insight import ScheduleTrouble
from evertick.base.records.jobs import JobState
from evertick.base.records.schedules import OccurrenceRow
from evertick.engine.runtime.metrics import JobEnded
from evertick.rules.schedules.fates import Origin
from evertick.store.transaction.transaction import Transaction

if TYPE_CHECKING:
    from evertick.app.app import App


BUCKETS_S: Final = (
    0.001,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1800.0,
    3600.0,
)
"""The upper bounds of the histograms, in seconds."""


UNREADABLE_MAX: Final = 10_000
"""Unreadable schedules are counted up to this number."""


class Measure(NamedTuple):
    """A metric. `unit` is "s" or, in braces, what is counted; empty for yes (1) or no (0)."""

    name: str
    unit: str
    description: str
    labels: tuple[str, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """The metric's name by Prometheus' conventions, without `_total`."""
        return self.name.replace(".", "_") + ("_seconds" if self.unit == "s" else "")


ATTEMPTS: Final = Measure(
    "evertick.attempts", "{attempt}", "Ended attempts at jobs.", ("app", "function", "kind", "outcome")
)
ATTEMPT_DURATION: Final = Measure("evertick.attempt.duration", "s", "How long attempts took.", ("app", "function"))
ATTEMPT_LATENESS: Final = Measure(
    "evertick.attempt.lateness", "s", "How long after their due time attempts started.", ("app", "function")
)
OCCURRENCES: Final = Measure(
    "evertick.occurrences", "{occurrence}", "Decided times of schedules.", ("app", "function", "fate")
)
OCCURRENCE_LATENESS: Final = Measure(
    "evertick.occurrence.lateness", "s", "How long after their time occurrences started.", ("app", "function")
)
ENGINE_EVENTS: Final = Measure(
    "evertick.engine.events", "{event}", "What the engine counted, by its name.", ("app", "event")
)
HISTOGRAMS: Final = (ATTEMPT_DURATION, ATTEMPT_LATENESS, OCCURRENCE_LATENESS)
COUNTERS: Final = (ATTEMPTS, OCCURRENCES, ENGINE_EVENTS)

UP: Final = Measure("evertick.database.up", "", "Whether the database can be read.")
WRITABLE: Final = Measure("evertick.database.writable", "", "Whether the database can be written.")
READ_TIME: Final = Measure("evertick.database.read", "s", "How long reading what follows took.")
JOBS: Final = Measure("evertick.jobs", "{job}", "Unfinished jobs.", ("app", "function", "pool", "state"))
JOBS_COMPLETE: Final = Measure("evertick.jobs.complete", "", "Whether all unfinished jobs were counted.")
OLDEST: Final = Measure(
    "evertick.oldest_due_job", "s", "How long the oldest due job waits.", ("app", "function", "pool")
)
WORKERS: Final = Measure("evertick.workers", "{worker}", "Workers with a row.", ("app", "state"))
LAG: Final = Measure("evertick.lag", "s", "How long the oldest due job waits that a live worker could run.")
SCHEDULES_LAG: Final = Measure("evertick.schedules.lag", "s", "How long the schedule waits whose time was due first.")
STUCK: Final = Measure(
    "evertick.stuck_runs", "{run}", "Runs of workflows that cannot go on, for example with this code.", ("function",)
)
FAILED_JOBS: Final = Measure(
    "evertick.failed_jobs", "{job}", "Jobs that failed in the last hour and were not run again.", ("function",)
)
OF_SCHEDULE: Final = ("tenant", "schedule", "function")
FAILING_SCHEDULES: Final = Measure(
    "evertick.failing_schedules", "{schedule}", "Schedules whose last run failed.", OF_SCHEDULE
)
MISSED_OCCURRENCES: Final = Measure(
    "evertick.missed_occurrences",
    "{occurrence}",
    "Times of schedules that were found missed in the last 24 hours and that no trigger or backfill has run since.",
    OF_SCHEDULE,
)
UNREADABLE: Final = Measure(
    "evertick.schedules.unreadable", "{schedule}", "Schedules that do not run because no worker can read them."
)
GAUGES: Final = (
    UP,
    WRITABLE,
    READ_TIME,
    JOBS,
    JOBS_COMPLETE,
    OLDEST,
    WORKERS,
    LAG,
    SCHEDULES_LAG,
    STUCK,
    UNREADABLE,
    FAILED_JOBS,
    FAILING_SCHEDULES,
    MISSED_OCCURRENCES,
)
"""Metrics read from the database. If it cannot be read, there is only the first.

Alerts use these and not the counters. A counter begins with its process, so events before Prometheus first read it do
not count as an increase: neither the first failure ever nor the times that a worker finds missed when it starts.
"""
SCHEDULES_MAX: Final = 100
"""Schedules with a problem that have their own time series. All others share one without names."""
NEWEST_MAX: Final = 1_000
"""Occurrences of a schedule that are searched for missed ones."""


class Sample(NamedTuple):
    """A value of a metric, with the values of its labels."""

    measure: Measure
    value: float
    labels: tuple[str, ...] = ()


def samples_of(app: "App") -> Iterator[Sample]:
    """The gauges of an app's database, over all tenants."""
    began = perf_counter()
    try:
        failure = app.environment.store.write_failure()
        read = app.environment.store.view(lambda transaction: _read(transaction, app))
    except EvertickError:
        yield Sample(UP, 0)
        return
    yield Sample(UP, 1)
    yield Sample(WRITABLE, float(failure is None))
    yield Sample(READ_TIME, perf_counter() - began)
    status = read.status
    yield from _of_queues(status)
    alive = Counter((worker.app, "alive" if worker.alive else "lost") for worker in status.workers)
    for which, count in sorted(alive.items()):
        yield Sample(WORKERS, count, which)
    yield from _by_function(STUCK, [(runs.function, runs.count) for runs in status.stuck])
    yield Sample(UNREADABLE, read.unreadable)
    yield from _by_function(FAILED_JOBS, [(failure.function, failure.count) for failure in status.failures])
    yield from _of_schedules(FAILING_SCHEDULES, read.failing)
    yield from _of_schedules(MISSED_OCCURRENCES, read.missed)
    yield Sample(LAG, status.lag_ms / 1000)
    late_s = 0.0 if read.wakes_at is None else status.at.timestamp() - read.wakes_at / 1000
    yield Sample(SCHEDULES_LAG, max(0.0, late_s))


def outcome_of(event: JobEnded) -> str:
    """The outcome of an attempt: success, failed, canceled, retried or lost."""
    state = event.end.state
    return "lost" if event.lost else "retried" if state is JobState.PENDING else state.value


def times_of(event: JobEnded) -> tuple[int, int] | None:
    """The duration of an attempt and its lateness at the start, in milliseconds; None if its worker died."""
    if event.lost:  # its start is not known
        return None
    return event.ended_at - event.started_at, max(0, event.started_at - event.claim.due_at)


def latenesses_of(rows: Sequence[OccurrenceRow]) -> list[int]:
    """The lateness of the schedules' own starts in `rows`, in milliseconds; triggers and backfills do not count."""
    started = ((row.started_at, row.actual_at) for row in rows if row.origin == Origin.SCHEDULE)
    return [max(0, started_at - actual_at) for started_at, actual_at in started if started_at is not None]


class _Read(NamedTuple):
    """The data of the gauges."""

    status: StatusView
    wakes_at: Instant | None
    unreadable: int
    failing: list[ScheduleTrouble]
    missed: list[ScheduleTrouble]


def _read(transaction: Transaction, app: "App") -> _Read:
    now, most = app.environment.job_builder.now(), SCHEDULES_MAX + 1
    status, since = status_of(transaction, None, now, reads_schedules=False), Instant(now - DAY_MS)
    return _Read(
        status,
        transaction.next_wake(),
        transaction.count_unreadable(limit=UNREADABLE_MAX),
        transaction.failing_schedules(limit=most),
        transaction.missed_occurrences(None, since=since, limit=most, scan_max=NEWEST_MAX),
    )


def _by_function(measure: Measure, counts: Iterable[tuple[str, int]]) -> Iterator[Sample]:
    """The sum for each function."""
    sums = Counter[str]()
    for function, count in counts:
        sums[function] += count
    for function, count in sorted(sums.items()):
        yield Sample(measure, count, (function,))


def _of_schedules(measure: Measure, found: Sequence[ScheduleTrouble]) -> Iterator[Sample]:
    """A sample for each schedule with a problem; one without names if there are more than SCHEDULES_MAX."""
    for each in found[:SCHEDULES_MAX]:
        yield Sample(measure, each.number, (each.tenant, each.id, each.function))
    if len(found) > SCHEDULES_MAX:
        yield Sample(measure, 1, ("", "", ""))


def _of_queues(status: StatusView) -> Iterator[Sample]:
    counts: Counter[tuple[str, str, str, str]] = Counter()
    ages: dict[tuple[str, str, str], float] = {}
    for queue in status.queues:
        place = queue.app or "", queue.function, queue.pool
        states = {
            "due": queue.due - queue.blocked, "blocked": queue.blocked, "later": queue.later, "running": queue.running
        }  # fmt: skip
        for state, count in states.items():
            counts[*place, state] += count
        age = 0.0 if queue.oldest is None else (status.at - queue.oldest).total_seconds()
        ages[place] = max(age, ages.get(place, 0.0))
    for labels, count in sorted(counts.items()):
        yield Sample(JOBS, count, labels)
    for place, age in sorted(ages.items()):
        yield Sample(OLDEST, age, place)
    yield Sample(JOBS_COMPLETE, int(status.complete))

"""Metrics for Prometheus: what this process did, and what the database holds. From the extra `metrics`.

    from prometheus_client import REGISTRY
    from evertick.metrics import Metrics

    REGISTRY.register(Metrics(app))

`evertick worker --health-port` serves them at `/metrics`. Names and labels follow Prometheus' conventions: base units,
`_total` for what only grows.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from evertick.api.status import StatusView
from evertick.app.status import status_of
from evertick.base.errors import EvertickError
from evertick.base.instants import Instant
from evertick.base.records.jobs import JobState
from evertick.base.records.schedules import OccurrenceRow
from evertick.engine.runtime.metrics import JobEnded
from evertick.store.contract.store import Transaction

if TYPE_CHECKING:
    from evertick.app.app import App

__all__ = ["Metrics"]

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


class Metrics(Collector):
    """The metrics of an app, as a collector for any registry of `prometheus_client`.

    Of this process, since the collector was made: `evertick_attempts_total` (function, kind, outcome: success, failed,
    canceled, retried, lost), `evertick_attempt_duration_seconds` and `evertick_attempt_lateness_seconds` (function;
    how long after its due time it was started), `evertick_occurrences_total` (function, fate), and
    `evertick_engine_events_total` (event).

    Of the database, read at each collection, over all tenants: `evertick_jobs` (function, pool, state: due, blocked,
    later, running), `evertick_oldest_due_job_seconds` (function, pool), `evertick_lag_seconds`,
    `evertick_schedules_lag_seconds`, `evertick_workers` (app, state: alive, lost) and `evertick_database_up`. Every
    worker would report the same, so `database=False` leaves them out.

    Make it before the worker starts: it counts from then on. In a world of `evertick.testing` there are only those of
    the database.
    """

    def __init__(self, app: "App", *, database: bool = True) -> None:
        self._app = app
        self._database = database
        self._seen = _Seen()
        app.counters.observers.append(self._seen)
        app.counters.schedule_observers.append(self._seen)

    def describe(self) -> list[Metric]:
        """Nothing: so a registry does not collect in order to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics. Without the database, `evertick_database_up` is 0 and what is read from it is left out."""
        yield from self._seen.families()
        events = CounterMetricFamily(
            "evertick_engine_events", "What the engine counted, by its name.", labels=["event"]
        )
        for event, count in sorted(self._app.counters.snapshot().items()):
            events.add_metric([event], count)
        yield events
        if not self._database:
            return
        up = GaugeMetricFamily("evertick_database_up", "Whether the database can be read.")
        try:
            status, wakes_at = self._app.environment.store.view(self._read)
        except EvertickError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from _families_of(status, wakes_at)

    def text(self) -> bytes:
        """The metrics in Prometheus' text format, for a page of your own: `text/plain; version=0.0.4`."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def _read(self, transaction: Transaction) -> tuple[StatusView, Instant | None]:
        now = self._app.environment.job_builder.now()
        return status_of(transaction, None, now), transaction.next_wake()


class _Seen:
    """Counts ends of attempts and fates of occurrences, in the engine's threads: so cheaply."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: Counter[tuple[str, str, str]] = Counter()
        self._durations: dict[str, _Histogram] = {}
        self._latenesses: dict[str, _Histogram] = {}
        self._occurrences: Counter[tuple[str, str]] = Counter()

    def job_ended(self, event: JobEnded, /) -> None:
        """See `Observer.job_ended`."""
        claim, state = event.claim, event.end.state
        outcome = "lost" if event.lost else "retried" if state is JobState.PENDING else state.value
        with self._lock:
            self._attempts[claim.name, claim.kind.value, outcome] += 1
            if not event.lost:  # when it was started is not known
                _observe(self._durations, claim.name, event.ended_at - event.started_at)
                _observe(self._latenesses, claim.name, max(0, event.started_at - claim.due_at))

    def occurrences_decided(self, function: str, rows: Sequence[OccurrenceRow], /) -> None:
        """See `ScheduleObserver.occurrences_decided`."""
        with self._lock:
            for row in rows:
                self._occurrences[function, row.fate] += 1

    def families(self) -> Iterator[Metric]:
        """What was counted so far."""
        attempts = CounterMetricFamily(
            "evertick_attempts", "Ended attempts at jobs.", labels=["function", "kind", "outcome"]
        )
        durations = HistogramMetricFamily(
            "evertick_attempt_duration_seconds", "How long attempts took.", labels=["function"]
        )
        latenesses = HistogramMetricFamily(
            "evertick_attempt_lateness_seconds", "How long after their due time attempts started.", labels=["function"]
        )
        occurrences = CounterMetricFamily(
            "evertick_occurrences", "Decided times of schedules.", labels=["function", "fate"]
        )
        with self._lock:
            for labels, count in sorted(self._attempts.items()):
                attempts.add_metric(labels, count)
            for family, histograms in ((durations, self._durations), (latenesses, self._latenesses)):
                for function, histogram in sorted(histograms.items()):
                    family.add_metric([function], histogram.buckets(), histogram.sum_ms / 1000)
            for which, count in sorted(self._occurrences.items()):
                occurrences.add_metric(which, count)
        yield from (attempts, durations, latenesses, occurrences)


class _Histogram:
    """How many values lie below each of the bounds."""

    def __init__(self) -> None:
        self.sum_ms = 0
        self._counts = [0] * (len(BUCKETS_S) + 1)

    def observe(self, milliseconds: int) -> None:
        """Count a value."""
        self.sum_ms += milliseconds
        self._counts[bisect_left(BUCKETS_S, milliseconds / 1000)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """The counts as Prometheus has them: each with those below it."""
        counted, buckets = 0, []
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self._counts, strict=True):
            counted += count
            buckets.append((bound, float(counted)))
        return buckets


def _observe(histograms: dict[str, _Histogram], function: str, milliseconds: int) -> None:
    histogram = histograms.get(function)
    if histogram is None:
        histogram = histograms[function] = _Histogram()
    histogram.observe(milliseconds)


def _families_of(status: StatusView, wakes_at: Instant | None) -> Iterator[Metric]:
    """What a database holds."""
    jobs = GaugeMetricFamily("evertick_jobs", "Unfinished jobs.", labels=["function", "pool", "state"])
    oldest = GaugeMetricFamily(
        "evertick_oldest_due_job_seconds", "How long the oldest due job waits.", labels=["function", "pool"]
    )
    counts: Counter[tuple[str, str, str]] = Counter()
    ages: dict[tuple[str, str], float] = {}
    for queue in status.queues:
        place = queue.function, queue.pool
        states = {
            "due": queue.due - queue.blocked, "blocked": queue.blocked, "later": queue.later, "running": queue.running
        }  # fmt: skip
        for state, count in states.items():
            counts[*place, state] += count
        age = 0.0 if queue.oldest is None else (status.at - queue.oldest).total_seconds()
        ages[place] = max(age, ages.get(place, 0.0))
    for labels, count in sorted(counts.items()):
        jobs.add_metric(labels, count)
    for place, age in sorted(ages.items()):
        oldest.add_metric(place, age)
    workers = GaugeMetricFamily("evertick_workers", "Workers with a row.", labels=["app", "state"])
    alive = Counter((worker.app, "alive" if worker.alive else "lost") for worker in status.workers)
    for which, count in sorted(alive.items()):
        workers.add_metric(which, count)
    overdue_s = 0.0 if wakes_at is None else max(0.0, status.at.timestamp() - wakes_at / 1000)
    yield from (jobs, oldest, workers)
    yield GaugeMetricFamily(
        "evertick_lag_seconds", "How long the oldest due job waits that a live worker could run.", status.lag_ms / 1000
    )
    yield GaugeMetricFamily(
        "evertick_schedules_lag_seconds", "How long the schedule waits whose time was due first.", overdue_s
    )

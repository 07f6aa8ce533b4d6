"""Metrics for Prometheus: what this process did, and what the database holds. From the extra `metrics`.

    from prometheus_client import REGISTRY
    from evertick.metrics import Metrics

    REGISTRY.register(Metrics(app))

`evertick worker --health-port` serves them at `/metrics`. Names and labels follow Prometheus' conventions: base units,
`_total` for what only grows. `evertick.integrations.otel` has the same for OpenTelemetry.
"""

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from evertick.base.lazy import missing_extra

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise missing_extra(error, "prometheus_client", "metrics need prometheus-client", "metrics") from None

from evertick.app import measures
from evertick.app.measures import BUCKETS_S, GAUGES, HISTOGRAMS, Measure
from evertick.base.records.schedules import OccurrenceRow
from evertick.engine.runtime.metrics import JobEnded

if TYPE_CHECKING:
    from evertick.app.app import App

__all__ = ["Metrics"]


class Metrics(Collector):
    """The metrics of an app, as a collector for any registry of `prometheus_client`.

    Of this process, since the collector was made: `evertick_attempts_total` (app, function, kind, outcome: success,
    failed, canceled, retried, lost), `evertick_attempt_duration_seconds` and `evertick_attempt_lateness_seconds` (app,
    function; how long after its due time it was started), `evertick_occurrences_total` (app, function, fate),
    `evertick_occurrence_lateness_seconds` (app, function) and `evertick_engine_events_total` (app, event).

    Of the database, read at each collection, over all tenants: `evertick_jobs` (app, function, pool, state: due,
    blocked, later, running), `evertick_jobs_complete` (0 if there are more than were counted),
    `evertick_oldest_due_job_seconds` (app, function, pool), `evertick_lag_seconds`, `evertick_schedules_lag_seconds`,
    `evertick_workers` (app, state: alive, lost), `evertick_database_read_seconds`, `evertick_database_writable` and
    `evertick_database_up`. Every worker would report the same, so `database=False` leaves them out.

    Make it before the worker starts: it counts from then on. In a world of `evertick.testing` there are only those of
    the database.
    """

    def __init__(self, app: "App", *, database: bool = True) -> None:
        self._app = app
        self._database = database
        self._seen = _Seen(app.name)
        app.counters.observers.append(self._seen)
        app.counters.schedule_observers.append(self._seen)

    def describe(self) -> list[Metric]:
        """Nothing: so a registry does not collect in order to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics. Without the database, `evertick_database_up` is 0 and what is read from it is left out."""
        yield from self._seen.families()
        events = _counter(measures.ENGINE_EVENTS)
        for event, count in sorted(self._app.counters.snapshot().items()):
            events.add_metric([self._app.name, event], count)
        yield events
        if not self._database:
            return
        families = {
            each: GaugeMetricFamily(each.prometheus_name, each.description, labels=each.labels) for each in GAUGES
        }
        for measure, value, labels in measures.samples_of(self._app):
            families[measure].add_metric(labels, value)
        yield from (family for family in families.values() if family.samples)

    def text(self) -> bytes:
        """The metrics in Prometheus' text format, for a page of your own: `text/plain; version=0.0.4`."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)


class _Seen:
    """Counts ends of attempts and fates of occurrences, in the engine's threads: so cheaply."""

    def __init__(self, app: str) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._attempts: Counter[tuple[str, str, str]] = Counter()
        self._occurrences: Counter[tuple[str, str]] = Counter()
        self._times: dict[Measure, defaultdict[str, _Histogram]] = {
            each: defaultdict(_Histogram) for each in HISTOGRAMS
        }

    def job_ended(self, event: JobEnded, /) -> None:
        """See `Observer.job_ended`."""
        claim, times = event.claim, measures.times_of(event)
        with self._lock:
            self._attempts[claim.name, claim.kind.value, measures.outcome_of(event)] += 1
            if times is not None:
                self._times[measures.ATTEMPT_DURATION][claim.name].observe(times[0])
                self._times[measures.ATTEMPT_LATENESS][claim.name].observe(times[1])

    def occurrences_decided(self, function: str, rows: Sequence[OccurrenceRow], /) -> None:
        """See `ScheduleObserver.occurrences_decided`."""
        with self._lock:
            for row in rows:
                self._occurrences[function, row.fate] += 1
            for lateness_ms in measures.latenesses_of(rows):
                self._times[measures.OCCURRENCE_LATENESS][function].observe(lateness_ms)

    def families(self) -> Iterator[Metric]:
        """What was counted so far."""
        attempts, occurrences = _counter(measures.ATTEMPTS), _counter(measures.OCCURRENCES)
        families: list[Metric] = [attempts, occurrences]
        with self._lock:
            for of_attempts, count in sorted(self._attempts.items()):
                attempts.add_metric([self._app, *of_attempts], count)
            for of_occurrences, count in sorted(self._occurrences.items()):
                occurrences.add_metric([self._app, *of_occurrences], count)
            for measure, histograms in self._times.items():
                family = HistogramMetricFamily(measure.prometheus_name, measure.description, labels=measure.labels)
                for function, histogram in sorted(histograms.items()):
                    family.add_metric([self._app, function], histogram.buckets(), histogram.sum_ms / 1000)
                families.append(family)
        yield from families


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
        for bound, count in zip(BOUNDS, self._counts, strict=True):
            counted += count
            buckets.append((bound, float(counted)))
        return buckets


BOUNDS: Final = (*map(str, BUCKETS_S), "+Inf")


def _counter(measure: Measure) -> CounterMetricFamily:
    return CounterMetricFamily(measure.prometheus_name, measure.description, labels=measure.labels)

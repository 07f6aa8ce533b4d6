"""Metrics of an app through OpenTelemetry: those of `evertick.metrics`, with the same names, labels and units."""

import math
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider, Observation, get_meter

from evertick._version import __version__
from evertick.app import measures
from evertick.app.measures import BUCKETS_S, GAUGES, Measure, Sample
from evertick.base.records.schedules import OccurrenceRow
from evertick.engine.runtime.metrics import JobEnded

if TYPE_CHECKING:
    from evertick.app.app import App

FRESH_S: Final = 1.0
"""The seconds for which values from the database are cached, because a collection reads each gauge separately."""


def observe(app: "App", provider: MeterProvider | None, *, database: bool) -> None:
    """Report the metrics of an app to a meter of the provider, or of the global one."""
    meter = get_meter("evertick", __version__, meter_provider=provider)
    observer = _Observer(app.name, meter)
    app.counters.observers.append(observer)
    app.counters.schedule_observers.append(observer)

    def events(_: CallbackOptions) -> list[Observation]:
        counted = sorted(app.counters.snapshot().items())
        return [Observation(count, {"app": app.name, "event": event}) for event, count in counted]

    counted = measures.ENGINE_EVENTS
    meter.create_observable_counter(counted.name, [events], counted.unit, counted.description)
    if database:
        readings = _Readings(app)
        for measure in GAUGES:
            callback = partial(readings.of, measure)
            meter.create_observable_gauge(measure.name, [callback], measure.unit, measure.description)


class _Observer:
    """Records ends of attempts and fates of occurrences. It is called in the engine's threads."""

    def __init__(self, app: str, meter: Meter) -> None:
        def histogram(measure: Measure) -> Histogram:
            return meter.create_histogram(
                measure.name, measure.unit, measure.description, explicit_bucket_boundaries_advisory=BUCKETS_S
            )

        self._app = app
        self._attempts = meter.create_counter(*measures.ATTEMPTS[:3])
        self._occurrences = meter.create_counter(*measures.OCCURRENCES[:3])
        self._durations = histogram(measures.ATTEMPT_DURATION)
        self._latenesses = histogram(measures.ATTEMPT_LATENESS)
        self._occurrence_latenesses = histogram(measures.OCCURRENCE_LATENESS)

    def job_ended(self, event: JobEnded, /) -> None:
        """See `Observer.job_ended`."""
        claim, times = event.claim, measures.times_of(event)
        of_function = {"app": self._app, "function": claim.name}
        self._attempts.add(1, {**of_function, "kind": claim.kind.value, "outcome": measures.outcome_of(event)})
        if times is not None:
            self._durations.record(times[0] / 1000, of_function)
            self._latenesses.record(times[1] / 1000, of_function)

    def occurrences_decided(self, function: str, rows: Sequence[OccurrenceRow], /) -> None:
        """See `ScheduleObserver.occurrences_decided`."""
        of_function = {"app": self._app, "function": function}
        for fate, count in Counter(row.fate for row in rows).items():
            self._occurrences.add(count, {**of_function, "fate": fate})
        for lateness_ms in measures.latenesses_of(rows):
            self._occurrence_latenesses.record(lateness_ms / 1000, of_function)


class _Readings:
    """The values of the database, read once for all gauges of a collection."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._lock = threading.Lock()
        self._read_at = -math.inf
        self._samples: list[Sample] = []

    def of(self, measure: Measure, _: CallbackOptions) -> Iterable[Observation]:
        """The values of a gauge."""
        with self._lock:
            if monotonic() - self._read_at > FRESH_S:
                self._samples = list(measures.samples_of(self._app))
                self._read_at = monotonic()
            found = [each for each in self._samples if each.measure is measure]
        return [Observation(each.value, dict(zip(measure.labels, each.labels, strict=True))) for each in found]

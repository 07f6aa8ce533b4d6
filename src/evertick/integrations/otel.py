"""OpenTelemetry: traces and metrics of an app. Needs the extra `otel`.

    from evertick.integrations.otel import instrument

    app = App("shop")
    instrument(app)

The spans are listed in `evertick/engine/runtime/spans.py` and in the guide. Only the API of OpenTelemetry is used:
the program configures providers and exporters, and without them nothing is recorded.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from evertick.base.lazy import missing_extra

try:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import (
        Link,
        SpanKind,
        Status,
        StatusCode,
        TracerProvider,
        get_current_span,
        get_tracer,
    )
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise missing_extra(error, "opentelemetry", "traces need OpenTelemetry", "otel") from None

from evertick._version import __version__
from evertick.base.records.stored import storable
from evertick.engine.runtime.tracing import NewSpan

if TYPE_CHECKING:
    from evertick.app.app import App

__all__ = ["instrument"]

SCOPE: Final = "evertick"
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_KINDS: Final = {kind.name.lower(): kind for kind in SpanKind}


def instrument(
    app: "App",
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    database: bool = True,
) -> None:
    """Record traces and metrics of an app with these providers, or with the global ones.

    Call it once, before the app is used, in the module of the app: then `evertick worker`, `evertick serve` and the
    program's own processes are traced. Jobs then store the trace context in which they were scheduled.

    `database=False` omits the metrics that are read from the database, which are the same in every process.

    Raises Misuse if the app is already instrumented, or its database is open.
    """
    from evertick.integrations.otel_metrics import observe

    app.trace(_OpenTelemetry(tracer_provider))
    observe(app, meter_provider, database=database)


class _OpenTelemetry:
    """Implements `Tracing` with OpenTelemetry."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._tracer = get_tracer(SCOPE, __version__, tracer_provider=provider)

    def carried(self) -> str | None:
        """See `Tracing.carried`."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return " ".join(carrier[name] for name in ("traceparent", "tracestate") if carrier.get(name)) or None

    @contextmanager
    def span(self, new: NewSpan) -> Iterator["_Span"]:
        """See `Tracing.span`."""
        context = None if new.parent is None else _context_of(new.parent)
        links = [Link(get_current_span(_context_of(text)).get_span_context()) for text in new.links]
        with self._tracer.start_as_current_span(
            new.name, context=context, kind=_KINDS[new.kind.value], attributes=_kept(new.attributes), links=links
        ) as span:
            yield _Span(span)


class _Span:
    """Implements `Span` with OpenTelemetry."""

    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    def rename(self, name: str) -> None:
        """See `Span.rename`."""
        self._span.update_name(name)

    def note(self, name: str, value: str | int) -> None:
        """See `Span.note`."""
        self._span.set_attribute(name, value)

    def fail(self, error_type: str, message: str = "", traceback: str = "") -> None:
        """See `Span.fail`. The texts are escaped where UTF-8 cannot encode them."""
        error_type, message, traceback = map(storable, (error_type, message, traceback))
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(Status(StatusCode.ERROR, message or None))
        if message or traceback:
            self._span.add_event(
                "exception",
                {"exception.type": error_type, "exception.message": message, "exception.stacktrace": traceback},
            )


def _context_of(text: str) -> Context:
    """The trace context in a text; an empty one if there is none."""
    traceparent, _, tracestate = text.partition(" ")
    return _PROPAGATOR.extract({"traceparent": traceparent, "tracestate": tracestate}, Context())


def _kept(attributes: Mapping[str, str | int]) -> dict[str, str | int]:
    return {name: value for name, value in attributes.items() if value != ""}

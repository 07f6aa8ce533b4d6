"""OpenTelemetry: one trace from a request to everything that follows from it, and the metrics of Prometheus."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from evertick import ActionCtx, App, MutationCtx, QueryCtx, Retry, Settings, Step, SyncActionCtx
from evertick.client import Client
from evertick.errors import Misuse
from evertick.integrations.otel import instrument
from evertick.metrics import Metrics
from evertick.server.application import Server
from evertick.testing import World, hours
from tests.app.conftest import OpenApp, open_app, open_postgres_app
from tests.app.engine import Engine
from tests.server.serving import serving

__all__ = ["open_app", "open_postgres_app"]

CLIENTS_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{CLIENTS_TRACE}-00f067aa0ba902b7-01"


@dataclass
class Recorder:
    """Keeps the spans and the metrics of apps in memory."""

    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    metrics: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.meters = MeterProvider([self.metrics], shutdown_on_exit=False)

    def watch(self, app: App) -> App:
        """Instrument an app."""
        instrument(app, tracer_provider=self.tracers, meter_provider=self.meters)
        return app

    def tree(self, trace_id: str | None = None) -> dict[str, Any]:
        """The names of the ended spans as a tree, of one trace or of all; siblings of one name are numbered."""
        ended = [span for span in self.spans.get_finished_spans() if trace_id in (None, trace_of(span))]
        ids = {context_of(span).span_id for span in ended}

        def below(parent: int | None) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for span in sorted(ended, key=lambda each: each.start_time or 0):
                above = None if span.parent is None or span.parent.span_id not in ids else span.parent.span_id
                if above == parent:
                    name = span.name if span.name not in found else f"{span.name} #{len(found) + 1}"
                    found[name] = below(context_of(span).span_id)
            return found

        return below(None)

    def until(self, number: int) -> None:
        """Wait until so many spans have ended: that of a request ends a moment after its reply."""
        deadline = time.monotonic() + 60
        while len(self.spans.get_finished_spans()) < number and time.monotonic() < deadline:
            time.sleep(0.005)
        assert len(self.spans.get_finished_spans()) == number

    def named(self, name: str) -> list[ReadableSpan]:
        """The ended spans of a name, as they began."""
        found = [span for span in self.spans.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def points(self, name: str) -> dict[tuple[Any, ...], Any]:
        """The points of a metric, by the values of their attributes."""
        data = self.metrics.get_metrics_data()
        assert data is not None
        return {
            tuple((point.attributes or {}).values()): point
            for of_resource in data.resource_metrics
            for of_scope in of_resource.scope_metrics
            for metric in of_scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }


def context_of(span: ReadableSpan) -> trace.SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def trace_of(span: ReadableSpan) -> str:
    return trace.format_trace_id(context_of(span).trace_id)


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_one_trace_goes_from_a_request_to_all_that_follows_from_it(open_app: OpenApp, recorder: Recorder) -> None:
    app = recorder.watch(open_app("shop"))
    told = threading.Event()

    @app.mutation(name="paid")
    def paid(ctx: MutationCtx, job_id: str, context: object, result: object) -> None:
        told.set()

    @app.query(name="read")
    def read(ctx: QueryCtx) -> int:
        return 1

    @app.mutation(name="note")
    def note(ctx: MutationCtx, n: int) -> None: ...

    @app.action(name="charge")
    async def charge(ctx: ActionCtx) -> None:
        await ctx.run_mutation(note, await ctx.run_query(read))

    @app.mutation(name="order")
    def order(ctx: MutationCtx) -> None:
        ctx.scheduler.using(on_complete=paid).run_after(0, charge)

    token = app.tokens.create("root", scope="admin").secret
    recorder.spans.clear()
    with Engine(app) as engine, serving(app) as url:
        reply = httpx2.post(
            f"{url}/api/v1/tenants/default/functions/order/call",
            json={"args": {}},
            headers={"Authorization": f"Bearer {token}", "traceparent": TRACEPARENT, "tracestate": "vendor=1"},
        )
        assert reply.status_code == 200, reply.text
        engine.until(lambda: recorder.named("process paid") or None)
        recorder.until(7)

    assert told.is_set()
    assert recorder.tree() == recorder.tree(CLIENTS_TRACE)
    assert recorder.tree() == {
        "POST /api/v1/tenants/{tenant}/functions/{name}/call": {
            "call order": {
                "schedule charge": {
                    "process charge": {"call read": {}, "call note": {}},
                    "process paid": {},
                }
            }
        }
    }
    [request] = [span for span in recorder.spans.get_finished_spans() if span.kind is SpanKind.SERVER]
    assert request.parent is not None and trace.format_span_id(request.parent.span_id) == "00f067aa0ba902b7"
    assert said(request)["http.response.status_code"] == 200
    [attempt] = recorder.named("process charge")
    assert attempt.kind is SpanKind.CONSUMER
    assert context_of(attempt).trace_state.get("vendor") == "1"
    assert (
        said(attempt).items()
        >= {
            "messaging.system": "evertick",
            "messaging.operation.type": "process",
            "messaging.destination.name": "charge",
            "evertick.app": "shop",
            "evertick.attempt": 1,
            "evertick.function.kind": "action",
            "evertick.outcome": "success",
            "evertick.pool": "default",
            "evertick.tenant": "default",
        }.items()
    )
    [scheduling] = recorder.named("schedule charge")
    assert said(scheduling)["messaging.message.id"] == said(attempt)["messaging.message.id"]


def test_attempts_of_a_job_are_siblings_in_its_trace_and_say_how_they_failed(
    open_app: OpenApp, recorder: Recorder
) -> None:
    app = recorder.watch(open_app("shop"))

    @app.action(name="charge")
    def charge(ctx: SyncActionCtx) -> None:
        raise ConnectionError("away")

    with Engine(app) as engine, recorder.tracers.get_tracer("test").start_as_current_span("request"):
        engine.wait(app.scheduler.using(retry=Retry(2, first=0.001)).run_after(0, charge))

    assert recorder.tree() == {
        "request": {"schedule charge": {"process charge": {}, "process charge #2": {}}},
    }
    first, second = recorder.named("process charge")
    assert [said(each)["evertick.outcome"] for each in (first, second)] == ["retried", "failed"]
    assert [said(each)["evertick.attempt"] for each in (first, second)] == [1, 2]
    assert said(first)["error.type"] == "ConnectionError"
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "away")
    [event] = first.events
    assert "in charge" in str((event.attributes or {})["exception.stacktrace"])


@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_function_does_by_itself_is_below_its_attempt(
    open_app: OpenApp, recorder: Recorder, is_async: bool
) -> None:
    """Whichever thread the function runs in, its span is current there."""
    app = recorder.watch(open_app("shop"))
    tracer = recorder.tracers.get_tracer("test")

    @app.mutation(name="note")
    def note(ctx: MutationCtx) -> None:
        with tracer.start_as_current_span("mine in the mutation"):
            pass

    if is_async:

        @app.action(name="charge")
        async def charge(ctx: ActionCtx) -> None:
            with tracer.start_as_current_span("mine"):
                await ctx.run_mutation(note)
                await ctx.scheduler.run_after(0, note)

    else:

        @app.action(name="charge")
        def charge_in_thread(ctx: SyncActionCtx) -> None:
            with tracer.start_as_current_span("mine"):
                ctx.run_mutation(note)
                ctx.scheduler.run_after(0, note)

    with Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, "charge"))
        engine.until(lambda: recorder.named("process note") or None)

    inside = {"mine in the mutation": {}}
    assert recorder.tree() == {
        "schedule charge": {
            "process charge": {"mine": {"call note": inside, "schedule note": {"process note": inside}}},
        }
    }


def workflow_shop(app: App, *, together: threading.Barrier | None = None) -> App:
    @app.mutation(name="reserve")
    def reserve(ctx: MutationCtx) -> None: ...

    @app.action(name="charge")
    def charge(ctx: SyncActionCtx, n: int) -> None:
        if together is not None:
            together.wait(30)

    @app.workflow(name="fulfil")
    async def fulfil(step: Step) -> None:
        await step.run(reserve)
        await asyncio.gather(step.run(charge, 1), step.run(charge, 2))

    return app


def test_a_run_and_its_steps_are_one_trace_on_whichever_worker(
    open_postgres_app: Callable[..., App], recorder: Recorder
) -> None:
    """Two workers with a slot for an action each: so both of them run a step."""
    together = threading.Barrier(2)
    settings = Settings(action_slots=1)
    others = Recorder()
    first = workflow_shop(recorder.watch(open_postgres_app("shop", settings=settings)), together=together)
    second = workflow_shop(others.watch(open_postgres_app("shop", settings=settings)), together=together)
    with Engine(first) as engine, Engine(second):
        run = first.workflows.start("fulfil")
        engine.until(lambda: first.workflows.get(run).state == "success" or None)

    ended = (*recorder.spans.get_finished_spans(), *others.spans.get_finished_spans())
    assert len({trace_of(span) for span in ended}) == 1
    assert len(recorder.named("process charge")) == len(others.named("process charge")) == 1
    by_id = {context_of(span).span_id: span for span in ended}
    parents = {(span.name, by_id[span.parent.span_id].name) for span in ended if span.parent is not None}
    assert parents == {
        ("process fulfil", "schedule fulfil"),
        ("step reserve", "process fulfil"),
        ("process charge", "process fulfil"),
    }
    outcomes = [said(span)["evertick.outcome"] for span in ended if span.name == "process fulfil"]
    assert sorted(set(outcomes)) == ["parked", "success"]


def test_each_occurrence_of_a_schedule_is_a_trace_that_is_linked_to_the_change_of_the_schedule(
    recorder: Recorder,
) -> None:
    app = recorder.watch(App("test"))

    @app.mutation(name="tick")
    def tick(ctx: MutationCtx) -> None: ...

    with World(app) as world:
        with recorder.tracers.get_tracer("test").start_as_current_span("deploy") as deploying:
            app.schedules.create("hourly", when="every hour", do=tick)
        world.advance(hours(2))
        app.schedules.update("hourly", note="changed by nobody's request")
        world.advance(hours(1))

    starts = recorder.named("start tick")
    assert len(starts) == 3
    assert len({trace_of(span) for span in starts}) == 3
    assert all(span.parent is None for span in starts)
    linked = [[link.context.span_id for link in span.links] for span in starts]
    made_in = deploying.get_span_context().span_id
    assert linked == [[made_in], [made_in], []]
    assert said(starts[0])["evertick.schedule.id"] == "hourly"
    for start, attempt in zip(starts, recorder.named("process tick"), strict=True):
        assert attempt.parent is not None
        assert attempt.parent.span_id == context_of(start).span_id
        assert said(attempt)["evertick.schedule.id"] == "hourly"


@pytest.mark.parametrize("many", [False, True])
def test_what_is_called_after_a_canceled_job_is_in_its_trace(many: bool, open_app: OpenApp, recorder: Recorder) -> None:
    app = recorder.watch(open_app("shop"))

    @app.mutation(name="told")
    def told(ctx: MutationCtx, job_id: str, context: object, result: object) -> None: ...

    @app.mutation(name="order")
    def order(ctx: MutationCtx) -> None: ...

    job = app.scheduler.using(on_complete=told).run_after(3600, order)
    if many:
        assert app.jobs.cancel_all(function=order) == 1
    else:
        app.scheduler.cancel(job)
    with Engine(app) as engine:
        engine.until(lambda: recorder.named("process told") or None)
    assert recorder.tree() == {"schedule order": {"process told": {}}}


def test_a_client_sends_its_trace(open_app: OpenApp, recorder: Recorder) -> None:
    app = recorder.watch(open_app("shop"))

    @app.mutation(name="order")
    def order(ctx: MutationCtx) -> None: ...

    token = app.tokens.create("root", scope="admin").secret
    with serving(app) as url, Client(url, token=token) as client:
        with recorder.tracers.get_tracer("test").start_as_current_span("program"):
            client.call("order")
        recorder.until(3)
        assert list(recorder.tree()) == ["program"]
        recorder.spans.clear()
        client.call("order")
        recorder.until(2)
    assert list(recorder.tree()) == ["POST /api/v1/tenants/{tenant}/functions/{name}/call"]


def test_a_request_that_fails_says_so_and_one_with_a_broken_header_begins_a_trace(
    open_app: OpenApp, recorder: Recorder
) -> None:
    app = recorder.watch(open_app("shop"))
    app.open()

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": []})

    async def ask() -> None:
        server = Server(app)
        server._guard = broken  # type: ignore[assignment]
        scope = {"type": "http", "method": "GET", "path": "/ready", "headers": [(b"traceparent", b"00-no")]}

        async def send(message: Any) -> None: ...

        await server(scope, send, send)  # type: ignore[arg-type]

    asyncio.run(ask())
    [request] = recorder.spans.get_finished_spans()
    assert (request.name, request.parent, request.status.status_code) == ("GET", None, StatusCode.ERROR)
    assert said(request)["error.type"] == "503"


def test_jobs_of_an_app_that_is_not_instrumented_carry_nothing(open_app: OpenApp, recorder: Recorder) -> None:
    app = open_app("shop")

    @app.mutation(name="order")
    def order(ctx: MutationCtx) -> None: ...

    with recorder.tracers.get_tracer("test").start_as_current_span("request"):
        app.scheduler.run_after(3600, order)
        app.schedules.create("hourly", when="every hour", do=order)
    sql = "select trace from jobs"
    rows = app.environment.store.read(lambda transaction: transaction.connection.execute(sql).fetchall())  # type: ignore[attr-defined]
    assert [tuple(row) for row in rows] == [(None,)]
    assert recorder.named("schedule order") == []


def test_an_app_is_instrumented_once_and_before_it_is_used(open_app: OpenApp, recorder: Recorder) -> None:
    app = recorder.watch(open_app("shop"))
    with pytest.raises(Misuse, match="already instrumented"):
        recorder.watch(app)
    opened = open_app("other")
    opened.open()
    with pytest.raises(Misuse, match="before its first use"):
        recorder.watch(opened)


def test_metrics_are_those_of_prometheus(open_app: OpenApp, recorder: Recorder) -> None:
    app = recorder.watch(open_app("shop"))
    prometheus = Metrics(app)

    @app.mutation(name="order")
    def order(ctx: MutationCtx) -> None: ...

    app.scheduler.run_after(3600, order)
    with Engine(app) as engine:
        app.schedules.create("ticks", when="every second", do=order)
        engine.wait(app.scheduler.run_after(0, order))
        engine.until(lambda: recorder.points("evertick.occurrence.lateness") or None)
        attempts = recorder.points("evertick.attempts")
        assert attempts["shop", "order", "mutation", "success"].value >= 1
        assert recorder.points("evertick.attempt.duration")["shop", "order"].explicit_bounds[0] == 0.001
        assert recorder.points("evertick.jobs")["shop", "order", "default", "later"].value == 1
        assert recorder.points("evertick.database.up")[()].value == 1
        assert recorder.points("evertick.workers")["shop", "alive"].value == 1
        names = {line.split()[2] for line in prometheus.text().decode().splitlines() if line.startswith("# TYPE")}
        data = recorder.metrics.get_metrics_data()
    assert data is not None
    ours = {
        metric.name.replace(".", "_")
        + "_seconds" * (metric.unit == "s")
        + "_total" * hasattr(metric.data, "is_monotonic")
        for of_resource in data.resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
    }
    assert ours == names


def test_records_of_the_log_are_in_the_span_of_their_function(
    open_app: OpenApp, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """The standard instrumentation of logging reads the current span: nothing of ours is needed."""
    app = recorder.watch(open_app("shop"))
    seen: list[int] = []

    @app.mutation(name="order")
    def order(ctx: MutationCtx) -> None:
        logging.getLogger("mine").warning("here")
        seen.append(trace.get_current_span().get_span_context().span_id)

    with Engine(app) as engine:
        engine.wait(app.scheduler.run_after(0, order))
    [attempt] = recorder.named("process order")
    assert seen == [context_of(attempt).span_id]

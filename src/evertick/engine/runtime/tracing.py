"""Tracing: the interface between the engine and a tracer such as OpenTelemetry's.

`spans.py` defines the spans and their names; a `Tracing` creates them. In an app that is not traced it is None: then
no spans are created, and no job carries a trace context.

A *trace context* is text: a W3C `traceparent`, and after a space the `tracestate` if there is one. A job carries the
context in which it was scheduled, so that its attempts, in whichever process, continue that trace.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import NamedTuple, Protocol


class SpanKind(StrEnum):
    """The role of a span in a communication between two sides."""

    INTERNAL = "internal"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    SERVER = "server"


class NewSpan(NamedTuple):
    """A span that is about to begin.

    It is a child of the current span. With a trace context as `parent` it is a child of that one; with an empty text,
    or one that cannot be read, it begins a trace. `links` are other related trace contexts.
    """

    name: str
    kind: SpanKind
    attributes: Mapping[str, str | int]
    parent: str | None = None
    links: tuple[str, ...] = ()


class Span(Protocol):
    """A span that has begun."""

    def rename(self, name: str, /) -> None:
        """Change the name."""
        ...

    def note(self, name: str, value: str | int, /) -> None:
        """Set an attribute."""
        ...

    def fail(self, error_type: str, message: str = "", traceback: str = "", /) -> None:
        """Mark the span as failed; without a message only its status is set."""
        ...


class Tracing(Protocol):
    """Makes spans. It is called in any thread and must not raise."""

    def carried(self) -> str | None:
        """The trace context of the current span. None if there is none."""
        ...

    def span(self, new: NewSpan, /) -> AbstractContextManager[Span]:
        """A span for the duration of a block, in which it is current. An exception that leaves the block fails it."""
        ...

"""Tracing: the seam between the engine and a tracer such as OpenTelemetry's.

`spans.py` says which spans there are and what they are called; a `Tracing` makes them. An app that is not traced has
None in its place: then nothing is asked, and no job carries a trace context.

A *trace context* is text: a W3C `traceparent`, and after a space the `tracestate` if there is one. A job carries the
one in which it was scheduled, so that its attempts, in whichever process, continue that trace.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import NamedTuple, Protocol


class SpanKind(StrEnum):
    """What a span is in the conversation of two sides."""

    INTERNAL = "internal"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    SERVER = "server"


class NewSpan(NamedTuple):
    """A span that is about to begin.

    It is a child of the current span. With a trace context as `parent` it is a child of that one; with an empty text,
    or one that cannot be read, it begins a trace. `links` are trace contexts that it has to do with otherwise.
    """

    name: str
    kind: SpanKind
    attributes: Mapping[str, str | int]
    parent: str | None = None
    links: tuple[str, ...] = ()


class Span(Protocol):
    """A span that has begun."""

    def rename(self, name: str, /) -> None:
        """Give it another name."""
        ...

    def note(self, name: str, value: str | int, /) -> None:
        """Set an attribute."""
        ...

    def fail(self, error_type: str, message: str = "", traceback: str = "", /) -> None:
        """Mark it as failed; an error without a message is a status alone."""
        ...


class Tracing(Protocol):
    """Makes spans. It is called in any thread and must not raise."""

    def carried(self) -> str | None:
        """The trace context of the current span; None if there is none."""
        ...

    def span(self, new: NewSpan, /) -> AbstractContextManager[Span]:
        """A span for as long as a block lasts, in which it is current. An exception that leaves the block fails it."""
        ...

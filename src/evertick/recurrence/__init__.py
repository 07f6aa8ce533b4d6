"""Recurrence: every way of saying when, compiled to one form that is searched exactly and fast.

Rooms: `spec` (what an author wrote, as data), `parse` (text to `spec`: crons, calendars, intervals, RRULEs, dates),
`zones` (time zones), `wire` (JSON), `search` (from a spec to something that is asked for times), `english` (describing
specs and reading sentences). On top of them: `builders` (specs in Python), `explain` (why a moment fires or not) and
`lint` (what is rarely meant). Pure: no clock, no database, no floats; instants are whole seconds since the Unix epoch.

`compile_spec` makes a `Recurrence` of a `Spec`, which has `next`, `prev`, `between`, `count`, `matches` and `preview`.
"""

from evertick.recurrence.search.compiler import compile_spec, zone_of
from evertick.recurrence.search.jitter import jitter_ms
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.spec.spec import Dialect, Dst, Gap, Overlap, Spec

__all__ = ["Dialect", "Dst", "Gap", "Overlap", "Recurrence", "Spec", "compile_spec", "jitter_ms", "zone_of"]

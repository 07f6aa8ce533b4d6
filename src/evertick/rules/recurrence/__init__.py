"""Recurrence: every way of saying when, compiled to one form that answers exactly and fast.

`source` is what an author wrote, `compile_spec` makes a `Recurrence` of it, and that answers `next`, `prev`,
`between`, `count`, `matches` and `preview`; `explain` says why. `vocabulary` builds specs in Python, `wire`
reads and writes them as JSON. Pure: no clock, no database, no floats; instants are whole seconds since the
Unix epoch.
"""

from evertick.rules.recurrence.compiler import compile_spec, zone_of
from evertick.rules.recurrence.explain import Explanation, Reason, ReasonKind, explain
from evertick.rules.recurrence.jitter import jitter_ms
from evertick.rules.recurrence.recurrence import Recurrence
from evertick.rules.recurrence.source import Dialect, Dst, Gap, Overlap, Spec

__all__ = [
    "Dialect", "Dst", "Explanation", "Gap", "Overlap", "Reason", "ReasonKind", "Recurrence", "Spec", "compile_spec",
    "explain", "jitter_ms", "zone_of",
]  # fmt: skip

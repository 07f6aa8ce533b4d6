"""Recurrence: crons, calendars, intervals, RRULEs and dates, compiled to one form that is searched exactly and fast.

Packages: `spec` (the written rule, as data), `parse` (text to `spec`: crons, calendars, intervals, RRULEs, dates),
`zones` (time zones), `wire` (JSON), `search` (compiles a spec and finds its times), `english` (describing specs and
reading sentences). On top of them: `builders` (specs in Python), `explain` (why an instant fires or not) and `lint`
(legal rules that are rarely intended). Pure: no clock, no database, no floats; instants are Unix seconds.

`compile_spec` makes a `Recurrence` of a `Spec`, which has `next`, `prev`, `between`, `count`, `matches` and `preview`.
"""

from typing import TYPE_CHECKING

from evertick.base.lazy import lazy_names

if TYPE_CHECKING:
    from evertick.recurrence.search.compiler import compile_spec as compile_spec
    from evertick.recurrence.search.compiler import zone_of as zone_of
    from evertick.recurrence.search.jitter import jitter_ms as jitter_ms
    from evertick.recurrence.search.recurrence import Recurrence as Recurrence
    from evertick.recurrence.spec.spec import Dialect as Dialect
    from evertick.recurrence.spec.spec import Dst as Dst
    from evertick.recurrence.spec.spec import Gap as Gap
    from evertick.recurrence.spec.spec import Overlap as Overlap
    from evertick.recurrence.spec.spec import Spec as Spec
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "evertick.recurrence.search.compiler": "compile_spec zone_of",
            "evertick.recurrence.search.jitter": "jitter_ms",
            "evertick.recurrence.search.recurrence": "Recurrence",
            "evertick.recurrence.spec.spec": "Dialect Dst Gap Overlap Spec",
        },
    )

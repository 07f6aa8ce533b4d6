"""The preview of a spec: its next times beside those of another one, and what its author should know about it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from evertick.api.schedules import Remark
from evertick.app.schedules.views import outage_warnings
from evertick.base.instants import Instant, to_datetime
from evertick.recurrence.explain import clock_note
from evertick.recurrence.lint import Lint, lint
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.spec.spec import Spec
from evertick.rules.schedules.policies import Policies

TIMES: Final = 10
YEAR_S: Final = 365 * DAY
FURTHER: Final = 500
"""How many times are compared beyond those that are shown."""
FURTHER_SHOWN: Final = 3
COUNTED: Final = 2_000
"""Times of a year that are counted; more are estimated from these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A time. `change` is `same`, `new` or `gone` beside the times before, and empty if there are none."""

    at: datetime
    change: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChange:
    """The next change of the clocks: when, the offsets in seconds before and after, and the first time after it."""

    at: datetime
    before_s: int
    after_s: int
    first: Row | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What is shown of a spec. `per_year` is `258 runs`, or `about 526,000 runs`."""

    rows: tuple[Row, ...]
    further: tuple[Row, ...] = ()
    per_year: str
    per_year_before: str = ""
    change: ClockChange | None = None
    remarks: tuple[Lint | Remark, ...] = ()
    never: bool = False
    ended: bool = False
    has_sources: bool = True
    compared: bool = field(default=False)


def preview_of(spec: Spec, now: Instant, before: Spec | None = None, policies: Policies | None = None) -> Preview:
    """The preview of a spec that compiles, beside the spec that it replaces; and what policies lose of it."""
    recurrence, now_s = compile_spec(spec), now // 1000
    old = None if before is None or before == spec else compile_spec(before)
    times = recurrence.preview(TIMES, now_s)
    rows, further = _compared(recurrence, old, times, now_s)
    return Preview(
        rows=rows,
        further=further,
        per_year=_per_year(recurrence, now_s),
        per_year_before="" if old is None else _per_year(old, now_s),
        change=_clock_change(recurrence, now_s),
        remarks=(
            *lint(spec, now_s),
            *(() if policies is None else outage_warnings(policies, [Instant(at * 1000) for at in times])),
        ),
        never=not times and spec.has_sources and recurrence.is_empty(),
        ended=not times and spec.has_sources and not recurrence.is_empty(),
        has_sources=spec.has_sources,
        compared=before is not None,
    )


def _compared(
    recurrence: Recurrence, old: Recurrence | None, times: Sequence[int], now_s: int
) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """The next times with what changes among them; and the next changes, if there are none among these."""
    if old is None:
        return tuple(_row(recurrence, at) for at in times), ()
    last = times[-1] if len(times) == TIMES else now_s + 10 * YEAR_S
    gone = [at for at in old.preview(TIMES, now_s) if at <= last]
    rows = _changes(recurrence, old, set(times) | set(gone))
    if any(row.change != "same" for row in rows) or len(times) < TIMES:
        return tuple(rows), ()
    new_times, old_times = (each.preview(FURTHER, last) for each in (recurrence, old))
    end = min((each[-1] for each in (new_times, old_times) if len(each) == FURTHER), default=last + 10 * YEAR_S)
    other = sorted(at for at in set(new_times) ^ set(old_times) if at <= end)
    return tuple(rows), tuple(_changes(recurrence, old, set(other[:FURTHER_SHOWN])))


def _changes(recurrence: Recurrence, old: Recurrence, times: set[int]) -> list[Row]:
    rows = []
    for at in sorted(times):
        is_new, was = recurrence.matches(at), old.matches(at)
        rows.append(_row(recurrence if is_new else old, at, "same" if is_new and was else "new" if is_new else "gone"))
    return rows


def _row(recurrence: Recurrence, at: int, change: str = "") -> Row:
    note = clock_note(recurrence, at)
    return Row(at=to_datetime(Instant(at * 1000)), change=change, note="" if note is None else note.text)


def _per_year(recurrence: Recurrence, now_s: int) -> str:
    """How many times there are in the next year: exact where they are few, else estimated."""
    times = recurrence.preview(COUNTED, now_s)
    count = sum(at <= now_s + YEAR_S for at in times)
    if count < COUNTED:
        return f"{count:,} run{'' if count == 1 else 's'}"
    estimate = COUNTED * YEAR_S / (times[-1] - now_s)
    digits = 10 ** max(0, len(str(int(estimate))) - 3)
    return f"about {round(estimate / digits) * digits:,} runs"


def _clock_change(recurrence: Recurrence, now_s: int) -> ClockChange | None:
    """The next change of the clocks within a year, and the first time after it."""
    table = recurrence.zone.covering(now_s + YEAR_S)
    for index, start in enumerate(table.starts):
        if now_s < start <= now_s + YEAR_S and table.offsets[index] != table.offsets[index - 1]:
            first = recurrence.next(start - 1)
            return ClockChange(
                at=to_datetime(Instant(start * 1000)),
                before_s=table.offsets[index - 1],
                after_s=table.offsets[index],
                first=None if first is None else _row(recurrence, first),
            )
    return None

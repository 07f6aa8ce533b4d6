"""Differences between a schedule before and after a change, for `schedule update` and `schedule apply`."""

from itertools import zip_longest
from typing import Any

from evertick.api.schedules import ScheduleDescription
from evertick.base.escaping import json_text
from evertick.cli.schedule.words import SHOWN, previewed
from evertick.recurrence.search.compiler import compile_spec


def difference(before: ScheduleDescription, after: ScheduleDescription) -> dict[str, list[Any]]:
    """The differences between two definitions of a schedule, by field name: [before, after]."""
    old, new = _definition(before), _definition(after)
    return {name: [old[name], new[name]] for name in new if old[name] != new[name]}


def _definition(schedule: ScheduleDescription) -> dict[str, Any]:
    row = schedule.to_json()
    # The sentence stands for the sources of the spec; what else the spec says follows by its own names.
    spec = {name: row["spec"].get(name) for name in ("start", "end", "jitter", "except", "time_zone", "dst", "dialect")}
    sources = {name: value for name, value in row["spec"].items() if name not in spec}
    return {
        "times": row["sentence"],
        "spec": sources,
        **spec,
        **row["target"],
        **row["policies"],
        "run_id_template": row["run_id_template"],
        "remaining_actions": row["remaining_actions"],
        "note": row["note"],
        "memo": row["memo"],
    }


def next_times(before: ScheduleDescription | None, after: ScheduleDescription) -> list[tuple[str, str]]:
    """Pairs of the next times before and after a change; `-` if one side has fewer."""
    old, new = (
        [] if each is None else [previewed(compile_spec(each.spec), time).time for time in each.upcoming[:SHOWN]]
        for each in (before, after)
    )
    return list(zip_longest(old, new, fillvalue="-"))


def text_of(value: Any) -> str:
    """A value of a difference as text for people."""
    return "-" if value is None else value if isinstance(value, str) else json_text(value)

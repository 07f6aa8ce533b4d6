"""Options of schedules: each option is declared here once, with the reader that checks it.

`create`, `update`, `replace`, crons and the command line take the same options. A new policy is a key of `CronOptions`
and a line of `POLICIES`; the command line gives it a flag in `evertick.cli.schedule.flags`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypedDict, TypeVar

from evertick.app.documents.queries import Unset
from evertick.app.functions.options import Retry
from evertick.base.errors import Misuse
from evertick.base.instants import Instant, duration_ms, to_iso
from evertick.base.options import (
    TEXT,
    Rule,
    check_names,
    check_options,
    duration_within,
    one_of_type,
    shown,
    some,
    text,
    whole,
)
from evertick.base.records.jobs import IS_RETRY
from evertick.base.records.stored import storable
from evertick.recurrence.builders import Excepted
from evertick.rules.schedules.catch_up import window_ms
from evertick.rules.schedules.policies import CATCH_UP_WINDOW_MAX_MS, DEFAULT_POLICIES, CatchUp, Overlap, Policies
from evertick.rules.schedules.state import cut

E = TypeVar("E", bound=StrEnum)


class CronOptions(TypedDict, total=False):
    """Policies and options of runs, for schedules and for crons. None and UNSET mean the default."""

    overlap: Overlap | str | Unset | None
    concurrency_limit: int | Unset | None
    catch_up: CatchUp | str | Unset | None
    catch_up_window: float | timedelta | Unset | None
    pause_on_failure: bool | Unset | None
    buffer_limit: int | Unset | None
    run_timeout: float | timedelta | Unset | None
    retry: Retry | Unset | None
    pool: str | Unset | None
    note: str | Unset | None


class ScheduleOptions(CronOptions, total=False):
    """Everything that defines a schedule beside its times and its function; `create` documents each option."""

    start: datetime | date | Unset | None
    end: datetime | date | Unset | None
    jitter: timedelta | int | Unset | None
    exclude: Excepted | Iterable[Excepted] | Unset | None
    remaining_actions: int | Unset | None
    memo: dict[str, Any] | Unset | None
    workflow_id: str | Unset | None
    run_id_template: str | Unset | None


ACTIONS_MAX: Final = 1_000_000_000
NAME_CHARS_MAX: Final = 1_000

BOUNDS: Final = ("start", "end", "jitter", "exclude")
"""The options that change a spec."""


RULES: Final[Mapping[str, Rule]] = {
    "retry": IS_RETRY,
    "note": TEXT,
    "remaining_actions": whole(0, ACTIONS_MAX),
    "memo": one_of_type(dict, "a dict that JSON can hold"),
    "workflow_id": text(NAME_CHARS_MAX, printable=True),
    "run_id_template": text(NAME_CHARS_MAX, printable=True),
}
"""What the options take that are no policies, and are not of the spec."""


def given(options: Mapping[str, Any], known: type = ScheduleOptions) -> dict[str, Any]:
    """The options that are not None. Raises Misuse for a name that `known`, a TypedDict, does not have, and for a value
    that can never be stored.
    """
    check_names(known.__annotations__, options, "a schedule")
    found = some(options)
    if value_of(found, "pool") is not None:
        raise Misuse("a run is in the pool of its function: @app.action(pool=...); leave out pool= here")
    check_options(RULES, {name: value for name, value in found.items() if not isinstance(value, Unset)})
    policies_with(DEFAULT_POLICIES, found)
    return found


def stored_note(note: Any) -> str:
    """The note as every database can keep it. Raises Misuse for one that is no text."""
    check_options(RULES, {"note": note})
    return storable(note)


def check_until(until: Instant | None, now: Instant) -> None:
    """Raise Misuse if a pause would have ended already."""
    if until is not None and until <= now:
        raise Misuse(f"the pause would end at {to_iso(until)}, which is past")


def value_of(options: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """The value of an option; `default` if it is absent or UNSET."""
    value = options.get(name, default)
    return default if isinstance(value, Unset) else value


def note_of(options: Mapping[str, Any]) -> str:
    """The note, cut to the length that is kept."""
    return cut(stored_note(value_of(options, "note", "")))


def word(words: type[E], value: Any) -> E:
    """A policy by its word; `BufferAll` and `buffer-all` are understood as `buffer_all`.

    Raises Misuse with the words there are.
    """
    said = str(value) if isinstance(value, str) else ""
    # Only camel case has capitals inside; SKIP is written in capitals throughout.
    said = said.lower() if said.isupper() else said
    plain = "".join(f"_{c.lower()}" if c.isupper() and n else c.lower() for n, c in enumerate(said))
    try:
        return words(plain.replace("-", "_").replace("__", "_"))
    except ValueError:
        raise Misuse(f"{shown(value)} is none of {', '.join(words)}") from None


def policies_with(policies: Policies, options: Mapping[str, Any]) -> Policies:
    """Policies, changed by the options that are given; UNSET goes back to the default. Raises Misuse."""
    changed: dict[str, Any] = {}
    for name, (field, read) in POLICIES.items():
        if name in options:
            value = options[name]
            changed[field] = getattr(DEFAULT_POLICIES, field) if isinstance(value, Unset) else read(value)
    return replace(policies, **changed) if changed else policies


def _window_ms(value: Any) -> int:
    return window_ms(duration_within(value, "catch_up_window", 0, CATCH_UP_WINDOW_MAX_MS))


def _as_it_is(value: Any) -> Any:
    return value


POLICIES: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "overlap": ("overlap", lambda value: word(Overlap, value)),
    "concurrency_limit": ("concurrency_limit", _as_it_is),
    "catch_up": ("catch_up", lambda value: word(CatchUp, value)),
    "catch_up_window": ("catch_up_window_ms", _window_ms),
    "pause_on_failure": ("pause_on_failure", _as_it_is),
    "buffer_limit": ("buffer_limit", _as_it_is),
    "run_timeout": ("run_timeout_ms", lambda value: duration_ms(value, name="run_timeout")),
}
"""For each option that is a policy: the field of `Policies`, and how its value is read."""

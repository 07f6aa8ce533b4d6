"""Options of schedules: records, whose fields are the parameters of the functions that take them.

`app.schedules` and `client.schedules` take the fields of `CreateOptions`, `UpdateOptions` and `ReplaceOptions`,
`app.crons.using` those of `CronOptions`. Bodies of requests, files and the command line make the same records, which
check what they hold. A new policy is a field of `ScheduleOptions` and of `CronOptions`, a line of `POLICIES`, a member
of the body (`evertick.app.schedules.bodies`) and a flag (`evertick.cli.schedule.flags`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

from evertick.app.functions.function import Function, FunctionCall
from evertick.app.functions.options import Retry
from evertick.base.errors import Misuse
from evertick.base.instants import Instant, duration_ms, to_iso
from evertick.base.options import (
    TEXT,
    UNCHANGED,
    Rule,
    Unchanged,
    check_options,
    duration_within,
    one_of_type,
    shown,
    some,
    stated,
    text,
    whole,
)
from evertick.base.records.jobs import IS_RETRY
from evertick.base.records.stored import storable
from evertick.recurrence.builders import Excepted
from evertick.recurrence.spec.spec import Spec
from evertick.rules.schedules.catch_up import window_ms
from evertick.rules.schedules.policies import CATCH_UP_WINDOW_MAX_MS, DEFAULT_POLICIES, CatchUp, Overlap, Policies
from evertick.rules.schedules.state import cut

E = TypeVar("E", bound=StrEnum)


When = Spec | str | Sequence[Spec | str]
"""One spec, or several whose times are united. A text is a cron line or a sentence; see `builders.sentence`."""

Do = Function[..., Any] | FunctionCall | str
"""What a schedule does: a function without arguments, `fn.with_args(...)`, or a function by its name."""

Span = tuple[datetime, datetime]

RUN_NAME: Final = "{workflow_id}-{nominal}"
"""How a run is named unless a schedule says otherwise."""
ACTIONS_MAX: Final = 1_000_000_000
NAME_CHARS_MAX: Final = 1_000
REQUEST_CHARS_MAX: Final = 1_000


def _are_spans(value: Any) -> bool:
    return isinstance(value, Sequence) and all(isinstance(each, tuple | list) and len(each) == 2 for each in value)


RULES: Final[Mapping[str, Rule]] = {
    "retry": IS_RETRY,
    "note": TEXT,
    "remaining_actions": whole(0, ACTIONS_MAX),
    "memo": one_of_type(dict, "a dict that JSON can hold"),
    "workflow_id": text(NAME_CHARS_MAX, printable=True),
    "run_id_template": text(NAME_CHARS_MAX, printable=True),
    "backfill": Rule("a list of spans, [(start, end), ...]", _are_spans),
    "request_id": text(REQUEST_CHARS_MAX),
}
"""The rules for options that are neither policies nor parts of the spec."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """Options that are checked when they are given, wherever that is."""

    def __post_init__(self) -> None:
        found = some(stated(self))
        if "pool" in found:
            raise Misuse("a run is in the pool of its function: @app.action(pool=...); leave out pool= here")
        check_options(RULES, found)
        policies_with(DEFAULT_POLICIES, found)

    def options(self) -> dict[str, Any]:
        """The options that are given; None lifts what was set, or goes back to the default."""
        return {name: value for name, value in stated(self).items() if name not in NOT_OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions(_Checked):
    """Everything that defines a schedule; `create` documents each option."""

    schedule_id: str = field(kw_only=False)
    when: When
    do: Do
    start: datetime | date | None = None
    end: datetime | date | None = None
    jitter: timedelta | int | None = None
    exclude: Excepted | Iterable[Excepted] | None = None
    overlap: Overlap | str = Overlap.SKIP
    concurrency_limit: int = 1
    catch_up: CatchUp | str = CatchUp.ALL
    catch_up_window: float | timedelta = timedelta(days=365)
    pause_on_failure: bool = False
    buffer_limit: int = 1_000
    run_timeout: float | timedelta | None = None
    retry: Retry | None = None
    remaining_actions: int | None = None
    workflow_id: str | None = None
    run_id_template: str = RUN_NAME
    pool: str | None = None
    note: str = ""
    memo: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions(ScheduleOptions):
    """The options of `create`: those that define the schedule, and how it begins."""

    paused: bool | datetime = False
    trigger: bool | Overlap | str = False
    backfill: Sequence[Span] = ()
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceOptions(ScheduleOptions):
    """The options of `replace`: those of a new definition. With `if_version`, only a schedule of that version is
    replaced.
    """

    if_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CronOptions(_Checked):
    """The options of `app.crons.using`: policies and options of runs. `update` takes them, too."""

    overlap: Overlap | str | Unchanged | None = UNCHANGED
    concurrency_limit: int | Unchanged | None = UNCHANGED
    catch_up: CatchUp | str | Unchanged | None = UNCHANGED
    catch_up_window: float | timedelta | Unchanged | None = UNCHANGED
    pause_on_failure: bool | Unchanged | None = UNCHANGED
    buffer_limit: int | Unchanged | None = UNCHANGED
    run_timeout: float | timedelta | Unchanged | None = UNCHANGED
    retry: Retry | Unchanged | None = UNCHANGED
    pool: str | Unchanged | None = UNCHANGED
    note: str | Unchanged | None = UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOptions(CronOptions):
    """The options of `update`; those that are not given stay unchanged."""

    schedule_id: str = field(kw_only=False)
    when: When | Unchanged = UNCHANGED
    do: Do | Unchanged = UNCHANGED
    start: datetime | date | Unchanged | None = UNCHANGED
    end: datetime | date | Unchanged | None = UNCHANGED
    jitter: timedelta | int | Unchanged | None = UNCHANGED
    exclude: Excepted | Iterable[Excepted] | Unchanged | None = UNCHANGED
    remaining_actions: int | Unchanged | None = UNCHANGED
    memo: dict[str, Any] | Unchanged | None = UNCHANGED
    workflow_id: str | Unchanged | None = UNCHANGED
    run_id_template: str | Unchanged | None = UNCHANGED
    if_version: int | None = None


BOUNDS: Final = ("start", "end", "jitter", "exclude")
"""The options that change a spec."""
NOT_OPTIONS: Final = frozenset(
    {"schedule_id", "when", "do", "if_version", "dry_run", "paused", "trigger", "backfill", "request_id"}
)
"""The fields that are not stored as options of the definition: its times, its function, and how it begins."""


def stored_note(note: Any) -> str:
    """The note in the form in which every database can store it. Raises Misuse if it is not text."""
    check_options(RULES, {"note": note})
    return storable(note)


def check_until(until: Instant | None, now: Instant) -> None:
    """Raise Misuse if `until` is in the past."""
    if until is not None and until <= now:
        raise Misuse(f"the pause would end at {to_iso(until)}, which is past")


def value_of(options: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """The value of an option; `default` if it is absent or None."""
    value = options.get(name)
    return default if value is None else value


def note_of(options: Mapping[str, Any]) -> str:
    """The note, cut to the maximum length."""
    return cut(stored_note(value_of(options, "note", "")))


def word(name: str, words: type[E], value: Any) -> E:
    """The member of the enum `words` for the value of the option `name`; `BufferAll` and `buffer-all` mean
    `buffer_all`.

    Raises Misuse for an unknown word; the message lists the valid words.
    """
    said = str(value) if isinstance(value, str) else ""
    # Only camel case has capitals inside; SKIP is written in capitals throughout.
    said = said.lower() if said.isupper() else said
    plain = "".join(f"_{c.lower()}" if c.isupper() and n else c.lower() for n, c in enumerate(said))
    try:
        return words(plain.replace("-", "_").replace("__", "_"))
    except ValueError:
        raise Misuse(f"{name} is one of {', '.join(words)}, not {shown(value)}") from None


def policies_with(policies: Policies, options: Mapping[str, Any]) -> Policies:
    """The policies with the given options changed; None restores the default. Raises Misuse."""
    changed: dict[str, Any] = {}
    for name, (policy, read) in POLICIES.items():
        if name in options:
            value = options[name]
            changed[policy] = getattr(DEFAULT_POLICIES, policy) if value is None else read(value)
    return replace(policies, **changed) if changed else policies


def _window_ms(value: Any) -> int:
    return window_ms(duration_within(value, "catch_up_window", 0, CATCH_UP_WINDOW_MAX_MS))


def _as_it_is(value: Any) -> Any:
    return value


POLICIES: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "overlap": ("overlap", lambda value: word("overlap", Overlap, value)),
    "concurrency_limit": ("concurrency_limit", _as_it_is),
    "catch_up": ("catch_up", lambda value: word("catch_up", CatchUp, value)),
    "catch_up_window": ("catch_up_window_ms", _window_ms),
    "pause_on_failure": ("pause_on_failure", _as_it_is),
    "buffer_limit": ("buffer_limit", _as_it_is),
    "run_timeout": ("run_timeout_ms", lambda value: duration_ms(value, name="run_timeout")),
}
"""For each option that is a policy: the field of `Policies`, and how its value is read."""

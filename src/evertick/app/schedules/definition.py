"""Definitions: what a schedule is to do, checked and in the form in which it is kept."""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePath
from types import FrameType
from typing import Any, Final, cast

from evertick.app.functions.function import Function, FunctionCall, check_args_size
from evertick.app.schedules.options import BOUNDS, RUN_NAME, Do, When, policies_with, value_of
from evertick.app.scheduling.job_builder import Functions
from evertick.base.errors import InvalidArguments, InvalidSpec, LimitExceeded, Misuse
from evertick.base.escaping import no_constant
from evertick.base.ids import ScheduleId, check_addressable
from evertick.base.instants import MILLISECOND, Instant, to_iso
from evertick.base.records.jobs import FunctionKind, retry_of_run
from evertick.base.records.stored import json_of
from evertick.engine.runtime.settings import Settings
from evertick.recurrence.builders import bounds_of, sentence
from evertick.recurrence.english.phrases.grammar import NO_SOURCES
from evertick.recurrence.parse.duration import format_milliseconds
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.wire.writing import canonical
from evertick.rules.schedules.metadata import CODE, Target
from evertick.rules.schedules.policies import DEFAULT_POLICIES, Policies
from evertick.store.records.schedule import Schedule

# -- Specs of schedules: several joined into one, bounded, checked against the limits, anchored where they begin.

TIMES_CHECKED: Final = 100
"""Coming times of a spec whose distances are checked when it is given to a schedule."""

MINUTE_S: Final = 60

SEARCH_S_MAX: Final = 2.0
"""Seconds of processor time that may go into finding the next time of a spec that is given to a schedule."""

PARTS_MAX: Final = 10_000
"""Specs that are united into one."""


def union(when: When) -> Spec:
    """One spec with the times of all given specs.

    All specs must have the same exclusions, bounds, jitter, dialect and rules for clock changes. They must also have
    the same time zone, except specs that only have intervals or single times: these follow the zone of the others.

    Raises InvalidSpec where they do not, for an empty list or more than PARTS_MAX, and for a text that cannot be read;
    Misuse for anything but a spec or a text.
    """
    specs = list(_parts(when))
    if not specs:  # a list that was computed, most likely, and not a wish that nothing run
        raise InvalidSpec(
            "when= is an empty list, so it would never run by itself; "
            f"for what runs only by trigger or backfill write when={NO_SOURCES!r}"
        )
    if len(specs) == 1:
        return specs[0]
    common = {name: _agreed(specs, name) for name in ("excludes", "start", "end", "jitter_ms", "dst", "dialect")}
    zoned = [spec for spec in specs if spec.crons or spec.calendars or spec.rrules] or specs
    joined = Spec(
        crons=tuple(one for spec in specs for one in spec.crons),
        intervals=tuple(one for spec in specs for one in spec.intervals),
        calendars=tuple(one for spec in specs for one in spec.calendars),
        rrules=tuple(one for spec in specs for one in spec.rrules),
        times=tuple(one for spec in specs for one in spec.times),
        time_zone=_agreed(zoned, "time_zone"),
        time_zone_data=_agreed(zoned, "time_zone_data"),
        **common,
    )
    compile_spec(joined)
    return joined


def _parts(when: When) -> Iterator[Spec]:
    """The specs, each read before the next one is asked for: what is iterable may have no end."""
    is_one = isinstance(when, Spec | str | Mapping) or not isinstance(when, Iterable)
    given: Iterable[Any] = (when,) if is_one else when  # type: ignore[assignment]
    for count, one in enumerate(given):
        if count == PARTS_MAX:
            raise InvalidSpec(f"when= unites more than {PARTS_MAX:,} specs; many times are one spec: at(*moments)")
        spec = sentence(one) if isinstance(one, str) else one
        if not isinstance(spec, Spec):
            raise Misuse(f"when= takes cron(...), every(...), a sentence or a list of these, not {spec!r}")
        yield spec


def bounded(spec: Spec, bounds: dict[str, Any]) -> Spec:
    """The spec with another `start`, `end`, `jitter` or `exclude`, given as for the builders; None removes a bound.

    Raises InvalidSpec, also for a moment without a time zone.
    """
    if not bounds:
        return spec
    read = replace(Spec(), **bounds_of(spec, bounds))
    changed = replace(spec, **{_FIELDS[name]: getattr(read, _FIELDS[name]) for name in bounds})
    compile_spec(changed)
    return changed


_FIELDS: Final = {"start": "start", "end": "end", "jitter": "jitter_ms", "exclude": "excludes"}
"""The field of `Spec` that each bound sets. A spec made without one holds the default."""


def check_searchable(spec: Spec, now: Instant) -> None:
    """Refuse a spec whose next time takes too long to find, because its rules fire once in decades or never.

    Called before a transaction begins, so that no other transaction waits for the search. Raises InvalidSpec.
    """
    began = time.thread_time()
    for rule in compile_spec(spec).rules:
        rule.next(now // 1000)
        if time.thread_time() - began > SEARCH_S_MAX:
            raise InvalidSpec(
                f"the next time of the spec takes more than {SEARCH_S_MAX:g} s to find: many of its sources fire "
                "seldom or never; leave these out, or make several schedules"
            )


def check_spec(spec: Spec, now: Instant, settings: Settings, *, may_have_ended: bool = False) -> None:
    """Check that a spec is valid for a schedule.

    Raises InvalidSpec if it never fires, or (unless it `may_have_ended`) not again; LimitExceeded if its times come
    faster than the settings allow.
    """
    if not spec.has_sources:
        return
    check_searchable(spec, now)
    recurrence = compile_spec(spec)
    if recurrence.is_empty():
        raise InvalidSpec("the spec never fires: no moment matches it")
    if not may_have_ended and recurrence.has_ended(now // 1000):
        last = recurrence.prev(now // 1000 + 1)
        was = f"its last time was {to_iso(Instant(last * 1000))}" if last is not None else "its end has passed"
        raise InvalidSpec(f"the spec has no further time: {was}")
    _check_heat(recurrence, now, settings)


def anchored(spec: Spec, at: Instant) -> Spec:
    """The spec with its intervals counted from the second of `at`, as in crons.

    Intervals that have an anchor or an offset of their own are not changed.
    """
    second = at // 1000
    return replace(
        spec,
        intervals=tuple(
            replace(one, anchor=second) if one.anchor is None and not one.offset else one for one in spec.intervals
        ),
    )


def _check_heat(recurrence: Recurrence, now: Instant, settings: Settings) -> None:
    per_minute = settings.schedule_starts_per_minute
    times = recurrence.preview(max(TIMES_CHECKED, per_minute) + 1, now // 1000)
    for earlier, later in pairwise(times):
        if (later - earlier) * 1000 < settings.schedule_interval_min // MILLISECOND:
            raise LimitExceeded(
                f"{to_iso(Instant(earlier * 1000))} and {to_iso(Instant(later * 1000))} are closer than "
                f"{format_milliseconds(settings.schedule_interval_min // MILLISECOND)}, the least interval allowed "
                "(schedule_interval_min in Settings)"
            )
    for earlier, later in zip(times, times[per_minute:], strict=False):
        if later - earlier < MINUTE_S:
            raise LimitExceeded(
                f"the spec names more than {per_minute} times a minute from {to_iso(Instant(earlier * 1000))} on, "
                "which is the most allowed (schedule_starts_per_minute in Settings)"
            )


def _agreed(specs: Sequence[Spec], name: str) -> Any:
    first, *others = [getattr(spec, name) for spec in specs]
    if any(other != first for other in others):
        word = {"excludes": "exclude", "jitter_ms": "jitter", "time_zone": "time zone"}.get(name, name)
        raise InvalidSpec(f"the specs of a union must agree on their {word}; give each of them the same")
    return first


ID_CHARS_MAX: Final = 512
TEMPLATE_CHARS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A checked definition."""

    spec: Spec
    target: Target
    policies: Policies
    run_id_template: str
    memo: dict[str, Any]

    def digest(self, *initial: Any) -> str:
        """A text that is the same for equal definitions; the values in `initial` are included."""
        policies = [str(getattr(self.policies, name)) for name in Policies.__slots__]
        parts = [
            canonical(self.spec),
            json.dumps(self.target.to_json()),
            policies,
            self.run_id_template,
            self.memo,
            initial,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def define(functions: Functions, schedule_id: ScheduleId, when: When, do: Do, options: dict[str, Any]) -> Definition:
    """A definition, checked as far as possible without the database; `options` are those of `ScheduleOptions`.

    Raises InvalidSpec, FunctionNotFound, InvalidArguments, Misuse, LimitExceeded.
    """
    plain = Definition(
        spec=union(when),
        target=target_of(functions, do),
        policies=DEFAULT_POLICIES,
        run_id_template=template_of(RUN_NAME, schedule_id),
        memo={},
    )
    return changed(plain, schedule_id, options)


def changed(old: Definition, schedule_id: ScheduleId, options: dict[str, Any]) -> Definition:
    """A definition with the given options changed; None removes a value or restores the default.

    Raises InvalidSpec, Misuse, LimitExceeded, InvalidArguments.
    """
    target = old.target
    for name in ("retry", "workflow_id", "pool"):
        if name in options:
            target = replace(target, **{name: value_of(options, name)})
    if "retry" in options:
        check_retry(target)
    stem, old_stem = target.workflow_id or schedule_id, old.target.workflow_id or schedule_id
    template = old.run_id_template
    if "run_id_template" in options:
        template = template_of(value_of(options, "run_id_template", RUN_NAME), stem)
    elif stem != old_stem and template == RUN_NAME.replace("{workflow_id}", old_stem):
        template = template_of(RUN_NAME, stem)
    return Definition(
        spec=bounded(old.spec, {name: options[name] for name in BOUNDS if name in options}),
        target=target,
        policies=policies_with(old.policies, options),
        run_id_template=template,
        memo=check_user_memo(value_of(options, "memo")) if "memo" in options else old.memo,
    )


def schedule_id_of(text: str) -> ScheduleId:
    """The text as the id of a schedule. Raises InvalidSpec, LimitExceeded."""
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise InvalidSpec(f"a schedule's id is printable text, not {text!r}")
    check_addressable(text, "a schedule", InvalidSpec)
    if len(text) > ID_CHARS_MAX:
        raise LimitExceeded(f"a schedule's id has at most {ID_CHARS_MAX} characters, not {len(text)}")
    return ScheduleId(text)


def place_of(frame: FrameType) -> str:
    """The file and line of code, relative to its package: `shop/crons.py:14`. It is the same on every machine."""
    path = PurePath(frame.f_code.co_filename)
    module = str(frame.f_globals.get("__name__", "")).split(".")
    depth = len(module) + (path.name == "__init__.py")
    return f"{'/'.join(path.parts[-depth:])}:{frame.f_lineno}"


def target_of(functions: Functions, do: Do) -> Target:
    """The function and the arguments that a schedule calls.

    Raises FunctionNotFound, InvalidArguments, Misuse for a query, ArgumentsTooLarge.
    """
    call = do if isinstance(do, FunctionCall) else None
    function = functions.resolve(call.function if call is not None else cast("Function[..., Any] | str", do))
    if function.kind is FunctionKind.QUERY:
        raise Misuse(f"{function.name} is a query, which has no effect; schedule a mutation or an action")
    args = function.encode_args((), {}) if call is None else call.args
    _check_args(args)
    return Target(name=function.name, kind=function.kind, args=args, app=function.app_name)


def check_retry(target: Target) -> None:
    """Raise Misuse for a workflow with a retry policy."""
    if target.retry is not None and target.kind is FunctionKind.WORKFLOW:
        raise retry_of_run(target.name)


def args_for(functions: Functions, target: Target, args: FunctionCall | dict[str, Any]) -> str:
    """The JSON text of arguments that replace those of a target for one run.

    Raises InvalidArguments, or Misuse if they are for another function.
    """
    function = functions.resolve(target.name)
    if isinstance(args, FunctionCall):
        if args.function is not function:
            raise Misuse(f"the schedule calls {target.name}, not {args.function.name}")
        text = args.args
    elif isinstance(args, dict):
        text = function.encode_args((), args)
    else:
        raise InvalidArguments(f"args= takes fn.with_args(...) or a dict of arguments by name, not {args!r}")
    _check_args(text)
    return text


def _check_args(text: str) -> None:
    """Raise ArgumentsTooLarge, or InvalidArguments for NaN and infinity: neither JSON nor a file can hold them."""
    check_args_size(len(text))
    if "NaN" in text or "Infinity" in text:
        try:
            json.loads(text, parse_constant=no_constant)
        except ValueError as error:
            raise InvalidArguments(f"the arguments of a schedule are JSON: {error}") from None


def template_of(template: str, stem: str) -> str:
    """The template of run names, with `{workflow_id}` replaced by `stem`. Raises Misuse."""
    text = template.replace("{workflow_id}", stem)
    if not text.strip() or not text.isprintable():
        raise Misuse(f"a run's name is printable text, not {template!r}")
    if len(text) > TEMPLATE_CHARS_MAX:
        raise LimitExceeded(f"a template of run names has at most {TEMPLATE_CHARS_MAX} characters, not {len(text)}")
    return text


def refuse_code(row: Schedule) -> None:
    """Raise Misuse if the schedule is declared in code, because the next start of a worker would undo a change."""
    _refuse_code(row, "change it there")


def refuse_deleting_code(row: Schedule) -> None:
    """Raise Misuse if the schedule is declared in code, because the next start of a worker would create it again."""
    _refuse_code(
        row,
        "remove it there, or pause it: a pause outlasts starts; if that app is gone, delete it with force=True "
        "(`evertick schedule delete --force`)",
    )


def _refuse_code(row: Schedule, cure: str) -> None:
    if is_declared(row):
        raise Misuse(f"the cron {row.id!r} is declared in the code of the app {row.metadata.app!r}; {cure}")


def is_declared(row: Schedule) -> bool:
    """Whether this is a cron that is declared in code; False if this release cannot read that."""
    return "memo" not in row.unreadable and row.metadata.source == CODE


MEMO_BYTES_MAX: Final = 64 * 1024


def check_user_memo(memo: dict[str, Any] | None) -> dict[str, Any]:
    """Check that the user's memo can be stored, and return it.

    Raises InvalidArguments if it is not JSON, LimitExceeded if it is large.
    """
    if memo is None:
        return {}
    text = json_of(memo, "the memo")
    if not isinstance(memo, dict):
        raise InvalidArguments(f"the memo must be an object of JSON, not {type(memo).__name__}")
    if len(text) > MEMO_BYTES_MAX:
        raise LimitExceeded(f"the memo has {len(text)} bytes; the limit is {MEMO_BYTES_MAX}")
    loaded: dict[str, Any] = json.loads(text)
    return loaded

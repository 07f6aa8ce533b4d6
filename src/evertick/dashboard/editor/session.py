"""One request to the editor: the stored schedule, what was typed, and what the page shows about it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from evertick.api.functions import FunctionView
from evertick.api.schedules import Remark, ScheduleDescription
from evertick.app.schedules.bodies import ChangedSchedule, NewSchedule
from evertick.app.schedules.definition import Definition, changed, check_spec, schedule_id_of
from evertick.app.schedules.options import RUN_NAME
from evertick.app.schedules.views import outage_warnings
from evertick.base.errors import EvertickError, FunctionNotFound
from evertick.base.instants import Instant, to_datetime
from evertick.base.records.access import Scope
from evertick.base.records.jobs import SCRIPT_FUNCTION, FunctionKind
from evertick.dashboard.editor.drafts import (
    OF_SPEC,
    Conflict,
    Draft,
    Reading,
    differences,
    differing,
    merged,
    patch,
    with_known_days,
)
from evertick.dashboard.editor.forms import pairs_of, read, rows_of, switched, with_rows
from evertick.dashboard.forms.form import Form
from evertick.dashboard.forms.signature import Signature, signature_of
from evertick.dashboard.markup.times import Times
from evertick.recurrence.english.describe import describe
from evertick.recurrence.explain import clock_note
from evertick.recurrence.lint import Lint, lint
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.search.recurrence import Recurrence
from evertick.recurrence.spec.civil import DAY
from evertick.recurrence.spec.spec import Spec
from evertick.rules.schedules.metadata import Target
from evertick.rules.schedules.policies import DEFAULT_POLICIES, Overlap, Policies
from evertick.server.callers import Caller

# -- The preview of a spec: its next times compared with those of another spec, and warnings for its author.

TIMES: Final = 10
YEAR_S: Final = 365 * DAY
FURTHER: Final = 500
"""Number of times that are compared after those that are shown."""
FURTHER_SHOWN: Final = 3
COUNTED: Final = 2_000
"""Times of a year that are counted; larger numbers are estimated from these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A time. `change` is `same`, `new` or `gone` compared with the times before, and empty if there are none."""

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
    """The preview of a spec. `per_year` is text such as `258 runs` or `about 526,000 runs`."""

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
    """The preview of a valid spec, compared with the spec that it replaces, with warnings about its policies."""
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
    """The next times with their changes; and the next changes, if there are none among these."""
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
    """The number of times in the next year as text: exact if there are few, otherwise estimated."""
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


# -- The options of `evertick schedule create` and `update` that do the same as a form.

Options = dict[str, str | bool | Sequence[str] | None]

FLAGS: Final = {
    "overlap": "overlap_policy",
    "concurrency_limit": "concurrency",
    "catch_up": "catch_up",
    "catch_up_window": "catchup_window",
    "buffer_limit": "buffer_limit",
    "run_timeout": "run_timeout",
    "remaining_actions": "remaining_actions",
    "workflow_id": "workflow_id",
    "run_id_template": "run_id_template",
    "note": "notes",
    "memo": "memo",
    "retry": "retry",
}
"""The flag of each member of a draft that has its own flag."""
LIFTED: Final = {
    "run_timeout": "run-timeout",
    "remaining_actions": "remaining-actions", "workflow_id": "workflow-id", "retry": "retry", "note": "notes",
    "memo": "memo", "excepted": "except", "time_zone": "time-zone", "start": "start-time", "end": "end-time",
    "jitter": "jitter", "dialect": "dialect",
}  # fmt: skip
"""The name of a member for `--unset`."""
OF_TIME: Final = {
    "time_zone": "time_zone",
    "start": "start_time",
    "end": "end_time",
    "jitter": "jitter",
    "dialect": "dialect",
}


def create_options(reading: Reading) -> Options:
    """The options that create the schedule in a form."""
    draft, own = reading.draft, reading.own or reading.draft
    whole: dict[str, Any] = {name: value for name in ("dst", "time_zone_data") if (value := getattr(own, name))}
    anchored = [each for each in own.sources.get("intervals", ()) if "anchor" in each]
    if anchored:
        whole["intervals"] = anchored
    options = _times(own, reading.sentences) | {flag: getattr(own, name) for name, flag in OF_TIME.items()}
    if whole:
        options["spec"] = _json(whole)
    options |= {"function": draft.function or "NAME", "input": _json(draft.args) if draft.args else None}
    return options | _definition(draft, differing(Draft(), draft))


def update_options(before: Draft, reading: Reading) -> Options:
    """The options that change one schedule to match a form; empty if nothing changes."""
    draft, changed = reading.draft, differing(before, reading.draft)
    of_spec = [name for name in changed if name in OF_SPEC]
    options: Options = {}
    unset = [LIFTED[name] for name in changed if name in LIFTED and not getattr(draft, name)]
    if of_spec:
        if _needs_whole(draft, of_spec):
            options["spec"] = _json(draft.wire())
            unset = [name for name in unset if name not in {LIFTED[each] for each in of_spec if each in LIFTED}]
        else:
            own = reading.own or draft
            if "sources" in changed:
                options |= _times(own, reading.sentences)
            elif "excepted" in changed:
                options["except"] = _excepted(draft)
            options |= {flag: getattr(own, name) for name, flag in OF_TIME.items() if name in changed}
    if "function" in changed:
        options |= {"function": draft.function, "input": _json(draft.args)}
    elif "args" in changed:
        options["input"] = _json(draft.args)
    return options | _definition(draft, changed) | {"unset": unset}


def _needs_whole(draft: Draft, changed: list[str]) -> bool:
    """Whether flags for times cannot express the change, so that the whole spec is given."""
    anchored = any("anchor" in each for each in draft.sources.get("intervals", ()))
    of_sources = "sources" in changed and (anchored or not any(draft.sources.values()))
    return of_sources or "dst" in changed or "time_zone_data" in changed


def _times(own: Draft, sentences: Sequence[str]) -> Options:
    sources = own.sources
    return {
        "when": list(sentences),
        "cron": sources.get("crons"),
        "interval": [_interval(each) for each in sources.get("intervals", ()) if "anchor" not in each],
        "calendar": [_json(each) for each in sources.get("calendars", ())],
        "rrule": [_json(each) for each in sources.get("rrules", ())],
        "at": sources.get("times"),
        "except": _excepted(own),
    }


def _interval(wire: Mapping[str, str]) -> str:
    return f"{wire['every']}/{wire['offset']}" if wire.get("offset") else wire["every"]


def _excepted(draft: Draft) -> list[str]:
    """The exclusions as flags; a single date as plain text."""
    return [each["dates"][0] if len(each.get("dates", ())) == 1 else _json(each) for each in draft.excepted]


def _definition(draft: Draft, changed: list[str]) -> Options:
    options: Options = {}
    for name, flag in FLAGS.items():
        value = getattr(draft, name)
        if name not in changed:
            continue
        if name == "run_id_template":
            options[flag] = value or RUN_NAME
        elif value not in (None, "", {}):
            options[flag] = _json(value) if isinstance(value, Mapping) else str(value)
    if "pause_on_failure" in changed:
        options["pause_on_failure" if draft.pause_on_failure else "no_pause_on_failure"] = True
    return options


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


NEW_ROW = {"s": {"kind": "cron"}, "x": {"kind": "dates"}}
COMPLAINTS = {
    "concurrency limit": "concurrency_limit",
    "concurrency_limit": "concurrency_limit",
    "allow_all knows": "concurrency_limit",
    "buffer limit": "buffer_limit",
    "catch-up window": "catch_up_window",
    "run timeout": "run_timeout",
    "retry policy": "retry.attempts",
    "longest wait": "retry.cap",
    "run's name": "run_id_template",
    "template of run names": "run_id_template",
    "memo": "memo",
    "remaining_actions": "remaining_actions",
    "schedule's id": "id",
    "schedule with the id": "id",
    "exists": "id",
}
"""The field of an error of the API, by words in its message."""


@dataclass(slots=True)
class Session:
    """The state of an edit. `base` is the draft that the form began with; None for a new schedule."""

    caller: Caller
    times: Times
    form: Form
    schedule: ScheduleDescription | None = None
    stored: Spec | None = None
    """The spec whose holidays keep the days that were looked up."""
    base: Draft | None = None
    scripts: Sequence[str] = ()
    """The published scripts, from which a schedule may choose one."""
    reading: Reading = field(init=False)

    signature: Signature | None = None
    """The fields for the arguments of the function; None if its signature is not known."""
    policies: Policies | None = field(default=None, init=False)
    """The checked policies; None while there are errors."""
    missing: list[str] = field(default_factory=list, init=False)
    """Messages about empty fields for times that the preview needs."""
    needed: int = field(default=0, init=False)
    """The number of required fields for arguments that are still empty."""

    def __post_init__(self) -> None:
        self._act()
        self.read()

    @property
    def now(self) -> Instant:
        """The time when the form is read."""
        return self.times.now

    def read(self) -> None:
        """Read the form again."""
        self.form.errors = {}
        self.reading = read(self.form, self.now // 1000, self.stored, self._arguments())

    # -- the arguments

    def _arguments(self) -> Mapping[str, Any] | None:
        """The arguments from their fields; None if no signature is known. Errors are stored at the fields."""
        form = self.form
        self.signature = signature = self._signature()
        if signature is None:
            form.pairs = [pair for pair in form.pairs if pair[0] != "args_as"]
            return None
        if not form["args_as"]:
            signature.begin(form)
        signature.switch(form)
        known = None if self.base is None or self.base.function != form["function"] else dict(self.base.args)
        if known is not None and signature.typed(Form(list(form.pairs)), self.times) == known:
            return known  # unchanged, so they are not checked against the current signature
        return signature.read(form, self.times) or {}

    def _signature(self) -> Signature | None:
        try:
            function = self.caller.function(self.form["function"]) if self.form["function"] else None
        except FunctionNotFound:
            return None
        if function is None:
            return None
        signature = signature_of(function)
        return signature.with_choice("script", self.scripts) if function.name == SCRIPT_FUNCTION else signature

    # -- the rows

    def _act(self) -> None:
        """Handle a button of the form: add or remove a row, or show a rule as text or as fields."""
        action, _, what = self.form["do"].partition(":")
        prefix, _, number = what.partition(".")
        if prefix not in NEW_ROW:
            return
        rows = rows_of(self.form, prefix)
        if action == "add":
            rows.append(("", dict(NEW_ROW[prefix])))
        elif action == "remove":
            rows = [(each, fields) for each, fields in rows if each != number]
        elif action == "rule":
            rows = [(each, self._switched(fields) if each == number else fields) for each, fields in rows]
        self.form.pairs = with_rows(prefix, [fields for _, fields in rows], self.form.pairs)

    def _switched(self, fields: dict[str, str]) -> dict[str, str]:
        other, why = switched(fields)
        return {**other, "why": why} if why else other

    # -- checking

    @property
    def name(self) -> str:
        """The id of the schedule."""
        return self.form["id"] if self.schedule is None else str(self.schedule.id)

    async def check(self) -> None:
        """Check everything that can be checked without writing; errors are stored at their fields."""
        reading, form, known = self.reading, self.form, self.caller
        operations = known.access.schedules.operations
        if reading.spec is not None:
            try:
                check_spec(reading.spec, self.now, operations.settings)
            except EvertickError as error:
                form.fail("sources", str(error))
        if self.schedule is None and not self.name:
            form.fail("id", "Enter an id, such as billing.reconcile")
        if not form["workflow_id"].isprintable():
            form.fail("workflow_id", "A run's name must be printable text")
        if not reading.draft.function:
            form.fail("function", "Choose a function")
        elif self.fits and (self.base is None or {"function", "args"} & set(self.changed())):
            try:
                known.call(reading.draft.function, dict(reading.draft.args))
            except EvertickError as error:
                form.field_of(error, {"no function": "function"}, "args")
        try:
            options = ChangedSchedule.model_validate(reading.draft.options()).options(lifts=False)
            self.policies = changed(_plain(self.name), schedule_id_of(self.name or "new"), options).policies
        except ValidationError as error:
            for each in error.errors(include_url=False):
                form.fail(".".join(map(str, each["loc"])), each["msg"])
        except EvertickError as error:
            form.field_of(error, COMPLAINTS)

    @property
    def fits(self) -> bool:
        """Whether no error of the arguments is known."""
        return not any(map(_is_argument, self.form.errors))

    def forgive(self, *, everything: bool) -> None:
        """Remove errors of fields that are still empty, because the form is still being typed."""
        errors = self.form.errors
        self.needed = sum(_is_argument(name) and not self.form[name] for name in errors)
        kept = {name: why for name, why in errors.items() if name == "sources" or self.form[name]}
        if not everything:
            self.missing = [why for name, why in errors.items() if name not in kept and name.startswith(OF_TIMES)]
        self.form.errors = {} if everything else kept

    @property
    def overlap(self) -> tuple[str, int]:
        """The chosen overlap policy and number of open runs; defaults replace invalid values."""
        draft = self.reading.draft
        known = draft.overlap if draft.overlap in tuple(Overlap) else DEFAULT_POLICIES.overlap
        return known, 1 if known == Overlap.ALLOW_ALL else max(draft.concurrency_limit, 1)

    # -- saving

    def creation(self) -> NewSchedule:
        """The body that creates the schedule."""
        draft, form = self.reading.draft, self.form
        given = {name: value for name, value in draft.options().items() if value not in (None, {}, "")}
        begins = {"paused": bool(form["paused"]), "trigger": bool(form["trigger"])}
        when = with_known_days(draft.wire(), self.stored)
        body = {"id": self.name, "when": when, "function": draft.function, "args": dict(draft.args)}
        return NewSchedule.model_validate(body | given | begins)

    def change(self) -> ChangedSchedule:
        """The body with the changes; all members if the stored schedule could not be read completely."""
        assert self.base is not None and self.stored is not None, "it is edited"  # noqa: S101
        whole = self.schedule is not None and bool(self.schedule.unreadable)
        return ChangedSchedule.model_validate(patch(self.base, self.reading.draft, self.stored, whole=whole))

    def rebase(self) -> None:
        """Continue from what another editor saved: members marked `theirs` replace those in the form."""
        assert self.schedule is not None  # noqa: S101
        theirs = Draft.of(self.schedule)
        taken = [name for name in differing(self.base or theirs, theirs) if self.form[f"take.{name}"] == "theirs"]
        if taken:
            kept = [(name, value) for name, value in self.form.pairs if name in KEPT]
            self.form.pairs = pairs_of(merged(self.reading.draft, theirs, taken)) + kept
        self.base, self.stored = theirs, self.schedule.spec
        now = [("version", str(self.schedule.version)), ("base", theirs.to_json())]
        self.form.pairs = [pair for pair in self.form.pairs if pair[0] not in ("version", "base")] + now
        self.read()

    # -- showing

    def conflict(self) -> Conflict | None:
        """The changes of another editor since the form was opened; None if there are none."""
        if self.schedule is None or self.base is None:
            return None
        found = differences(self.base, Draft.of(self.schedule), self.reading.draft)
        return Conflict(schedule=self.schedule, differences=found) if found else None

    def changed(self) -> list[str]:
        """The members that saving changes."""
        return [] if self.base is None else differing(self.base, self.reading.draft)

    def preview(self) -> Preview | None:
        """The preview; None while the times are invalid."""
        if self.reading.spec is None or "sources" in self.form.errors:
            return None
        before = None if self.schedule is None else self.schedule.spec
        return preview_of(self.reading.spec, self.now, before, self.policies)

    def is_wrong_about_times(self) -> bool:
        """Whether an error about the times is shown."""
        return any(name.startswith(OF_TIMES) for name in self.form.errors)

    def sentence(self) -> str:
        """The times in English."""
        return "" if self.reading.spec is None else describe(self.reading.spec)

    def command(self) -> tuple[str, Options]:
        """The command that does the same: the word after `schedule`, and the options."""
        if self.schedule is None or self.base is None:
            begins: Options = {"paused": bool(self.form["paused"]), "trigger": bool(self.form["trigger"])}
            return "create", create_options(self.reading) | begins
        version = self.form["version"] or str(self.schedule.version)
        return "update", update_options(self.base, self.reading) | {"if_version": version}

    def functions(self) -> list[FunctionView]:
        """The functions that a schedule can start."""
        known = self.caller
        found = [each for each in known.app.functions if not each.internal or known.may(Scope.ADMIN)]
        shown = [FunctionView.of(each) for each in found if each.kind is not FunctionKind.QUERY]
        return sorted(shown, key=lambda each: each.name)


OF_TIMES = ("s.", "x.", "sources", "zone", "start", "end", "jitter")
KEPT = ("version", "base", "from", "zone_offered", "id")
"""The hidden fields that belong to the form and not to the draft."""


def _is_argument(name: str) -> bool:
    """Whether a field of the form is for arguments."""
    return name == "args" or name.startswith("a.")


def _plain(name: str) -> Definition:
    """A definition without errors."""
    target = Target(name=name, kind=FunctionKind.ACTION, args="{}")
    return Definition(spec=Spec(), target=target, policies=DEFAULT_POLICIES, run_id_template=RUN_NAME, memo={})

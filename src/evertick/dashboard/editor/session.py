"""One request to the editor: what is stored, what was typed, and what the page says about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from evertick.api.functions import FunctionView
from evertick.api.schedules import ScheduleDescription
from evertick.app.schedules.definition import RUN_NAME, Definition, changed, check_spec, schedule_id_of
from evertick.app.schedules.written import ChangedSchedule, NewSchedule
from evertick.base.errors import EvertickError, FunctionNotFound
from evertick.base.instants import Instant
from evertick.base.records.access import Scope
from evertick.base.records.jobs import SCRIPT_FUNCTION, FunctionKind
from evertick.dashboard.editor.commands import Options, create_options, update_options
from evertick.dashboard.editor.conflicts import Conflict, differences
from evertick.dashboard.editor.drafts import Draft, Reading, differing, merged, patch, with_known_days
from evertick.dashboard.editor.forms import pairs_of, with_rows
from evertick.dashboard.editor.preview import Preview, preview_of
from evertick.dashboard.editor.reading import read, rows_of
from evertick.dashboard.editor.rows import switched
from evertick.dashboard.forms.form import Form
from evertick.dashboard.forms.signature import Signature, signature_of
from evertick.dashboard.markup.times import Times
from evertick.recurrence.english.describe import describe
from evertick.recurrence.spec.spec import Spec
from evertick.rules.schedules.metadata import Target
from evertick.rules.schedules.policies import DEFAULT_POLICIES, Overlap, Policies
from evertick.server.callers import Caller

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
"""Which field an error of the API is about, by its words."""


@dataclass(slots=True)
class Session:
    """What is edited, and what was typed. `base` is what the form began with; None for a new schedule."""

    caller: Caller
    times: Times
    form: Form
    schedule: ScheduleDescription | None = None
    stored: Spec | None = None
    """The spec whose looked-up holidays are kept."""
    base: Draft | None = None
    scripts: Sequence[str] = ()
    """The published scripts, of which a schedule may run one."""
    reading: Reading = field(init=False)

    signature: Signature | None = None
    """The fields for the arguments of what it starts; None where its signature is not known."""
    policies: Policies | None = field(default=None, init=False)
    """As they were checked; None while something is wrong."""
    missing: list[str] = field(default_factory=list, init=False)
    """What is said of fields for times that are still empty, and without which there is no preview."""
    needed: int = field(default=0, init=False)
    """Fields for arguments that are still empty and must not stay so."""

    def __post_init__(self) -> None:
        self._act()
        self.read()

    @property
    def now(self) -> Instant:
        """When the form is read."""
        return self.times.now

    def read(self) -> None:
        """Read the form anew."""
        self.form.errors = {}
        self.reading = read(self.form, self.now // 1000, self.stored, self._arguments())

    # -- the arguments

    def _arguments(self) -> Mapping[str, Any] | None:
        """What the fields for the arguments say; None where no signature is known. What is wrong stands beside them."""
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
            return known  # whatever the function takes now: they are not changed
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
        """Do what a button of the form asks for: another row, one less, a rule as text or as fields."""
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
        """Check all that can be checked without writing; what is wrong stands beside its field."""
        reading, form, known = self.reading, self.form, self.caller
        operations = known.access.schedules.operations
        if reading.spec is not None:
            try:
                check_spec(reading.spec, self.now, operations.settings)
            except EvertickError as error:
                form.fail("sources", str(error))
        if self.schedule is None and not self.name:
            form.fail("id", "Give it an id, such as billing.reconcile")
        if not form["workflow_id"].isprintable():
            form.fail("workflow_id", "A run's name is printable text")
        if not reading.draft.function:
            form.fail("function", "Choose what it starts")
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
        """Whether nothing is wrong with the arguments, as far as was looked."""
        return not any(map(_is_argument, self.form.errors))

    def forgive(self, *, everything: bool) -> None:
        """Leave out complaints about fields that are still empty: a form is not finished while it is typed."""
        errors = self.form.errors
        self.needed = sum(_is_argument(name) and not self.form[name] for name in errors)
        kept = {name: why for name, why in errors.items() if name == "sources" or self.form[name]}
        if not everything:
            self.missing = [why for name, why in errors.items() if name not in kept and name.startswith(OF_TIMES)]
        self.form.errors = {} if everything else kept

    @property
    def overlap(self) -> tuple[str, int]:
        """The overlap policy and the number of open runs that are chosen, as far as there are such."""
        draft = self.reading.draft
        known = draft.overlap if draft.overlap in tuple(Overlap) else DEFAULT_POLICIES.overlap
        return known, 1 if known == Overlap.ALLOW_ALL else max(draft.concurrency_limit, 1)

    # -- saving

    def creation(self) -> NewSchedule:
        """The body that creates it."""
        draft, form = self.reading.draft, self.form
        given = {name: value for name, value in draft.options().items() if value not in (None, {}, "")}
        begins = {"paused": bool(form["paused"]), "trigger": bool(form["trigger"])}
        when = with_known_days(draft.wire(), self.stored)
        body = {"id": self.name, "when": when, "function": draft.function, "args": dict(draft.args)}
        return NewSchedule.model_validate(body | given | begins)

    def change(self) -> ChangedSchedule:
        """The body that changes what was changed, and nothing else; all of it, if it could not be read."""
        assert self.base is not None and self.stored is not None, "it is edited"  # noqa: S101
        whole = self.schedule is not None and bool(self.schedule.unreadable)
        return ChangedSchedule.model_validate(patch(self.base, self.reading.draft, self.stored, whole=whole))

    def rebase(self) -> None:
        """Go on from what another editor saved: members that are to be theirs take their place in the form."""
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
        """What another editor changed since the form was opened; None if nothing."""
        if self.schedule is None or self.base is None:
            return None
        found = differences(self.base, Draft.of(self.schedule), self.reading.draft)
        return Conflict(schedule=self.schedule, differences=found) if found else None

    def changed(self) -> list[str]:
        """The members that saving would change."""
        return [] if self.base is None else differing(self.base, self.reading.draft)

    def preview(self) -> Preview | None:
        """The preview; None while the times are not understood."""
        if self.reading.spec is None or "sources" in self.form.errors:
            return None
        before = None if self.schedule is None else self.schedule.spec
        return preview_of(self.reading.spec, self.now, before, self.policies)

    def is_wrong_about_times(self) -> bool:
        """Whether a complaint about the times is shown."""
        return any(name.startswith(OF_TIMES) for name in self.form.errors)

    def sentence(self) -> str:
        """The times in words."""
        return "" if self.reading.spec is None else describe(self.reading.spec)

    def command(self) -> tuple[str, Options]:
        """What does the same in a terminal: the word after `schedule`, and the options."""
        if self.schedule is None or self.base is None:
            begins: Options = {"paused": bool(self.form["paused"]), "trigger": bool(self.form["trigger"])}
            return "create", create_options(self.reading) | begins
        version = self.form["version"] or str(self.schedule.version)
        return "update", update_options(self.base, self.reading) | {"if_version": version}

    def functions(self) -> list[FunctionView]:
        """What it can start."""
        known = self.caller
        found = [each for each in known.app.functions if not each.internal or known.may(Scope.ADMIN)]
        shown = [FunctionView.of(each) for each in found if each.kind is not FunctionKind.QUERY]
        return sorted(shown, key=lambda each: each.name)


OF_TIMES = ("s.", "x.", "sources", "zone", "start", "end", "jitter")
KEPT = ("version", "base", "from", "zone_offered", "id")
"""The hidden fields, which are of the form and not of the draft."""


def _is_argument(name: str) -> bool:
    """Whether a field of the form is one for arguments."""
    return name == "args" or name.startswith("a.")


def _plain(name: str) -> Definition:
    """A definition with nothing in it that could be wrong."""
    target = Target(name=name, kind=FunctionKind.ACTION, args="{}")
    return Definition(spec=Spec(), target=target, policies=DEFAULT_POLICIES, run_id_template=RUN_NAME, memo={})

"""Drafts: a schedule as JSON, read from a form or from the stored schedule."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self

from evertick.api.schedules import ScheduleDescription
from evertick.app.schedules.options import RUN_NAME
from evertick.app.schedules.views import sentence
from evertick.base.errors import InvalidSpec
from evertick.base.records.jobs import RetryPolicy
from evertick.dashboard.editor.words import MEMBERS
from evertick.dashboard.markup.templates import json_line
from evertick.recurrence.parse.duration import format_milliseconds
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.wire.reading import spec_from_wire
from evertick.recurrence.wire.writing import spec_to_wire
from evertick.rules.schedules.policies import DEFAULT_POLICIES

SOURCES: Final = ("crons", "intervals", "calendars", "rrules", "times")
OF_SPEC: Final = ("sources", "excepted", "time_zone", "time_zone_data", "start", "end", "jitter", "dst", "dialect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A schedule that is being edited. Members are JSON in the form of the HTTP API; None is the default.

    Holidays are stored only by their names; see `with_known_days`.
    """

    sources: Mapping[str, list[Any]] = field(default_factory=dict)
    excepted: list[Any] = field(default_factory=list)
    time_zone: str | None = None
    time_zone_data: str | None = None
    start: str | None = None
    end: str | None = None
    jitter: str | None = None
    dst: Mapping[str, str] | None = None
    dialect: str | None = None
    function: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    overlap: str = str(DEFAULT_POLICIES.overlap)
    concurrency_limit: int = DEFAULT_POLICIES.concurrency_limit
    catch_up: str = str(DEFAULT_POLICIES.catch_up)
    catch_up_window: str = format_milliseconds(DEFAULT_POLICIES.catch_up_window_ms)
    pause_on_failure: bool = False
    buffer_limit: int = DEFAULT_POLICIES.buffer_limit
    run_timeout: str | None = None
    retry: Mapping[str, Any] | None = None
    remaining_actions: int | None = None
    workflow_id: str | None = None
    run_id_template: str | None = None
    note: str = ""
    memo: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, schedule: ScheduleDescription) -> Self:
        """The draft of a stored schedule."""
        target, policies = schedule.target, schedule.policies
        stem = target.workflow_id or schedule.id
        usual = schedule.run_id_template == RUN_NAME.replace("{workflow_id}", stem)
        return cls.of_spec(
            schedule.spec,
            function=target.function,
            args=target.args,
            overlap=str(policies.overlap),
            concurrency_limit=policies.concurrency_limit,
            catch_up=str(policies.catch_up),
            catch_up_window=format_milliseconds(policies.catch_up_window_ms),
            pause_on_failure=policies.pause_on_failure,
            buffer_limit=policies.buffer_limit,
            run_timeout=None if policies.run_timeout_ms is None else format_milliseconds(policies.run_timeout_ms),
            retry=None if target.retry is None else retry_json(target.retry),
            remaining_actions=schedule.remaining,
            workflow_id=target.workflow_id,
            run_id_template=None if usual else schedule.run_id_template,
            note=schedule.note,
            memo=schedule.memo,
        )

    @classmethod
    def of_spec(cls, spec: Spec, **more: Any) -> Self:
        """A draft with these times."""
        return cls(**_of_wire(spec_to_wire(spec)), **more)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The draft that `to_json` wrote. Raises ValueError."""
        value = json.loads(text)
        names = {each.name for each in fields(cls)}
        if not isinstance(value, dict) or not value.keys() <= names:
            raise ValueError("the text is not a draft")
        return cls(**value)

    def to_json(self) -> str:
        """The draft as text, for a hidden field."""
        return json.dumps({name: getattr(self, name) for name in _NAMES}, ensure_ascii=False, separators=(",", ":"))

    def wire(self) -> dict[str, Any]:
        """The wire form of its spec."""
        wire: dict[str, Any] = {name: self.sources[name] for name in SOURCES if self.sources.get(name)}
        named = {"excepted": "except"}
        for name in OF_SPEC[1:]:
            if value := getattr(self, name):
                wire[named.get(name, name)] = value
        return wire

    def spec(self) -> Spec:
        """Its spec. Raises InvalidSpec."""
        return spec_from_wire(self.wire())

    def options(self) -> dict[str, Any]:
        """Its members except times, function and arguments, in the form of the HTTP API."""
        return {name: getattr(self, name) for name in _NAMES if name not in (*OF_SPEC, "function", "args")}


_NAMES: Final = tuple(each.name for each in fields(Draft))


@dataclass(slots=True)
class Reading:
    """The contents of a form. `spec` is None if its times are invalid."""

    draft: Draft
    spec: Spec | None
    sentences: list[str] = field(default_factory=list)
    own: Draft | None = None
    """The draft without the times of its sentences; None if it has no sentences."""


def differing(before: Draft, after: Draft) -> list[str]:
    """The members in which two drafts differ."""
    return [name for name in _NAMES if getattr(before, name) != getattr(after, name)]


def patch(before: Draft, after: Draft, stored: Spec, *, whole: bool = False) -> dict[str, Any]:
    """The changes, as a body of `PATCH .../schedules/{id}`. `stored` is the spec before the change.

    With `whole` the body has every member, for a schedule that cannot be read completely.
    """
    changed = list(_NAMES) if whole else differing(before, after)
    body = {name: getattr(after, name) for name in changed if name not in (*OF_SPEC, "function", "args")}
    if any(name in OF_SPEC for name in changed):
        body["when"] = with_known_days(after.wire(), stored)
    if "function" in changed or "args" in changed:
        body |= {"function": after.function, "args": dict(after.args)}
    return body


def merged(mine: Draft, theirs: Draft, taken: list[str]) -> Draft:
    """My draft, with the members in `taken` from theirs."""
    return replace(mine, **{name: getattr(theirs, name) for name in taken})


def retry_json(policy: RetryPolicy) -> dict[str, Any]:
    """A retry policy in the form of the HTTP API."""
    return {
        "attempts": policy.attempts,
        "first": format_milliseconds(policy.first_ms),
        "factor": policy.factor,
        "cap": format_milliseconds(policy.cap_ms),
        "jitter": policy.jitter,
    }


def without_days(exclusions: list[Any]) -> list[Any]:
    """Exclusions with holidays only by their names: their days are looked up, or stored with the schedule."""
    return [
        {"holidays": {key: part for key, part in value.items() if key in ("country", "subdivision", "categories")}}
        if (value := each.get("holidays"))
        else each
        for each in exclusions
    ]


def with_known_days(wire: Mapping[str, Any], stored: Spec | None) -> dict[str, Any]:
    """A spec whose named holidays have the days that `stored` has for them: days are looked up only once."""
    known = {} if stored is None else {_names_of(each): each for each in spec_to_wire(stored).get("except", ())}
    excepted = [known.get(_names_of(each), each) if "holidays" in each else each for each in wire.get("except", ())]
    return {**wire, **({"except": excepted} if excepted else {})}


def _names_of(exclusion: Mapping[str, Any]) -> str:
    return json.dumps(without_days([exclusion]), sort_keys=True)


def _of_wire(wire: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a draft from the wire form of a spec."""
    given: dict[str, Any] = {"sources": {name: wire[name] for name in SOURCES if name in wire}}
    given["excepted"] = without_days(wire.get("except", []))
    return given | {name: wire[name] for name in OF_SPEC[2:] if wire.get(name)}


# -- Concurrent editors: compares what another one changed since a form was opened with what was typed into it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A member that another editor changed: its old value, its value now, and the value typed here.

    `both` is True if it was changed here as well, so that one of the two changes is lost.
    """

    name: str
    label: str
    before: str
    theirs: str
    mine: str
    both: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The changes of another editor, and who made them."""

    schedule: ScheduleDescription
    differences: Sequence[Difference]
    by: str = ""


def differences(before: Draft, theirs: Draft, mine: Draft) -> list[Difference]:
    """The changes of another editor since `before`, without those that equal what was typed."""
    changed_here = differing(before, mine)
    return [
        Difference(
            name=name,
            label=MEMBERS[name],
            before=_words(before, name),
            theirs=_words(theirs, name),
            mine=_words(mine, name),
            both=name in changed_here,
        )
        for name in differing(before, theirs)
        if getattr(theirs, name) != getattr(mine, name)
    ]


def _words(draft: Draft, name: str) -> str:
    """A member of a draft as one line of text."""
    value = getattr(draft, name)
    if name == "sources":
        return _sentence(draft)
    if value in (None, "", [], {}):
        return "none" if name in OF_SPEC or name == "remaining_actions" else "default"
    return "; ".join(map(_line, value)) if isinstance(value, list) else _line(value)


def _line(value: Any) -> str:
    return value if isinstance(value, str) else json_line(value)


def _sentence(draft: Draft) -> str:
    try:
        return sentence(Draft(sources=draft.sources, time_zone=draft.time_zone, dialect=draft.dialect).spec())
    except InvalidSpec:
        return json_line(draft.sources)

"""The contract of gateways: what `/v1` of a gateway takes and returns.

A gateway is a process that owns its crons. The platform, `evertick gateway check` and any HTTP client use these
schemas, whatever runs behind it. What a newer gateway adds to a reply is ignored; an unknown member of a schedule or of
an action is refused, because a wrong schedule must not run.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypedDict

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from evertick.api.schema import Moment, Schema, no_number

OUTPUT_BYTES_MAX: Final = 64 * 1024
"""Of the output of a run, in UTF-8. What is more is cut."""
KEY_CHARS_MAX: Final = 200
NAME_CHARS_MAX: Final = 200
TEXT_CHARS_MAX: Final = 16 * 1024
"""Of a body, a message or an argument."""
RRULE_CHARS_MAX: Final = 4_000
RUNS_MAX: Final = 200
"""Runs of one reply."""

GatewayStatus = Literal["healthy", "degraded"]
RunStatus = Literal["succeeded", "failed", "skipped", "running", "unknown"]
ScheduleType = Literal["cron", "interval", "once", "rrule", "event"]
ActionType = Literal["http", "builtin", "command", "event", "agent"]


def _printable(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("it has control characters, or spaces at its ends")
    return text


Key = Annotated[str, Field(min_length=1, max_length=KEY_CHARS_MAX), AfterValidator(_printable)]
Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX), AfterValidator(_printable)]
Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]


class _Kinds(Schema):
    """A value whose `type` says which other members it has."""

    model_config = ConfigDict(extra="forbid", defer_build=False)

    @classmethod
    def members(cls) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """By type: the members that it needs, and those that it may have."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _fits(self) -> Self:
        kind = getattr(self, "type")  # noqa: B009  # each subclass has its own words
        needed, allowed = self.members()[kind]
        given = {name for name, value in self if name != "type" and value is not None}
        if missing := [name for name in needed if name not in given]:
            raise ValueError(f"type {kind} needs {' and '.join(missing)}")
        if unknown := sorted(given - {*needed, *allowed}):
            takes = ", ".join((*needed, *allowed)) or "no further members"
            raise ValueError(f"type {kind} does not take {', '.join(unknown)}; it takes {takes}")
        return self


class GatewaySchedule(_Kinds):
    """When a cron runs.

    `cron` has `expression` (5 fields), `interval` has `every_ms`, `once` has `at`, `rrule` has `rrule` (with its
    DTSTART); `timezone` is an IANA name, UTC if there is none. `event` is read-only: something else than time starts
    the cron, and `detail` says what.
    """

    type: ScheduleType
    expression: Name | None = None
    every_ms: Annotated[int, Field(ge=1, strict=True)] | None = None
    at: Annotated[Moment, BeforeValidator(no_number)] | None = None
    rrule: Annotated[str, Field(max_length=RRULE_CHARS_MAX)] | None = None
    detail: Text | None = None
    timezone: Name | None = None

    @classmethod
    def members(cls) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        return {
            "cron": (("expression",), ("timezone",)),
            "interval": (("every_ms",), ()),
            "once": (("at",), ()),
            "rrule": (("rrule",), ("timezone",)),
            "event": ((), ("detail",)),
        }

    @model_validator(mode="after")
    def _moment_has_a_zone(self) -> Self:
        if self.at is not None and self.at.tzinfo is None:
            raise ValueError("at has no time zone; add one, for example 2026-11-21T09:00:00+01:00")
        return self


class GatewayAction(_Kinds):
    """What a cron does.

    `http` requests `url` with `method` (GET or POST) and `body`; its host is on the gateway's own list. `builtin` and
    `command` run what the gateway itself calls `name`; `arguments` are those that its configuration lists. `event`
    gives `text` and `agent` gives `message` to an agent, where the gateway has one. Of a cron that is not managed only
    the type may be shown: prompts of other people are private.
    """

    type: ActionType
    method: Literal["GET", "POST"] | None = None
    url: Annotated[str, Field(max_length=2_000)] | None = None
    body: Text | None = None
    name: Name | None = None
    arguments: dict[Name, Text] | None = None
    text: Text | None = None
    message: Text | None = None

    @classmethod
    def members(cls) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        return {
            "http": ((), ("url", "method", "body")),
            "builtin": ((), ("name",)),
            "command": ((), ("name", "arguments")),
            "event": ((), ("text",)),
            "agent": ((), ("message",)),
        }


_NEEDED: Final = {"http": "url", "builtin": "name", "command": "name", "event": "text", "agent": "message"}


def _complete(action: GatewayAction) -> GatewayAction:
    if getattr(action, _NEEDED[action.type]) is None:
        raise ValueError(f"type {action.type} needs {_NEEDED[action.type]}")
    return action


def _timed(schedule: GatewaySchedule) -> GatewaySchedule:
    if schedule.type == "event":
        raise ValueError("type event is read-only; give cron, interval, once or rrule")
    return schedule


NewSchedule = Annotated[GatewaySchedule, AfterValidator(_timed)]
NewAction = Annotated[GatewayAction, AfterValidator(_complete)]


class GatewayCron(Schema):
    """A cron as its gateway knows it.

    `managed` says whether it was added through the contract, so that it can be changed; `key` is then the caller's.
    `system` crons belong to the gateway itself. `revision` is another text after each change, for `If-Match`.
    """

    id: str
    key: str | None
    name: str
    schedule: GatewaySchedule
    enabled: bool
    managed: bool
    system: bool
    action: GatewayAction
    revision: str
    next_run_at: Moment | None
    last_run_at: Moment | None
    last_status: RunStatus | None
    last_error: str | None
    running: bool
    consecutive_errors: int


class GatewayCrons(Schema):
    """All crons of a gateway. `digest` is another text as soon as any of them reads differently."""

    crons: tuple[GatewayCron, ...]
    digest: str


class GatewayHealth(Schema):
    """How a gateway is. It needs no token.

    `runtime` is what runs behind the contract (evertick, openclaw). `instance_id` is another one for each process.
    `capabilities` are what it takes: `schedule:cron`, `action:http`, `events` ... `commands` and `builtins` are the
    names that `POST /v1/commands/{name}/run` and actions take.
    """

    status: GatewayStatus
    runtime: str
    version: str
    instance_id: str
    crons: int
    digest: str
    now: Moment
    warnings: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    builtins: tuple[str, ...] = ()


class GatewayRun(Schema):
    """One run of a cron, or of a command without a cron (`cron_id` is then None).

    `occurrence` is the nominal time of a run by the schedule. `output` is text of a stranger: show it, never render it.
    """

    run_id: str
    cron_id: str | None
    occurrence: Moment | None
    started_at: Moment | None
    ended_at: Moment | None
    duration_ms: int | None
    status: RunStatus
    trigger: Literal["schedule", "manual"]
    error: str | None
    output: str | None


class GatewayRuns(Schema):
    """Runs of a cron, the newest first."""

    runs: tuple[GatewayRun, ...]


class StartedGatewayRun(Schema):
    """A run that was asked for."""

    run_id: str


class NewGatewayCron(Schema):
    """A cron to add.

    A key that exists declares that cron again: everything is replaced, `enabled` only if it is given. A name that is
    not given is the key.
    """

    model_config = ConfigDict(extra="forbid", defer_build=False)

    key: Key
    name: Name | None = None
    schedule: NewSchedule
    action: NewAction
    enabled: StrictBool | None = None


class GatewayCronChange(Schema):
    """What changes of a cron; what is not given stays. A cron that is enabled again goes on from now."""

    model_config = ConfigDict(extra="forbid", defer_build=False)

    name: Name | None = None
    schedule: NewSchedule | None = None
    action: NewAction | None = None
    enabled: StrictBool | None = None


class CronChanges(TypedDict, total=False):
    """What may be changed of a cron."""

    name: str
    schedule: Mapping[str, Any]
    action: Mapping[str, Any]
    enabled: bool


class GatewayCommandRun(Schema):
    """The arguments of a command that is run without a cron."""

    model_config = ConfigDict(extra="forbid", defer_build=False)

    arguments: dict[Name, Text] | None = None


class GatewayEvent(Schema):
    """Something that happened: `cron.added`, `cron.updated`, `cron.removed`, `run.started` or `run.finished`."""

    type: Literal["cron.added", "cron.updated", "cron.removed", "run.started", "run.finished"]
    at: Moment
    cron_id: str | None
    run_id: str | None = None
    status: RunStatus | None = None


class GatewayCheck(Schema):
    """What was checked of a gateway, and how it ended: `left out` is what the gateway does not have."""

    check: str
    result: Literal["passed", "failed", "left out"]
    detail: str = ""


def digest_of(crons: Iterable[GatewayCron]) -> str:
    """The digest of a list of crons, in whatever order they come."""
    forms = sorted((each.to_json() for each in crons), key=lambda form: form["id"])
    return hashlib.sha256(json.dumps(forms, sort_keys=True).encode()).hexdigest()


def cut_output(data: bytes) -> str:
    """A run's output as text, `OUTPUT_BYTES_MAX` at most; of more its end is kept, below a line that says so."""
    rest = data[-OUTPUT_BYTES_MAX:]
    text = rest.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(text.encode()) <= OUTPUT_BYTES_MAX and len(rest) == len(data):
        return text
    mark = "[the beginning is cut]\n"
    # A replacement character is longer than the byte that it stands for.
    return mark + text.encode()[len(mark) - OUTPUT_BYTES_MAX :].decode("utf-8", "ignore")

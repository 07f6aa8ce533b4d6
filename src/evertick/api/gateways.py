"""The gateway contract: the requests and replies of `/v1` of a gateway.

A gateway is a process that owns its crons. The platform, `evertick gateway check` and any HTTP client use these schemas
with every kind of gateway. Unknown members of a reply are ignored, because a newer gateway may add some. Unknown
members of a schedule or an action are rejected, because a wrong schedule must not run.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypedDict

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from evertick.api.schema import Moment, Schema, no_number

OUTPUT_BYTES_MAX: Final = 64 * 1024
"""Bytes of the output of a run, in UTF-8. Longer output is cut."""
KEY_CHARS_MAX: Final = 200
NAME_CHARS_MAX: Final = 200
TEXT_CHARS_MAX: Final = 16 * 1024
"""Characters of a body, a message or an argument."""
RRULE_CHARS_MAX: Final = 4_000
RUNS_MAX: Final = 200
"""Runs in one reply."""

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
    """An object whose `type` determines which other members are required and allowed."""

    model_config = ConfigDict(extra="forbid", defer_build=False)

    @classmethod
    def members(cls) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """Maps each type to its required members and its optional members."""
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

    `type` determines the other members. `cron` has `expression` (5 fields), `interval` has `every_ms` (milliseconds),
    `once` has `at`, and `rrule` has `rrule` (including DTSTART). `timezone` is an IANA name; UTC if it is None. A cron
    of type `event` is started by something other than time, which `detail` describes. This type is read-only.
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

    `type` determines the other members. `http` sends a request to `url` with `method` (GET or POST) and `body`; the
    configuration of the gateway must allow the host. `builtin` and `command` run the builtin or the command `name` of
    the gateway; the gateway's configuration says which `arguments` it accepts. `event` sends `text` to an agent and
    `agent` sends `message`, if the gateway has an agent. If the cron is not managed, all members except `type` may be
    missing: prompts of other users are private.
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
    """A cron of a gateway.

    `managed` is True if the cron was added through this contract. Only managed crons can be changed. `key` is the key
    that the caller gave a managed cron, None for other crons. `system` is True if the cron belongs to the gateway
    itself. `revision` changes with each change of the cron; send it as `If-Match`.
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
    """All crons of a gateway. `digest` changes whenever any of the crons changes."""

    crons: tuple[GatewayCron, ...]
    digest: str


class GatewayHealth(Schema):
    """The health of a gateway. The request needs no token.

    `runtime` is the software behind the contract, such as evertick or openclaw. `instance_id` is different for each
    process. `capabilities` are the types and functions that the gateway supports, such as `schedule:cron`,
    `action:http` or `events`. `commands` are the names that `POST /v1/commands/{name}/run` and actions of type
    `command` accept. `builtins` are the names that actions of type `builtin` accept. `digest` is that of
    `GatewayCrons`.
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
    """A run of a cron, or of a command.

    `cron_id` is None if a command was run without a cron. `occurrence` is the scheduled time of the run, None if the
    schedule did not start it. `output` is untrusted text: display it, but never interpret it as HTML.
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
    """Runs of a cron, newest first."""

    runs: tuple[GatewayRun, ...]


class StartedGatewayRun(Schema):
    """A run that was started by a request."""

    run_id: str


class NewGatewayCron(Schema):
    """A cron to add.

    If a cron with this key exists, it is replaced. Its `enabled` then changes only if the request has `enabled`. `name`
    is the key by default.
    """

    model_config = ConfigDict(extra="forbid", defer_build=False)

    key: Key
    name: Name | None = None
    schedule: NewSchedule
    action: NewAction
    enabled: StrictBool | None = None


class GatewayCronChange(Schema):
    """A change of a cron. Members that are missing do not change.

    If a cron is enabled again, times that passed while it was disabled do not run.
    """

    model_config = ConfigDict(extra="forbid", defer_build=False)

    name: Name | None = None
    schedule: NewSchedule | None = None
    action: NewAction | None = None
    enabled: StrictBool | None = None


class CronChanges(TypedDict, total=False):
    """The fields of a cron that can be changed."""

    name: str
    schedule: Mapping[str, Any]
    action: Mapping[str, Any]
    enabled: bool


class GatewayCommandRun(Schema):
    """The request to run a command without a cron. `arguments` are the arguments of the command."""

    model_config = ConfigDict(extra="forbid", defer_build=False)

    arguments: dict[Name, Text] | None = None


class GatewayEvent(Schema):
    """An event of a gateway: a cron was changed, or a run has started or ended.

    `type` is `cron.added`, `cron.updated`, `cron.removed`, `run.started` or `run.finished`. `status` is None for events
    of crons. `run_id` is None for events of crons, and for a `run.started` whose run has no id yet.
    """

    type: Literal["cron.added", "cron.updated", "cron.removed", "run.started", "run.finished"]
    at: Moment
    cron_id: str | None
    run_id: str | None = None
    status: RunStatus | None = None


class GatewayCheck(Schema):
    """A check of a gateway against the contract, and its result.

    `result` is `left out` if the gateway does not support what the check tests.
    """

    check: str
    result: Literal["passed", "failed", "left out"]
    detail: str = ""


def digest_of(crons: Iterable[GatewayCron]) -> str:
    """The digest of crons. It does not depend on their order."""
    forms = sorted((each.to_json() for each in crons), key=lambda form: form["id"])
    return hashlib.sha256(json.dumps(forms, sort_keys=True).encode()).hexdigest()


def cut_output(data: bytes) -> str:
    """The output of a run as text of at most `OUTPUT_BYTES_MAX` bytes.

    If the output is longer, its beginning is replaced by a line that says so.
    """
    rest = data[-OUTPUT_BYTES_MAX:]
    text = rest.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(text.encode()) <= OUTPUT_BYTES_MAX and len(rest) == len(data):
        return text
    mark = "[the beginning is cut]\n"
    # A replacement character is longer than the byte that it stands for.
    return mark + text.encode()[len(mark) - OUTPUT_BYTES_MAX :].decode("utf-8", "ignore")

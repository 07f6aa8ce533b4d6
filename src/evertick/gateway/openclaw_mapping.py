"""Converts OpenClaw's jobs and runs to crons of the contract, and back. Pure: no clock, no connection.

A job that was added through the contract has the declaration key `platform:` and the key of the cron; only such jobs
may be changed. Every other job is read-only. Only the type of its action is shown, because prompts of other people are
private. It belongs to the system if it has a declaration key.

A job's payload is always written completely, because OpenClaw merges a patch into the current payload: a missing `cwd`
would keep its old value. The name of a command is stored in the job's description, and trusted only if the job's
payload equals the configuration of that command.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from evertick.api.gateways import (
    ActionType,
    GatewayAction,
    GatewayCron,
    GatewayCronChange,
    GatewayEvent,
    GatewayRun,
    GatewaySchedule,
    NewGatewayCron,
    RunStatus,
    cut_output,
)
from evertick.base.errors import AccessDenied, IntervalTooShort, InvalidCron, InvalidSpec, UnknownCommand
from evertick.base.instants import Instant, from_datetime, to_datetime, to_iso
from evertick.gateway.actions import argv_of
from evertick.gateway.config import CommandConfig
from evertick.recurrence.zones.names import zone_named

MANAGED: Final = "platform:"
"""The prefix of the declaration keys of crons that were added through the contract."""
ONE_RUN: Final = "platform-run:"
"""The prefix of the declaration keys of jobs for a single run of a command. They are in no list."""
DECLARATION_UNITS_MAX: Final = 200
"""OpenClaw's limit of a declaration key, in UTF-16 code units."""
EVERY_MS: Final = (60_000, 8_640_000_000_000_000)
"""The shortest interval (OpenClaw itself accepts 1 ms), and the longest that OpenClaw accepts."""
OUTPUT_BYTES: Final = 64 * 1024
ERROR_CHARS_MAX: Final = 2_000
HOST_ZONE: Final = "OpenClaw's host"
"""The text for the zone of a foreign cron without one: that of OpenClaw's host, which is unknown here."""
NAMED: Final = "evertick "
"""The prefix of the description of a managed job; the action follows as JSON."""

_STATUS: Final[Mapping[str, RunStatus]] = {"ok": "succeeded", "error": "failed", "skipped": "skipped"}
_TYPES: Final[Mapping[str, ActionType]] = {"command": "command", "script": "command", "agentTurn": "agent"}

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Actions:
    """The allowed actions: the commands of the configuration, and messages to agents if that allows them."""

    commands: Mapping[str, CommandConfig]
    has_messages: bool

    def types(self) -> tuple[ActionType, ...]:
        """The allowed types."""
        return ("command", "event", "agent") if self.has_messages else ("command",)

    def payload(self, action: GatewayAction) -> dict[str, Any]:
        """The payload of a job. Raises InvalidCron, UnknownCommand, AccessDenied."""
        if action.type == "command":
            return self.command(action.name or "", action.arguments or {})
        if action.type not in ("event", "agent"):
            takes = ", ".join(self.types())
            raise InvalidCron(f"OpenClaw has no actions of the type {action.type}; this gateway takes {takes}")
        if not self.has_messages:
            raise AccessDenied(
                f"this gateway allows no actions of the type {action.type}, because an agent follows their text; "
                "its operator allows them with `messages = true` in [openclaw]"
            )
        if action.type == "event":
            return {"kind": "systemEvent", "text": _message_text(action.text)}
        return {"kind": "agentTurn", "message": _message_text(action.message)}

    def command(self, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """The payload of a command of the configuration. Raises UnknownCommand."""
        argv = argv_of(self.commands, name, arguments)
        command = self.commands[name]
        return {
            "kind": "command",
            "argv": argv,
            "cwd": str(command.cwd or "."),
            "env": dict(command.env),
            "timeoutSeconds": command.timeout_s,
            "outputMaxBytes": OUTPUT_BYTES,
        }

    def action_of(self, job: Json) -> GatewayAction:
        """The action of a managed job; only its type if the job was changed in OpenClaw."""
        kind = job["payload"].get("kind")
        if kind == "systemEvent":
            return GatewayAction(type="event", text=_shown(job["payload"].get("text")))
        if kind == "agentTurn":
            return GatewayAction(type="agent", message=_shown(job["payload"].get("message")))
        if kind == "command":
            try:
                named = str(job.get("description") or "").removeprefix(NAMED)
                action = GatewayAction.model_validate(json.loads(named))
                if self.payload(action) == job["payload"]:
                    return action
            except (ValueError, InvalidCron, UnknownCommand, AccessDenied, RecursionError):
                pass
        return GatewayAction(type=_TYPES.get(str(kind), "event"))

    def differing(self, crons: Iterable[GatewayCron]) -> list[str]:
        """The names of managed crons whose command line differs from the configuration."""
        return [each.name for each in crons if each.managed and each.action.type == "command" and not each.action.name]


def _message_text(text: str | None) -> str:
    if not (text or "").strip():
        raise InvalidCron("the message of an action is empty")
    return str(text)


def _shown(text: object) -> str:
    return str(text or "")[:16_000]


def declaration_of(key: str) -> str:
    """The declaration key of a cron. Raises InvalidCron if it is too long for OpenClaw."""
    declaration = MANAGED + key
    if len(declaration.encode("utf-16-le", "surrogatepass")) // 2 > DECLARATION_UNITS_MAX:
        raise InvalidCron(f"the key is too long; OpenClaw's limit is {DECLARATION_UNITS_MAX - len(MANAGED)} characters")
    return declaration


def is_managed(job: Json) -> bool:
    """Whether a job was added through the contract."""
    return str(job.get("declarationKey") or "").startswith(MANAGED)


def carries_one_run(job: Json) -> bool:
    """Whether a job was created for a single run of a command."""
    return str(job.get("declarationKey") or "").startswith(ONE_RUN)


def job_of(new: NewGatewayCron, actions: Actions) -> dict[str, Any]:
    """The parameters of `cron.add`; `enabled` only if it is given, since OpenClaw otherwise keeps its value."""
    enabled = {} if new.enabled is None else {"enabled": new.enabled}
    return {
        "declarationKey": declaration_of(new.key),
        "name": new.name or new.key,
        "schedule": schedule_of(new.schedule),
        **_action_members(new.action, actions),
        **enabled,
        "wakeMode": "now",
        "deleteAfterRun": False,
    }


def job_of_one_run(key: str, name: str, payload: Json, now: Instant) -> dict[str, Any]:
    """The parameters of `cron.add` for a disabled job, which runs once on request."""
    return {
        "declarationKey": ONE_RUN + key,
        "name": name,
        "schedule": {"kind": "at", "at": to_iso(Instant(now + 86_400_000))},
        "payload": payload,
        "sessionTarget": "isolated",
        "delivery": {"mode": "none"},
        "enabled": False,
        "wakeMode": "now",
        "deleteAfterRun": False,
    }


def patch_of(change: GatewayCronChange, actions: Actions) -> dict[str, Any]:
    """The patch of `cron.update`."""
    patch: dict[str, Any] = {}
    if change.name is not None:
        patch["name"] = change.name
    if change.enabled is not None:
        patch["enabled"] = change.enabled
    if change.schedule is not None:
        patch["schedule"] = schedule_of(change.schedule)
    if change.action is not None:
        patch |= _action_members(change.action, actions)
    return patch


def _action_members(action: GatewayAction, actions: Actions) -> dict[str, Any]:
    """The members of a job for its action."""
    to_main = {"sessionTarget": "main"}
    isolated = {"sessionTarget": "isolated", "delivery": {"mode": "none"}}
    given = {name: value for name, value in action.to_json().items() if value is not None}
    return {
        "payload": actions.payload(action),
        "description": NAMED + (json.dumps(given) if action.type == "command" else action.type),
        **(to_main if action.type == "event" else isolated),
    }


def schedule_of(schedule: GatewaySchedule) -> dict[str, Any]:
    """The schedule of a job. Raises InvalidCron, IntervalTooShort."""
    if schedule.type == "cron":
        expression = schedule.expression or ""
        if len(expression.split()) != 5:
            # A sixth field of OpenClaw is seconds.
            raise InvalidCron(f"a cron expression has 5 fields, such as 30 9 * * 1-5, not {expression!r}")
        zone = schedule.timezone or "UTC"
        try:
            zone_named(zone)
        except InvalidSpec as error:
            raise InvalidCron(str(error)) from None
        # The default zone is that of OpenClaw's host. Without staggerMs full hours are spread over five minutes.
        return {"kind": "cron", "expr": expression, "tz": zone, "staggerMs": 0}
    if schedule.type == "interval":
        every_ms = schedule.every_ms or 0
        if every_ms < EVERY_MS[0]:
            raise IntervalTooShort(f"every_ms is {every_ms}; the shortest interval of this gateway is {EVERY_MS[0]} ms")
        if every_ms > EVERY_MS[1]:
            raise InvalidCron(f"every_ms is more than {EVERY_MS[1]}")
        return {"kind": "every", "everyMs": every_ms}
    if schedule.type == "once" and schedule.at is not None:
        return {"kind": "at", "at": to_iso(from_datetime(schedule.at))}
    raise InvalidCron(
        f"OpenClaw has no schedules of the type {schedule.type}; use cron, interval or once, "
        "or a schedule of the platform that runs a command of this gateway"
    )


def cron_of(job: Json, actions: Actions) -> GatewayCron:
    """A job as a cron."""
    declaration = str(job.get("declarationKey") or "")
    state = job.get("state") or {}
    managed = is_managed(job)
    next_ms = job.get("nextRunAtMs") or state.get("nextRunAtMs")
    disabled = state.get("autoDisabled")
    error = state.get("lastError")
    if disabled:
        error = f"disabled by OpenClaw ({disabled.get('reason')})" + (f": {error}" if error else "")
    return GatewayCron(
        id=str(job["id"]),
        key=declaration.removeprefix(MANAGED) if managed else None,
        name=str(job.get("displayName") or job.get("name") or ""),
        schedule=_shown_schedule(job.get("schedule") or {}),
        enabled=bool(job.get("enabled")),
        managed=managed,
        system=bool(declaration) and not managed,
        action=actions.action_of(job)
        if managed
        else GatewayAction(type=_TYPES.get(str(job["payload"].get("kind")), "event")),
        revision=str(job.get("configRevision") or ""),
        next_run_at=_moment(next_ms) if job.get("enabled") else None,
        last_run_at=_moment(state.get("lastRunAtMs")),
        last_status=_STATUS.get(str(state.get("lastRunStatus"))),
        last_error=_words(error),
        running=bool(state.get("runningAtMs")),
        consecutive_errors=int(state.get("consecutiveErrors") or 0),
    )


def _shown_schedule(schedule: Json) -> GatewaySchedule:
    """A job's schedule in the contract's form; the type event if the contract has no form for it."""
    kind = str(schedule.get("kind"))
    try:
        if kind == "cron":
            zone = schedule.get("tz") or HOST_ZONE
            return GatewaySchedule.model_validate({"type": kind, "expression": schedule["expr"], "timezone": zone})
        if kind == "every":
            return GatewaySchedule(type="interval", every_ms=schedule["everyMs"])
        if kind == "at":
            return GatewaySchedule.model_validate({"type": "once", "at": schedule["at"]})
    except (ValidationError, KeyError):
        pass
    return GatewaySchedule(type="event", detail=kind[:200])


def run_id_of(job_id: str, entry: Json) -> str:
    """The id of a run. Scheduled runs have no id in OpenClaw, so it is made of their start time."""
    return str(entry.get("runId") or f"scheduled:{job_id}:{entry.get('runAtMs')}")


def job_id_of(run_id: str) -> str | None:
    """The job of a run, from the run's id; None if the id is invalid."""
    kind, _, rest = run_id.partition(":")
    job_id = rest.partition(":")[0]
    return job_id if kind in ("manual", "scheduled") and job_id else None


def run_of(job_id: str, entry: Json, *, has_cron: bool) -> GatewayRun:
    """An entry of the log as a run."""
    status: RunStatus = _STATUS.get(str(entry.get("status")), "unknown")
    error = entry.get("error")
    if status == "succeeded" and entry.get("completionStatus") == "failed":
        status, error = "failed", error or entry.get("deliveryError") or "its result could not be delivered"
    if status == "succeeded" and entry.get("completionStatus") == "unknown":
        error = "warning: OpenClaw does not know whether the result was delivered"
    started_ms, duration_ms = entry.get("runAtMs"), entry.get("durationMs")
    ended_ms = entry.get("ts") if started_ms is None or duration_ms is None else started_ms + duration_ms
    return GatewayRun(
        run_id=run_id_of(job_id, entry),
        cron_id=job_id if has_cron else None,
        occurrence=None,
        started_at=_moment(started_ms),
        ended_at=_moment(ended_ms),
        duration_ms=duration_ms,
        status=status,
        trigger="manual" if entry.get("runId") else "schedule",
        error=_words(error),
        output=cut_output(str(entry.get("summary") or "").encode(errors="replace")),
    )


def open_run(job_id: str, run_id: str, *, is_open: bool, has_cron: bool) -> GatewayRun:
    """A run that is not in the log: it waits, runs, or its end was lost."""
    return GatewayRun(
        run_id=run_id,
        cron_id=job_id if has_cron else None,
        occurrence=None,
        started_at=None,
        ended_at=None,
        duration_ms=None,
        status="running" if is_open else "unknown",
        trigger="manual",
        error=None if is_open else "OpenClaw was restarted during the run, and its log does not have its end",
        output=None,
    )


def event_of(event: Json, now: Instant) -> GatewayEvent | None:
    """The event for OpenClaw's event `cron`; None if the contract has no such event."""
    job_id = str(event.get("jobId") or "") or None
    action = event.get("action")
    at = to_datetime(now)
    if action == "added":
        return GatewayEvent(type="cron.added", at=at, cron_id=job_id)
    if action == "updated":
        return GatewayEvent(type="cron.updated", at=at, cron_id=job_id)
    if action == "removed":
        return GatewayEvent(type="cron.removed", at=at, cron_id=job_id)
    if action == "started":
        return GatewayEvent(type="run.started", at=at, cron_id=job_id, status="running")
    if action == "finished" and job_id:
        run = run_of(job_id, event, has_cron=True)
        return GatewayEvent(type="run.finished", at=at, cron_id=job_id, run_id=run.run_id, status=run.status)
    return None


def _moment(at_ms: object) -> Any:
    return to_datetime(Instant(int(at_ms))) if isinstance(at_ms, int | float) and at_ms > 0 else None


def _words(text: object) -> str | None:
    return str(text)[:ERROR_CHARS_MAX] if text else None

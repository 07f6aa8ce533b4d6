"""Conformance: checks over the network whether a gateway follows the contract.

The checks add their own crons, with keys that begin with `conformance/`, and remove them at the end; they change
nothing else. Checks of capabilities that a gateway does not have (see `capabilities`) are reported as left out.
"""

import json
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from evertick.api.gateways import (
    GatewayAction,
    GatewayCheck,
    GatewayCron,
    GatewayCronChange,
    GatewayHealth,
    GatewayRun,
    GatewaySchedule,
    NewGatewayCron,
    digest_of,
)
from evertick.base.errors import (
    CronNotFound,
    EvertickError,
    NotManaged,
    RevisionConflict,
    RunNotFound,
)
from evertick.gateway_client import GatewayClient, Reply, Request, Send

PREFIX: Final = "conformance/"
RUN_S: Final = 30.0
"""The time limit of a run."""
POLL_S: Final = 0.2
HOUR_MS: Final = 3_600_000


class _Skipped(Exception):
    """The gateway does not have the checked capability."""


class Failed(Exception):
    """The gateway does not follow the contract."""


def check_gateway(
    send: Send, *, send_without_token: Send, send_with_wrong_token: Send, action: GatewayAction | None = None
) -> list[GatewayCheck]:
    """Check a gateway; return the result of each check.

    `action` is that of the checks' crons; by default the builtin `health_probe`, or a command without arguments.
    """
    return _Conformance(send, send_without_token, send_with_wrong_token, action).run()


class _Conformance:
    def __init__(self, send: Send, without_token: Send, wrong_token: Send, action: GatewayAction | None) -> None:
        self._send = send
        self._client = GatewayClient(send)
        self._refused = {"no token": without_token, "a wrong token": wrong_token}
        self._open = GatewayClient(without_token)
        self._chosen = action
        self._run_key = secrets.token_hex(4)
        self._made: list[str] = []

    def run(self) -> list[GatewayCheck]:
        found: list[GatewayCheck] = []
        for check in CHECKS:
            name = (check.__doc__ or "").strip().rstrip(".")
            try:
                check(self)
                found.append(GatewayCheck(check=name, result="passed"))
            except _Skipped as error:
                found.append(GatewayCheck(check=name, result="left out", detail=str(error)))
            except (Failed, EvertickError) as error:
                words = str(error) or type(error).__name__
                found.append(GatewayCheck(check=name, result="failed", detail=words))
        for cron_id in self._made:
            try:
                self._client.remove(cron_id)
            except EvertickError:
                continue
        return found

    # -- the checks

    def health(self) -> None:
        """The health needs no token, and counts the crons."""
        found = self._open.health()
        crons = self._client.crons()
        _require(found.crons == len(crons.crons), f"health counts {found.crons} crons, the list has {len(crons.crons)}")
        _require(bool(found.instance_id and found.version and found.runtime), "instance_id, version or runtime is ''")
        skew = abs((datetime.now(UTC) - found.now).total_seconds())
        _require(skew < 300, f"its clock differs by {skew:.0f} s")

    def token(self) -> None:
        """Everything else needs a valid token."""
        requests = [
            Request("GET", "/v1/crons"),
            Request("POST", "/v1/crons", self._new("refused").to_json()),
            Request("PATCH", "/v1/crons/none", {"enabled": False}),
            Request("DELETE", "/v1/crons/none"),
            Request("POST", "/v1/crons/none/run"),
            Request("POST", "/v1/commands/none/run", {}),
            Request("GET", "/v1/crons/none/runs"),
            Request("GET", "/v1/runs/none"),
            Request("GET", "/v1/events"),
        ]
        for who, send in self._refused.items():
            for request in requests:
                self._expect(send, request, 401, "unauthorized", f"with {who}, ")

    def digest(self) -> None:
        """The digest is that of the list."""
        crons = self._client.crons()
        _require(crons.digest == digest_of(crons.crons), "the digest is not that of the crons")

    def add(self) -> None:
        """A new key is 201, the same key 200 with the same id."""
        cron, is_new = self._client.add(self._new("add", enabled=False))
        self._made.append(cron.id)
        _require(is_new, "a new key was not 201")
        _require(cron.managed and not cron.system, "a cron that was added is not managed")
        _require(cron.key == self._key("add"), f"its key is {cron.key!r}")
        _require(not cron.enabled and cron.next_run_at is None, "a disabled cron has a next run")
        again, is_new = self._client.add(self._new("add", every_ms=2 * HOUR_MS))
        _require(not is_new and again.id == cron.id, "the same key is not 200 with the same id")
        _require(again.schedule.every_ms == 2 * HOUR_MS, "the same key did not declare the schedule again")
        _require(not again.enabled, "declaring a cron again has enabled it")
        ids = [each.id for each in self._client.crons().crons]
        _require(ids.count(cron.id) == 1, "the list does not have the cron once")

    def change(self) -> None:
        """A change with the current revision is made, one with a stale revision is 409."""
        cron = self._added("change")
        changed = self._client.change(cron.id, GatewayCronChange(name="changed"), revision=cron.revision)
        _require(changed.name == "changed" and changed.revision != cron.revision, "the name or revision is the old one")
        late = GatewayCronChange(name="late")
        _expect_error(RevisionConflict, lambda: self._client.change(cron.id, late, revision=cron.revision))
        _expect_error(RevisionConflict, lambda: self._client.remove(cron.id, revision=cron.revision))
        _require(self._one(cron.id).name == "changed", "a refused change was made")

    def enable(self) -> None:
        """A cron that is disabled has no next run; enabled again it continues from now."""
        cron = self._added("enable")
        off = self._client.change(cron.id, GatewayCronChange(enabled=False), revision=cron.revision)
        _require(not off.enabled and off.next_run_at is None, "a disabled cron has a next run")
        on = self._client.change(cron.id, GatewayCronChange(enabled=True), revision=off.revision)
        _require(on.enabled and on.next_run_at is not None, "an enabled cron has no next run")

    def zone(self) -> None:
        """A cron without a time zone is in UTC, and one with a time zone follows that."""
        self._needs("schedule:cron")
        times = {}
        for name, zone in (("utc", None), ("tokyo", "Asia/Tokyo")):
            schedule = GatewaySchedule(type="cron", expression="30 9 * * *", timezone=zone)
            times[name] = self._added(f"zone-{name}", schedule=schedule).next_run_at
        wanted = {"utc": (9, 30), "tokyo": (0, 30)}
        for name, at in times.items():
            at_utc = None if at is None else at.astimezone(UTC)
            is_right = at_utc is not None and (at_utc.hour, at_utc.minute) == wanted[name]
            _require(is_right, f"30 9 * * * ({name}) runs next at {at}")

    def bad(self) -> None:
        """Schedules and actions that cannot work are refused, and nothing of them is kept."""
        before = {each.id for each in self._client.crons().crons}
        past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
        schedules: list[tuple[dict[str, Any], str, str]] = [
            ({"type": "cron", "expression": "99 9 * * *"}, "invalid_cron", "schedule:cron"),
            ({"type": "cron", "expression": "0 9 * * *", "timezone": "Mars/Base"}, "invalid_cron", "schedule:cron"),
            ({"type": "cron", "expression": "0 0 30 2 *"}, "invalid_cron", "schedule:cron"),
            ({"type": "once", "at": past}, "invalid_cron", "schedule:once"),
            ({"type": "interval", "every_ms": 1}, "interval_too_short", "schedule:interval"),
            ({"type": "rrule", "rrule": "FREQ=NEVER"}, "invalid_cron", "schedule:"),
            ({"type": "event"}, "invalid_request", "schedule:"),
            ({"type": "cron"}, "invalid_request", "schedule:"),
            ({"type": "interval", "every_ms": HOUR_MS, "at": past}, "invalid_request", "schedule:"),
            ({"type": "yearly"}, "invalid_request", "schedule:"),
        ]
        good = self._new("bad").to_json()
        for schedule, code, needed in schedules:
            if self._has(needed):
                body = {**good, "schedule": schedule}
                self._expect(self._send, Request("POST", "/v1/crons", body), 422, code, f"{schedule}: ")
        for action, code in (
            ({"type": "command", "name": "conformance-unknown"}, "unknown_command"),
            ({"type": "command", "name": "sh", "argv": ["sh", "-c", "id"]}, "invalid_request"),
            ({"type": "shell", "line": "id"}, "invalid_request"),
        ):
            self._expect(self._send, Request("POST", "/v1/crons", {**good, "action": action}), 422, code, f"{action}: ")
        no_key = {name: value for name, value in good.items() if name != "key"}
        self._expect(self._send, Request("POST", "/v1/crons", no_key), 422, "invalid_request", "without a key, ")
        _require({each.id for each in self._client.crons().crons} == before, "a refused cron is in the list")

    def once(self) -> None:
        """A run is started once for an Idempotency-Key, ends, and is read by its id."""
        cron = self._added("run")
        key = self._key("run")
        run_id = self._client.run(cron.id, key=key)
        run = self._ended(run_id)
        _require(run.cron_id == cron.id and run.trigger == "manual", "the run is not a manual one of its cron")
        _require(run.status == "succeeded", f"the run has ended as {run.status}: {run.error}")
        _require(self._client.run(cron.id, key=key) == run_id, "the same key has started another run")
        runs = self._client.runs(cron.id)
        _require([each.run_id for each in runs].count(run_id) == 1, "the runs of the cron do not have the run once")
        named = self._client.runs(cron.id, run_id=run_id)
        _require([each.run_id for each in named] == [run_id], "run_id does not choose the run")
        _require(self._one(cron.id).last_run_at is not None, "the cron does not say when it ran last")

    def command(self) -> None:
        """A command runs without a cron, once for an Idempotency-Key."""
        action = self._action()
        if action.type not in ("command", "builtin"):
            raise _Skipped("the gateway lists no command that takes no arguments")
        key, name = self._key("command"), action.name or ""
        run_id = self._client.run_command(name, key=key)
        run = self._ended(run_id)
        _require(run.cron_id is None and run.status == "succeeded", f"it has ended as {run.status}: {run.error}")
        _require(self._client.run_command(name, key=key) == run_id, "the same key has started another run")
        unknown = Request("POST", "/v1/commands/conformance-unknown/run", {})
        self._expect(self._send, unknown, 422, "unknown_command", "")

    def foreign(self) -> None:
        """What was not added through the contract is read-only."""
        foreign = [each for each in self._client.crons().crons if not each.managed]
        if not foreign:
            raise _Skipped("all crons of this gateway are managed")
        _expect_error(NotManaged, lambda: self._client.change(foreign[0].id, GatewayCronChange(name="x")))
        _expect_error(NotManaged, lambda: self._client.remove(foreign[0].id))

    def remove(self) -> None:
        """A cron is removed once; after that it is not found."""
        cron = self._added("remove")
        self._client.remove(cron.id, revision=cron.revision)
        _expect_error(CronNotFound, lambda: self._client.remove(cron.id))
        _expect_error(CronNotFound, lambda: self._client.run(cron.id, key=self._key("removed")))
        _expect_error(CronNotFound, lambda: self._client.runs(cron.id))
        _expect_error(CronNotFound, lambda: self._client.change(cron.id, GatewayCronChange(enabled=True)))
        _expect_error(RunNotFound, lambda: self._client.run_of("conformance-none"))
        _require(cron.id not in {each.id for each in self._client.crons().crons}, "the list still has it")

    def description(self) -> None:
        """The description lists every address of the contract."""
        reply = self._send(Request("GET", "/v1/openapi.json"))
        _require(reply.status == 200, f"status {reply.status}")
        paths = json.loads(reply.body).get("paths", {})
        missing = [each for each in PATHS if each not in paths]
        _require(not missing, f"it lacks {', '.join(missing)}")

    # -- helpers

    def _key(self, name: str) -> str:
        return f"{PREFIX}{self._run_key}/{name}"

    def _new(
        self,
        name: str,
        *,
        every_ms: int = HOUR_MS,
        schedule: GatewaySchedule | None = None,
        enabled: bool | None = None,
    ) -> NewGatewayCron:
        times = schedule or GatewaySchedule(type="interval", every_ms=every_ms)
        return NewGatewayCron(key=self._key(name), schedule=times, action=self._action(), enabled=enabled)

    def _added(self, name: str, schedule: GatewaySchedule | None = None) -> GatewayCron:
        cron, _ = self._client.add(self._new(name, schedule=schedule))
        self._made.append(cron.id)
        return cron

    def _action(self) -> GatewayAction:
        if self._chosen is None:
            found = self._health()
            if "health_probe" in found.builtins:
                self._chosen = GatewayAction(type="builtin", name="health_probe")
            elif found.commands:
                self._chosen = GatewayAction(type="command", name=found.commands[0])
            else:
                raise Failed("the gateway has no builtin health_probe and no command; list one in its configuration")
        return self._chosen

    def _health(self) -> GatewayHealth:
        return self._client.health()

    def _has(self, capability: str) -> bool:
        return capability.endswith(":") or capability in self._health().capabilities

    def _needs(self, capability: str) -> None:
        if not self._has(capability):
            raise _Skipped(f"the gateway does not have {capability}")

    def _one(self, cron_id: str) -> GatewayCron:
        found = [each for each in self._client.crons().crons if each.id == cron_id]
        _require(len(found) == 1, f"the list has the cron {cron_id} {len(found)} times")
        return found[0]

    def _ended(self, run_id: str) -> GatewayRun:
        end = time.monotonic() + RUN_S
        while time.monotonic() < end:
            run = self._client.run_of(run_id)
            if run.status != "running":
                return run
            time.sleep(POLL_S)
        raise Failed(f"the run {run_id} has not ended after {RUN_S:g} s")

    def _expect(self, send: Send, request: Request, status: int, code: str, what: str) -> None:
        reply = send(request)
        found = _code_of(reply)
        words = f"{what}{request.method} {request.path} is {reply.status} {found}, not {status} {code}"
        _require((reply.status, found) == (status, code), words)


CHECKS: Final[tuple[Callable[[_Conformance], None], ...]] = (
    _Conformance.health,
    _Conformance.token,
    _Conformance.digest,
    _Conformance.add,
    _Conformance.change,
    _Conformance.enable,
    _Conformance.zone,
    _Conformance.bad,
    _Conformance.once,
    _Conformance.command,
    _Conformance.foreign,
    _Conformance.remove,
    _Conformance.description,
)
PATHS: Final = (
    "/v1/health",
    "/v1/crons",
    "/v1/crons/{cron_id}",
    "/v1/crons/{cron_id}/run",
    "/v1/crons/{cron_id}/runs",
    "/v1/commands/{name}/run",
    "/v1/runs/{run_id}",
    "/v1/events",
)


def _require(is_so: bool, words: str) -> None:
    if not is_so:
        raise Failed(words)


def _expect_error(kind: type[EvertickError], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    except EvertickError as error:
        raise Failed(f"the error is {error.code} ({error}), not {kind.code}") from error
    raise Failed(f"it was done, and should be refused with {kind.code}")


def _code_of(reply: Reply) -> str:
    try:
        found = json.loads(reply.body)
    except ValueError:
        return "without a problem"
    return str(found.get("code", "without a code")) if isinstance(found, dict) else "without a problem"

"""A fake OpenClaw gateway: it speaks the frames of protocol 4 that the adapter uses, as openclaw 2026.9.6 sends them.

Commands are not run: `["echo", ...]` succeeds with its arguments as output, `["fail", "3"]` exits with that code, and
`["wait"]` runs until `finish`. Jobs do not start by themselves; `due` runs one as its schedule would.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import threading
import time
import uuid
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Self

from cronsim import CronSim, CronSimError
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

TOKEN = "openclaw-token-of-the-fake"
METHODS = ["cron.get", "cron.list", "cron.status", "cron.add", "cron.update", "cron.remove", "cron.run", "cron.runs"]
SCOPES = ["operator.read", "operator.admin"]
Json = dict[str, Any]


class Refusal(Exception):
    """An error that is sent as the reply."""

    def __init__(self, code: str, message: str, detail: str | None = None, **more: Any) -> None:
        super().__init__(message)
        details = {"details": {"code": detail, **more.pop("details", {})}} if detail else {}
        self.error: Json = {"code": code, "message": message, **details, **more}


class FakeOpenClaw:
    """An OpenClaw whose connections can be made to fail."""

    def __init__(self) -> None:
        self.jobs: dict[str, Json] = {}
        self.log: dict[str, list[Json]] = {}
        self.asked: list[str] = []
        """The methods of all requests, in order."""
        self.params: list[Json] = []
        self.boot_id = str(uuid.uuid4())
        self.enabled = True
        self.methods = METHODS
        self.granted = SCOPES
        self.starting = 0
        """How many connections are put off, as while OpenClaw starts."""
        self.busy = 0
        """How many requests are put off."""
        self.lose_reply_of: list[str] = []
        """The connection is cut after these were carried out, once each."""
        self.lose_request: list[str] = []
        """The connection is cut before these are carried out, once each."""
        self.replies_held: dict[str, asyncio.Event] = {}
        """Replies of these methods wait for an event; others go past them."""
        self.page_limit = 200
        self.between_pages: list[Json] = []
        """Jobs that are added, one after each page of a list."""
        self.sent_after_hello: list[str] = []
        """Frames that are sent as they are."""
        self.paired: dict[str, str | None] = {}
        """Tokens of devices; with any entry, only paired devices may connect."""
        self.needs_device = False
        self.connections: set[ServerConnection] = set()
        self._runs = 0
        self._seq = 0
        self._server: Server | None = None
        self.url = ""
        for key, schedule, payload in (
            ("heartbeat:main", {"kind": "every", "everyMs": 1_800_000}, {"kind": "heartbeat"}),
            ("memory-core:dreaming", {"kind": "cron", "expr": "0 3 * * *"}, {"kind": "agentTurn", "message": "dream"}),
            (None, {"kind": "on-exit", "command": "make"}, {"kind": "systemEvent", "text": "private words"}),
        ):
            self._new({
                "name": key or "foreign", "schedule": schedule, "payload": payload,
                **({"declarationKey": key} if key else {}),
            })  # fmt: skip

    async def start(self, port: int = 0) -> Self:
        self._server = await serve(self._serve, "127.0.0.1", port, compression=None)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"ws://127.0.0.1:{self.port}"
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close(close_connections=True, code=1012, reason="service restart")
        await self._server.wait_closed()

    async def restart(self) -> None:
        """As after a kill: another process, the same port and store; what ran is lost."""
        await self.stop()
        self.boot_id = str(uuid.uuid4())
        for job in self.jobs.values():
            job["state"].pop("runningAtMs", None)
        await self.start(self.port)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def cut(self) -> None:
        """Cut all connections, as a network would."""
        for each in [*self.connections]:
            each.transport.abort()
        await asyncio.sleep(0)

    # -- frames

    async def _serve(self, socket: ServerConnection) -> None:
        nonce = str(uuid.uuid4())
        challenge = {"nonce": nonce, "ts": _now(), "capabilities": []}
        with contextlib.suppress(ConnectionClosed):
            await socket.send(json.dumps({"type": "event", "event": "connect.challenge", "payload": challenge}))
            request = json.loads(await socket.recv())
            try:
                assert request["method"] == "connect"
                hello = self._connect(request["params"], challenge)
            except Refusal as refusal:
                await socket.send(json.dumps({"type": "res", "id": request["id"], "ok": False, "error": refusal.error}))
                code = 1013 if refusal.error["code"] == "UNAVAILABLE" else 1008
                await socket.close(code, refusal.error["message"][:100])
                return
            await socket.send(json.dumps({"type": "res", "id": request["id"], "ok": True, "payload": hello}))
            self.connections.add(socket)
            try:
                for frame in self.sent_after_hello:
                    await socket.send(frame)
                async with asyncio.TaskGroup() as group:
                    async for text in socket:
                        group.create_task(self._reply(socket, json.loads(text)))
            except* ConnectionClosed:
                pass  # it was cut; replies that were held end with it
            finally:
                self.connections.discard(socket)

    def _connect(self, params: Json, challenge: Json) -> Json:
        if self.starting:
            self.starting -= 1
            raise Refusal(
                "UNAVAILABLE", "gateway starting; retry shortly", "STARTUP_PENDING",
                details={"reason": "startup-sidecars"}, retryable=True, retryAfterMs=1,
            )  # fmt: skip
        if params["client"]["id"] != "gateway-client" or not params["minProtocol"] <= 4 <= params["maxProtocol"]:
            raise Refusal("INVALID_REQUEST", "invalid connect params: at /client/id: must be one of the allowed values")
        auth, device = params["auth"], params.get("device")
        found: Json = {"method": "token", "role": "operator", "scopes": self.granted}
        if device:
            self._check_device(device, params, challenge)
        if self.needs_device:
            if not device:
                return self._hello({**found, "scopes": []})
            if self.paired.get(device["id"]) is None:
                self.paired.setdefault(device["id"], None)
                raise Refusal("NOT_PAIRED", "pairing required", "PAIRING_REQUIRED", details={"requestId": "request-1"})
            if auth.get("deviceToken") not in (None, self.paired[device["id"]]):
                raise Refusal("INVALID_REQUEST", "unauthorized: device token mismatch", "AUTH_DEVICE_TOKEN_MISMATCH")
            return self._hello({**found, "deviceToken": self.paired[device["id"]]})
        if auth.get("token") != TOKEN:
            raise Refusal("INVALID_REQUEST", "unauthorized: gateway token mismatch", "AUTH_TOKEN_MISMATCH")
        return self._hello(found)

    def approve(self) -> None:
        """As an operator: pair every device that has asked."""
        self.paired = {device: f"device-token-of-{device[:8]}" for device in self.paired}

    @staticmethod
    def _check_device(device: Json, params: Json, challenge: Json) -> None:
        client, auth = params["client"], params["auth"]
        token = auth.get("token") or auth.get("deviceToken") or ""
        text = "|".join([
            "v3", device["id"], client["id"], client["mode"], params["role"], ",".join(params["scopes"]),
            str(device["signedAt"]), token, challenge["nonce"], client["platform"], "",
        ])  # fmt: skip
        raw = _base64(device["publicKey"])
        try:
            Ed25519PublicKey.from_public_bytes(raw).verify(_base64(device["signature"]), text.encode())
        except InvalidSignature:
            raise Refusal("INVALID_REQUEST", "device signature invalid", "DEVICE_AUTH_SIGNATURE_INVALID") from None
        assert device["id"] == hashlib.sha256(raw).hexdigest()
        assert (device["nonce"], device["signedAt"]) == (challenge["nonce"], challenge["ts"])

    def _hello(self, auth: Json) -> Json:
        server = {"version": "2026.9.6", "bootId": self.boot_id, "connId": str(uuid.uuid4())}
        features = {"methods": self.methods, "events": ["cron", "tick", "shutdown"]}
        return {"type": "hello-ok", "protocol": 4, "server": server, "features": features, "auth": auth, "policy": {}}

    async def _reply(self, socket: ServerConnection, request: Json) -> None:
        method, params = request["method"], request["params"]
        self.asked.append(method)
        self.params.append(params)
        if method in self.lose_request:
            self.lose_request.remove(method)
            socket.transport.abort()
            return
        try:
            answer = {"ok": True, "payload": self._call(method, params)}
        except Refusal as refusal:
            answer = {"ok": False, "error": refusal.error}
        if method in self.lose_reply_of:
            self.lose_reply_of.remove(method)
            socket.transport.abort()
            return
        if held := self.replies_held.get(method):
            await held.wait()
        with contextlib.suppress(ConnectionClosed):
            await socket.send(json.dumps({"type": "res", "id": request["id"], **answer}))

    def _call(self, method: str, params: Json) -> Json:
        if self.busy:
            self.busy -= 1
            raise Refusal("UNAVAILABLE", "The server is busy. Please try again.", retryable=True, retryAfterMs=1)
        if method not in self.methods:
            raise Refusal("INVALID_REQUEST", f"unknown method: {method}")
        if method not in ("cron.status", "cron.list", "cron.get", "cron.runs") and "operator.admin" not in self.granted:
            raise Refusal("FORBIDDEN", "missing scope: operator.admin", "MISSING_SCOPE")
        handlers = {
            "cron.status": self._status, "cron.list": self._list, "cron.get": self._get, "cron.add": self._add,
            "cron.update": self._update, "cron.remove": self._remove, "cron.run": self._run, "cron.runs": self._runs_of,
        }  # fmt: skip
        return handlers[method](params)

    def send_event(self, payload: Json) -> None:
        """Send an event `cron` to every connection."""
        self._seq += 1
        frame = json.dumps({"type": "event", "event": "cron", "payload": payload, "seq": self._seq})
        for each in self.connections:
            task = asyncio.get_running_loop().create_task(each.send(frame))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _changed(self, action: str, job: Json, **more: Any) -> None:
        if self._server is not None and self.connections:
            shown = {name: value for name, value in job.items() if name != "configRevision"}
            self.send_event({"jobId": job["id"], "action": action, "job": shown, **more})

    # -- methods

    def _status(self, params: Json) -> Json:
        _closed("cron.status", params)
        return {"enabled": self.enabled, "storage": "sqlite", "jobs": len(self.jobs)}

    def _list(self, params: Json) -> Json:
        _closed("cron.list", params, "includeDisabled", "includeDeliveryPreviews", "limit", "offset")
        if params["limit"] > 200:
            raise Refusal("INVALID_REQUEST", "invalid cron.list params: at /limit: must be <= 200")
        jobs = sorted(self.jobs.values(), key=lambda job: job["name"])
        offset, limit = params["offset"], min(params["limit"], self.page_limit)
        page = [_shown(job) for job in jobs[offset : offset + limit]]
        has_more = offset + limit < len(jobs)
        revision = _sha(sorted((job["id"], job["configRevision"]) for job in jobs))
        result = {
            "jobs": page, "snapshotRevision": revision, "total": len(jobs), "offset": offset, "limit": limit,
            "hasMore": has_more, "nextOffset": offset + limit if has_more else None,
        }  # fmt: skip
        if has_more and self.between_pages:
            self._new(self.between_pages.pop(0))
        return result

    def _get(self, params: Json) -> Json:
        _closed("cron.get", params, "id")
        return _shown(self._job(params["id"]))

    def _add(self, params: Json) -> Json:
        known = (
            *("name", "declarationKey", "description", "enabled", "schedule", "sessionTarget", "wakeMode", "payload"),
            *("delivery", "deleteAfterRun"),
        )
        _closed("cron.add", params, *known)
        _check_schedule("cron.add", params["schedule"])
        _check_payload("cron.add", params["payload"], params["sessionTarget"])
        key = params.get("declarationKey")
        if key and len(key.encode("utf-16-le")) > 400:
            raise Refusal("INVALID_REQUEST", "invalid cron.add params: at /declarationKey: must not have more than 200")
        found = next((job for job in self.jobs.values() if key and job.get("declarationKey") == key), None)
        if found is None:
            job = self._new(params)
            return {"created": True, "job": _shown(job)} if key else _shown(job)
        before = found["configRevision"]
        for name in ("name", "description", "enabled", "schedule", "sessionTarget", "payload", "delivery"):
            if name in params:
                found[name] = params[name]
        self._settle(found)
        if found["configRevision"] != before:
            self._changed("updated", found)
        return {"created": False, "updated": found["configRevision"] != before, "job": _shown(found)}

    def _update(self, params: Json) -> Json:
        _closed("cron.update", params, "id", "patch", "expectedConfigRevision")
        job, patch = self._job(params["id"]), params["patch"]
        _closed(
            "cron.update",
            patch,
            *("name", "description", "enabled", "schedule", "sessionTarget", "payload", "delivery"),
        )
        expected = params.get("expectedConfigRevision", job["configRevision"])
        if expected != job["configRevision"]:
            raise Refusal("INVALID_REQUEST", "cron job definition no longer matches", "CRON_JOB_CHANGED")
        if "schedule" in patch:
            _check_schedule("cron.update", patch["schedule"])
        if "payload" in patch and patch["payload"]["kind"] == job["payload"]["kind"]:
            patch = {**patch, "payload": {**job["payload"], **patch["payload"]}}  # a patch is merged
        job.update(patch)
        _check_payload("cron.update", job["payload"], job["sessionTarget"])
        self._settle(job)
        self._changed("updated", job)
        return _shown(job)

    def _remove(self, params: Json) -> Json:
        _closed("cron.remove", params, "id")
        job = self._job(params["id"])
        del self.jobs[job["id"]]
        self._changed("removed", job)
        return {"ok": True, "removed": True}

    def _run(self, params: Json) -> Json:
        _closed("cron.run", params, "id", "mode")
        job = self._job(params["id"])
        if job["state"].get("runningAtMs"):
            return {"ok": True, "ran": False, "reason": "already-running", "processInstanceId": self.boot_id}
        self._runs += 1
        run_id = f"manual:{job['id']}:{_now()}:{self._runs}"
        self._begin(job, run_id)
        return {"ok": True, "enqueued": True, "runId": run_id, "processInstanceId": self.boot_id}

    def _runs_of(self, params: Json) -> Json:
        _closed("cron.runs", params, "id", "runId", "limit", "offset")
        if "/" in params["id"]:
            raise Refusal("INVALID_REQUEST", "invalid cron.runs params: at /id: must match pattern")
        log = self.log.get(params["id"], [])
        found = [each for each in log[::-1] if params.get("runId") in (None, each.get("runId"))]
        offset, limit = params.get("offset", 0), params.get("limit", 50)
        return {
            "entries": found[offset : offset + limit], "total": len(found), "offset": offset, "limit": limit,
            "hasMore": offset + limit < len(found), "nextOffset": None,
        }  # fmt: skip

    # -- jobs and runs

    def due(self, job_id: str) -> None:
        """Run a job as its schedule would: such runs have no id."""
        self._begin(self._job(job_id), None)

    def _begin(self, job: Json, run_id: str | None) -> None:
        job["state"]["runningAtMs"] = _now()
        self._changed("started", job, runAtMs=_now())
        if job["payload"].get("argv", [""])[0] == "wait":
            job["state"]["runId"] = run_id
        else:
            self.finish(job["id"], run_id)

    def finish(self, job_id: str, run_id: str | None = None, *, completion: str | None = None) -> None:
        """End the run of a job."""
        job = self.jobs[job_id]
        payload, state = job["payload"], job["state"]
        run_id = run_id or state.pop("runId", None)
        argv = payload.get("argv", [""])
        failed = argv[0] == "fail"
        error = f"command exited with code {argv[1]}" if failed else None
        began = state.pop("runningAtMs")
        state.update(lastRunAtMs=began, lastRunStatus="error" if failed else "ok", lastDurationMs=5)
        state["consecutiveErrors"] = state.get("consecutiveErrors", 0) + 1 if failed else 0
        state.pop("lastError", None)
        entry = {
            "ts": began + 5, "jobId": job_id, "action": "finished", "status": state["lastRunStatus"],
            "completionStatus": completion or ("failed" if failed else "succeeded"), "summary": " ".join(argv[1:]),
            "runAtMs": began, "durationMs": 5, "deliveryStatus": "not-requested",
            **({"runId": run_id} if run_id else {}), **({"error": error} if error else {}),
        }  # fmt: skip
        if error:
            state["lastError"] = error
        self.log.setdefault(job_id, []).append(entry)
        self._changed(
            "finished", job, **{name: value for name, value in entry.items() if name not in ("jobId", "action")}
        )

    def _new(self, params: Json) -> Json:
        job: Json = {
            "enabled": True, "sessionTarget": "isolated", "wakeMode": "now", **params, "id": str(uuid.uuid4()),
            "createdAtMs": _now(), "state": {},
        }  # fmt: skip
        self.jobs[job["id"]] = job
        self._settle(job)
        self._changed("added", job)
        return job

    def _job(self, job_id: str) -> Json:
        if job_id not in self.jobs:
            raise Refusal("INVALID_REQUEST", f"cron job not found: {job_id}", "CRON_JOB_NOT_FOUND")
        return self.jobs[job_id]

    @staticmethod
    def _settle(job: Json) -> None:
        apart = ("configRevision", "state", "id", "createdAtMs", "nextRunAtMs")
        job["configRevision"] = _sha({name: value for name, value in job.items() if name not in apart})
        job.pop("nextRunAtMs", None)
        if job["enabled"] and (next_ms := _next_ms(job["schedule"])):
            job["nextRunAtMs"] = job["state"]["nextRunAtMs"] = next_ms


def _now() -> int:
    return time.time_ns() // 1_000_000


def _sha(value: object) -> str:
    return "sha256:" + _hash(json.dumps(value, sort_keys=True))


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def _base64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _shown(job: Json) -> Json:
    shown: Json = json.loads(json.dumps(job))
    return shown


def _closed(method: str, params: Json, *known: str) -> None:
    """OpenClaw's schemas are closed: an unknown member is refused."""
    for name in params:
        if name not in known:
            raise Refusal("INVALID_REQUEST", f"invalid {method} params: at root: unexpected property '{name}'")


def _next_ms(schedule: Json) -> int | None:
    if schedule["kind"] == "every":
        return _now() + int(schedule["everyMs"])
    if schedule["kind"] == "at":
        return int(datetime.fromisoformat(schedule["at"]).timestamp() * 1000)
    if schedule["kind"] == "cron":
        zone = zoneinfo.ZoneInfo(schedule.get("tz", "UTC"))
        return int(next(CronSim(schedule["expr"], datetime.now(zone))).astimezone(UTC).timestamp() * 1000)
    return None


def _check_schedule(method: str, schedule: Json) -> None:
    prefix = f"invalid {method} params: "
    known = {"every": ["everyMs"], "at": ["at"], "cron": ["expr", "tz", "staggerMs"]}.get(schedule["kind"])
    if known is None or set(schedule) - {"kind", *known}:
        raise Refusal("INVALID_REQUEST", prefix + "at /schedule/kind: must be equal to constant")
    try:
        if schedule.get("expr", "").split()[2:4] == ["30", "2"]:
            raise StopIteration
        _next_ms(schedule)
    except CronSimError as error:
        raise Refusal("INVALID_REQUEST", f"{prefix}CronPattern: {error}") from None
    except StopIteration:
        words = f'cron expression "{schedule["expr"]}" has no upcoming run time and would never fire'
        raise Refusal("INVALID_REQUEST", prefix + words) from None
    if schedule["kind"] == "at":
        away_ms = (_next_ms(schedule) or 0) - _now()
        if away_ms < -60_000:
            raise Refusal("INVALID_REQUEST", f"schedule.at is in the past: {schedule['at']}")
        if away_ms > 315_576_000_000:
            raise Refusal("INVALID_REQUEST", f"schedule.at is too far in the future: {schedule['at']}")


def _check_payload(method: str, payload: Json, target: str) -> None:
    needed = {"command": "argv", "systemEvent": "text", "agentTurn": "message"}[payload["kind"]]
    if not payload.get(needed) or (payload["kind"] == "systemEvent") != (target == "main"):
        raise Refusal("INVALID_REQUEST", f"invalid {method} params: at /payload/{needed}: must have it")


@contextlib.contextmanager
def in_thread() -> Iterator[FakeOpenClaw]:
    """A fake in a thread of its own, for programs that are tried over HTTP."""
    fake, ready, loop = FakeOpenClaw(), threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serving() -> None:
        async with fake:
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.Runner(loop_factory=lambda: loop).run(serving()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield fake
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()

"""The backend of a gateway whose crons are those of an OpenClaw gateway.

`openclaw_connection.py` sends the requests, `openclaw_mapping.py` converts the data. This module decides which requests
may be repeated: reads, and the declaration of a cron, which is safe because of its key. A run may not. So the key of a
run is written to a SQLite file before the request to OpenClaw. If the reply is lost, a call with the same key searches
the run in OpenClaw's log and never requests a second one.

A command without a cron runs as a separate, disabled job, which is removed after its run.
"""

import asyncio
import contextlib
import hashlib
import json
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from evertick.api.gateways import (
    GatewayCron,
    GatewayCronChange,
    GatewayEvent,
    GatewayHealth,
    GatewayRun,
    NewGatewayCron,
    digest_of,
)
from evertick.base.clock import Clock, SystemClock
from evertick.base.errors import (
    Conflict,
    CronNotFound,
    EvertickError,
    GatewayUnreachable,
    IdempotencyConflict,
    InvalidCron,
    NotManaged,
    OutcomeUnknown,
    RevisionConflict,
    RunNotFound,
    StorageFailed,
)
from evertick.base.instants import DAY_MS, Instant, to_datetime
from evertick.gateway.backend import EventBus
from evertick.gateway.config import GatewayConfig, OpenClawConfig
from evertick.gateway.openclaw_connection import (
    Connection,
    Credentials,
    NotSent,
    Payload,
    Refused,
    ReplyLost,
    printable,
)
from evertick.gateway.openclaw_mapping import (
    Actions,
    carries_one_run,
    cron_of,
    event_of,
    is_managed,
    job_id_of,
    job_of,
    job_of_one_run,
    open_run,
    patch_of,
    run_id_of,
    run_of,
)

T = TypeVar("T")

PAGE: Final = 200
"""Jobs or runs of one reply: OpenClaw's own limit."""
LIST_TRIES: Final = 5
"""The number of attempts to read a list that changes while its pages are read."""
JOBS_MAX: Final = 20_000
LOG_MAX: Final = 2_000
"""Runs of one job that OpenClaw keeps."""
KEYS_KEPT_MS: Final = 7 * DAY_MS
"""OpenClaw keeps its log of runs equally long."""
CLOCK_SLACK_MS: Final = 1_000
"""The possible error of the difference to OpenClaw's clock."""

_UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


class OpenClawBackend:
    """The crons of an OpenClaw gateway."""

    def __init__(
        self,
        credentials: Credentials,
        actions: Actions,
        *,
        database: Path,
        instance_id: str,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._actions = actions
        self._database = database
        self._connection = Connection(credentials, self._clock, self._take_event)
        self._instance_id = instance_id
        self._bus = EventBus()
        self._starting: dict[str, tuple[str, asyncio.Task[str]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._keys: RunKeys | None = None

    @classmethod
    def of(cls, config: GatewayConfig, openclaw: OpenClawConfig, instance_id: str) -> Self:
        """The backend of a configuration. Raises Misuse for an invalid URL or unusable files."""
        credentials = Credentials.read(openclaw.url, openclaw.token_file, openclaw.device_key_file)
        actions = Actions(config.commands, has_messages=openclaw.messages)
        return cls(credentials, actions, database=config.database, instance_id=instance_id)

    async def start(self) -> None:
        """Start; the connection is opened when OpenClaw can be reached."""
        try:
            self._keys = await asyncio.to_thread(RunKeys, self._database)
        except sqlite3.Error as error:
            raise StorageFailed(f"{self._database} cannot be opened: {error}") from error
        self._in_background(self._follow())

    async def stop(self) -> None:
        """Stop. OpenClaw's runs continue."""
        tasks = [*self._tasks, *(task for _, task in self._starting.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connection.close()
        self._bus.close()
        if self._keys is not None:
            await asyncio.to_thread(self._keys.close)

    # -- crons

    async def health(self) -> GatewayHealth:
        """The health of OpenClaw's scheduler."""
        status = await self._call("cron.status", {}, again=True)
        crons = await self.crons()
        socket = await self._connection.opened()
        off = () if status.get("enabled") else ("the scheduler of OpenClaw is switched off: cron.enabled",)
        differing = (
            f"the command line of {name} differs from this gateway's configuration; declare the cron again"
            for name in self._actions.differing(crons)
        )
        warnings = (*socket.missing, *off, *differing)
        return GatewayHealth(
            status="degraded" if warnings else "healthy",
            runtime="openclaw",
            version=socket.version,
            instance_id=self._instance_id,
            crons=len(crons),
            digest=digest_of(crons),
            now=to_datetime(self._clock.now()),
            warnings=warnings,
            capabilities=(
                *("schedule:cron", "schedule:interval", "schedule:once"),
                *(f"action:{each}" for each in self._actions.types()),
                "events",
            ),
            commands=tuple(sorted(self._actions.commands)),
        )

    async def crons(self) -> Sequence[GatewayCron]:
        """All jobs, except those for a single run of a command."""
        return [self._cron(job) for job in await self._jobs() if not carries_one_run(job)]

    async def add(self, new: NewGatewayCron) -> tuple[GatewayCron, bool]:
        """Declare a job by its key, which is safe to repeat."""
        reply = await self._call("cron.add", job_of(new, self._actions), again=True)
        return self._cron(reply.get("job", reply)), reply.get("created") is not False

    async def change(self, cron_id: str, change: GatewayCronChange, revision: str | None) -> GatewayCron:
        """Change a job; OpenClaw checks the revision atomically."""
        patch = patch_of(change, self._actions)
        job = await self._managed(cron_id, revision)
        if not patch:
            return self._cron(job)
        expected = {} if revision is None else {"expectedConfigRevision": revision}
        return self._cron(await self._call("cron.update", {"id": cron_id, "patch": patch, **expected}))

    async def remove(self, cron_id: str, revision: str | None) -> None:
        """Remove a job. OpenClaw checks no revision here, so a concurrent change can be lost."""
        await self._managed(cron_id, revision)
        await self._call("cron.remove", {"id": cron_id})

    # -- runs

    async def run(self, cron_id: str, key: str) -> str:
        """Run a job now."""

        async def job() -> str:
            return str((await self._managed(cron_id, None))["id"])

        return await self._once(key, f"cron {cron_id}", job)

    async def run_command(self, name: str, arguments: Mapping[str, str], key: str) -> str:
        """Run a command in a separate job."""
        payload = self._actions.command(name, arguments)
        declaration = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()

        async def job() -> str:
            new = job_of_one_run(declaration, name, payload, self._clock.now())
            reply = await self._call("cron.add", new, again=True)
            return str(_read(lambda: reply.get("job", reply)["id"]))

        return await self._once(key, f"command {name} {json.dumps(dict(arguments), sort_keys=True)}", job)

    async def runs(self, cron_id: str, run_id: str | None, limit: int) -> Sequence[GatewayRun]:
        """Runs of a job that have ended, or only the run `run_id`."""
        await self._job(cron_id)
        if run_id is None:
            entries, _ = await self._entries(cron_id, limit=min(limit, PAGE))
            return [_read(run_of, cron_id, entry, has_cron=True) for entry in entries]
        if job_id_of(run_id) != cron_id:
            return []
        try:
            return [await self.run_of(run_id)]
        except RunNotFound:
            return []

    async def run_of(self, run_id: str) -> GatewayRun:
        """A run from OpenClaw's log; if it is not there yet, from the keys of this gateway."""
        job_id = job_id_of(run_id)
        row = await self._with_keys(lambda keys: keys.of_run(run_id))
        if job_id is not None:
            has_cron = row is None or not row.subject.startswith("command ")
            if entry := await self._entry(job_id, run_id):
                return _read(run_of, job_id, entry, has_cron=has_cron)
            if row is not None:
                # As long as OpenClaw's process is the same, the run waits or runs.
                is_open = row.boot_id == (await self._connection.opened()).boot_id
                return open_run(job_id, run_id, is_open=is_open, has_cron=has_cron)
        raise RunNotFound(f"there is no run {run_id!r}, or it is older than OpenClaw's log")

    def events(self) -> AsyncIterator[GatewayEvent]:
        """Events of OpenClaw's jobs. The stream ends if events were missed, for example after a lost connection."""
        return self._bus.stream()

    # -- a run is requested once

    async def _once(self, key: str, subject: str, job: Callable[[], Awaitable[str]]) -> str:
        """The id of the run for a key. Concurrent requests with the same key wait for the first one."""
        if key not in self._starting:
            task = asyncio.create_task(self._start(key, subject, job))
            self._starting[key] = subject, task
            task.add_done_callback(partial(self._started, key))
        found, task = self._starting[key]
        if found != subject:
            raise _used(key)
        return await asyncio.shield(task)  # a canceled caller does not cancel it

    def _started(self, key: str, task: asyncio.Task[str]) -> None:
        del self._starting[key]
        if not task.cancelled():
            task.exception()  # marks it as retrieved; the callers raise it

    async def _start(self, key: str, subject: str, job: Callable[[], Awaitable[str]]) -> str:
        row = await self._with_keys(lambda keys: keys.find(key))
        if row is not None:
            if row.subject != subject:
                raise _used(key)
            return row.run_id or await self._found(row)
        job_id = await job()
        socket = await self._connection.opened()
        now = Instant(self._clock.now() + socket.ahead_ms)
        await self._with_keys(lambda keys: keys.ask(key, subject, job_id, now))
        try:
            reply = await self._connection.call("cron.run", {"id": job_id, "mode": "force"})
        except ReplyLost as error:
            raise OutcomeUnknown(f"{error}; the run may have begun. {_LATER}") from None
        except NotSent:
            await self._with_keys(lambda keys: keys.forget(key))
            raise
        except Refused as refused:
            if refused.code == "UNAVAILABLE":  # a failure inside OpenClaw, possibly after the start
                raise OutcomeUnknown(f"OpenClaw: {refused.words}; the run may have begun. {_LATER}") from None
            await self._with_keys(lambda keys: keys.forget(key))
            raise _error_of(refused, "cron.run", job_id) from None
        if not isinstance(reply, dict):
            raise OutcomeUnknown(f"OpenClaw's reply to cron.run cannot be read. {_LATER}")
        run_id = reply.get("runId")
        if not run_id:
            await self._with_keys(lambda keys: keys.forget(key))
            raise Conflict(
                f"OpenClaw did not run {job_id}: {printable(reply.get('reason'))}; try again after its run has ended"
            )
        await self._with_keys(lambda keys: keys.started(key, str(run_id), socket.boot_id))
        return str(run_id)

    async def _found(self, row: "RunKey") -> str:
        """The id of a run whose start got no reply, from the log, which contains the run after its end."""
        job_id = row.job_id
        entries, _ = await self._entries(job_id)
        for entry in reversed(entries):
            run_id = run_id_of(job_id, entry)
            enqueued_at = run_id.split(":")[2] if run_id.startswith("manual:") and run_id.count(":") > 2 else ""
            if not enqueued_at.isdecimal() or int(enqueued_at) < row.asked_at - CLOCK_SLACK_MS:
                continue
            if await self._with_keys(partial(RunKeys.of_run, run_id=run_id)) is None:
                await self._with_keys(partial(RunKeys.started, key=row.key, run_id=run_id, boot_id=""))
                return run_id
        raise OutcomeUnknown(f"OpenClaw's log has no run for this key yet. {_LATER}")

    # -- OpenClaw

    async def _call(self, method: str, params: Payload, *, again: bool = False) -> Any:
        try:
            reply = await self._connection.call(method, params, again=again)
        except ReplyLost as error:
            if method in ("cron.add", "cron.update", "cron.remove"):
                raise OutcomeUnknown(f"{error}; the change may have been made: read the crons again") from None
            raise
        except Refused as refused:
            raise _error_of(refused, method, str(params.get("id", ""))) from None
        if not isinstance(reply, dict):
            raise GatewayUnreachable(f"OpenClaw replied to {method} with something that cannot be read")
        return reply

    async def _job(self, cron_id: str) -> Any:
        job = await self._call("cron.get", {"id": cron_id}, again=True)
        if carries_one_run(job):
            raise _no_cron(cron_id)
        return job

    async def _managed(self, cron_id: str, revision: str | None) -> Any:
        """A job that may be changed and has the given revision, if any."""
        job = await self._job(cron_id)
        if not is_managed(job):
            raise NotManaged(f"the cron {cron_id} was not added through this gateway; change it in OpenClaw")
        if revision is not None and revision != job.get("configRevision"):
            raise _stale(cron_id)
        return job

    async def _jobs(self) -> list[Any]:
        """All jobs, from the pages of one unchanged list."""
        for _ in range(LIST_TRIES):
            found: dict[str, Any] = {}
            first: tuple[Any, Any] | None = None
            while len(found) <= JOBS_MAX:
                page = await self._call(
                    "cron.list",
                    {
                        "includeDisabled": True,
                        "includeDeliveryPreviews": False,
                        "limit": PAGE,
                        "offset": len(found),
                    },
                    again=True,
                )
                state = page.get("snapshotRevision"), page.get("total")
                first = first or state
                before = len(found)
                jobs = _read(lambda page=page: {str(job["id"]): job for job in page["jobs"]})
                found |= jobs
                if state != first or len(found) != before + len(jobs):
                    break  # it has changed; the offset would skip or repeat some jobs
                if not page.get("hasMore"):
                    return list(found.values())
                if not jobs:
                    break
        raise GatewayUnreachable("the list of OpenClaw's jobs changed each time while it was read; try again")

    async def _entry(self, job_id: str, run_id: str) -> Any | None:
        """The entry of a run in the log; None if there is none."""
        by_id: dict[str, Any] = {"runId": run_id} if run_id.startswith("manual:") else {}
        for offset in range(0, LOG_MAX, PAGE):
            entries, has_more = await self._entries(job_id, offset=offset, **by_id)
            for entry in entries:
                if run_id_of(job_id, entry) == run_id:
                    return entry
            if not has_more:
                break
        return None

    async def _entries(self, job_id: str, *, limit: int = PAGE, **more: Any) -> tuple[list[Any], bool]:
        """A page of the log of a job, the newest first, and whether there are more."""
        page = await self._call("cron.runs", {"id": job_id, "limit": limit, **more}, again=True)
        return _read(lambda: [dict(entry) for entry in page["entries"]]), bool(page.get("hasMore"))

    def _cron(self, job: Any) -> GatewayCron:
        return _read(cron_of, job, self._actions)

    async def _with_keys(self, work: Callable[["RunKeys"], T]) -> T:
        if self._keys is None:
            raise GatewayUnreachable("the gateway has not started")
        try:
            return await asyncio.to_thread(work, self._keys)
        except sqlite3.Error as error:
            raise StorageFailed(f"{self._database}: {error}") from error

    # -- events

    async def _follow(self) -> None:
        async for _ in self._connection.follow():
            with contextlib.suppress(EvertickError):
                await self._remove_ended()

    async def _remove_ended(self) -> None:
        """Remove the jobs of single runs that have ended, or never began."""
        now = self._clock.now() + (await self._connection.opened()).ahead_ms
        for job in await self._jobs():
            state = job.get("state") or {}
            has_run = bool(state.get("lastRunAtMs")) and not state.get("runningAtMs")
            if carries_one_run(job) and (has_run or now - job.get("createdAtMs", now) > DAY_MS):
                await self._remove_job(str(job["id"]))

    async def _remove_job(self, job_id: str) -> None:
        with contextlib.suppress(EvertickError):  # the next connection tries again
            await self._call("cron.remove", {"id": job_id})

    def _take_event(self, name: str, payload: Payload) -> None:
        if name == "missed":
            self._bus.close()
        if name != "cron":
            return
        with contextlib.suppress(*_UNREADABLE):
            event = event_of(payload, self._clock.now())
            if carries_one_run(payload.get("job") or {}):
                if payload.get("action") == "finished":
                    self._in_background(self._remove_job(str(payload["jobId"])))
                event = event.model_copy(update={"cron_id": None}) if event and event.type[:3] == "run" else None
            if event is not None:
                self._bus.publish(event)

    def _in_background(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_LATER: Final = "It is not requested again: the same key finds it after its end"


def _read(make: Callable[..., T], *args: Any, **options: Any) -> T:
    """Convert data of OpenClaw with `make`. Raises GatewayUnreachable if it cannot be read."""
    try:
        return make(*args, **options)
    except _UNREADABLE as error:
        raise GatewayUnreachable(f"OpenClaw sent something that cannot be read: {type(error).__name__}") from error


def _used(key: str) -> IdempotencyConflict:
    return IdempotencyConflict(f"the idempotency key {key[:100]!r} was used for another run; give each run a new one")


def _stale(cron_id: str) -> RevisionConflict:
    return RevisionConflict(f"the cron {cron_id} changed since it was read; read it again, then decide")


def _no_cron(cron_id: str) -> CronNotFound:
    return CronNotFound(f"OpenClaw has no cron {cron_id[:100]!r}")


def _error_of(refused: Refused, method: str, cron_id: str) -> EvertickError:
    """The error for a refusal, by its code."""
    if refused.reason == "CRON_JOB_NOT_FOUND" or (refused.code == "INVALID_REQUEST" and method == "cron.get"):
        return _no_cron(cron_id)
    if refused.reason == "CRON_JOB_CHANGED":
        return _stale(cron_id)
    if refused.reason == "MISSING_SCOPE":
        return GatewayUnreachable(f"the credentials of this gateway do not suffice for {method}: {refused.words}")
    if refused.code == "INVALID_REQUEST" and method in ("cron.add", "cron.update"):
        return InvalidCron(f"OpenClaw refuses the cron: {refused.words}")
    return GatewayUnreachable(f"OpenClaw refused {method} ({refused.reason}): {refused.words}")


_BY_KEY: Final = "select key, subject, job_id, run_id, boot_id, asked_at from openclaw_runs where key = ?"
_BY_RUN: Final = "select key, subject, job_id, run_id, boot_id, asked_at from openclaw_runs where run_id = ?"


@dataclass(frozen=True, slots=True)
class RunKey:
    """A run that was requested from OpenClaw; `run_id` is None until it replies.

    `asked_at` is a time of OpenClaw's clock.
    """

    key: str
    subject: str
    job_id: str
    run_id: str | None
    boot_id: str
    asked_at: int


class RunKeys:
    """The idempotency keys of runs, in a SQLite file. Each method is a transaction; threads may share it."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self._db.executescript(
            """
            pragma journal_mode = wal;
            pragma synchronous = full;
            create table if not exists openclaw_runs (
                key text primary key, subject text not null, job_id text not null, run_id text unique,
                boot_id text not null default '', asked_at integer not null
            ) strict;
            """
        )

    def find(self, key: str) -> RunKey | None:
        """The row of a key; None if it is unknown."""
        with self._lock:
            return self._one(_BY_KEY, key)

    def ask(self, key: str, subject: str, job_id: str, now: Instant) -> None:
        """Store the key before the run of the job is requested."""
        self._write("delete from openclaw_runs where asked_at < ?", now - KEYS_KEPT_MS)
        row = (key, subject, job_id, now)
        self._write("insert into openclaw_runs (key, subject, job_id, asked_at) values (?, ?, ?, ?)", *row)

    def started(self, key: str, run_id: str, boot_id: str) -> None:
        """Store the id of the started run."""
        self._write("update openclaw_runs set run_id = ?, boot_id = ? where key = ?", run_id, boot_id, key)

    def forget(self, key: str) -> None:
        """Remove a key for which OpenClaw has not started a run, and will not."""
        self._write("delete from openclaw_runs where key = ? and run_id is null", key)

    def of_run(self, run_id: str) -> RunKey | None:
        """The row of a run; None if it was not requested here."""
        with self._lock:
            return self._one(_BY_RUN, run_id)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _write(self, statement: str, *values: str | int) -> None:
        with self._lock:
            self._db.execute(statement, values)

    def _one(self, statement: str, value: str) -> RunKey | None:
        found = self._db.execute(statement, (value,)).fetchone()
        return None if found is None else RunKey(*found)

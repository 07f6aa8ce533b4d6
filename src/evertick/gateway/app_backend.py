"""The backend of Evertick's own gateway: an app with its own SQLite file, whose schedules are the crons.

A cron is a schedule that calls one function, `gateway.run`, with its action. So its times, the catch-up after an outage
(`catch_up="latest"`), the ledger and the outcomes are those of every schedule. A started action is not started again:
after a kill its run is `unknown`. The other fields (the name, and the times as written) are in its memo.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from evertick._version import __version__
from evertick.api.gateways import (
    GatewayAction,
    GatewayCron,
    GatewayCronChange,
    GatewayEvent,
    GatewayHealth,
    GatewayRun,
    GatewaySchedule,
    NewGatewayCron,
    RunStatus,
    digest_of,
)
from evertick.api.jobs import JobView
from evertick.api.schedules import DetailedSchedule, OccurrenceView
from evertick.app.app import App
from evertick.app.embedded_worker import Running
from evertick.app.execution.contexts import ActionCtx, MutationCtx
from evertick.app.functions.function import FunctionCall
from evertick.app.schedules.commands import ScheduleOperations
from evertick.app.schedules.definition import check_spec
from evertick.app.schedules.lists import detailed
from evertick.app.schedules.options import CreateOptions, ReplaceOptions
from evertick.app.schedules.updates import replace_schedule
from evertick.base.errors import (
    CronNotFound,
    EvertickError,
    IntervalTooShort,
    InvalidCron,
    InvalidSpec,
    LimitExceeded,
    Misuse,
    NotManaged,
    RevisionConflict,
    RunNotFound,
    ScheduleNotFound,
)
from evertick.base.ids import DEFAULT_TENANT, JobId, ScheduleId
from evertick.base.instants import SECOND_MS, Instant, from_datetime, to_datetime
from evertick.base.outcomes import LOST_WORKER, WORKER_STOPPED
from evertick.base.records.jobs import Job, JobState
from evertick.base.records.schedules import ScheduleFilter
from evertick.engine.runtime.metrics import JobEnded
from evertick.engine.runtime.settings import Settings
from evertick.gateway.actions import HTTP_S, Actions
from evertick.gateway.backend import EventBus
from evertick.gateway.config import GatewayConfig
from evertick.recurrence.builders import at, cron, every, rrule
from evertick.recurrence.spec.spec import Spec
from evertick.rules.schedules.fates import Fate, Origin, RunOutcome
from evertick.rules.schedules.policies import CatchUp
from evertick.store.records.schedule import Schedule
from evertick.store.transaction.transaction import Transaction

APP: Final = "gateway"
MANAGED: Final = "cron:"
SYSTEM: Final = "system:"
CRONS_MAX: Final = 10_000
START_POLLS: Final = 500
"""The number of polls at the start for a running engine, 20 ms apart."""
ENDED: Final[Mapping[str, RunStatus]] = {
    "ok": "succeeded",
    "late": "succeeded",
    "failed": "failed",
    "canceled": "failed",
}
"""The status of a run by the words of `strip`."""
OUTCOMES: Final[Mapping[RunOutcome, RunStatus]] = {RunOutcome.SUCCESS: "succeeded"}
STATES: Final[Mapping[JobState, RunStatus]] = {
    JobState.SUCCESS: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELED: "failed",
}
CAPABILITIES: Final = ("schedule:cron", "schedule:interval", "schedule:once", "schedule:rrule", "action:builtin")


def app_of(config: GatewayConfig) -> App:
    """The app of a gateway: its database and its limits."""
    longest_s = max((each.timeout_s for each in config.commands.values()), default=0.0)
    settings = Settings(
        schedule_interval_min=timedelta(seconds=config.minimum_interval_s),
        retention=timedelta(days=config.retention_days),
        ledger_retention=timedelta(days=config.retention_days),
        completed_retention=timedelta(days=config.retention_days),
        action_timeout=timedelta(seconds=int(max(longest_s, HTTP_S) + 60)),
    )
    with contextlib.suppress(FileExistsError):  # only its owner may read bodies, URLs and outputs
        os.close(os.open(config.database, os.O_CREAT | os.O_EXCL, 0o600))
    return App(APP, database_url=f"sqlite:///{config.database}", settings=settings)


class AppBackend:
    """The backend that uses an app in this process."""

    def __init__(self, app: App, actions: Actions, instance_id: str) -> None:
        self._app = app
        self._actions = actions
        self._instance_id = instance_id
        self._bus = EventBus()
        self._running: Running | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

        @app.action(name="gateway.run")
        async def run(ctx: ActionCtx, action: dict[str, Any]) -> str:
            """Run the action of a cron, or a command."""
            cron_id = None if ctx.schedule is None else ctx.schedule.schedule_id
            self._publish("run.started", cron_id, ctx.job_id, "running")
            return await actions.perform(GatewayAction.model_validate(action))

        @app.mutation(name="gateway.start", internal=True)
        def start(ctx: MutationCtx, cron_id: str | None, action: dict[str, Any] | None) -> str:
            """Start a run of a cron, or of an action without one; return the id of the run."""
            if cron_id is None:
                return ctx.scheduler.run_after(0, run, action or {})
            return _run_id(ctx.schedules.trigger(cron_id, overlap="allow_all"))

        self._run, self._start = run, start
        for name, found in actions.config.crons.items():
            try:
                with _refusals():
                    actions.check(found.action)
                    spec, e = spec_of(found.schedule), app.environment
                    check_spec(spec, e.clock.now(), e.settings)
                    app.crons.add(f"{SYSTEM}{name}", spec, run, found.action.to_json())
            except EvertickError as error:
                raise Misuse(f"crons.{name}: {error}") from error
        app.counters.observers.append(self)

    async def start(self) -> None:
        """Open the database, and start the worker."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._app.open)
        self._running = self._app.running()
        await self._running.__aenter__()
        for _ in range(START_POLLS):  # otherwise the first heartbeat would report that the crons do not run
            if self._running.worker_id is not None:
                break
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Stop the worker after the running runs have ended."""
        self._bus.close()
        if self._running is not None:
            await self._running.__aexit__(None, None, None)
        self._app.close()

    # -- reading

    async def health(self) -> GatewayHealth:
        """The health of the gateway."""
        crons = await self.crons()
        found = self._actions
        config = found.config
        warnings = found.warnings()
        if self._running is not None and self._running.worker_id is None:
            warnings = (*warnings, "the crons do not run: the engine is starting, or has ended; see the log")
        can = [*CAPABILITIES, "events"]
        can += ["action:http"] if config.http.hosts or config.http.private_hosts else []
        can += ["action:command"] if config.commands else []
        return GatewayHealth(
            status="degraded" if warnings else "healthy",
            runtime="evertick",
            version=__version__,
            instance_id=self._instance_id,
            crons=len(crons),
            digest=digest_of(crons),
            now=to_datetime(self._app.environment.clock.now()),
            warnings=warnings,
            capabilities=tuple(sorted(can)),
            commands=tuple(sorted(config.commands)),
            builtins=tuple(sorted(found.builtins)),
        )

    async def crons(self) -> Sequence[GatewayCron]:
        """All crons, by id."""

        def work(transaction: Transaction) -> list[GatewayCron]:
            where = ScheduleFilter(tenant=DEFAULT_TENANT)
            return self._views(transaction, transaction.list_schedules(where, limit=CRONS_MAX))

        return await self._app.aio.schedules.read(work)

    async def runs(self, cron_id: str, run_id: str | None, limit: int) -> Sequence[GatewayRun]:
        """Runs of a cron, newest first."""
        if run_id is not None:
            found = await self.run_of(run_id)
            return [found] if found.cron_id == cron_id else []
        operations = self._operations

        def work(transaction: Transaction) -> list[GatewayRun]:
            operations.row(transaction, cron_id)
            page = operations.occurrences(cron_id, newest_first=True, limit=limit)(transaction)
            return [_run_of(transaction, each) for each in page.occurrences]

        with _refusals(cron_id):
            return await self._app.aio.schedules.read(work)

    async def run_of(self, run_id: str) -> GatewayRun:
        """A run."""
        operations = self._operations

        def work(transaction: Transaction) -> GatewayRun:
            job = transaction.get_job(JobId(run_id), tenant=DEFAULT_TENANT)
            if job is not None and job.name == self._run.name:
                return _run_of_job(job)
            cron_id, _, nominal = run_id.rpartition("@")
            if cron_id and nominal.isdecimal() and len(nominal) < 15:  # until the year 5138
                start = to_datetime(Instant(int(nominal)))
                end = start + timedelta(milliseconds=1)
                with _unknown_run(run_id):
                    page = operations.occurrences(cron_id, start=start, end=end)(transaction)
                    for each in page.occurrences:
                        return _run_of(transaction, each)
            raise _no_run(run_id)

        return await self._app.aio.schedules.read(work)

    def events(self) -> AsyncIterator[GatewayEvent]:
        """The events of the gateway from this call on, as they occur."""
        return self._bus.stream()

    # -- changing

    async def add(self, new: NewGatewayCron) -> tuple[GatewayCron, bool]:
        """Add a cron, or update the one with the same key."""
        cron_id = f"{MANAGED}{new.key}"
        memo = _memo(new.name or new.key, new.schedule)
        with _refusals(cron_id):
            self._actions.check(new.action)
            options = CreateOptions(
                cron_id,
                when=spec_of(new.schedule),
                do=self._call(new.action),
                memo=memo,
                catch_up=CatchUp.LATEST,
                paused=new.enabled is False,
            )
            create = self._operations.create(options)

            def work(transaction: Transaction) -> tuple[GatewayCron, bool]:
                row = transaction.get_schedule(ScheduleId(cron_id), tenant=DEFAULT_TENANT)
                if row is None:
                    if transaction.count_schedules(DEFAULT_TENANT, limit=CRONS_MAX) >= CRONS_MAX:
                        raise InvalidCron(f"this gateway has {CRONS_MAX:,} crons, which is the limit; remove some")
                    create(transaction)
                else:
                    self._declare(transaction, row, memo, new.action, new.enabled)
                return self._view(transaction, cron_id), row is None

            cron_view, is_new = await self._app.aio.schedules.write(work)
        self._publish("cron.added" if is_new else "cron.updated", cron_id)
        return cron_view, is_new

    async def change(self, cron_id: str, change: GatewayCronChange, revision: str | None) -> GatewayCron:
        """Change a cron."""
        with _refusals(cron_id):
            if change.action is not None:
                self._actions.check(change.action)

            def work(transaction: Transaction) -> GatewayCron:
                row = self._managed(transaction, cron_id, revision)
                old = self._view(transaction, cron_id)
                memo = _memo(change.name or old.name, change.schedule or old.schedule)
                self._declare(transaction, row, memo, change.action or old.action, change.enabled)
                return self._view(transaction, cron_id)

            changed = await self._app.aio.schedules.write(work)
        self._publish("cron.updated", cron_id)
        return changed

    async def remove(self, cron_id: str, revision: str | None) -> None:
        """Remove a cron."""
        operations = self._operations

        def work(transaction: Transaction) -> None:
            self._managed(transaction, cron_id, revision)
            operations.delete(cron_id)(transaction)

        with _refusals(cron_id):
            await self._app.aio.schedules.write(work)
        self._publish("cron.removed", cron_id)

    async def run(self, cron_id: str, key: str) -> str:
        """Run a cron now."""
        with _refusals(cron_id):
            await self._app.aio.schedules.read(lambda transaction: self._managed(transaction, cron_id, None))
            return await self._app.aio.call_once(key, self._start, cron_id, None)

    async def run_command(self, name: str, arguments: Mapping[str, str], key: str) -> str:
        """Run a command or builtin without a cron."""
        action = self._actions.named(name, arguments)
        return await self._app.aio.call_once(key, self._start, None, action.to_json())

    # -- helpers

    @property
    def _operations(self) -> ScheduleOperations:
        return replace(self._app.aio.schedules.operations, actor="gateway")

    def _managed(self, transaction: Transaction, cron_id: str, revision: str | None) -> Schedule:
        """The row of a cron that may be changed. Raises ScheduleNotFound, NotManaged, RevisionConflict."""
        row = self._operations.row(transaction, cron_id)
        if not _is_managed(row):
            raise NotManaged(
                f"the cron {cron_id!r} belongs to the gateway itself, so it is read-only; change its gateway.toml"
            )
        if revision is not None and revision != str(row.version):
            raise RevisionConflict(
                f"the cron {cron_id!r} has the revision {row.version}, not {revision}; read it again, then decide"
            )
        return row

    def _declare(
        self, transaction: Transaction, row: Schedule, memo: dict[str, Any], action: GatewayAction, enabled: bool | None
    ) -> None:
        """Update a cron to its declaration; if it is equal already, its revision does not change."""
        operations, old = self._operations, row.metadata.user
        if memo != old or action != _action_of(row):
            spec = spec_of(GatewaySchedule.model_validate(memo["schedule"]))
            if memo["schedule"] != old.get("schedule"):
                check_spec(spec, operations.now(), operations.settings)
            options = ReplaceOptions(row.id, when=spec, do=self._call(action), memo=memo, catch_up=CatchUp.LATEST)
            replace_schedule(operations, options)(transaction)
        if enabled is not None and enabled is not (row.state.pause is None):
            (operations.resume if enabled else operations.pause)(row.id)(transaction)

    def _call(self, action: GatewayAction) -> FunctionCall:
        return FunctionCall(self._run, self._run.encode_args((action.to_json(),), {}))

    def _view(self, transaction: Transaction, cron_id: str) -> GatewayCron:
        return self._views(transaction, [self._operations.row(transaction, cron_id)])[0]

    def _views(self, transaction: Transaction, rows: Sequence[Schedule]) -> list[GatewayCron]:
        """The views of crons; those of the configuration, or made directly in the database, are read-only."""
        views = detailed(transaction, rows, self._app.environment.clock.now())
        return [self._cron(row, view) for row, view in zip(rows, views, strict=True)]

    def _cron(self, row: Schedule, view: DetailedSchedule) -> GatewayCron:
        name = row.id.removeprefix(SYSTEM)
        own = self._actions.config.crons.get(name) if view.kind == "cron" else None
        is_managed = _is_managed(row)
        schedule, action = GatewaySchedule(type="event", detail=view.sentence), GatewayAction(type="event")
        if own is not None:
            schedule, action = own.schedule, own.action
        elif is_managed:
            schedule, action = GatewaySchedule.model_validate(view.memo["schedule"]), _action_of(row)
            name = view.memo["name"]
        endings = [ENDED[word] for word in reversed(view.strip) if word in ENDED]
        failures = next((count for count, word in enumerate(endings) if word != "failed"), len(endings))
        is_enabled = view.pause is None
        return GatewayCron(
            id=row.id,
            key=row.id.removeprefix(MANAGED) if is_managed else None,
            name=name,
            schedule=schedule,
            enabled=is_enabled,
            managed=is_managed,
            system=own is not None,
            action=action,
            revision=str(row.version),
            next_run_at=view.next if is_enabled else None,
            last_run_at=view.last,
            last_status=endings[0] if endings else None,
            last_error=row.last_failure,
            running="running" in view.strip,
            consecutive_errors=failures,
        )

    # -- events

    def job_ended(self, event: JobEnded, /) -> None:
        """Publish the end of a run. Called in the engine's threads."""
        claim = event.claim
        if claim.name == self._run.name and event.end.state in STATES:
            cron_id = None if claim.schedule is None else claim.schedule.value.id
            self._publish("run.finished", cron_id, claim.id, STATES[event.end.state])

    def _publish(
        self, kind: Any, cron_id: str | None, run_id: str | None = None, status: RunStatus | None = None
    ) -> None:
        if self._loop is None or self._loop.is_closed():
            return
        now = to_datetime(self._app.environment.clock.now())
        event = GatewayEvent(type=kind, at=now, cron_id=cron_id, run_id=run_id, status=status)
        self._loop.call_soon_threadsafe(self._bus.publish, event)


def spec_of(schedule: GatewaySchedule) -> Spec:
    """The times of a schedule. Raises InvalidSpec."""
    zone = schedule.timezone or "UTC"
    if schedule.type == "cron":
        return cron(schedule.expression or "", tz=zone)
    if schedule.type == "interval":
        seconds, rest = divmod(schedule.every_ms or 0, SECOND_MS)
        if rest or not seconds:
            raise IntervalTooShort(f"every_ms: {schedule.every_ms} is not a whole number of seconds, 1000 or more")
        return every(seconds=seconds)
    if schedule.type == "once" and schedule.at is not None:
        return at(schedule.at)
    return rrule(schedule.rrule or "", tz=schedule.timezone)


@contextmanager
def _refusals(cron_id: str = "") -> Iterator[None]:
    """Convert errors of schedules to those of the contract."""
    try:
        yield
    except LimitExceeded as error:
        kind = IntervalTooShort if type(error) is LimitExceeded else InvalidCron  # a subclass means another limit
        words = str(error).replace("schedule_interval_min in Settings", "minimum_interval_s of the gateway")
        raise kind(f"schedule: {words}") from error
    except InvalidSpec as error:
        raise InvalidCron(f"schedule: {error}") from error
    except ScheduleNotFound as error:
        raise CronNotFound(f"the gateway has no cron {cron_id!r}") from error


@contextmanager
def _unknown_run(run_id: str) -> Iterator[None]:
    try:
        yield
    except ScheduleNotFound:
        raise _no_run(run_id) from None


def _no_run(run_id: str) -> RunNotFound:
    return RunNotFound(f"the gateway has no run {run_id!r}: it never existed, or its retention is over")


def _memo(name: str, schedule: GatewaySchedule) -> dict[str, Any]:
    return {"name": name, "schedule": schedule.to_json()}


def _action_of(row: Schedule) -> GatewayAction:
    """The action of a managed cron."""
    return GatewayAction.model_validate(json.loads(row.target.args)["action"])


def _is_managed(row: Schedule) -> bool:
    """Whether a cron was added through the contract; False if a newer release wrote it, so that it is read-only."""
    is_ours = row.kind == "schedule" and row.id.startswith(MANAGED) and not row.unreadable
    return is_ours and row.metadata.user.keys() == {"name", "schedule"}


def _run_id(occurrence: OccurrenceView) -> str:
    """The id of a run: that of its job, or for an occurrence without a job its position in the ledger."""
    return occurrence.job_id or f"{occurrence.schedule}@{from_datetime(occurrence.nominal, 'nominal')}"


def _run_of(transaction: Transaction, occurrence: OccurrenceView) -> GatewayRun:
    job = None if occurrence.job_id is None else transaction.get_job(occurrence.job_id, tenant=DEFAULT_TENANT)
    if job is not None:
        return _run_of_job(job)
    status: RunStatus = "skipped"
    if occurrence.fate == Fate.STARTED:  # the job's retention is over
        status = "unknown" if occurrence.outcome is None else OUTCOMES.get(occurrence.outcome, "failed")
    elif occurrence.fate == Fate.BUFFERED:
        status = "running"
    return GatewayRun(
        run_id=_run_id(occurrence),
        cron_id=occurrence.schedule,
        occurrence=occurrence.nominal if occurrence.origin == Origin.SCHEDULE else None,
        started_at=occurrence.started,
        ended_at=occurrence.ended,
        duration_ms=None if occurrence.duration is None else round(occurrence.duration.total_seconds() * 1_000),
        status=status,
        trigger="schedule" if occurrence.origin == Origin.SCHEDULE else "manual",
        error=None if status in ("succeeded", "running") else f"{occurrence.reason}: {occurrence.detail}".rstrip(": "),
        output=None,
    )


def _run_of_job(row: Job) -> GatewayRun:
    job = JobView.of(row)
    status: RunStatus = STATES.get(job.state, "running")
    error, output = None, job.result if isinstance(job.result, str) else None
    if job.error is not None:
        data = job.error.get("data")
        error = data["message"] if isinstance(data, dict) and "message" in data else job.error["message"]
        output = data.get("output") if isinstance(data, dict) else None
        status = "unknown" if job.error["type"] in (LOST_WORKER, WORKER_STOPPED) else status
    elif job.state is JobState.CANCELED:
        error = "it was canceled"
    is_scheduled = row.schedule is not None and row.schedule.value.origin == Origin.SCHEDULE
    return GatewayRun(
        run_id=job.id,
        cron_id=job.schedule,
        occurrence=job.occurrence if is_scheduled else None,
        started_at=job.started_at,
        ended_at=job.completed_at,
        duration_ms=job.duration_ms,
        status=status,
        trigger="schedule" if is_scheduled else "manual",
        error=error,
        output=output,
    )

"""Runs of scripts: the jobs of the function `evertick.script`, and tests of scripts.

A run has three parts: a short read (the version, the limits, the usage), the script in the sandbox, and one short write
under the fence of the job's claim: the end of the job, what the script has staged, and the record of the run. So either
all of a run is stored or nothing. A run whose process dies before that write has no effect: it runs again.

If something that the script read and changes has changed by then, or the transaction cannot be serialized, the script
runs again, TRIES times in all. If the database does not respond, the job is released and runs again later.
"""

import asyncio
import atexit
import json
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, NamedTuple

from evertick.app.environment import Environment
from evertick.app.execution.failures import raised_by
from evertick.app.execution.runner import Execution
from evertick.app.functions.function import Action
from evertick.app.functions.options import ApplicationError
from evertick.app.schedules.api import schedules_in_unit
from evertick.app.scripts.host_functions import DeveloperFunction, HostFunctions
from evertick.app.scripts.parameters import check_input
from evertick.app.scripts.plan import ScriptPlan
from evertick.app.scripts.staging import EffectFailed, Staging
from evertick.app.transacting import rehearse
from evertick.base.clock import SystemClock
from evertick.base.error_text import place_words
from evertick.base.errors import (
    EvertickError,
    Misuse,
    QuotaExceeded,
    ScheduleNotFound,
    ScriptNotFound,
    Unavailable,
    WeakIsolation,
    WriteConflict,
)
from evertick.base.ids import JobId, ScheduleId, TenantId
from evertick.base.instants import HOUR_MS, SECOND_MS, Instant, from_datetime
from evertick.base.outcomes import TIMED_OUT, Canceled, Raised, Returned
from evertick.base.outcomes import Outcome as JobOutcome
from evertick.base.records.history import AttemptLog
from evertick.base.records.history import LogLine as JobLine
from evertick.base.records.jobs import Claim, JobError, JobState
from evertick.base.records.schedules import OccurrenceFilter
from evertick.base.records.scripts import ScriptRow, ScriptRunRow, ScriptUsage, ScriptVersionRow
from evertick.base.records.stored import storable
from evertick.base.scheduled_run import ScheduledRun
from evertick.engine.runtime.runner import Ran, RunningAction
from evertick.rules.schedules.fates import Fate
from evertick.sandbox.pool import Sandbox
from evertick.sandbox.protocol import Ended, Json, Language, Level, Outcome, ScriptError, ScriptRun, StopRun
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import FunctionUnit, UnitOfWork

# -- Turns: which waiting script of this process runs next, and its niceness.
#
# The tenant whose scripts used least processor time recently comes first. What a script will need is unknown before it
# has run, so its processor time counts afterwards, and loses half its weight in HALF_LIFE_S. While scripts run, the
# kernel shares the processors among them: a script's niceness grows with what its tenant has used.

HALF_LIFE_S: Final = 10.0
LEAST_NICE: Final = 5
"""Niceness of the scripts of a tenant that used little: the service itself always has priority over scripts."""
MOST_NICE: Final = 15
"""Niceness if the scripts of one tenant have kept all processors busy."""
ALL_BUSY_MS: Final = 1_000 * (os.cpu_count() or 1) * HALF_LIFE_S / 0.693
"""The weighted usage of a tenant whose scripts keep all processors busy, in milliseconds."""


class Used(NamedTuple):
    """Weighted processor time at an instant of the monotonic clock."""

    ms: float
    at: float

    def now(self, at: float) -> float:
        """The processor time that still counts at another instant, in milliseconds."""
        return self.ms * float(0.5 ** ((at - self.at) / HALF_LIFE_S))


class Asked(NamedTuple):
    """A waiting script: it may run while fewer than `most` scripts of its tenant run."""

    turn: "Future[None]"
    most: int


class Turns:
    """Turns for `slots` concurrent scripts. Thread-safe; event loops may use it, too."""

    def __init__(self, slots: int) -> None:
        self._lock = threading.Lock()
        self._free = slots
        self._waiting: dict[TenantId, deque[Asked]] = {}
        self._running: Counter[TenantId] = Counter()
        self._used: dict[TenantId, Used] = {}

    def ask(self, tenant: TenantId, most: int) -> "Future[None]":
        """Request a turn: the future is done when the script may run; `end` must follow."""
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.setdefault(tenant, deque()).append(Asked(turn, most))
        self._grant()
        return turn

    async def wait(self, tenant: TenantId, most: int) -> None:
        """Like `ask`, for an event loop; a wait that is canceled gets no turn."""
        turn = self.ask(tenant, most)
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if not turn.cancel():  # the turn has just been granted
                self.end(tenant, 0)
            raise

    def end(self, tenant: TenantId, cpu_ms: float) -> None:
        """End a turn; `cpu_ms` is the processor time that the script used."""
        with self._lock:
            self._free += 1
            self._running[tenant] -= 1
            now = time.monotonic()
            self._used[tenant] = Used(self._lately(tenant, now) + cpu_ms, now)
            self._used = {each: used for each, used in self._used.items() if used.now(now) >= 1}
            self._running = +self._running
        self._grant()

    def niceness(self, tenant: TenantId) -> int:
        """The niceness of a script of this tenant."""
        with self._lock:
            share = self._lately(tenant, time.monotonic()) / ALL_BUSY_MS
        return LEAST_NICE + round(min(1.0, share) * (MOST_NICE - LEAST_NICE))

    def _lately(self, tenant: TenantId, now: float) -> float:
        used = self._used.get(tenant)
        return 0.0 if used is None else used.now(now)

    def _grant(self) -> None:
        granted = []
        with self._lock:
            now = time.monotonic()
            while self._free:
                ready = [each for each, asked in self._waiting.items() if self._running[each] < asked[0].most]
                if not ready:
                    break
                tenant = min(ready, key=lambda each: self._lately(each, now))
                turn = self._waiting[tenant].popleft().turn
                if not self._waiting[tenant]:
                    del self._waiting[tenant]
                if turn.set_running_or_notify_cancel():
                    self._free -= 1
                    self._running[tenant] += 1
                    granted.append(turn)
        for turn in granted:
            turn.set_result(None)


TRIES: Final = 3
"""How often a script runs in total if its writes conflict with others."""
AGAIN_MS: Final = SECOND_MS
"""Milliseconds until a run is tried again that had no effect because the database was unavailable."""
LIMITS: Final = frozenset({Outcome.TIMEOUT, Outcome.MEMORY, Outcome.OUTPUT, Outcome.LIMIT})
TROUBLES: Final = frozenset({Outcome.CRASH, Outcome.KILLED, Outcome.INTERNAL})
"""Outcomes that are not the script's fault; it is tried once more."""
PAUSE_AFTER: Final = 5
"""After so many runs in a row that exceed a limit, the schedule is paused."""
MISSED_FEW: Final = 10
MISSED_MAX: Final = 1_000
"""Occurrences that are read to count those missed before a run: first a few, then this many if all were missed."""
SLOTS: Final = max(4, 3 * (os.cpu_count() or 1))
"""Concurrent scripts in one process, including tests: most wait in host functions for a part of their time."""
WEAK_ISOLATION_VARIABLE: Final = "EVERTICK_ALLOW_WEAK_ISOLATION"

_lock: Final = threading.Lock()
_sandboxes: Final[dict[int, tuple[Sandbox, Turns]]] = {}


def _of_this_process() -> tuple[Sandbox, Turns]:
    with _lock:
        found = _sandboxes.get(os.getpid())
        if found is None:
            _sandboxes.clear()  # they belong to a parent process
            found = _sandboxes[os.getpid()] = Sandbox(), Turns(SLOTS)
            atexit.register(found[0].close)
        return found


def sandbox() -> Sandbox:
    """The sandbox of this process, shared by all its apps."""
    return _of_this_process()[0]


def turns() -> Turns:
    """The turns of the scripts in this process."""
    return _of_this_process()[1]


@dataclass(slots=True, kw_only=True)
class ScriptSettings:
    """The settings of scripts in the developer's code."""

    function: Action[..., Any]
    """`evertick.script`, the function of the jobs that run scripts."""
    per_tenant: int
    """Concurrent scripts of one tenant."""
    plan: ScriptPlan = field(default_factory=ScriptPlan)
    tables: dict[str, bool] = field(default_factory=dict)
    """The tables that scripts may read, with whether they may write each."""
    functions: dict[str, DeveloperFunction] = field(default_factory=dict)
    on_notify: Action[..., Any] | None = None
    allow_weak_isolation: bool = False

    def plan_in(self, transaction: Transaction, tenant: TenantId) -> ScriptPlan:
        """The plan of a tenant."""
        return self.plan.changed(transaction.get_script_plan(tenant))

    def check_isolation(self, language: Language) -> None:
        """Raise WeakIsolation if scripts in a language must not run here, SandboxUnavailable if they cannot."""
        found = sandbox().isolation(language)
        allowed = self.allow_weak_isolation or os.environ.get(WEAK_ISOLATION_VARIABLE) == "1"
        if found.level is Level.NONE and not allowed:
            raise WeakIsolation(
                f"scripts in {language} cannot be isolated here ({found.reason}), so they are refused; on your own "
                f"machine allow them with app.scripts.enable(allow_weak_isolation=True) or "
                f"{WEAK_ISOLATION_VARIABLE}=1"
            )


VERSION_MAX: Final = 1_000_000_000
NOTHING_USED: Final = ScriptUsage(0, 0)


class Loaded(NamedTuple):
    """A script that is about to run."""

    name: str
    version: int | None
    language: Language
    source: str
    parameters: str | None
    plan: ScriptPlan
    used: ScriptUsage
    missed: int
    troubles: int
    """Earlier attempts of the job that ended without fault of the script."""


def version_of(transaction: Transaction, script: ScriptRow, version: int | None) -> ScriptVersionRow:
    """The version that runs: the published one unless `version` is given. Raises ScriptNotFound."""
    number = script.published if version is None else version
    if number is None:
        raise ScriptNotFound(f"the script {script.name!r} has no version yet; publish its draft")
    fits = type(number) is int and 0 < number <= VERSION_MAX
    found = transaction.get_script_version(script.name, number, tenant=script.tenant) if fits else None
    if found is None:
        raise ScriptNotFound(f"the script {script.name!r} has no version {number}")
    return found


class Refused(Exception):
    """A run that is not started, because a quota is used up or it cannot run here."""

    def __init__(self, outcome: Outcome, exceeded: str | None, error: ScriptError) -> None:
        super().__init__(error.message)
        self.ended = Ended(outcome, exceeded, error=error)


def check_quotas(plan: ScriptPlan, used: ScriptUsage) -> None:
    """Raise Refused if a tenant has used up a quota per hour."""
    for name, used_up, limit in (
        ("runs_per_hour", used.runs, plan.runs_per_hour),
        ("cpu_s_per_hour", used.cpu_ms / 1_000, plan.cpu_s_per_hour),
    ):
        if limit is not None and used_up >= limit:
            message = f"the limit {name} of {limit:,} is used up; the script can run again within the hour"
            raise Refused(Outcome.LIMIT, name, ScriptError("", message))


class Stale(Exception):
    """Another transaction changed data that the script has read and now changes, or the database cannot serialize its
    writes.
    """


class Try:
    """One try of a run: the script in the sandbox, and its staged writes."""

    def __init__(
        self, settings: ScriptSettings, execution: Execution, environment: Environment, loaded: Loaded, *,
        run_id: str, tenant: TenantId, job_id: JobId, context: Mapping[str, Json], attempt: int = 1,
        schedule: ScheduledRun | None = None, is_test: bool = False,
    ) -> None:  # fmt: skip
        self.run_id = run_id
        plan = loaded.plan
        self.staging = Staging(
            environment, tenant=tenant, job_id=job_id, now=environment.clock.now(), attempt=attempt,
            schedule=schedule, reads=plan.reads, writes=plan.writes, keys=plan.keys,
        )  # fmt: skip
        functions = HostFunctions(
            self.staging, execution, tables=settings.tables, own=settings.functions, on_notify=settings.on_notify,
            hosts=plan.hosts, script_function=settings.function, is_test=is_test,
        )  # fmt: skip
        clock = environment.clock
        now_ms = None if isinstance(clock, SystemClock) else clock.now()  # a script sees the simulated clock, too
        self._run = ScriptRun(
            run_id, loaded.language, loaded.source, context, plan.limits, functions.by_name(), now_ms,
            turns().niceness(tenant),
        )  # fmt: skip

    def ended(self) -> Ended:
        """Run the script until it ends."""
        return sandbox().run(self._run)

    def written(self, transaction: Transaction) -> None:
        """Write what is staged. Raises Stale if what was read has changed, EffectFailed."""
        if not self.staging.is_current(transaction):
            raise Stale("documents or values that the script read were changed before its end")
        self.staging.write(transaction)


def context_of(
    *, job_id: JobId, tenant: TenantId, value: Json, now: Instant, attempt: int,
    schedule: ScheduledRun | None = None, missed: int = 0,
) -> dict[str, Json]:  # fmt: skip
    """The attributes of `ctx` that are not functions. Times are milliseconds since 1970."""
    run = {
        "id": job_id,
        "scheduleId": None if schedule is None else schedule.schedule_id,
        "scheduledAt": now if schedule is None else from_datetime(schedule.nominal_time),
        "startedAt": now,
        "attempt": attempt,
        "missed": missed,
        "seed": int(job_id[-8:], 16),
    }
    return {"input": value, "run": run, "tenant": {"id": tenant}}


@dataclass(slots=True, kw_only=True)
class ScriptRuns:
    """Runs the jobs of `evertick.script`."""

    settings: ScriptSettings

    async def attempt(
        self, execution: Execution, claim: Claim, running: RunningAction, schedule: ScheduledRun | None
    ) -> Ran:
        """Run one attempt at a job of `evertick.script`; see `Function.attempt`."""
        attempt = _Attempt(self.settings, execution, claim, running, schedule)
        running.on_asked = attempt.kill
        order = turns()
        await order.wait(claim.tenant, SLOTS - 1)  # the pool limits the runs of a tenant on all workers
        try:
            return await execution._e.executors.run_job(attempt.run)
        finally:
            order.end(claim.tenant, attempt.cpu_ms)


class _Attempt:
    """One attempt at a job, in its own thread."""

    def __init__(
        self, settings: ScriptSettings, execution: Execution, claim: Claim, running: RunningAction,
        schedule: ScheduledRun | None,
    ) -> None:  # fmt: skip
        self.settings, self.execution, self.claim, self.running = settings, execution, claim, running
        self.schedule = schedule
        self.e = execution._e
        self.began_at = self.e.clock.now()
        self.name = ""
        self.loaded: Loaded | None = None
        self.cpu_ms = 0
        self.wall_ms = 0

    def kill(self) -> None:
        """Stop the script, because the job was canceled or its worker stops."""
        for number in range(TRIES):
            sandbox().kill(self._run_id(number))

    def _run_id(self, number: int) -> str:
        return f"{self.claim.id}/{self.claim.attempt}/{number}"

    def run(self) -> Ran:
        """Run the script, and write how it ended."""
        if self.running.asked:
            return Ran(Canceled())
        self.began_at = self.e.clock.now()
        try:
            loaded, value = self._load()
            check_quotas(loaded.plan, loaded.used)
            check_input(json.loads(loaded.parameters or "null"), value)
            self.settings.check_isolation(loaded.language)
        except Refused as refused:
            return self._write(refused.ended)
        except (Unavailable, WriteConflict) as error:
            return self._again(raised_by(error))
        except EvertickError as error:
            outcome = Outcome.INTERNAL if isinstance(error, WeakIsolation) else Outcome.ERROR
            return self._write(Ended(outcome, error=ScriptError(type(error).__name__, str(error))))
        return self._tries(loaded, value)

    def _load(self) -> tuple[Loaded, Json]:
        _, arguments = self.settings.function.decode_args(self.claim.args)
        self.name = arguments["script"]
        loaded = self.e.store.read(lambda transaction: self._read(transaction, arguments.get("version")))
        self.loaded = loaded
        return loaded, arguments.get("input")

    def _read(self, transaction: Transaction, version: int | None) -> Loaded:
        claim, name, tenant = self.claim, self.name, self.claim.tenant
        script = transaction.get_script(name, tenant=tenant)
        if script is None:
            raise ScriptNotFound(f"no script {name!r}; it may have been deleted")
        found = version_of(transaction, script, version)
        plan, used = self.settings.plan_in(transaction, tenant), NOTHING_USED
        if (plan.runs_per_hour, plan.cpu_s_per_hour) != (None, None):
            used = transaction.script_usage(tenant, since=Instant(self.began_at - HOUR_MS), job_id=claim.id)
        before = transaction.script_runs_of_job(claim.id, tenant=tenant) if claim.attempt > 1 else []
        troubles = sum(each.outcome in TROUBLES for each in before)
        missed = 0 if claim.schedule is None else self._missed(transaction)
        language = Language(found.language)
        return Loaded(name, found.version, language, found.source, found.parameters, plan, used, missed, troubles)

    def _missed(self, transaction: Transaction) -> int:
        """How many consecutive occurrences directly before this one were missed."""
        assert self.claim.schedule is not None  # noqa: S101
        ref = self.claim.schedule.value
        where = OccurrenceFilter(tenant=self.claim.tenant, schedule_id=ref.id, end=ref.nominal_at)
        count = 0
        for limit in (MISSED_FEW, MISSED_MAX):
            rows = transaction.list_occurrences(where, limit=limit, newest_first=True)
            count = sum(1 for _ in takewhile(lambda row: row.fate == Fate.MISSED, rows))
            if count < limit:
                break
        return count

    def _tries(self, loaded: Loaded, value: Json) -> Ran:
        claim = self.claim
        attempt = claim.failures + 1
        for number in range(TRIES):
            context = context_of(
                job_id=claim.id, tenant=claim.tenant, value=value, now=self.began_at, attempt=attempt,
                schedule=self.schedule, missed=loaded.missed,
            )  # fmt: skip
            one = Try(
                self.settings, self.execution, self.e, loaded, run_id=self._run_id(number), tenant=claim.tenant,
                job_id=claim.id, context=context, attempt=attempt, schedule=self.schedule,
            )  # fmt: skip
            try:
                ended = one.ended()
            except Unavailable as error:  # the sandbox's processes cannot start
                return self._write(Ended(Outcome.INTERNAL, error=ScriptError(type(error).__name__, str(error))))
            self.cpu_ms += ended.cpu_ms
            self.wall_ms += ended.wall_ms
            if one.staging.is_unavailable:
                return self._again(self._raised(ended))
            if ended.outcome is not Outcome.OK:
                return self._write(ended)
            try:
                return self._write(ended, one)
            except Stale as error:
                conflict = ScriptError(WriteConflict.__name__, f"{error}, in each of {TRIES} tries")
                if self.running.asked:
                    return Ran(Canceled())
            except EffectFailed as failed:
                return self._write(_failed(ended, failed))
        return self._write(ended._replace(outcome=Outcome.ERROR, result=None, error=conflict))

    # -- the end

    def _write(self, ended: Ended, one: Try | None = None) -> Ran:
        """Write the end of the job, the record of the run and what the try has staged, in one transaction."""
        outcome: JobOutcome
        again_at = None
        if ended.outcome is Outcome.OK:
            outcome = Returned(ended.result or "null")
        elif ended.outcome is Outcome.KILLED and self.running.asked:
            outcome = Canceled()
        else:
            outcome = self._raised(ended)
            if ended.outcome in TROUBLES and self.loaded is not None and self.loaded.troubles == 0:
                again_at = self.e.clock.now()
        lines = self._lines(ended)
        row = self._row(ended, 0 if one is None else one.staging.writes)

        def work(transaction: Transaction) -> Ran:
            end = self.running.finish(transaction, outcome, lines, again_at)
            if end is None:
                return Ran(outcome)  # another worker has the job; the loop notices that, too
            if one is not None and end.state is JobState.SUCCESS:
                one.written(transaction)
            elif one is not None:
                transaction.add_script_run(row._replace(outcome=Outcome.KILLED.value, staged=0))
                return Ran(outcome, end=end)
            pauses = row.schedule_id is not None and self._pause(transaction, row.schedule_id, row)
            transaction.add_script_run(row._replace(paused=int(pauses)))
            return Ran(outcome, end=end)

        try:
            return self.execution.transact(work)
        except Unavailable as error:
            # If it was committed but the reply was lost, the next attempt to write the end finds the claim gone.
            return self._again(raised_by(error))
        except Misuse as error:  # such as a constraint checked at the commit: nothing was written
            if one is None:
                raise
            failed = ScriptError(type(error).__name__, str(error))
            return self._write(ended._replace(outcome=Outcome.ERROR, result=None, error=failed))
        except WriteConflict as error:
            if one is not None:
                raise Stale(str(error)) from error
            return self._again(raised_by(error))

    def _again(self, cause: Raised) -> Ran:
        """Release the job so that it runs again, because nothing was written."""
        return Ran(cause, again_at=Instant(self.e.clock.now() + AGAIN_MS))

    def _raised(self, ended: Ended) -> Raised:
        error = ended.error or ScriptError("", f"the run ended as {ended.outcome}")
        name = error.name or {Outcome.TIMEOUT: TIMED_OUT}.get(ended.outcome, f"Script{ended.outcome.title()}")
        message = storable(error.message) + place_words(error.line, error.column)
        retryable = ended.outcome is Outcome.ERROR and ended.engine != ""  # a refused run would be refused again
        return Raised(storable(name), message, storable(error.stack), retryable)

    def _lines(self, ended: Ended) -> list[JobLine]:
        """The script's log lines, as lines of its job."""
        log = AttemptLog()
        for line in ended.logs:
            log.write(Instant(self.began_at + line.at_ms), line.level, storable(line.text))
        return log.unstored()

    def _row(self, ended: Ended, staged: int) -> ScriptRunRow:
        claim, loaded = self.claim, self.loaded
        return row_of(ended, claim.id, claim.tenant, self.name, self.e.clock.now())._replace(
            attempt=claim.attempt,
            version=None if loaded is None else loaded.version,
            schedule_id=None if claim.schedule is None else claim.schedule.value.id,
            deaths=claim.crashes,
            waited_ms=max(0, self.began_at - claim.due_at),
            cpu_ms=self.cpu_ms,
            wall_ms=self.wall_ms,
            staged=staged,
        )

    def _pause(self, transaction: Transaction, schedule_id: ScheduleId, row: ScriptRunRow) -> bool:
        """Pause a schedule whose runs exceed limits repeatedly; returns whether it was paused now.

        After a resume, the count starts again.
        """
        if row.outcome not in LIMITS:
            return False
        before = transaction.script_runs_of_schedule(schedule_id, tenant=row.tenant, limit=PAUSE_AFTER - 1)
        if len(before) < PAUSE_AFTER - 1 or not all(each.outcome in LIMITS and not each.paused for each in before):
            return False
        unit = FunctionUnit(UnitOfWork(transaction))
        schedules = schedules_in_unit(self.e, row.tenant, f"script {row.script}", unit, row.ended_at)
        try:
            schedules.pause(
                schedule_id,
                f"its last {PAUSE_AFTER} runs exceeded a limit; the last one: {row.exceeded or row.outcome}",
            )
        except ScheduleNotFound:
            return False  # deleted meanwhile
        return True


def _failed(ended: Ended, failed: EffectFailed) -> Ended:
    """The end of a run whose effects cannot be written."""
    cause, (line, column) = failed.__cause__, failed.place
    error = ScriptError("", f"{failed}: {cause}", line=line, column=column)
    if isinstance(cause, QuotaExceeded):
        return ended._replace(outcome=Outcome.LIMIT, limit="jobs", result=None, error=error)
    if isinstance(cause, StopRun):
        error = error._replace(message=str(cause))
        return ended._replace(outcome=cause.outcome, limit=cause.limit, result=None, error=error)
    if isinstance(cause, EvertickError | ApplicationError):
        error = error._replace(name=type(cause).__name__)
    else:
        logging.getLogger("evertick.scripts").error("ctx.%s failed at the end of a run", failed, exc_info=cause)
        error = error._replace(name="HostError", message=f"{failed} failed; the log of the service has the details")
    return ended._replace(outcome=Outcome.ERROR, result=None, error=error)


def row_of(ended: Ended, job_id: JobId, tenant: TenantId, script: str, now: Instant) -> ScriptRunRow:
    """The record of a test, like that of a run but without a job. Tests count towards the quotas of an hour, too."""
    return ScriptRunRow(
        job_id=job_id,
        attempt=0,
        tenant=tenant,
        script=script,
        version=None,
        schedule_id=None,
        deaths=0,
        outcome=ended.outcome.value,
        exceeded=ended.limit,
        error=None if ended.error is None else error_text(ended.error),
        started=int(ended.engine != ""),
        ended_at=now,
        waited_ms=0,
        cpu_ms=ended.cpu_ms,
        wall_ms=ended.wall_ms,
        rss_kb=ended.max_rss_kb,
        host_calls=json.dumps(dict(ended.host_calls)),
        staged=0,
        isolation=ended.isolation.value,
        engine=ended.engine,
        paused=0,
    )


def under_way(plan: ScriptPlan) -> Ended:
    """The preliminary end of a test that has just begun, in case its process dies: all its processor time counts."""
    error = ScriptError("", "the test is still running, or its process died")
    return Ended(Outcome.KILLED, error=error, cpu_ms=plan.cpu_ms, engine="none")


def error_text(error: ScriptError) -> str:
    """The error of a run as stored text, with its place as data."""
    place = None if error.line is None else json.dumps({"line": error.line, "column": error.column})
    return JobError(storable(error.name), storable(error.message), storable(error.stack), place).to_text()


def rehearsed(execution: Execution, one: Try, ended: Ended) -> Ended:
    """The end of a test: the same as of a run that writes the same. Its writes are rolled back."""
    if ended.outcome is not Outcome.OK:
        return ended
    try:
        rehearse(execution.transact, one.written)
    except EffectFailed as failed:
        return _failed(ended, failed)
    except (Stale, WriteConflict) as error:
        return ended._replace(outcome=Outcome.ERROR, result=None, error=ScriptError("WriteConflict", str(error)))
    return ended

"""A world: the real engine on a database in memory, with a clock that jumps.

    with World(app, at="2026-03-29T00:59:58Z") as world:
        message_id = world.call(send_expiring_message, "hello", "ada")
        world.advance(5)
        assert world.get(message_id) is None

Nothing runs by itself: jobs run while time passes (`advance`, `advance_to`, `drain`), or while an action that the test
called waits. Time passes only there, without real waiting. There are no threads: actions that are plain functions run
in the test's own thread, and functions have no limit of real time. Random numbers, ids and the clock come from `seed`
and `at`, so every run of a test is the same.

A world has the database, the clock and a worker; functions and tables are those of the app. So one app can be in
several worlds, one after the other; while it is in one, `app.call`, `app.scheduler` and `app.schedules` use that world.

For tests of schedules it has work with a given duration, and short forms of the ledger:

    report = world.schedule(every=minutes(1), takes=seconds(150), overlap=Overlap.BUFFER_ONE)
    world.advance(minutes(4))
    assert world.starts(report) == [at("00:01:00"), at("00:03:30")]
    assert world.skips(report) == [at("00:03:00")]
    print(world.timeline(report))
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, cast

from evertick.app.app import App
from evertick.app.documents.database import DatabaseReader
from evertick.app.documents.queries import Document
from evertick.app.documents.tables import SYSTEM_JOBS
from evertick.app.functions.function import Action, Function
from evertick.app.paging import whole_jobs
from evertick.app.run.run import TransactionRun
from evertick.base.errors import EvertickError, InvalidDelay, JobNotFound, LimitExceeded, Misuse
from evertick.base.ids import JobId, TenantId, tenant_named
from evertick.base.instants import DAY_MS, Instant, duration_ms, from_datetime, to_datetime, to_iso
from evertick.base.options import shown
from evertick.base.records.jobs import Job, JobFilter, JobState
from evertick.engine.runtime.settings import Settings
from evertick.rules.jobs.coverage import blocked
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import FunctionUnit, UnitOfWork
from evertick.testing.connections import OwnConnections
from evertick.testing.engine import SimulatedEngine
from evertick.testing.jobs import JobView, view
from evertick.testing.moments import START
from evertick.testing.stories import ScheduleStories

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

DRAIN_DAYS: Final = 5 * 366
DRAIN_JOBS: Final = 10_000


class World(SimulatedEngine, ScheduleStories, OwnConnections):
    """A simulated world for tests; see the module."""

    def __init__(
        self,
        app: App | None = None,
        *,
        at: str | datetime = START,
        seed: int = 0,
        settings: Settings | None = None,
        crons: bool = True,
    ) -> None:
        """Start a world with an empty database at the time `at` (an aware datetime, or ISO 8601 text).

        Without an app it creates one without functions. `settings` are the app's by default; the world's worker polls
        less often, so that long times pass quickly. `crons=False` ignores the crons in the code of the app, so that
        only the test's own jobs and schedules run.

        Raises InvalidDelay for a time without a time zone, Misuse if `crons` is not a bool.
        """
        if app is not None and not isinstance(app, App):
            raise Misuse(f"World takes an App, not {shown(app)}")
        if type(crons) is not bool:
            raise Misuse(f"crons= is True or False, not {crons!r}")
        start = _instant(at)
        SimulatedEngine.__init__(self, start, seed=seed, settings=settings, crons=crons)
        ScheduleStories.__init__(self, to_datetime(start))
        try:
            self._enter(app or App("world"))
            self.restart()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<World of {self.app.name} at {to_iso(self._clock.now())}>"

    def tenant(self, name: str) -> "World":
        """The same world for one of its tenants: `world.tenant("acme").jobs()`. Raises InvalidTenant."""
        return _TenantWorld(self, tenant_named(name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except EvertickError as error:
            if value is None:
                raise
            value.add_note(f"closing the world failed too: {error}")  # the first error is the cause

    def close(self) -> None:
        """Close the world: end its worker, close its database and engines, and remove unused faults."""
        with contextlib.ExitStack() as closing:
            closing.callback(SimulatedEngine.close, self)
            closing.callback(self.dispose)

    # -- time

    def advance(self, duration: float | timedelta) -> None:
        """Let time pass (seconds, or a timedelta), and run everything due meanwhile, including the last instant."""
        self._run_until(Instant(self._clock.now() + duration_ms(duration, name="duration")))

    def advance_to(self, moment: str | datetime) -> None:
        """Let time pass until `moment`. Raises Misuse if it is in the past."""
        at = _instant(moment)
        if at < self._clock.now():
            raise Misuse(f"it is already {to_iso(self._clock.now())}; a world's time does not go back to {to_iso(at)}")
        self._run_until(at)

    def drain(self, *, jobs_max: int = DRAIN_JOBS) -> None:
        """Run everything that is scheduled, however far in the future, until nothing is pending and nothing runs.

        Raises LimitExceeded after `jobs_max` attempts (a function that always reschedules itself has no end), Misuse if
        no worker is alive. Blocked jobs, whose function no worker has, and jobs of a paused pool remain.
        """
        if self._process is None or not self._process.alive:
            raise Misuse("the worker is dead, so nothing would run; start another one with world.restart()")
        until = self._clock.now() + DRAIN_DAYS * DAY_MS
        limit = self._attempts + jobs_max
        self._run_until(Instant(until), enough=lambda: self._attempts >= limit or self._is_drained())
        if self._is_drained() or not self._process.alive:
            return
        if self._attempts >= limit:
            raise LimitExceeded(
                f"there is still work after {jobs_max} attempts; is it a chain that schedules itself? "
                "let a known time pass instead: world.advance(...)"
            )
        raise LimitExceeded(f"there is still work after {DRAIN_DAYS} days")

    # -- functions

    def call(self, function: Function[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function as a program would; return its result, and raise its errors.

        While an action waits, time passes and jobs run; a query or mutation takes no time, and runs no job.
        """
        resolved = self.app.functions.resolve(function)
        execution = self._execution_for(self._tenant)
        if isinstance(resolved, Action):
            result = self._run_action(execution.call(resolved, args, kwargs))
        else:
            result = execution.call_now(resolved, args, kwargs)
        return cast("R", result)

    # -- reading

    def jobs(self, function: Function[..., Any] | str | None = None, *, state: str | None = None) -> list[JobView]:
        """Jobs (of one function, in one state) in the order in which they were scheduled."""
        name = function.name if isinstance(function, Function) else function
        states = () if state is None else (JobState(state),)
        where = JobFilter(tenant=self._tenant, name=name, states=states)

        def work(transaction: Transaction) -> list[JobView]:
            return self._views(transaction, list(whole_jobs(transaction, where, limit=sys.maxsize)))

        return self._store.read(work)

    def pending(self, function: Function[..., Any] | str | None = None) -> list[JobView]:
        """The pending jobs, the earliest due first."""
        return sorted(self.jobs(function, state=JobState.PENDING), key=lambda job: (job.due_at, job.id))

    def job(self, job_id: str) -> JobView:
        """One job. Raises JobNotFound, also when its retention is over."""

        def work(transaction: Transaction) -> JobView:
            job = transaction.get_job(JobId(job_id), tenant=self._tenant)
            if job is None:
                raise JobNotFound(f"no job {job_id!r}: it was never scheduled in this world, or its retention is over")
            return self._views(transaction, [job])[0]

        return self._store.read(work)

    def _views(self, transaction: Transaction, jobs: list[Job]) -> list[JobView]:
        waits = blocked(jobs, transaction.list_workers(), self._clock.now())
        return [view(job, transaction.list_logs(job.id), blocked=job.id in waits) for job in jobs]

    def get(self, document_id: str) -> Document | None:
        """A document, or None."""
        return self.read(lambda db: db.get(document_id))

    def query(self, table: str) -> list[Document]:
        """All documents of a table (also of `_scheduled_functions`), in the order of their creation."""
        if table == SYSTEM_JOBS:
            return self.read(lambda db: db.system.query(table).collect())
        return self.read(lambda db: db.query(table).collect())

    def read(self, question: Callable[[DatabaseReader], T]) -> T:
        """Read the database as a query function can: `world.read(lambda db: db.query("t").first())`."""
        tables = self.app.tables

        def work(transaction: Transaction) -> T:
            unit = FunctionUnit(UnitOfWork(transaction))
            try:
                run = TransactionRun(
                    clock=self._clock, name="World.read", tenant=self._tenant, now=self._clock.now(), unit=unit
                )
                return question(DatabaseReader(run, tables))
            finally:
                unit.close()

        return self._store.read(work)

    # -- faults

    def outage(self, duration: float | timedelta) -> None:
        """Kill the worker, let `duration` pass without one, and start another one, which handles everything late."""
        begin = self.now
        self.kill()
        self.advance(duration)
        self._outages.append((begin, self.now))
        self.restart()

    def fail_next(self, function: Function[..., Any], error: BaseException) -> None:
        """Make the next run of a function raise `error` instead of running. Several calls apply to several runs."""
        self._faults.fail(self.app.functions.resolve(function), error)

    def conflict_next(self, function: Function[..., Any], *, times: int = 1) -> None:
        """Make the commit of the next transaction with a mutation raise WriteConflict."""
        self._faults.conflict(self.app.functions.resolve(function), times)

    def crash_before_commit(self, function: Function[..., Any], *, times: int = 1) -> None:
        """Kill the worker after the function's next run as a job, before its commit.

        Then nothing runs until `restart`. With `times`, the following workers die there, too.
        """
        self._faults.crash(self.app.functions.resolve(function), times)

    @contextmanager
    def database_unavailable(self) -> Iterator[None]:
        """While the `with` block runs, the database is unavailable to the worker and to the test."""
        self._faults.database_is_down = True
        try:
            yield
        finally:
            self._faults.database_is_down = False


class _TenantWorld(World):
    """A world that shares everything except the tenant with another one."""

    __slots__ = ("_tenant",)

    def __init__(self, world: World, tenant: TenantId) -> None:
        self.__dict__ = world.__dict__
        self._tenant = tenant


def _instant(moment: str | datetime) -> Instant:
    if isinstance(moment, str):
        text = moment
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise Misuse(f"{moment!r} is not a time; write it as 2026-03-29T00:59:58Z") from error
        if moment.tzinfo is None:
            raise InvalidDelay(f"{text!r} has no time zone; write it as {moment.isoformat()}Z")
    return from_datetime(moment)

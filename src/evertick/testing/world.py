"""A world: the real engine on a database in memory, under a clock that jumps.

    with World(app, at="2026-03-29T00:59:58Z") as world:
        message_id = world.call(send_expiring_message, "hello", "ada")
        world.advance(5)
        assert world.get(message_id) is None

Nothing runs by itself: jobs run while time passes (`advance`, `advance_to`, `drain`), or while an action that the
test called waits. Time passes only there, and costs nothing. There are no threads: actions that are plain functions
run in the test's own thread, and functions are not ended for using too much real time. Chance, ids and the clock come
from `seed` and `at`, so one test is one story, every time.

A world brings the database, the clock and a worker; functions and tables stay the app's. So one app can live in many
worlds, one after the other; while it lives in one, `app.call`, `app.scheduler` and `app.schedules` mean that world.

For stories about schedules it brings work that takes as long as the story says, and the ledger in a few words:

    report = world.schedule(every=minutes(1), takes=seconds(150), overlap=Overlap.BUFFER_ONE)
    world.advance(minutes(4))
    assert world.starts(report) == [at("00:01:00"), at("00:03:30")]
    assert world.skips(report) == [at("00:03:00")]
    print(world.timeline(report))
"""

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
from evertick.base.errors import InvalidDelay, JobNotFound, LimitExceeded, Misuse
from evertick.base.ids import JobId, TenantId, tenant_named
from evertick.base.instants import DAY_MS, Instant, duration_ms, from_datetime, to_datetime, to_iso
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
    """A simulated world; the module says what it is."""

    def __init__(
        self,
        app: App | None = None,
        *,
        at: str | datetime = START,
        seed: int = 0,
        settings: Settings | None = None,
        crons: bool = True,
    ) -> None:
        """Start a world with an empty database at the moment `at` (an aware datetime, or ISO 8601 text).

        Without an app it has one without functions. `settings` are the app's unless given; the world only lets its
        worker look less often, so that long times pass quickly. `crons=False` leaves out the crons that the code of the
        app declares, so that the test sees only what it schedules itself.

        Raises InvalidDelay for a moment without a time zone, Misuse for `crons` that is no bool.
        """
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
        """The same world as one of its tenants sees it: `world.tenant("acme").jobs()`. Raises InvalidTenant."""
        return _TenantWorld(self, tenant_named(name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the world: its worker, its database, its engines, and the faults that did not strike."""
        self.dispose()
        SimulatedEngine.close(self)

    # -- time

    def advance(self, duration: float | timedelta) -> None:
        """Let time pass (seconds, or a timedelta), and let happen what is due meanwhile, the last moment included."""
        self._run_until(Instant(self._clock.now() + duration_ms(duration, name="duration")))

    def advance_to(self, moment: str | datetime) -> None:
        """Let time pass until a moment. Raises Misuse if it is past: time does not go back."""
        at = _instant(moment)
        if at < self._clock.now():
            raise Misuse(f"it is {to_iso(self._clock.now())} already; a world's time does not go back to {to_iso(at)}")
        self._run_until(at)

    def drain(self, *, jobs_max: int = DRAIN_JOBS) -> None:
        """Let everything happen that is scheduled, however far away, until nothing is pending and nothing runs.

        Raises LimitExceeded after `jobs_max` attempts (a chain that schedules itself for ever has no end), Misuse
        if no worker is alive. Blocked jobs, whose function no worker knows, are left, and so are those of a pool that
        is paused.
        """
        if self._process is None or not self._process.alive:
            raise Misuse("the worker is dead, so nothing would ever run; start another with world.restart()")
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
        """Call a function as a program would, and return what it returns; what it raises is raised here.

        While an action waits, time passes and jobs run; a query or mutation takes no time, and runs no job.
        """
        resolved = self.app.functions.resolve(function)
        execution = self._execution_for(self._tenant)
        if isinstance(resolved, Action):
            result = self._run_action(execution.call(resolved, args, kwargs))
        else:
            result = execution.call_now(resolved, args, kwargs)
        return cast("R", result)

    # -- what there is

    def jobs(self, function: Function[..., Any] | str | None = None, *, state: str | None = None) -> list[JobView]:
        """Jobs (of one function, in one state) in the order in which they were scheduled."""
        name = function.name if isinstance(function, Function) else function
        states = () if state is None else (JobState(state),)
        where = JobFilter(tenant=self._tenant, name=name, states=states)

        def work(transaction: Transaction) -> list[JobView]:
            return self._views(transaction, list(whole_jobs(transaction, where, limit=sys.maxsize)))

        return self._store.read(work)

    def pending(self, function: Function[..., Any] | str | None = None) -> list[JobView]:
        """Jobs that wait, the earliest due first."""
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

    # -- what goes wrong

    def outage(self, duration: float | timedelta) -> None:
        """The worker dies, no other runs for `duration`, and then another one starts, which sees what is late."""
        begin = self.now
        self.kill()
        self.advance(duration)
        self._outages.append((begin, self.now))
        self.restart()

    def fail_next(self, function: Function[..., Any], error: BaseException) -> None:
        """Let the next run of a function raise `error` instead of running. Several calls arrange several runs."""
        self._faults.fail(self.app.functions.resolve(function), error)

    def conflict_next(self, function: Function[..., Any], *, times: int = 1) -> None:
        """Let the next transaction in which a mutation runs meet a write conflict at its commit."""
        self._faults.conflict(self.app.functions.resolve(function), times)

    def crash_before_commit(self, function: Function[..., Any], *, times: int = 1) -> None:
        """Let the worker die after the function's next run as a job, before anything of that run is committed.

        From then on nothing runs until `restart`. With `times`, the workers after it die there, too.
        """
        self._faults.crash(self.app.functions.resolve(function), times)

    @contextmanager
    def database_away(self) -> Iterator[None]:
        """While the `with` block runs, the database is unavailable to the worker and to the test."""
        self._faults.database_is_away = True
        try:
            yield
        finally:
            self._faults.database_is_away = False


class _TenantWorld(World):
    """A world that shares everything with another one but the tenant."""

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

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

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, Unpack, cast
from weakref import WeakSet

from evertick.app.app import App
from evertick.app.budget import Budget
from evertick.app.database import SYSTEM_JOBS, DatabaseReader
from evertick.app.environment import Environment
from evertick.app.execution import Execution
from evertick.app.functions import Action, Function
from evertick.app.queries import Document
from evertick.app.schedule_definition import Defining, Do
from evertick.app.schedule_reading import all_occurrences
from evertick.app.schedule_specs import When
from evertick.app.schedule_views import OccurrenceView, occurrence_view
from evertick.app.scheduling import Drafter
from evertick.base.errors import JobNotFound, LimitExceeded, Misuse, NotFound
from evertick.base.ids import DEFAULT_TENANT, IdMaker, JobId, ScheduleId
from evertick.base.instants import DAY_MS, HOUR_MS, Instant, duration_ms, from_datetime, to_datetime, to_iso
from evertick.base.records import FunctionKind, JobFilter, JobState
from evertick.base.schedule_records import OccurrenceFilter
from evertick.engine.events import Counters, JobEnded
from evertick.engine.lanes import InlineLanes
from evertick.engine.settings import Settings
from evertick.engine.timer import Timer
from evertick.engine.worker import Worker
from evertick.rules.recurrence.vocabulary import every as every_
from evertick.rules.schedule import Fate, Origin
from evertick.store.contract import Transaction
from evertick.store.open import open_store
from evertick.store.unit_of_work import UnitOfWork
from evertick.testing.faults import Faults
from evertick.testing.jobs import JobView, view
from evertick.testing.loop import JumpingLoop, Process
from evertick.testing.moments import START, minutes
from evertick.testing.store import WorldStore
from evertick.testing.timeline import Timeline
from evertick.testing.work import WithWork, Work

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

CALL_DAYS: Final = 30
"""Simulated days that an action called by the test may take."""
DRAIN_DAYS: Final = 5 * 366
DRAIN_JOBS: Final = 10_000
PAGE: Final = 1_000
PRUNE_MS: Final = 3 * HOUR_MS
"""How long after its retention a job may still be found."""

_inhabited: "WeakSet[App]" = WeakSet()
"""Apps that live in a world just now."""


class Scheduling(Defining, total=False):
    """What `World.schedule` passes on to `app.schedules.create`."""

    paused: bool
    note: str
    remaining_actions: int


class World:
    """A simulated world; the module says what it is."""

    def __init__(
        self,
        app: App | None = None,
        *,
        at: str | datetime = START,
        seed: int = 0,
        settings: Settings | None = None,
    ) -> None:
        """Start a world with an empty database at the moment `at` (an aware datetime, or ISO 8601 text).

        Without an app it has one without functions. `settings` are the app's unless given; the world only lets its
        worker look less often, so that long times pass quickly. Raises InvalidDelay for a moment without a time zone.
        """
        start = _instant(at)
        self._loop = JumpingLoop()
        self._clock = _WorldClock(start, self._loop)
        self._entropy = random.Random(seed)
        self._ids = IdMaker(self._entropy)
        self._faults = Faults(self._loop.kill)
        self._inner = open_store("sqlite://")
        self._inner.migrate()
        self._store = WorldStore(self._inner, self._faults)
        self._settings = settings
        self._process: Process | None = None
        self._boots = 0
        self._schedules = 0
        self._work = Work()
        self._outages: list[tuple[datetime, datetime]] = []
        self._begin = to_datetime(start)
        self.counters = Counters()
        self.counters.observers.append(self)
        self._attempts = 0
        self._closed = False
        self._leave: Callable[[], None] = _nothing
        try:
            self._enter(app or App("world"))
            self.restart()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<World of {self.app.name} at {to_iso(self._clock.now())}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the world: its worker, its database, and the faults that did not strike."""
        if not self._closed:
            self._closed = True
            self.kill()
            self._faults.close()
            self._leave()
            self._leave = _nothing
            self._loop.close()
            self._inner.close()

    # -- time

    @property
    def now(self) -> datetime:
        """The present of this world, in UTC."""
        return to_datetime(self._clock.now())

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
        if no worker is alive. Blocked jobs, whose function nobody knows, are left.
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
        """Call a function as a program would, and answer what it returns; what it raises is raised here.

        While an action waits, time passes and jobs run; a query or mutation takes no time, and runs no job.
        """
        resolved = self.app.functions.resolve(function)
        execution = Execution(self._environment)
        if isinstance(resolved, Action):
            until_s = self._loop.time() + CALL_DAYS * 86_400
            result = self._loop.run_task(execution.call(resolved, args, kwargs), until_s=until_s)
            self._raise_what_ended_the_worker()
        else:
            result = execution.call_now(resolved, args, kwargs)
        return cast("R", result)

    # -- what there is

    def jobs(self, function: Function[..., Any] | str | None = None, *, state: str | None = None) -> list[JobView]:
        """Jobs (of one function, in one state) in the order in which they were scheduled."""
        name = function.name if isinstance(function, Function) else function
        states = () if state is None else (JobState(state),)
        where = JobFilter(name=name, states=states)

        def work(transaction: Transaction) -> list[JobView]:
            found: list[JobView] = []
            while True:
                after = found[-1].id if found else None
                page = transaction.list_jobs(where, limit=PAGE, after=after)
                found += [view(job) for job in page]
                if len(page) < PAGE:
                    return found

        return self._store.read(work)

    def pending(self, function: Function[..., Any] | str | None = None) -> list[JobView]:
        """Jobs that wait, the earliest due first."""
        return sorted(self.jobs(function, state=JobState.PENDING), key=lambda job: (job.due, job.id))

    def job(self, job_id: str) -> JobView:
        """One job. Raises JobNotFound, also when its retention is over."""
        job = self._store.read(lambda transaction: transaction.get_job(JobId(job_id), tenant=DEFAULT_TENANT))
        if job is None:
            raise JobNotFound(f"no job {job_id!r}: it was never scheduled in this world, or its retention is over")
        return view(job)

    def get(self, document_id: str) -> Document | None:
        """A document, or None."""
        return self.read(lambda db: db.get(document_id))

    def query(self, table: str) -> list[Document]:
        """All documents of a table (also of `_scheduled_functions`), in the order of their creation."""
        if table == SYSTEM_JOBS:
            return self.read(lambda db: db.system.query(table).collect())
        return self.read(lambda db: db.query(table).collect())

    def read(self, question: Callable[[DatabaseReader], T]) -> T:
        """Ask the database anything a query function can: `world.read(lambda db: db.query("t").first())`."""
        tables = self.app.tables

        def work(transaction: Transaction) -> T:
            unit = UnitOfWork(transaction)
            try:
                return question(DatabaseReader(unit, DEFAULT_TENANT, tables, Budget()))
            finally:
                unit.close()

        return self._store.read(work)

    # -- schedules

    def schedule(
        self,
        schedule_id: str | None = None,
        *,
        every: timedelta | None = None,
        when: When | None = None,
        do: Do | None = None,
        takes: float | timedelta = 0,
        cleans_up: float | timedelta = 0,
        **options: Unpack[Scheduling],
    ) -> ScheduleId:
        """Create a schedule (named `schedule-1`, `schedule-2` and so on), and answer its id.

        Its times are `every=` so long, counted from the Unix epoch, or a spec, `when=`. It does `do`, a function of
        the app, or else work that `takes` so long, and that `cleans_up` for so long when it is asked to stop. The
        options are those of `app.schedules.create`, which also says what it raises.
        """
        if (every is None) == (when is None):
            raise Misuse("a schedule takes its times as every=minutes(5) or as when=daily(hour=9), and one of the two")
        if do is not None and (takes or cleans_up):
            raise Misuse("do= is a function of yours, which takes as long as it takes; leave takes= and cleans_up= out")
        self._schedules += 1
        if every is not None:
            when = every_(seconds=duration_ms(every, name="every") // 1000)
        if do is None:
            lengths = (duration_ms(takes, name="takes"), duration_ms(cleans_up, name="cleans_up"))
            do = self._work.function.args(*(length / 1000 for length in lengths))
        name = schedule_id or f"schedule-{self._schedules}"
        return self.app.schedules.create(name, when=cast("When", when), do=do, **options).id

    def occurrences(self, schedule_id: str) -> list[OccurrenceView]:
        """The whole ledger of a schedule: every time that it named so far and what became of it, by nominal time."""
        where = OccurrenceFilter(tenant=DEFAULT_TENANT, schedule_id=ScheduleId(schedule_id))
        return self._store.read(
            lambda transaction: [occurrence_view(row) for row in all_occurrences(transaction, where)]
        )

    def starts(self, schedule_id: str) -> list[datetime]:
        """When runs of a schedule were started, in order, by whomever they were asked for."""
        return sorted(each.started for each in self.occurrences(schedule_id) if each.started is not None)

    def skips(self, schedule_id: str) -> list[datetime]:
        """The nominal times that were skipped: a policy decided against them."""
        return [each.nominal for each in self.occurrences(schedule_id) if each.fate is Fate.SKIPPED]

    def missed(self, schedule_id: str) -> list[datetime]:
        """The nominal times that were missed: they should have run and did not."""
        return [each.nominal for each in self.occurrences(schedule_id) if each.fate is Fate.MISSED]

    def waiting(self, schedule_id: str) -> list[datetime]:
        """The nominal times that wait for a run to end."""
        return [each.nominal for each in self.occurrences(schedule_id) if each.fate is Fate.BUFFERED]

    def timeline(self, schedule_id: str, *, unit: timedelta = minutes(1)) -> str:
        """The ledger of a schedule as a drawing; see `evertick.testing.timeline`. Units count from the beginning."""
        stops = {job_id: to_datetime(moment) for job_id, moment in self._work.asked_to_stop.items()}
        occurrences = self.occurrences(schedule_id)
        asked: dict[str, datetime] = {}
        with suppress(NotFound):  # of a deleted schedule nobody knows when its backfills were asked for
            for request in {each.request for each in occurrences if each.origin is Origin.BACKFILL}:
                asked[request] = self.app.schedules.backfill_status(schedule_id, request).asked
        frame = Timeline(origin=self._begin, now=self.now, unit=unit, outages=self._outages, stops=stops, asked=asked)
        return frame.draw(occurrences)

    # -- what goes wrong

    def outage(self, duration: float | timedelta) -> None:
        """The worker dies, nobody is there for `duration`, and then another worker starts, which sees what is late."""
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
        """While the `with` block runs, the database does not answer anybody, not even the test."""
        self._faults.database_is_away = True
        try:
            yield
        finally:
            self._faults.database_is_away = False

    def kill(self) -> None:
        """The worker process dies at once, as by SIGKILL: no `finally` of what it runs gets a say."""
        if self._process is not None and self._process.alive:
            self._loop.kill(self._process)
        self._store.forget_listeners()

    def restart(self) -> None:
        """Start a worker process; one that still lives is killed before.

        It gives back what the dead one held, and runs at once what is due.
        """
        self.kill()
        self._boots += 1
        self._process = Process(f"worker {self._boots}")
        e = self._environment
        self.app.sync_crons()
        worker = Worker(
            e.store, e.lanes, e.clock, Execution(e), e.ids, e.entropy, e.settings, self.counters, targets=e.targets
        )
        self._worker = worker
        self._working = self._loop.start(self._process, worker.run())
        self._run_until(self._clock.now())

    def deploy(self, app: App) -> None:
        """Replace the code: a worker with the functions and tables of another app goes on with the same database."""
        self.kill()
        self._faults.close()
        self._leave()
        self._leave = _nothing
        self._enter(app)
        self.restart()

    # -- helpers

    def job_ended(self, event: JobEnded, /) -> None:
        """Counts attempts; the engine calls it."""
        self._attempts += 1

    def _enter(self, app: App) -> None:
        if app in _inhabited:
            raise Misuse(f"the app {app.name!r} lives in another world; close that one first (world.close())")
        app.check()
        self.app = app
        settings = self._settings or app.settings
        self._environment = Environment(
            functions=WithWork(app.functions, self._work),
            tables=app.tables,
            store=self._store,
            lanes=InlineLanes(self._store),
            clock=self._clock,
            ids=self._ids,
            entropy=self._entropy,
            drafter=Drafter(app.functions, self._ids, self._clock),
            settings=replace(
                settings,
                poll_ms=max(settings.poll_ms, DAY_MS),
                evaluate_every_ms=max(settings.evaluate_every_ms, DAY_MS),
                prune_every_ms=max(settings.prune_every_ms, PRUNE_MS),
                unblock_every_ms=max(settings.unblock_every_ms, DAY_MS),  # code changes by `deploy` alone
            ),
            targets=app.targets,
            timer=_NoTimer(),
            sleep=_no_sleep,
        )
        leave = app.enter(self._environment)
        _inhabited.add(app)

        def leave_app() -> None:
            leave()
            _inhabited.discard(app)

        self._leave = leave_app

    def _run_until(self, at: Instant, *, enough: Callable[[], bool] | None = None) -> None:
        self._loop.run_until(self._clock.seconds_at(at), enough=enough)
        self._raise_what_ended_the_worker()

    def _raise_what_ended_the_worker(self) -> None:
        if self._process is not None and self._process.alive and self._working.done():
            self._process.alive = False
            self._working.result()

    def _is_drained(self) -> bool:
        if self._worker.actions.running:
            return False
        worker_id = self._worker.current_id()

        def is_waiting(transaction: Transaction) -> bool:
            if worker_id is not None and transaction.held_jobs(worker_id, limit=1):
                return True  # a mutation between two conflicts
            kinds = (FunctionKind.MUTATION, FunctionKind.ACTION)
            return any(transaction.waiting_tenants(kind, limit=1) for kind in kinds) or any(
                transaction.suspect_due_at(kind) is not None for kind in kinds
            )

        return not self._store.read(is_waiting)


class _WorldClock:
    """The wall clock of a world: its start, and the loop's time since then."""

    def __init__(self, start: Instant, loop: JumpingLoop) -> None:
        self._start = start
        self._loop = loop

    def now(self) -> Instant:
        """The present."""
        return Instant(self._start + round(self._loop.time() * 1000))

    def seconds_at(self, at: Instant) -> float:
        """The loop's time at a moment; never before its present."""
        return max(self._loop.time(), (at - self._start) / 1000)


class _NoTimer(Timer):
    """Functions take no simulated time, so none takes too long."""

    def call(self, limit_ms: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function`."""
        return function(*args, **kwargs)


def _nothing() -> None:
    """The world has no app yet, or none any more."""


def _no_sleep(seconds: float) -> None:
    """Whoever would wait in a thread, waits no time here."""


def _instant(moment: str | datetime) -> Instant:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise Misuse(f"{moment!r} is no moment; write it as 2026-03-29T00:59:58Z") from error
    return from_datetime(moment)

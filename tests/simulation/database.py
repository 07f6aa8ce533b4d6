"""What a simulated process sees of the shared database: the same store, behind faults.

Every write passes labelled points, `mutations.run.before_commit` and the like, at which the process may die. And it may
meet what PostgreSQL does to its clients:

    unavailable   the database does not respond; nothing was written
    conflict      the transaction could not be serialized; nothing was written
    forgotten     the commit was applied without reaching the disk, and the database crashed (RELAXED writes only)
    lost          the connection broke during COMMIT, which was not applied
    unheard       the connection broke during COMMIT, which was applied
    outage        nobody reaches the database for a while
    deaf          a hint that a job is due got lost

Every other seed commits each statement of an EACH or RELAXED write by itself, as PostgreSQL does; the others commit
them together, as SQLite does.

An executor takes its time, before the transaction and on the way back. Work that was handed to an executor is done
even if nobody waits for it any more, as in a thread.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from evertick.base.errors import Conflict, DatabaseUnavailable, OutcomeUnknown, Unavailable, WriteConflict
from evertick.base.ids import WorkerId
from evertick.base.instants import Instant
from evertick.engine.runtime.deps import EngineDeps
from evertick.engine.runtime.executors import Executors
from evertick.engine.runtime.registration import renew
from evertick.store.notifications import Listener, Notifications
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction
from tests.simulation.processes import Process, current_process
from tests.simulation.world import World

T = TypeVar("T")

LABELS: Final = {
    "MutationLoop._claim_work": "mutations.claim",
    "BatchRunner.work": "mutations.run",
    "BatchRunner._still_held": "mutations.look_up",
    "BatchRunner._end_failed": "mutations.give_up",
    "MutationLoop._run_suspect": "mutations.claim_suspect",
    "ActionLoop._claim_and_start": "actions.claim",
    "give_back": "give_back",
    "ActionEnds.round": "actions.end",
    "find_lost": "claims.lost",
    "ActionLogs._store": "actions.log",
    "Reaper._check": "reaper",
    "Pruner.round": "pruner",
    "CountSums.round": "counts",
    "ActivityWriter._write": "activity",
    "Registration._register": "register",
    "Registration.sign_off": "sign_off",
    "renew": "renew",
    "_Scheduler._place_work": "schedule",
    "_Scheduler._cancel_work": "cancel",
    "Execution._mutation_work": "call",
    "Execution._keyed_work": "call_once",
    "WorkflowOperations.start": "flow.start",
    "WorkflowOperations.signal": "flow.signal",
    "WorkflowOperations._end": "flow.end",
    "WorkflowOperations.pause": "flow.pause",
    "WorkflowOperations.resume": "flow.resume",
    "App.prepare": "prepare",
    "_batch": "index.build",
    "CancellationLoop._note_stuck": "stuck",
    "Evaluator._page": "evaluate",
    "ScheduleClient.ask": "request",
}
"""Whose work a transaction is, by the name of the function that made it."""


def origin_of(work: Callable[..., Any]) -> str:
    """The name of a transaction's work."""
    while isinstance(work, partial):  # run in the context of a trace
        work = work.args[0]
    return work.__qualname__


def label_of(work: Callable[..., Any]) -> str:
    """A short, stable name for a transaction's work."""
    return LABELS[origin_of(work).partition(".<locals>")[0]]


class _ByStatement:
    """A transaction that is none: each of its methods is committed by itself."""

    def __init__(self, commit: Callable[[Callable[[Transaction], Any]], Any]) -> None:
        self._commit = commit

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **options: self._commit(lambda transaction: getattr(transaction, name)(*args, **options))


def by_statement(commit: Callable[[Callable[[Transaction], Any]], Any]) -> Any:
    """Looks like a transaction; `commit` commits each of its calls."""
    return _ByStatement(commit)


class SimulatedStore:
    """The shared store as one process reaches it."""

    url = "sqlite://"
    dialect = "sqlite"
    place = ""
    single_engine = False

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._by_statement = world.loop.seed % 2 == 1
        self.listeners: list[Listener] = []

    def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Store.write`: as it is, unless a fault strikes."""
        label = label_of(work)
        if isolation is Isolation.RELAXED and self._world.loop.faults.strikes(f"forgotten/{label}"):
            self._world.rare["relaxed_commit_forgotten"] += 1
            return self._commit(work, label, isolation, self._world.forget)
        if self._by_statement and isolation in (Isolation.EACH, Isolation.RELAXED):
            return work(by_statement(lambda one: self._commit(one, label, isolation, self._world.commit)))
        return self._commit(work, label, isolation, self._world.commit)

    def _commit(
        self,
        work: Callable[[Transaction], T],
        label: str,
        isolation: Isolation,
        commit: Callable[[Callable[[Transaction], T]], T],
    ) -> T:
        loop = self._world.loop
        loop.point(f"{label}.before")
        self._reach(label)

        def with_faults(transaction: Transaction) -> T:
            result = work(transaction)
            loop.point(f"{label}.before_commit")
            if isolation is Isolation.SERIALIZABLE and loop.faults.strikes(f"conflict/{label}"):
                raise WriteConflict("simulated: could not be serialized")
            if loop.faults.strikes(f"lost/{label}"):
                self._world.rare["unknown_not_applied"] += 1
                raise OutcomeUnknown("simulated: the connection broke, nothing was applied")
            return result

        result = commit(with_faults)
        loop.point(f"{label}.after_commit")
        for afterthought in self._world.take_afterthoughts():
            self._world.commit(afterthought)
        if loop.faults.strikes(f"unheard/{label}"):
            self._world.rare["unknown_applied"] += 1
            raise OutcomeUnknown("simulated: the connection broke, all was applied")
        return result

    def write_failure(self) -> None:
        """See `Store.write_failure`: an outage of this world is one of reads, too."""

    def read(self, work: Callable[[Transaction], T]) -> T:
        """See `Store.read`."""
        self._reach("read")
        return self._world.store.read(work)

    def view(self, work: Callable[[Transaction], T]) -> T:
        """See `Store.view`."""
        return self.read(work)

    def settle(self) -> None:
        """See `Store.settle`: the world's database is Evertick's alone."""

    def migrate(self) -> list[str]:
        """See `Store.migrate`: the world did it."""
        return []

    def check_schema(self) -> None:
        """See `Store.check_schema`: the world saw to it."""

    def listen(self, listener: Listener) -> Callable[[], None]:
        """See `Store.listen`."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def hear(self, hints: Notifications) -> None:
        """Somebody committed a job: tell this process soon, if the hint does not get lost."""
        loop = self._world.loop
        for listener in self.listeners:
            if not loop.faults.strikes("deaf"):
                loop.deliver(self._process, listener, hints, delay=loop.random.choice((0.0, 0.001, 0.1)))

    def database_now(self) -> Instant | None:
        """See `Store.database_now`."""
        return None

    def lock_engine(self) -> None:
        """See `Store.lock_engine`."""

    def unlock_engine(self) -> None:
        """See `Store.unlock_engine`."""

    def close(self) -> None:
        """See `Store.close`."""

    def _reach(self, label: str) -> None:
        world = self._world
        outage = world.loop.faults.strikes("outage", (0.3, 2.0, 8.0))
        if outage is not None:
            world.away_until = world.loop.time() + outage.value
            world.rare["outage"] += 1
        if world.loop.time() < world.away_until or world.loop.faults.strikes(f"unavailable/{label}"):
            raise DatabaseUnavailable("simulated: no answer")


class SimulatedExecutors(Executors):
    """Executors without threads: work runs inline, after a while, and its answer takes a while too."""

    def __init__(self, store: Store, world: World, latencies: tuple[float, ...]) -> None:
        self._store = store
        self._loop = world.loop
        self._latencies = latencies

    async def write(self, work: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Executors.write`."""
        return await self._elsewhere(lambda: self._store.write(work, isolation=isolation))

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """See `Executors.read`."""
        return await self._elsewhere(lambda: self._store.read(work))

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """See `Executors.call`."""
        return await self._elsewhere(lambda: function(*args))

    async def run_job(self, function: Callable[[], T]) -> T:
        """See `Executors.run_job`."""
        return await self._elsewhere(function)

    def close(self, *, wait: bool = True) -> None:
        """See `Executors.close`."""

    async def _elsewhere(self, work: Callable[[], T]) -> T:
        answer = self._loop.create_future()

        def run() -> None:
            result: T | None = None
            error: Exception | None = None
            try:
                result = work()
            except Exception as raised:
                error = raised
            self._after_a_while(tell, result, error)

        def tell(result: T | None, error: Exception | None) -> None:
            if not answer.done():  # else nobody waits any more
                answer.set_result((result, error))

        self._after_a_while(run)
        result, error = await answer
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]  # there is no error

    def _after_a_while(self, callback: Callable[..., object], *args: object) -> None:
        latency_s = self._loop.random.choice(self._latencies)
        if latency_s:
            self._loop.call_later(latency_s, callback, *args)
        else:
            self._loop.call_soon(callback, *args)


class HeartbeatTask:
    """Renews a simulated worker's lease, in place of the thread of a real one."""

    def __init__(self, deps: EngineDeps, worker_id: WorkerId, on_lost: Callable[[], object]) -> None:
        self._deps = deps
        self._worker_id = worker_id
        self._on_lost = on_lost
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """See `Heartbeat.start`."""
        self._task = asyncio.create_task(self._run(), name=f"{current_process().name}/lease")

    def stop(self) -> None:
        """See `Heartbeat.stop`."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._deps.settings.renew_every_ms / 1000)
            try:
                if not renew(self._deps, self._worker_id):
                    self._on_lost()
                    return
            except (Unavailable, Conflict):
                pass

"""Executors: run transactions and blocking functions elsewhere, so that the event loop never waits for them.

The engine and user functions never share threads: a function can block its thread for any time, and meanwhile the
engine must continue to claim, evaluate and write ends.

`ThreadExecutors` has threads; `InlineExecutors` runs everything at once in the caller's thread, which makes tests and
simulations deterministic.

`Store.write` makes one attempt at a transaction. Calls from programs, actions and commands need a result, so
`retry_conflicts` repeats a transaction that met a conflict, with growing waits. The engine's own loops handle conflicts
by batch.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, NamedTuple, ParamSpec, Protocol, TypeVar

from evertick.base.errors import WriteConflict
from evertick.base.ids import Entropy
from evertick.base.records.jobs import RetryPolicy
from evertick.rules.jobs.lifecycle import retry_delay_ms
from evertick.store.store import Isolation, Store
from evertick.store.transaction.transaction import Transaction

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[[Transaction], T]

READERS: Final = 4
"""Threads for the reads of the engine."""
JOB_THREADS_MAX: Final = 100_000
"""No limit: a job's slot is its thread. A function that continues after its job was canceled keeps its thread, and must
not delay the next one."""


class Executors(Protocol):
    """Runs work elsewhere while the caller awaits the result."""

    async def write(self, work: Work[T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """Call `Store.write`: one attempt."""
        ...

    async def write_two(
        self, first: Work[A], then: Callable[[A], Work[B] | None], *, isolation: Isolation
    ) -> tuple[A, Awaitable[B] | None]:
        """Run `first` with this isolation, then the work that `then` makes of its result, in a separate transaction.

        Returns the result of `first`, and an awaitable for the second; None if there is none. Raises errors of `first`.
        """
        result = await self.write(first, isolation=isolation)
        second = then(result)
        return result, None if second is None else self.write(second)

    async def read(self, work: Work[T]) -> T:
        """Call `Store.read`."""
        ...

    async def view(self, work: Work[T]) -> T:
        """Call `Store.view`."""
        ...

    async def ask(self, function: Callable[[], T]) -> T:
        """Call a blocking function of Evertick itself."""
        ...

    async def call(self, function: Callable[[], T]) -> T:
        """Call a user function that may block and that `async` code awaits."""
        ...

    async def call_to_end(self, function: Callable[[], T]) -> T:
        """As `call`, for a job. After a cancelled call, the function has ended or never begins."""
        return await self.call(function)

    async def run_job(self, function: Callable[[], T]) -> T:
        """Call the blocking function of a job in a thread, at once: action slots limit the number of threads."""
        ...

    def close(self, *, wait: bool = True) -> None:
        """Release the threads; without `wait`, also those with transactions that have not ended."""
        ...


class _Pools(NamedTuple):
    writers: ThreadPoolExecutor
    readers: ThreadPoolExecutor
    callers: ThreadPoolExecutor
    jobs: ThreadPoolExecutor


class ThreadExecutors(Executors):
    """Threads for the engine's transactions (one for SQLite's writer, several for PostgreSQL), and others for user
    functions.
    """

    def __init__(self, store: Store, *, writers: int, callers: int) -> None:
        self._store = store
        self._sizes = (writers, callers)
        self._pools = self._new_pools()

    async def write(self, work: Work[T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._pools.writers, lambda: self._store.write(work, isolation=isolation)
        )

    async def write_two(
        self, first: Work[A], then: Callable[[A], Work[B] | None], *, isolation: Isolation
    ) -> tuple[A, Awaitable[B] | None]:
        """Run both in one thread, one after the other, without a detour through the event loop."""

        def both() -> "tuple[A, Future[B] | None]":
            result = self._store.write(first, isolation=isolation)
            second = then(result)
            if second is None:
                return result, None
            end: Future[B] = Future()
            try:
                end.set_result(self._store.write(second))
            except Exception as error:
                end.set_exception(error)
            return result, end

        result, end = await asyncio.get_running_loop().run_in_executor(self._pools.writers, both)
        return result, None if end is None else asyncio.wrap_future(end)

    async def read(self, work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pools.readers, self._store.read, work)

    async def view(self, work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pools.callers, self._store.view, work)

    async def ask(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pools.readers, function)

    async def call(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pools.callers, in_context(function))

    async def call_to_end(self, function: Callable[[], T]) -> T:
        pools = self._pools
        in_thread = pools.callers.submit(in_context(function))
        ended = asyncio.wrap_future(in_thread)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if ended.done() or in_thread.cancel():
                raise
        while not ended.done() and pools is self._pools:  # at the worker's end the function is abandoned
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((ended,))
        raise asyncio.CancelledError

    async def run_job(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pools.jobs, in_context(function))

    def close(self, *, wait: bool = True) -> None:
        """Release the threads. A running function keeps its thread, but not the process.

        Later work, for example of a program that outlives its worker, gets new threads.
        """
        pools, self._pools = self._pools, self._new_pools()
        pools.writers.shutdown(wait=wait, cancel_futures=not wait)
        if not wait and self._sizes[0] == 1:
            # Writes keep their order: the recovery by the next worker then includes a claim in progress.
            self._pools.writers.submit(pools.writers.shutdown)
        for pool in (pools.readers, pools.callers, pools.jobs):
            pool.shutdown(wait=False, cancel_futures=True)

    def _new_pools(self) -> _Pools:
        """New pools. No thread starts before its first work."""
        writers, callers = self._sizes
        return _Pools(
            writers=ThreadPoolExecutor(writers, thread_name_prefix="evertick-executor"),
            readers=ThreadPoolExecutor(READERS, thread_name_prefix="evertick-read"),
            callers=ThreadPoolExecutor(callers, thread_name_prefix="evertick-call"),
            jobs=ThreadPoolExecutor(JOB_THREADS_MAX, thread_name_prefix="evertick-job"),
        )


class InlineExecutors(Executors):
    """No threads: work runs where it is awaited, after every other task has had its turn."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, work: Work[T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        await asyncio.sleep(0)
        return self._store.write(work, isolation=isolation)

    async def read(self, work: Work[T]) -> T:
        await asyncio.sleep(0)
        return self._store.read(work)

    async def view(self, work: Work[T]) -> T:
        await asyncio.sleep(0)
        return self._store.view(work)

    async def ask(self, function: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return function()

    async def call(self, function: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return function()

    async def run_job(self, function: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return function()

    def close(self, *, wait: bool = True) -> None:
        """Do nothing: there are no threads to release."""


def in_context(function: Callable[P, T]) -> Callable[P, T]:
    """The function for another thread, with the caller's context variables, such as the current span."""
    return partial(copy_context().run, function)


CONFLICTS: Final = RetryPolicy(attempts=16, first_ms=10, factor=2.0, cap_ms=1_000, jitter=0.5)
"""How often a transaction is attempted before its caller gets the WriteConflict: for some nine seconds. PostgreSQL also
detects conflicts in pages of indexes, so in a small database every second attempt can fail during many writes."""


LOCKED_FOR_S: Final = 15
"""After this time, a caller whose attempt could not get a lock gets the WriteConflict: PostgreSQL lets each attempt
wait for ten seconds, and a lock that is held for that long is often held for minutes."""


def retry_conflicts(
    attempt: Callable[[], T], entropy: Entropy, *, sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> T:  # fmt: skip
    """Return the result of `attempt`, called again while it raises WriteConflict.

    Raises WriteConflict after the last attempt that `CONFLICTS` and `LOCKED_FOR_S` allow, and every other error of
    `attempt`.
    """
    conflicts = _Conflicts(entropy, monotonic)
    while True:
        try:
            return attempt()
        except WriteConflict as conflict:
            pause_s = conflicts.pause_after(conflict)
        sleep(pause_s)


async def retry_conflicts_async(attempt: Callable[[], Awaitable[T]], entropy: Entropy) -> T:
    """Like `retry_conflicts`, without blocking the event loop."""
    conflicts = _Conflicts(entropy, time.monotonic)
    while True:
        try:
            return await attempt()
        except WriteConflict as conflict:
            pause_s = conflicts.pause_after(conflict)
        await asyncio.sleep(pause_s)


class _Conflicts:
    """The conflicts of the attempts at one transaction."""

    def __init__(self, entropy: Entropy, monotonic: Callable[[], float]) -> None:
        self._entropy = entropy
        self._monotonic = monotonic
        self._begun = monotonic()
        self._failures = 0

    def pause_after(self, conflict: WriteConflict) -> float:
        """Seconds to wait before the next attempt. Raises the conflict if it was the last one."""
        self._failures += 1
        is_locked = conflict.has_waited and self._monotonic() - self._begun >= LOCKED_FOR_S
        if is_locked or self._failures >= CONFLICTS.attempts:
            raise conflict
        return retry_delay_ms(self._failures, CONFLICTS, self._entropy) / 1000


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> None:
    """Call `function` in the loop's thread, from another thread. If the loop has been closed, nothing happens."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)

"""Lanes: where transactions and blocking functions run, so that the event loop never waits for them.

`ThreadLanes` has threads; `InlineLanes` runs everything at once in the caller's thread, which makes tests and
simulations deterministic.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from evertick.store.contract import Isolation, Store, Transaction

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
Work = Callable[[Transaction], T]


class Lanes(Protocol):
    """Runs work elsewhere and lets the caller await it."""

    async def write(self, work: Work[T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """`Store.write`, one attempt."""
        ...

    async def write_two(
        self, first: Work[A], then: Callable[[A], Work[B] | None], *, isolation: Isolation
    ) -> tuple[A, Awaitable[B] | None]:
        """`first`, with the isolation given, and then in a transaction of its own what `then` makes of its result.

        Answers the result of `first`, whose errors are raised, and the second to be awaited; None if there is none.
        """
        result = await self.write(first, isolation=isolation)
        second = then(result)
        return result, None if second is None else self.write(second)

    async def read(self, work: Work[T]) -> T:
        """`Store.read`."""
        ...

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """A blocking function of the user's."""
        ...

    def close(self, *, wait: bool = True) -> None:
        """Give the threads back; without `wait`, also those whose transactions have not ended."""
        ...


class ThreadLanes(Lanes):
    """Threads: one for SQLite's writer, several for PostgreSQL, and some for users' blocking functions."""

    def __init__(self, store: Store, *, writers: int, callers: int) -> None:
        self._store = store
        self._sizes = (writers, callers)
        self._writers, self._callers = self._pools()

    async def write(self, work: Work[T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Lanes.write`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writers, lambda: self._store.write(work, isolation=isolation))

    async def write_two(
        self, first: Work[A], then: Callable[[A], Work[B] | None], *, isolation: Isolation
    ) -> tuple[A, Awaitable[B] | None]:
        """See `Lanes.write_two`. Both run in one thread, one after the other: the event loop is not asked between."""

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

        result, end = await asyncio.get_running_loop().run_in_executor(self._writers, both)
        return result, None if end is None else asyncio.wrap_future(end)

    async def read(self, work: Work[T]) -> T:
        """See `Lanes.read`."""
        return await asyncio.get_running_loop().run_in_executor(self._callers, self._store.read, work)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """See `Lanes.call`."""
        return await asyncio.get_running_loop().run_in_executor(self._callers, function, *args)

    def close(self, *, wait: bool = True) -> None:
        """See `Lanes.close`. A function that still runs keeps its thread, not the process.

        Whoever works here afterwards, as a program does that outlives its worker, gets new threads.
        """
        writers, callers = self._writers, self._callers
        self._writers, self._callers = self._pools()
        writers.shutdown(wait=wait, cancel_futures=not wait)
        callers.shutdown(wait=False, cancel_futures=True)

    def _pools(self) -> tuple[ThreadPoolExecutor, ThreadPoolExecutor]:
        """No thread is there before its first work."""
        writers, callers = self._sizes
        return (
            ThreadPoolExecutor(writers, thread_name_prefix="evertick-lane"),
            ThreadPoolExecutor(callers, thread_name_prefix="evertick-call"),
        )


class InlineLanes(Lanes):
    """No threads: work runs where it is awaited, after every other task had its turn."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, work: Work[T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """See `Lanes.write`."""
        await asyncio.sleep(0)
        return self._store.write(work, isolation=isolation)

    async def read(self, work: Work[T]) -> T:
        """See `Lanes.read`."""
        await asyncio.sleep(0)
        return self._store.read(work)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """See `Lanes.call`."""
        await asyncio.sleep(0)
        return function(*args)

    def close(self, *, wait: bool = True) -> None:
        """See `Lanes.close`: there is nothing to give back."""

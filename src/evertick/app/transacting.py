"""Transacting: runs an operation on the database, blocking or awaited, in one transaction or in pages.

An operation is a plain function over a transaction (`Work`). The caller decides where it runs: in the transaction of a
mutation, on the caller's connection, or in its own transaction.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from evertick.store.store import Isolation
from evertick.store.transaction.transaction import Transaction

T = TypeVar("T")

Work = Callable[[Transaction], T]
Page = tuple[int, str | None]
"""The number of rows that a page changed, and the id of its last row; None as the id after the last page."""


_BEGINNING: Page = (0, "")


class Transact(Protocol):
    """Runs work in a transaction and returns its result."""

    def __call__(self, work: Work[T], /) -> T: ...


class TransactAsync(Protocol):
    """Like `Transact`, without blocking the event loop."""

    async def __call__(self, work: Work[T], /) -> T: ...


class Audited(Protocol):
    """Adds a line to the audit log to work; `before` reads what it changes."""

    def __call__(self, work: Work[T], action: str, target: str, *, before: Work[Any] | None = None) -> Work[T]: ...


def unaudited(work: Work[T], action: str, target: str, *, before: Work[Any] | None = None) -> Work[T]:
    """An `Audited` without an audit log: it returns `work` unchanged."""
    return work


class Transactions(Protocol):
    """Runs work in its own transaction, and again if it conflicts with another one."""

    def transact(self, work: Work[T], /, *, isolation: Isolation = ...) -> T:
        """Run work and wait for it in this thread. Raises WriteConflict when the attempts are used up."""
        ...

    async def transact_async(self, work: Work[T], /, *, isolation: Isolation = ...) -> T:
        """Like `transact`, without blocking the event loop."""
        ...


class _NothingWritten(Exception):
    """Raised to roll back a rehearsed transaction."""


def rehearse(transact: Transact, work: Work[T]) -> T:
    """The result of the work in a transaction that is rolled back. Raises the errors of the work."""
    results: list[T] = []
    try:
        transact(_rolled_back(work, results))
    except _NothingWritten:
        return results[0]
    raise AssertionError("the rehearsal ended without an exception")


async def rehearse_async(transact: TransactAsync, work: Work[T]) -> T:
    """Like `rehearse`, without blocking the event loop."""
    results: list[T] = []
    try:
        await transact(_rolled_back(work, results))
    except _NothingWritten:
        return results[0]
    raise AssertionError("the rehearsal ended without an exception")


def _rolled_back(work: Work[T], results: list[T]) -> Work[None]:
    def rehearsal(transaction: Transaction) -> None:
        results[:] = [work(transaction)]
        raise _NothingWritten

    return rehearsal


def in_pages(
    transact: Transact, page: Callable[[str], Work[Page]], progress: Callable[[int], object] | None = None
) -> int:
    """Run `page(last_id)` page by page, each in its own transaction, starting with "". Returns the total count.

    `progress` gets the total after each page.
    """
    total, last = _BEGINNING
    while last is not None:
        total, last = _add_page(total, transact(page(last)), progress)
    return total


async def in_pages_async(
    transact: TransactAsync, page: Callable[[str], Work[Page]], progress: Callable[[int], object] | None = None
) -> int:
    """Like `in_pages`, without blocking the event loop."""
    total, last = _BEGINNING
    while last is not None:
        total, last = _add_page(total, await transact(page(last)), progress)
    return total


def _add_page(total: int, done: Page, progress: Callable[[int], object] | None) -> Page:
    """The total after one more page, and the start of the next page (None if there is none)."""
    count, following = done
    if progress is not None:
        progress(total + count)
    return total + count, following

"""The unit of work as one function sees it: open while the function runs, closed from then on.

A function can leave behind what still holds its context: a generator that the garbage collector ends inside the next
mutation, a thread, a variable of the module. Through this view nothing of that reads or writes any more, although the
unit itself lives on: a batch of mutations shares one.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

from evertick.base.errors import Misuse
from evertick.base.ids import TenantId
from evertick.base.records.documents import IndexPart, IndexPosition, StoredDocument
from evertick.base.records.jobs import NewJob
from evertick.store.contract.store import Transaction
from evertick.store.transaction.overlay import PAGE
from evertick.store.transaction.unit_of_work import UnitOfWork

T = TypeVar("T")


class FunctionUnit:
    """A `UnitOfWork` for one function. Every method raises Misuse once the function has ended."""

    __slots__ = ("_before", "_cursors", "_is_over", "_unit")

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit
        self._before = unit.touches
        self._is_over = False
        self._cursors: WeakSet[Any] | None = None  # most functions have none

    def close_with_it(self, cursor: Any) -> None:
        """Close a cursor of the driver's when the function has ended.

        A statement that is half read, and kept alive by a variable or a traceback, would go on in the transactions of
        the functions that follow on this connection.
        """
        if self._cursors is None:
            self._cursors = WeakSet()
        self._cursors.add(cursor)

    def close(self) -> None:
        """The function has ended."""
        self._is_over = True
        for cursor in () if self._cursors is None else list(self._cursors):
            with suppress(Exception):  # a thread that the function left behind uses it at this very moment
                cursor.close()

    @property
    def unit(self) -> UnitOfWork:
        """The unit that all functions of the transaction share. Raises Misuse once this one has ended."""
        if self._is_over:
            raise Misuse("this function has ended, and its transaction with it: use ctx until the function returns")
        return self._unit

    @property
    def touches(self) -> int:
        """How often the function has written something, or worked on the database itself."""
        return self.unit.touches - self._before

    def flush_to_db(self) -> Transaction:
        """Make the database see everything, undoable frame by frame; returns the transaction to work on."""
        return self.unit.flush_to_db()

    @property
    def connection(self) -> Any:
        """The driver's connection, on which `flush_to_db` was called before."""
        return self.unit.connection

    def get(self, tenant: TenantId, document_id: str) -> str | None:
        """A document's JSON text as this transaction sees it."""
        return self.unit.get(tenant, document_id)

    def add(self, tenant: TenantId, document_id: str, body: str) -> None:
        """Write a new document."""
        self.unit.add(tenant, document_id, body)

    def put(self, tenant: TenantId, document_id: str, body: str) -> None:
        """Write a document, new or changed."""
        self.unit.put(tenant, document_id, body)

    def remove(self, tenant: TenantId, document_id: str) -> None:
        """Remove a document."""
        self.unit.remove(tenant, document_id)

    def put_entry(self, tenant: TenantId, index_name: str, key: bytes, document_id: str) -> None:
        """Write an index entry."""
        self.unit.put_entry(tenant, index_name, key, document_id)

    def remove_entry(self, tenant: TenantId, index_name: str, key: bytes, document_id: str) -> None:
        """Remove an index entry."""
        self.unit.remove_entry(tenant, index_name, key, document_id)

    def scan_table(
        self, tenant: TenantId, prefix: str, *, after: str | None, descending: bool, page: int = PAGE
    ) -> Iterator[StoredDocument]:
        """Documents of a table by creation time, each as it is in its turn."""
        return self._while_open(self.unit.scan_table(tenant, prefix, after=after, descending=descending, page=page))

    def scan_index(
        self, part: IndexPart, *, after: IndexPosition | None, page: int = PAGE
    ) -> Iterator[tuple[bytes, StoredDocument]]:
        """Documents in index order, each as it is in its turn."""
        return self._while_open(self.unit.scan_index(part, after=after, page=page))

    def schedule(self, job: NewJob) -> None:
        """Write a job, with everything else of this mutation or not at all."""
        self.unit.schedule(job)

    def schedule_successor(self, job: NewJob) -> None:
        """Write a job under the key of the job that runs, after that one's end."""
        self.unit.schedule_successor(job)

    def successor(self, key: str) -> NewJob | None:
        """The job that will hold `key` when the running one has ended."""
        return self.unit.successor(key)

    def _while_open(self, found: Iterator[T]) -> Iterator[T]:
        rows: Any = iter(found)
        while self.unit is not None:
            try:
                row = next(rows)
            except StopIteration:
                return
            yield row

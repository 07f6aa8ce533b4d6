"""The unit of work: writes of mutations that the database has not seen yet.

Most of a mutation's cost would be round trips. So its writes are kept in a log, its reads see the log first, and the
log is written to the database in bulk: once for a whole batch of mutations that share a commit. When a mutation raises,
its part of the log is removed, which costs no statement.

Some work must happen in the database itself: the user's own SQL, a cancel, a query of the system tables. Before it,
`flush_to_db` writes the log and sets a savepoint for every frame (mutation, or mutation inside a mutation) that has
none yet; from then on the savepoint undoes the frame. A frame that is never flushed costs no savepoint.

A time limit may interrupt a function at any instant, and any line may raise (no memory, a recursion too deep). So
changes in several steps are *protected* (`evertick.base.time_limit`); each change is logged before it is made; and
`undo_to` goes back to a depth that the caller has remembered, however many frames were left open.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeVar
from weakref import WeakSet

from evertick.base.error_text import origin_of
from evertick.base.errors import Conflict, EvertickError, Misuse, Unavailable
from evertick.base.ids import TenantId, after_foreign_ids
from evertick.base.records.documents import IndexPart, IndexPosition, StoredDocument
from evertick.base.records.jobs import NewJob
from evertick.base.time_limit import current_guard
from evertick.store.transaction.index_keys import HIGHEST
from evertick.store.transaction.transaction import Transaction

# -- Reading through the unit of work: the contents of the database, merged with the waiting writes.

PAGE: Final = 256
"""Documents read from the database at a time."""

ABSENT: Final = object()
_ABOVE_EVERY_ID: Final = "\x7f"


class Overlay:
    """Documents and index entries that wait, over a transaction that has not seen them."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._documents: dict[tuple[TenantId, str], str | None] = {}
        self._entries: dict[tuple[TenantId, str, bytes, str], bool] = {}
        self._born: dict[str, int] = {}
        """Documents made in this transaction, in their order."""
        self._turns = 0
        """How often waiting writes went to the database, or were undone there: then earlier reads are outdated."""

    @abstractmethod
    def _shrink_overlay(self) -> None:
        """Write the waiting changes to the database if they are too many to merge."""

    def get(self, tenant: TenantId, document_id: str) -> str | None:
        """A document's JSON text as this transaction sees it."""
        body = self._documents.get((tenant, document_id), ABSENT)
        if body is not ABSENT:
            return body  # type: ignore[return-value]
        return self._transaction.get_document(document_id, tenant=tenant)

    def scan_table(
        self, tenant: TenantId, prefix: str, *, after: str | None, descending: bool, page: int = PAGE
    ) -> Iterator[StoredDocument]:
        """Documents whose ids are `prefix` and 28 hex digits, by creation time, after the id `after`.

        Each is returned in its current state, also if it was changed since the scan began; removed ones are omitted.
        """
        self._shrink_overlay()
        is_own = re.compile(re.escape(prefix) + "[0-9a-f]{28}").fullmatch
        low, high = prefix, prefix + _ABOVE_EVERY_ID
        if after is not None:
            low, high = (low, after) if descending else (after, high)
        waiting = sorted(
            (
                (document_id, body)
                for (owner, document_id), body in self._documents.items()
                if owner == tenant and low < document_id < high
            ),
            reverse=descending,
        )

        def read(position: str | None) -> tuple[list[tuple[str, StoredDocument]], str | None]:
            lower, upper = low, high
            if position is not None:
                lower, upper = (low, position) if descending else (position, high)
            found = self._transaction.scan_documents(tenant, low=lower, high=upper, limit=page, descending=descending)
            rows = [(document.id, document) for document in found]
            if len(found) < page:
                return rows, None
            last = found[-1].id
            if is_own(last):
                return rows, last
            # `user_` also begins the ids of a table `user_events`: not all of them need be read.
            return rows, after_foreign_ids(prefix, last, descending=descending)

        overlay = [(i, None if body is None else StoredDocument(i, body)) for i, body in waiting]
        for document_id, document in self._in_turn(tenant, _merged(read, overlay, descending)):
            if is_own(document_id):
                yield document

    def scan_index(
        self, part: IndexPart, *, after: IndexPosition | None, page: int = PAGE
    ) -> Iterator[tuple[bytes, StoredDocument]]:
        """Documents of a part of an index, in its order, after the position `after`; each as in `scan_table`."""
        self._shrink_overlay()
        tenant, index_name, low, high, descending = part
        start: IndexPosition = (HIGHEST * 2, "") if descending else (b"", "")
        waiting = sorted(
            (
                ((key, document_id), present)
                for (owner, name, key, document_id), present in self._entries.items()
                if owner == tenant and name == index_name and low <= key < high
            ),
            reverse=descending,
        )
        if after is not None:
            start = after
            waiting = [item for item in waiting if (item[0] < after if descending else item[0] > after)]

        def read(
            position: IndexPosition | None,
        ) -> tuple[list[tuple[IndexPosition, StoredDocument]], IndexPosition | None]:
            beyond = start if position is None else position
            found = self._transaction.scan_index(part, after=beyond, limit=page)
            rows = [((key, document.id), self._current(tenant, document)) for key, document in found]
            return rows, rows[-1][0] if len(rows) == page else None

        overlay: list[tuple[IndexPosition, StoredDocument | None]] = []
        for position, present in waiting:
            body = self.get(tenant, position[1]) if present else None
            overlay.append((position, None if body is None else StoredDocument(position[1], body)))
        for position, document in self._in_turn(tenant, _merged(read, overlay, descending)):
            yield position[0], document

    def _in_turn(
        self, tenant: TenantId, found: Iterator[tuple[Any, StoredDocument]]
    ) -> Iterator[tuple[Any, StoredDocument]]:
        """The current state of documents that a scan found some time ago.

        Each is returned once, also if it was moved ahead. Documents that were created since the scan began are omitted:
        otherwise a function that writes while it reads would never end.
        """
        turns, born, seen = self._turns, len(self._born), set[str]()
        for place, document in found:
            if document.id in seen or self._born.get(document.id, -1) >= born:
                continue
            seen.add(document.id)
            body: Any = self._documents.get((tenant, document.id), ABSENT)
            if body is ABSENT:
                if self._turns == turns:
                    yield place, document
                    continue
                body = self._transaction.get_document(document.id, tenant=tenant)
            if body is not None:
                yield place, StoredDocument(document.id, body)

    def _current(self, tenant: TenantId, document: StoredDocument) -> StoredDocument:
        body = self._documents.get((tenant, document.id))
        return document if body is None else StoredDocument(document.id, body)


def _merged(
    read: Any, overlay: list[tuple[Any, StoredDocument | None]], descending: bool
) -> Iterator[tuple[Any, StoredDocument]]:
    """Rows of the database and waiting rows in one order; a waiting one has precedence, and None hides.

    `read` returns the rows after a position, and the position to continue from or None.
    """
    waiting = iter(overlay)
    next_waiting = next(waiting, None)
    position = None
    while True:
        found, position = read(position)
        for place, document in found:
            while next_waiting is not None and (next_waiting[0] > place if descending else next_waiting[0] < place):
                if next_waiting[1] is not None:
                    yield next_waiting[0], next_waiting[1]
                next_waiting = next(waiting, None)
            if next_waiting is not None and next_waiting[0] == place:
                if next_waiting[1] is not None:
                    yield place, next_waiting[1]
                next_waiting = next(waiting, None)
            else:
                yield place, document
        if position is None:
            break
    while next_waiting is not None:
        if next_waiting[1] is not None:
            yield next_waiting[0], next_waiting[1]
        next_waiting = next(waiting, None)


T = TypeVar("T")

OVERLAY_MAX: Final = 512
"""With more unwritten changes than this, a scan writes them to the database first instead of merging them."""

Change = tuple[dict[Any, Any], Any, Any, Any]
"""A table of the overlay, a key in it, its value before and its value after."""


@dataclass(slots=True)
class _Frame:
    """One mutation that is running, or one inside it."""

    mark: int
    jobs_mark: int
    successors: tuple[NewJob, ...]
    savepoint: str | None = None


class UnitOfWork(Overlay):
    """Waiting writes, over one transaction.

    `write_completions` is called before a mutation works in the database itself: a caller that runs many mutations in
    one transaction then writes how the earlier ones ended, so that the later ones do not find them unfinished.
    """

    def __init__(self, transaction: Transaction, *, write_completions: Callable[[], None] | None = None) -> None:
        super().__init__(transaction)
        self._write_completions = write_completions
        self._jobs: list[NewJob] = []
        self._successors: tuple[NewJob, ...] = ()
        self._log: list[Change] = []
        self._frames: list[_Frame] = []
        self._names = count(1)
        self._guard = current_guard()
        self._refused: EvertickError | None = None
        """An error of this transaction itself: ends of earlier mutations that could not be written, or a conflict."""
        self.touches = 0
        """How often something was written, or the database itself was used."""

    # -- frames

    @property
    def depth(self) -> int:
        """How many mutations are running, one inside the other."""
        return len(self._frames)

    def begin(self) -> None:
        """Begin a mutation; `keep` or `undo_to` ends it."""
        self._frames.append(_Frame(len(self._log), len(self._jobs), self._successors))

    def keep(self) -> None:
        """End the innermost mutation successfully: its writes belong to the surrounding one."""
        if self._frames[-1].savepoint is None:
            self._frames.pop()
        else:
            self._guard.run_inside(self._keep)

    def undo_to(self, depth: int) -> None:
        """Undo the mutations begun since there were `depth`: they failed."""
        self._guard.run_inside(self._undo_to, depth)

    def _keep(self) -> None:
        savepoint = self._frames[-1].savepoint
        if savepoint is not None:
            self._transaction.release(savepoint)
        self._frames.pop()

    def _undo_to(self, depth: int) -> None:
        if len(self._frames) <= depth:
            return
        outermost = self._frames[depth]
        self._take_back(outermost.mark)
        del self._jobs[outermost.jobs_mark :]
        self._successors = outermost.successors
        if outermost.savepoint is not None:
            self._turns += 1
            self._transaction.rollback_to(outermost.savepoint)
        del self._frames[depth:]

    def _take_back(self, mark: int) -> None:
        """Undo the log's changes after `mark`, the last first. Repeated after an error, it continues where it was."""
        log = self._log
        while len(log) > mark:
            table, key, previous, _ = log[-1]
            if previous is ABSENT:
                table.pop(key, None)  # the change may have been logged and not made
            else:
                table[key] = previous
            log.pop()

    def flush_to_db(self) -> Transaction:
        """Write everything to the database, undoable frame by frame. Return the transaction to work on."""
        self._guard.run_inside(self._flush_to_db)
        return self._transaction

    def _flush_to_db(self) -> None:
        self.touches += 1
        self._transaction.limit_lock_waits()
        if self._write_completions is not None:
            try:
                self._write_completions()
            except EvertickError as error:
                self._refused = error
                raise
        for frame in self._frames:
            if frame.savepoint is None:
                self._write_down(frame.mark, frame.jobs_mark)
                savepoint = f"frame_{next(self._names)}"
                self._transaction.savepoint(savepoint)
                frame.savepoint = savepoint
        self._write_down(len(self._log), len(self._jobs))

    @property
    def connection(self) -> Any:
        """The driver's connection."""
        return self._transaction.connection

    def explain(self, error: BaseException) -> EvertickError | None:
        """Evertick's error for `error`; None if it is the function's own.

        A function may itself raise an error of Evertick; only errors of this transaction count, also if the function
        raised its own error because of one.
        """
        seen: set[int] = set()
        cause: BaseException | None = error
        while cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            own_error = self._refused if cause is self._refused else self._transaction.explain(cause)
            if own_error is not None:
                return own_error
            cause = origin_of(cause)
        return None

    def check_usable(self) -> None:
        """Called after the innermost mutation: raise if its own statement has made the transaction unusable."""
        if self._frames[-1].savepoint is not None:
            try:
                self._transaction.check_usable()
                self._transaction.reset_session()
            except (Conflict, Unavailable) as error:
                self._refused = error
                raise

    def flush(self) -> None:
        """Write everything to the database, at the end of the transaction."""
        self._write_down(len(self._log), len(self._jobs))

    # -- documents

    def add(self, tenant: TenantId, document_id: str, body: str) -> None:
        """Write a new document."""
        self._born[document_id] = len(self._born)
        self.put(tenant, document_id, body)

    def put(self, tenant: TenantId, document_id: str, body: str) -> None:
        """Write a document, new or changed."""
        self._change(self._documents, (tenant, document_id), body)

    def remove(self, tenant: TenantId, document_id: str) -> None:
        """Remove a document."""
        self._change(self._documents, (tenant, document_id), None)

    def put_entry(self, tenant: TenantId, index_name: str, key: bytes, document_id: str) -> None:
        """Write an index entry."""
        self._change(self._entries, (tenant, index_name, key, document_id), True)

    def remove_entry(self, tenant: TenantId, index_name: str, key: bytes, document_id: str) -> None:
        """Remove an index entry."""
        self._change(self._entries, (tenant, index_name, key, document_id), False)

    # -- jobs

    def schedule(self, job: NewJob) -> None:
        """Write a job, in the same transaction as all other writes of this mutation."""
        self.touches += 1
        self._jobs.append(job)

    def schedule_successor(self, job: NewJob) -> None:
        """Write a job under the key of the running job: after that one's end, because only one job can have a key.

        It replaces an earlier successor with the key.
        """
        self.touches += 1
        self._successors = (*(other for other in self._successors if other.key != job.key), job)

    def successor(self, key: str) -> NewJob | None:
        """The job that will have `key` when the running one has ended; None if there is none."""
        return next((job for job in self._successors if job.key == key), None)

    def take_successors(self) -> tuple[NewJob, ...]:
        """Remove and return the successors of mutations whose ends are written."""
        taken, self._successors = self._successors, ()
        for frame in self._frames:
            frame.successors = ()
        return taken

    # -- helpers

    def _change(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        self.touches += 1
        self._log.append((table, key, table.get(key, ABSENT), value))
        table[key] = value

    def _shrink_overlay(self) -> None:
        if len(self._documents) + len(self._entries) > OVERLAY_MAX:
            self.flush_to_db()

    def _write_down(self, log_end: int, jobs_end: int) -> None:
        """Write the beginning of the log to the database; the rest keeps waiting."""
        if log_end:
            self._write_changes(log_end)
        if jobs_end:
            self._transaction.insert_jobs(self._jobs[:jobs_end])
            del self._jobs[:jobs_end]
        if log_end or jobs_end:
            for frame in self._frames:
                frame.mark = max(0, frame.mark - log_end)
                frame.jobs_mark = max(0, frame.jobs_mark - jobs_end)

    def _write_changes(self, log_end: int) -> None:
        self._turns += 1
        later = self._log[log_end:]
        self._take_back(log_end)
        for tenant in {key[0] for key in self._documents} | {key[0] for key in self._entries}:
            documents = [(key[1], body) for key, body in self._documents.items() if key[0] == tenant]
            entries = [(key[1:], present) for key, present in self._entries.items() if key[0] == tenant]
            write = self._transaction
            write.delete_documents(tenant, [i for i, body in documents if body is None])
            write.put_documents(tenant, [StoredDocument(i, body) for i, body in documents if body is not None])
            write.delete_index_entries(tenant, [entry for entry, present in entries if not present])
            write.put_index_entries(tenant, [entry for entry, present in entries if present])
        self._documents.clear()
        self._entries.clear()
        self._log.clear()
        for table, key, _, value in later:
            self._change(table, key, value)


class FunctionUnit:
    """The unit of work as one function sees it: open while the function runs, closed from then on.

    A function can leave behind objects that refer to its context: a generator that the garbage collector ends inside
    the next mutation, a thread, a variable of the module. This view keeps them from reading or writing, although the
    unit itself is still open: a batch of mutations shares one. Every method raises Misuse once the function has ended.
    """

    __slots__ = ("_before", "_cursors", "_is_over", "_unit")

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit
        self._before = unit.touches
        self._is_over = False
        self._cursors: WeakSet[Any] | None = None  # most functions have none

    def close_with_it(self, cursor: Any) -> None:
        """Close a cursor of the driver when the function has ended.

        A variable or a traceback can keep a half-read statement alive. It would continue in the transactions of later
        functions on this connection.
        """
        if self._cursors is None:
            self._cursors = WeakSet()
        self._cursors.add(cursor)

    def close(self) -> None:
        """Close the view: the function has ended."""
        self._is_over = True
        if self._cursors is None:
            return
        for cursor in list(self._cursors):
            with suppress(Exception):  # a thread that the function left behind may be using it now
                cursor.close()

    @property
    def unit(self) -> UnitOfWork:
        """The unit that all functions of the transaction share. Raises Misuse once this one has ended."""
        if self._is_over:
            raise Misuse("this function has ended, and its transaction with it: use ctx until the function returns")
        return self._unit

    @property
    def touches(self) -> int:
        """How often the function has written something, or used the database itself."""
        return self.unit.touches - self._before

    def flush_to_db(self) -> Transaction:
        """Write everything to the database, undoable frame by frame. Return the transaction to work on."""
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
        """Documents of a table by creation time, each in its current state."""
        return self._while_open(self.unit.scan_table(tenant, prefix, after=after, descending=descending, page=page))

    def scan_index(
        self, part: IndexPart, *, after: IndexPosition | None, page: int = PAGE
    ) -> Iterator[tuple[bytes, StoredDocument]]:
        """Documents in index order, each in its current state."""
        return self._while_open(self.unit.scan_index(part, after=after, page=page))

    def schedule(self, job: NewJob) -> None:
        """Write a job, in the same transaction as all other writes of this mutation."""
        self.unit.schedule(job)

    def schedule_successor(self, job: NewJob) -> None:
        """Write a job under the key of the job that runs, after that one's end."""
        self.unit.schedule_successor(job)

    def successor(self, key: str) -> NewJob | None:
        """The job that will have `key` when the running one has ended; None if there is none."""
        return self.unit.successor(key)

    def _while_open(self, found: Iterator[T]) -> Iterator[T]:
        rows: Any = iter(found)
        while self.unit is not None:
            try:
                row = next(rows)
            except StopIteration:
                return
            yield row

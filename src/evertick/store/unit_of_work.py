"""The unit of work: what mutations wrote but the database has not seen yet.

Most of a mutation's cost would be round trips. So its writes are kept in a log, its reads see the log first, and the
log goes to the database in bulk: once for a whole batch of mutations that share a commit. A mutation that raises
takes its own part of the log back, and costs no statement at all.

Some work must happen in the database itself: the user's own SQL, a cancel, a look at the system tables. Before it,
`touch` writes the log down and opens a savepoint for every frame (mutation, or mutation inside a mutation) that has
none yet; from then on the frame is undone by the savepoint. A frame that is never touched never costs a savepoint.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from evertick.base.errors import EvertickError, Misuse
from evertick.base.ids import TenantId, beyond_others
from evertick.base.records import NewJob, StoredDocument
from evertick.store.contract import Transaction
from evertick.store.keys import HIGHEST

PAGE: Final = 256
"""Documents read from the database at a time."""
OVERLAY_MAX: Final = 512
"""With more unwritten changes than this, a scan writes them down first instead of merging them in."""

_ABSENT: Final = object()
_ABOVE_EVERY_ID: Final = "\x7f"

IndexPosition = tuple[bytes, str]
Change = tuple[dict[Any, Any], Any, Any, Any]
"""A table of the overlay, a key in it, its value before and its value after."""


@dataclass(slots=True)
class _Frame:
    """One mutation that is running, or one inside it."""

    mark: int
    jobs_mark: int
    successors: tuple[NewJob, ...]
    savepoint: str | None = None


class UnitOfWork:
    """Writes that wait, over one transaction.

    `settle` is called before a mutation works in the database itself: whoever runs many mutations in one transaction
    writes there how the earlier ones ended, so that the later ones do not find them unfinished.
    """

    def __init__(self, transaction: Transaction, *, settle: Callable[[], None] | None = None) -> None:
        self._transaction = transaction
        self._settle = settle
        self._documents: dict[tuple[TenantId, str], str | None] = {}
        self._entries: dict[tuple[TenantId, str, bytes, str], bool] = {}
        self._jobs: list[NewJob] = []
        self._successors: tuple[NewJob, ...] = ()
        self._log: list[Change] = []
        self._frames: list[_Frame] = []
        self._names = count(1)
        self._turns = 0
        self._born: dict[str, int] = {}
        self._is_over = False
        self.touches = 0
        """How often the database itself was worked on."""

    # -- frames

    def begin(self) -> None:
        """A mutation starts; `keep` or `undo` ends it."""
        self._frames.append(_Frame(len(self._log), len(self._jobs), self._successors))

    def keep(self) -> None:
        """The innermost mutation succeeded: its writes belong to what surrounds it."""
        frame = self._frames.pop()
        if frame.savepoint is not None:
            self._transaction.release(frame.savepoint)

    def undo(self) -> None:
        """The innermost mutation failed: its writes never were."""
        frame = self._frames.pop()
        while len(self._log) > frame.mark:
            table, key, previous, _ = self._log.pop()
            if previous is _ABSENT:
                del table[key]
            else:
                table[key] = previous
        del self._jobs[frame.jobs_mark :]
        self._successors = frame.successors
        if frame.savepoint is not None:
            self._turns += 1
            self._transaction.rollback_to(frame.savepoint)

    def touch(self) -> Transaction:
        """Make the database see everything, undoable frame by frame; answers the transaction to work on."""
        self._check_open()
        self.touches += 1
        if self._settle is not None:
            self._settle()
        for frame in self._frames:
            if frame.savepoint is None:
                self._write_down(frame.mark, frame.jobs_mark)
                frame.savepoint = f"frame_{next(self._names)}"
                self._transaction.savepoint(frame.savepoint)
        self._write_down(len(self._log), len(self._jobs))
        return self._transaction

    def explain(self, error: BaseException) -> EvertickError | None:
        """If `error` came from the database's side of the user's own SQL, the error of ours that says so."""
        return self._transaction.explain(error)

    def check_usable(self) -> None:
        """After the innermost mutation: raise if a statement of its own has left the transaction of no use."""
        if self._frames[-1].savepoint is not None:
            self._transaction.check_usable()

    def flush(self) -> None:
        """Write everything down, at the end of the transaction."""
        self._write_down(len(self._log), len(self._jobs))

    def close(self) -> None:
        """The transaction is over: who has kept a context of it is told so, instead of writing into nothing or reading
        on a connection that is somebody else's by now.
        """
        self._is_over = True

    # -- documents

    def get(self, tenant: TenantId, document_id: str) -> str | None:
        """A document's JSON text as this transaction sees it."""
        self._check_open()
        body = self._documents.get((tenant, document_id), _ABSENT)
        if body is not _ABSENT:
            return body  # type: ignore[return-value]
        return self._transaction.get_document(document_id, tenant=tenant)

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

    def scan_table(
        self, tenant: TenantId, prefix: str, *, after: str | None, descending: bool, page: int = PAGE
    ) -> Iterator[StoredDocument]:
        """Documents whose ids are `prefix` and 28 hex digits, by creation time, beyond the id `after`.

        Each comes as it is in its turn, also if it was changed since the scan began; one removed since does not come.
        """
        self._check_open()
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
            return rows, beyond_others(prefix, last, descending=descending)

        overlay = [(i, None if body is None else StoredDocument(i, body)) for i, body in waiting]
        for document_id, document in self._in_turn(tenant, _merged(read, overlay, descending)):
            if is_own(document_id):
                yield document

    def scan_index(
        self,
        tenant: TenantId,
        index_name: str,
        *,
        low: bytes,
        high: bytes,
        after: IndexPosition | None,
        descending: bool,
        page: int = PAGE,
    ) -> Iterator[tuple[bytes, StoredDocument]]:
        """Documents in index order with keys in [low, high), beyond the position `after`; each as in `scan_table`."""
        self._check_open()
        self._shrink_overlay()
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
            found = self._transaction.scan_index(
                tenant,
                index_name,
                low=low,
                high=high,
                after=start if position is None else position,
                limit=page,
                descending=descending,
            )
            rows = [((key, document.id), self._current(tenant, document)) for key, document in found]
            return rows, rows[-1][0] if len(rows) == page else None

        overlay: list[tuple[IndexPosition, StoredDocument | None]] = []
        for position, present in waiting:
            body = self.get(tenant, position[1]) if present else None
            overlay.append((position, None if body is None else StoredDocument(position[1], body)))
        for position, document in self._in_turn(tenant, _merged(read, overlay, descending)):
            yield position[0], document

    # -- jobs

    def schedule(self, job: NewJob) -> None:
        """Write a job, with everything else of this mutation or not at all."""
        self._check_open()
        self._jobs.append(job)

    def schedule_successor(self, job: NewJob) -> None:
        """Write a job under the key of the job that runs: after that one's end, because a key is held by one job.

        It replaces the successor that held the key before.
        """
        self._check_open()
        self._successors = (*(other for other in self._successors if other.key != job.key), job)

    def successor(self, key: str) -> NewJob | None:
        """The job that will hold `key` when the running one has ended."""
        return next((job for job in self._successors if job.key == key), None)

    def take_successors(self) -> tuple[NewJob, ...]:
        """Successors whose time has come: the ends of the mutations that scheduled them are written."""
        taken, self._successors = self._successors, ()
        for frame in self._frames:
            frame.successors = ()
        return taken

    # -- helpers

    def _check_open(self) -> None:
        if self._is_over:
            raise Misuse("this function has ended, and its transaction with it: use ctx until the function returns")

    def _in_turn(
        self, tenant: TenantId, found: Iterator[tuple[Any, StoredDocument]]
    ) -> Iterator[tuple[Any, StoredDocument]]:
        """What a scan found some time ago, as it is now.

        Each comes once, also if it was moved ahead; what was born since the scan began does not come: a function that
        writes while it reads would never end.
        """
        turns, born, seen = self._turns, len(self._born), set[str]()
        for place, document in found:
            self._check_open()
            if document.id in seen or self._born.get(document.id, -1) >= born:
                continue
            seen.add(document.id)
            body: Any = self._documents.get((tenant, document.id), _ABSENT)
            if body is _ABSENT:
                if self._turns == turns:
                    yield place, document
                    continue
                body = self._transaction.get_document(document.id, tenant=tenant)
            if body is not None:
                yield place, StoredDocument(document.id, body)

    def _change(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        self._check_open()
        self._log.append((table, key, table.get(key, _ABSENT), value))
        table[key] = value

    def _current(self, tenant: TenantId, document: StoredDocument) -> StoredDocument:
        body = self._documents.get((tenant, document.id))
        return document if body is None else StoredDocument(document.id, body)

    def _shrink_overlay(self) -> None:
        if len(self._documents) + len(self._entries) > OVERLAY_MAX:
            self.touch()

    def _write_down(self, log_end: int, jobs_end: int) -> None:
        """Write the log's beginning to the database; what comes after it keeps waiting."""
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
        for table, key, previous, _ in reversed(later):  # back to the state at `log_end`
            if previous is _ABSENT:
                del table[key]
            else:
                table[key] = previous
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


def _merged(
    read: Any, overlay: list[tuple[Any, StoredDocument | None]], descending: bool
) -> Iterator[tuple[Any, StoredDocument]]:
    """What the database has and what waits, in one order; what waits wins, and None hides.

    `read` answers the rows beyond a position, and the position to go on from or None.
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

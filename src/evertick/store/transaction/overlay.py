"""Reading through the unit of work: what the database has, with the writes that wait laid over it."""

import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Final

from evertick.base.ids import TenantId, beyond_others
from evertick.base.records.documents import IndexPart, IndexPosition, StoredDocument
from evertick.store.transaction.index_keys import HIGHEST
from evertick.store.transaction.transaction import Transaction

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
        """How often writes that waited went to the database, or were undone there: then what was read is old."""

    @abstractmethod
    def _shrink_overlay(self) -> None:
        """Write down what waits, if it is too much to merge it in."""

    def get(self, tenant: TenantId, document_id: str) -> str | None:
        """A document's JSON text as this transaction sees it."""
        body = self._documents.get((tenant, document_id), ABSENT)
        if body is not ABSENT:
            return body  # type: ignore[return-value]
        return self._transaction.get_document(document_id, tenant=tenant)

    def scan_table(
        self, tenant: TenantId, prefix: str, *, after: str | None, descending: bool, page: int = PAGE
    ) -> Iterator[StoredDocument]:
        """Documents whose ids are `prefix` and 28 hex digits, by creation time, beyond the id `after`.

        Each comes as it is in its turn, also if it was changed since the scan began; one removed since does not come.
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
            return rows, beyond_others(prefix, last, descending=descending)

        overlay = [(i, None if body is None else StoredDocument(i, body)) for i, body in waiting]
        for document_id, document in self._in_turn(tenant, _merged(read, overlay, descending)):
            if is_own(document_id):
                yield document

    def scan_index(
        self, part: IndexPart, *, after: IndexPosition | None, page: int = PAGE
    ) -> Iterator[tuple[bytes, StoredDocument]]:
        """Documents of a part of an index, in its order, beyond the position `after`; each as in `scan_table`."""
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
        """What a scan found some time ago, as it is now.

        Each comes once, also if it was moved ahead; what was born since the scan began does not come: a function that
        writes while it reads would never end.
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
    """What the database has and what waits, in one order; what waits wins, and None hides.

    `read` returns the rows beyond a position, and the position to go on from or None.
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

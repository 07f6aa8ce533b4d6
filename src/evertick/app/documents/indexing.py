"""Indexing: makes the built indexes match the declared ones, for every tenant.

A declared index that is missing, or whose fields changed, is built from the documents. One that is no longer declared
is dropped, because nothing would keep it up to date. Tables that this app does not declare are not touched.

The state of an index is one row that belongs to no tenant. It records the fields of a built index, or the progress of
building. Building first removes the old entries and then writes the new ones, tenant by tenant, in batches of bounded
size. Each batch saves the row in the same transaction. So another process can continue where a killed one stopped, and
processes that build at the same time share the work. Documents that are written meanwhile are indexed by their writers.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

from evertick.app.documents.tables import Index, Table, decode_document
from evertick.app.transacting import Transact, Work
from evertick.base.errors import EvertickError, WriteConflict
from evertick.base.ids import TenantId, table_of
from evertick.base.records.documents import StoredDocument
from evertick.store.transaction.transaction import Transaction

EVERY_TENANT: Final = TenantId("")
"""The tenant under which the state of an index is stored; no real tenant can have this name."""
BATCH: Final = 1_000
"""Documents or entries that one transaction changes, and tenants that it visits."""


@dataclass(frozen=True, slots=True)
class _Progress:
    """The progress of building an index. Tenants are visited in the order of their names."""

    fields: list[str] | None
    """The fields of the index; None if it is being dropped."""
    clearing: bool = True
    """Whether old entries are still being removed; entries are written only after that."""
    tenant: TenantId = EVERY_TENANT
    """The last tenant that was begun."""
    after: str = ""
    """The id of the last document of that tenant that was indexed; empty before the first tenant."""

    @property
    def text(self) -> str:
        """As it is stored until the index is built."""
        return json.dumps({"building": asdict(self)})


def build_indexes(tables: list[Table], read: Transact, write: Transact) -> list[str]:
    """Build and drop indexes as declared; returns the names of those that were built."""
    built = read(lambda transaction: transaction.document_indexes(EVERY_TENANT))
    done = []
    for table in tables:
        declared = {index.name: index for index in table.indexes.values()}
        for name in [n for n in built if n.startswith(f"{table.name}.") and n not in declared]:
            _in_batches(write, name, table.name, None)
        for index in declared.values():
            if built.get(index.name) != index.fields_json:
                _in_batches(write, index.name, table.name, index)
                done.append(index.name)
    return done


def _in_batches(write: Transact, name: str, table: str, index: Index | None) -> None:
    """Build an index, or drop it if `index` is None, in one transaction after another."""
    is_first = True
    while True:
        try:
            if not write(_batch(name, table, index, is_first)):
                return
            is_first = False
        except WriteConflict:  # others build it or write documents: of two that conflict, one commits
            continue


def _batch(name: str, table: str, index: Index | None, is_first: bool) -> Work[bool]:
    """One bounded part of building an index. The work returns whether there is more to do."""
    fields = None if index is None else list(index.fields)

    def work(transaction: Transaction) -> bool:
        progress = _progress_of(transaction.document_indexes(EVERY_TENANT).get(name))
        if index is not None and progress == index.fields_json:
            return False
        if not isinstance(progress, _Progress) or progress.fields != fields:
            if not is_first:  # another release began to build it with other fields: the last one wins
                return False
            progress = _Progress(fields)
        if progress.clearing:
            following = _clear(transaction, name, progress)
            if following.clearing or index is not None:
                transaction.save_document_index(EVERY_TENANT, name, following.text)
                return True
            transaction.drop_document_index(EVERY_TENANT, name)
            return False
        assert index is not None  # noqa: S101
        more = _write_entries(transaction, table, index, progress)
        transaction.save_document_index(EVERY_TENANT, name, index.fields_json if more is None else more.text)
        return more is not None

    return work


def _progress_of(text: str | None) -> _Progress | str | None:
    """The progress that the row of an index records, or the fields of a built index as text. None without a row."""
    if text is None or not text.startswith("{"):
        return text
    return _Progress(**json.loads(text)["building"])


def _clear(transaction: Transaction, name: str, progress: _Progress) -> _Progress:
    """Remove up to BATCH old entries; returns the new progress."""
    room = BATCH
    following = transaction.tenants_with_entries(after=progress.tenant, limit=BATCH)
    for tenant in [progress.tenant, *following]:
        room -= transaction.clear_index(tenant, name, limit=room)
        if room == 0:
            return replace(progress, tenant=tenant)
    return (
        replace(progress, tenant=following[-1])
        if len(following) == BATCH
        else _Progress(progress.fields, clearing=False)
    )


def _write_entries(transaction: Transaction, table: str, index: Index, progress: _Progress) -> _Progress | None:
    """Write entries for up to BATCH documents; returns the new progress, None at the end."""
    room, low, high = BATCH, f"{table}_", f"{table}_\x7f"
    after = progress.after or low
    following = transaction.tenants_with_documents(after=progress.tenant, limit=BATCH)
    for tenant in [progress.tenant, *following]:
        documents = transaction.scan_documents(tenant, low=after, high=high, limit=room, descending=False)
        entries = [_entry(index, document) for document in documents if table_of(document.id) == table]
        transaction.put_index_entries(tenant, entries)
        room -= len(documents)
        if room == 0:
            return replace(progress, tenant=tenant, after=documents[-1].id)
        after = low
    return replace(progress, tenant=following[-1], after=high) if len(following) == BATCH else None


def _entry(index: Index, document: StoredDocument) -> tuple[str, bytes, str]:
    try:
        return index.name, index.key(decode_document(document.body)), document.id
    except EvertickError as error:  # name the document: it was written long ago, so the caller does not know it
        raise type(error)(f"the index {index.name} cannot be built over {document.id}: {error}") from error

"""Indexing: brings the built indexes in line with the declared ones.

A declared index that is missing, or whose fields changed, is built from the documents in one transaction; one that is
no longer declared is dropped, because nothing would keep it up to date. Tables that this app does not declare
are left alone.
"""

from evertick.app.documents.tables import Index, Table
from evertick.app.documents.values import decode_document
from evertick.base.errors import EvertickError
from evertick.base.ids import TenantId, table_of
from evertick.base.records.jobs import StoredDocument
from evertick.store.contract.store import Transaction
from evertick.store.transaction.overlay import PAGE


def build_indexes(transaction: Transaction, tenant: TenantId, tables: list[Table]) -> list[str]:
    """Build and drop what is needed; returns the names of what was built."""
    built = transaction.document_indexes(tenant)
    done = []
    for table in tables:
        declared = {index.name: index for index in table.indexes.values()}
        for name in [n for n in built if n.startswith(f"{table.name}.") and n not in declared]:
            transaction.drop_document_index(tenant, name)
        for index in declared.values():
            if built.get(index.name) != index.fields_json:
                transaction.drop_document_index(tenant, index.name)
                _build(transaction, tenant, table.name, index)
                transaction.save_document_index(tenant, index.name, index.fields_json)
                done.append(index.name)
    return done


def _build(transaction: Transaction, tenant: TenantId, table: str, index: Index) -> None:
    low, high = f"{table}_", f"{table}_\x7f"
    while True:
        documents = transaction.scan_documents(tenant, low=low, high=high, limit=PAGE, descending=False)
        entries = [_entry(index, document) for document in documents if table_of(document.id) == table]
        transaction.put_index_entries(tenant, entries)
        if len(documents) < PAGE:
            return
        low = documents[-1].id


def _entry(index: Index, document: StoredDocument) -> tuple[str, bytes, str]:
    try:
        return index.name, index.key(decode_document(document.body)), document.id
    except EvertickError as error:  # say which document: it was not written just now
        raise type(error)(f"the index {index.name} cannot be built over {document.id}: {error}") from error

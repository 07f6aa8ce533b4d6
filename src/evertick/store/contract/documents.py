"""The contract for documents and their indexes."""

from collections.abc import Sequence
from typing import Protocol

from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.base.records.documents import IndexPart, IndexPosition, StoredDocument, TableCount


class Documents(Protocol):
    """What a transaction can do with documents and their indexes."""

    def get_document(self, document_id: str, *, tenant: TenantId) -> str | None:
        """A document's JSON text, or None."""
        ...

    def put_documents(self, tenant: TenantId, documents: Sequence[StoredDocument]) -> None:
        """Write documents, new or changed. An id stands in `documents` once."""
        ...

    def delete_documents(self, tenant: TenantId, ids: Sequence[str]) -> None:
        """Remove documents; unknown ids are ignored."""
        ...

    def scan_documents(
        self, tenant: TenantId, *, low: str, high: str, limit: int, descending: bool
    ) -> list[StoredDocument]:
        """Documents with `low < id < high`, by id, which is by creation time."""
        ...

    def document_tables(self, tenant: TenantId, *, steps: int) -> tuple[list[str], bool]:
        """The tables in which a tenant has documents, by name, and whether these are all: `steps` bounds the look."""
        ...

    def count_documents(
        self, tenant: TenantId, tables: Sequence[str], *, until: Instant, limit: int
    ) -> dict[str, TableCount]:
        """How many documents made before `until` each of these tables has, up to `limit`, and its newest one."""
        ...

    def put_index_entries(self, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        """Write (index, key, document id) triples."""
        ...

    def delete_index_entries(self, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        """Remove (index, key, document id) triples."""
        ...

    def scan_index(self, part: IndexPart, *, after: IndexPosition, limit: int) -> list[tuple[bytes, StoredDocument]]:
        """Documents of a part of an index, in its order, beyond the position `after`."""
        ...

    def document_indexes(self, tenant: TenantId) -> dict[str, str]:
        """The indexes that are built: name to JSON list of fields."""
        ...

    def save_document_index(self, tenant: TenantId, index_name: str, fields: str) -> None:
        """An index is built now."""
        ...

    def drop_document_index(self, tenant: TenantId, index_name: str) -> None:
        """Remove an index with all its entries."""
        ...

    def clear_index(self, tenant: TenantId, index_name: str, *, limit: int) -> int:
        """Remove up to `limit` entries of an index; returns how many there were."""
        ...

    def tenants_with_documents(self, *, after: TenantId, limit: int) -> list[TenantId]:
        """Tenants that have documents, by name, beyond `after`."""
        ...

    def tenants_with_entries(self, *, after: TenantId, limit: int) -> list[TenantId]:
        """Tenants that have entries of any declared index, by name, beyond `after`."""
        ...

"""Documents over SQL, and the results of called mutations."""

import json
from collections.abc import Sequence
from typing import Final

from evertick.base.ids import TenantId, first_id_from, table_of
from evertick.base.instants import Instant
from evertick.base.records.documents import IndexPart, IndexPosition, StoredDocument, TableCount
from evertick.base.records.jobs import Call
from evertick.store.transaction.statement_runner import Driver

NEWEST_SCAN_MAX: Final = 20
"""The last ids among which a table's newest one is searched: ids of tables with the same beginning may lie there."""


class Documents(Driver):
    """Documents and their indexes, and mutations that were called with an idempotency key."""

    def get_document(self, document_id: str, *, tenant: TenantId) -> str | None:
        """A document's JSON text; None if there is none."""
        rows = self._fetch("get_document", {"id": document_id, "tenant": tenant})
        return rows[0][0] if rows else None

    def put_documents(self, tenant: TenantId, documents: Sequence[StoredDocument]) -> None:
        """Write documents, new or changed. `documents` has each id once."""
        if documents:
            rows = [(tenant, document.id, document.body) for document in documents]
            self._run_many("put_documents", ("tenant", "id", "body"), rows)

    def delete_documents(self, tenant: TenantId, ids: Sequence[str]) -> None:
        """Remove documents; unknown ids are ignored."""
        if ids:
            self._run_many("delete_documents", ("tenant", "id"), [(tenant, document_id) for document_id in ids])

    def scan_documents(
        self, tenant: TenantId, *, low: str, high: str, limit: int, descending: bool
    ) -> list[StoredDocument]:
        """Documents with `low < id < high`, by id, which is by creation time."""
        name = "scan_documents_desc" if descending else "scan_documents_asc"
        rows = self._fetch(name, {"tenant": tenant, "low": low, "high": high, "limit": limit})
        return [StoredDocument(*row) for row in rows]

    def document_tables(self, tenant: TenantId, *, steps: int) -> tuple[list[str], bool]:
        """The tables in which a tenant has documents, by name, and whether these are all; it reads `steps` at most."""
        rows = self._fetch("document_tables", {"tenant": tenant, "steps": steps})
        return sorted({found for row in rows if (found := table_of(row[0]))}), len(rows) < steps

    def count_documents(
        self, tenant: TenantId, tables: Sequence[str], *, until: Instant, limit: int
    ) -> dict[str, TableCount]:
        """How many documents made before `until` each of these tables has, up to `limit`, and its newest one."""
        params = {"tenant": tenant, "tables": json.dumps(list(tables)), "limit": limit + 1, "newest": NEWEST_SCAN_MAX}
        params["until"] = first_id_from("", until)
        found = {}
        for table, counted, newest in self._fetch("count_documents", params) if tables else ():
            counted_rows, count = json.loads(counted) if isinstance(counted, str) else counted
            found[table] = TableCount(min(count, limit), counted_rows > limit, newest)
        return found

    def put_index_entries(self, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        """Write (index, key, document id) triples."""
        self._change_index_entries("put_index_entries", tenant, entries)

    def delete_index_entries(self, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        """Remove (index, key, document id) triples."""
        self._change_index_entries("delete_index_entries", tenant, entries)

    def _change_index_entries(self, name: str, tenant: TenantId, entries: Sequence[tuple[str, bytes, str]]) -> None:
        if entries:
            columns = ("tenant", "index_name", "key", "document_id")
            self._run_many(name, columns, [(tenant, *entry) for entry in entries])

    def scan_index(self, part: IndexPart, *, after: IndexPosition, limit: int) -> list[tuple[bytes, StoredDocument]]:
        """Documents of a part of an index, in its order, beyond the position `after`."""
        # No id is empty, so (low, "") is just below the first key of the range, and (high, "") just above its last.
        tenant, index_name, low, high, descending = part
        key, document_id = min(after, (high, "")) if descending else max(after, (low, ""))
        params = {"tenant": tenant, "index_name": index_name, "key": key, "document_id": document_id, "limit": limit}
        if descending:
            rows = self._fetch("scan_index_desc", params | {"low": low})
        else:
            rows = self._fetch("scan_index_asc", params | {"high": high})
        return [(bytes(key), StoredDocument(document_id, body)) for key, document_id, body in rows]

    def document_indexes(self, tenant: TenantId) -> dict[str, str]:
        """The indexes that are built: name to JSON list of fields."""
        return dict(self._fetch("list_document_indexes", {"tenant": tenant}))

    def save_document_index(self, tenant: TenantId, index_name: str, fields: str) -> None:
        """Store that an index is built."""
        self._run("save_document_index", {"tenant": tenant, "index_name": index_name, "fields": fields})

    def drop_document_index(self, tenant: TenantId, index_name: str) -> None:
        """Remove an index with all its entries."""
        self._run("clear_index_entries", {"tenant": tenant, "index_name": index_name})
        self._run("drop_document_index", {"tenant": tenant, "index_name": index_name})

    def clear_index(self, tenant: TenantId, index_name: str, *, limit: int) -> int:
        """Remove up to `limit` entries of an index. Return how many."""
        return self._run("clear_index", {"tenant": tenant, "index_name": index_name, "limit": limit})

    def tenants_with_documents(self, *, after: TenantId, limit: int) -> list[TenantId]:
        """Tenants that have documents, by name, beyond `after`."""
        return [row[0] for row in self._fetch("tenants_with documents", {"after": after, "limit": limit})]

    def tenants_with_entries(self, *, after: TenantId, limit: int) -> list[TenantId]:
        """Tenants that have entries of any declared index, by name, beyond `after`."""
        return [row[0] for row in self._fetch("tenants_with entries", {"after": after, "limit": limit})]

    def find_call(self, key: str, *, tenant: TenantId) -> Call | None:
        """The result of a mutation called with this idempotency key; None if there is none."""
        rows = self._fetch("find_call", {"key": key, "tenant": tenant})
        return Call(*rows[0]) if rows else None

    def save_call(self, key: str, call: Call, *, tenant: TenantId, now: Instant) -> None:
        """Store the result of a call. Raises WriteConflict if the key was saved meanwhile."""
        self._run(
            "save_call",
            {
                "tenant": tenant,
                "key": key,
                "name": call.name,
                "fingerprint": call.fingerprint,
                "result": call.result,
                "created_at": now,
            },
        )

    def prune_calls(self, *, before: Instant, limit: int) -> int:
        """Remove calls made before `before`. Return how many."""
        return self._run("prune_calls", {"before": before, "limit": limit})

"""`client.data`, as requests."""

from collections.abc import Mapping
from typing import Any

from evertick.api.documents import DocumentPage, DocumentView, TableView
from evertick.app.documents.browsing import words_of
from evertick.client.calls import Call, Requests, given, part, sent


class DataRequests(Requests):
    """Tables and documents of the tenant, read only."""

    @sent
    def tables(self) -> Call[tuple[TableView, ...]]:
        """The tables in which the tenant has documents, and those with an index; as `app.data.tables`."""
        return self._get(f"{self._home}/tables", tuple[TableView, ...])

    @sent
    def get_table(self, table: str) -> Call[TableView]:
        """A table, with its documents counted up to 10,000."""
        return self._get(f"{self._home}/tables/{part(table)}", TableView)

    @sent
    def list(
        self,
        table: str,
        *,
        where: Mapping[str, Any] | None = None,
        newest_first: bool = True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Call[DocumentPage]:
        """A page of a table's documents, or of those whose fields have values; as `app.data.list`."""
        query = given({"where": words_of(where or {}), "newest_first": newest_first, "limit": limit, "cursor": cursor})
        return self._get(f"{self._home}/tables/{part(table)}/documents", DocumentPage, query)

    @sent
    def get(self, document_id: str) -> Call[DocumentView]:
        """A document. Raises DocumentNotFound, InvalidArguments."""
        return self._get(f"{self._home}/documents/{part(document_id)}", DocumentView)

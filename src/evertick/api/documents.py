"""Schemas of document tables and their documents."""

from collections.abc import Mapping
from typing import Any, Self

from evertick.api.schema import Moment, Page, RowReading, Schema
from evertick.base.ids import creation_time_ms, table_of
from evertick.base.instants import Instant, to_datetime, to_datetime_or_none
from evertick.base.records.documents import StoredDocument, TableCount


def creation_time(document_id: str) -> Instant:
    """When a document was created. The time is part of its id."""
    return Instant(int(creation_time_ms(document_id)))


class TableView(Schema):
    """A table that has documents of a tenant, or an index.

    `documents` is the number of documents, counted up to a limit. `more` is True if there are more than that. `newest`
    is when the newest existing document was created, None if there is none. `indexes` maps each index that has been
    built to its fields, in order.
    """

    table: str
    documents: int
    more: bool
    newest: Moment | None
    indexes: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, table: str, count: TableCount, indexes: Mapping[str, tuple[str, ...]]) -> Self:
        """The view of a table."""
        newest = None if count.newest is None else creation_time(count.newest)
        return cls(
            table=table,
            documents=count.number,
            more=count.more,
            newest=to_datetime_or_none(newest),
            indexes=dict(indexes),
        )


class DocumentView(Schema):
    """A document as it is stored.

    `fields` are the fields of the document as JSON. A value without a JSON type is an object with one key:
    `{"$datetime": "..."}`, `$date`, `$decimal`, `$uuid`, `$bytes` (base64) or `$float` (infinity and NaN). `unreadable`
    says what this release cannot read, and why.
    """

    id: str
    table: str
    created_at: Moment
    fields: dict[str, Any]
    unreadable: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: StoredDocument) -> Self:
        """The view of a row."""
        reading = RowReading()
        return cls(
            id=document.id,
            table=table_of(document.id) or "",
            created_at=to_datetime(creation_time(document.id)),
            fields=reading.object("body", document.body),
            unreadable=reading.problems,
        )


class DocumentPage(Page):
    """A page of documents. `cursor` continues the list; it is None on the last page."""

    documents: tuple[DocumentView, ...]
    cursor: str | None

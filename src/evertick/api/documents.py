"""Schemas of tables and their documents."""

from collections.abc import Mapping
from typing import Any, Self

from evertick.api.schema import Moment, Page, RowReading, Schema
from evertick.base.ids import creation_time_ms, table_of
from evertick.base.instants import Instant, to_datetime, to_datetime_or_none
from evertick.base.records.documents import StoredDocument, TableCount


def creation_time(document_id: str) -> Instant:
    """When a document was made, which its id says."""
    return Instant(int(creation_time_ms(document_id)))


class TableView(Schema):
    """A table in which a tenant has documents, or of which an index is built.

    `documents` is how many there are, counted up to a limit: with `more` there are more than that. `newest` is when the
    last one that is still there was made. `indexes` are those that are built, each with its fields in their order.
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

    `fields` are its own fields as JSON. What JSON has no word for is an object with one key: `{"$datetime": "..."}`,
    and so `$date`, `$decimal`, `$uuid`, `$bytes` (base64) and `$float` (of infinite ones and NaN).
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
    """Documents, and where the next page begins; `cursor` is None on the last one."""

    documents: tuple[DocumentView, ...]
    cursor: str | None

"""Data: the tables of a tenant, and the documents in them. Nothing is changed here: mutations do that."""

from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from evertick.api.documents import DocumentPage, DocumentView, TableView
from evertick.app.bodies import Body, Items
from evertick.app.documents.browsing import conditions
from evertick.base.records.access import Scope
from evertick.server.bodies import Named
from evertick.server.callers import Called, reply, tenant_routes

routes = tenant_routes("data")


class DocumentsAsked(Body):
    """A page of documents."""

    where: Items[str] = Field(
        default_factory=list,
        description="`field=value`, found by an index that begins with these fields. A value is JSON or else text.",
    )
    newest_first: bool = True
    limit: int = Field(100, ge=1, le=1_000)
    cursor: str | None = Field(None, max_length=5_000)


@routes.at("GET", "/tables", Scope.READ, returns=list[TableView])
async def list_tables(caller: Called) -> Response:
    """The tables in which the tenant has documents, and those with an index, by name."""
    return reply(await caller.access.data.tables())


@routes.at("GET", "/tables/{table}", Scope.READ, returns=TableView)
async def get_table(caller: Called, table: Named) -> Response:
    """A table, with its documents counted up to 10,000."""
    return reply(await caller.access.data.get_table(table))


@routes.at("GET", "/tables/{table}/documents", Scope.READ, returns=DocumentPage)
async def list_documents(caller: Called, table: Named, asked: Annotated[DocumentsAsked, Query()]) -> Response:
    """A page of a table's documents, the newest first, or of those whose fields have values."""
    page = await caller.access.data.list(
        table,
        where=conditions(asked.where),
        newest_first=asked.newest_first,
        limit=asked.limit,
        cursor=asked.cursor,
    )
    return reply(page)


@routes.at("GET", "/documents/{document_id}", Scope.READ, returns=DocumentView)
async def get_document(caller: Called, document_id: Named) -> Response:
    """A document."""
    return reply(await caller.access.data.get(document_id))

"""Data: the tables of the tenant, the documents in them, and one document."""

import json
from typing import Annotated, Final

from fastapi import Query
from starlette.responses import Response

from evertick.app.bodies import Body
from evertick.app.documents.browsing import conditions
from evertick.base.records.access import Scope
from evertick.base.records.workflows import words_in
from evertick.dashboard.markup.templates import json_line
from evertick.dashboard.page import Shown, file_of, page_routes
from evertick.server.bodies import Named

routes = page_routes()

PAGE: Final = 50


class Shows(Body):
    """The parameters of a page that has only a zone."""

    tz: str | None = None


class Asked(Body):
    """A page of documents."""

    where: str = ""
    """`field=value`, several separated by spaces."""
    cursor: str | None = None
    tz: str | None = None


@routes.page("/data", Scope.READ)
async def list_tables(page: Shown, _asked: Annotated[Shows, Query()]) -> Response:
    """The tables."""
    return page.render("data/tables.html", tables=await page.access.data.tables())


@routes.page("/data/{table}", Scope.READ)
async def list_documents(page: Shown, table: Named, asked: Annotated[Asked, Query()]) -> Response:
    """A page of the documents of a table."""
    data, words = page.access.data, words_in(asked.where)
    view = await data.get_table(table)
    found = await data.list(table, where=conditions(words), limit=PAGE, cursor=asked.cursor)
    line = page.command("data", "list", table, where=words)
    return page.render("data/documents.html", table=view, asked=asked, found=found, line=line)


@routes.page("/documents/{document_id}", Scope.READ)
async def show_document(page: Shown, document_id: Named) -> Response:
    """A document."""
    view = await page.access.data.get(document_id)
    indexes = (await page.access.data.get_table(view.table)).indexes
    names = dict.fromkeys(fields[0] for fields in indexes.values() if fields[0] in view.fields)
    alike = {name: f"{name}={json_line(view.fields[name])}" for name in names}
    return page.render("data/document.html", view=view, alike=alike)


@routes.page("/documents/{document_id}/document.json", Scope.READ)
async def download_document(page: Shown, document_id: Named) -> Response:
    """A document as a file."""
    view = await page.access.data.get(document_id)
    return file_of(json.dumps(view.to_json(), ensure_ascii=False, indent=2), f"{view.id}.json", "application/json")

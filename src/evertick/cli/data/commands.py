"""`evertick data ...`: which tables there are, and the documents in them. Imports no app, and changes nothing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from evertick.base.escaping import json_text
from evertick.cli.core.databases import data_options
from evertick.cli.core.flags import flag, flags
from evertick.cli.core.lazy import LazyGroup
from evertick.cli.core.output import MomentWriter, OutputOptions, row_options, words_of
from evertick.cli.sessions.base import open_session, say_nothing_found

if TYPE_CHECKING:
    from evertick.api.documents import DocumentView, TableView

LIST_FIELDS = ("id", "created_at", "fields")
"""The columns of the table unless --fields is given."""
LIMIT_DEFAULT = 50
CELL_CHARS = 160
"""Characters of the fields of a document in a row of a table."""


@click.group(cls=LazyGroup)
def data() -> None:
    """What functions have stored: tables, and the documents in them."""


@data.command("tables")
@data_options
@row_options
def list_tables(db: str | None, out: OutputOptions) -> None:
    """List tables with the number of their documents, counted up to a limit, and their indexes."""
    from evertick.api.documents import TableView

    known = ("table", "documents", "newest", "indexes")
    chosen = out.columns(TableView.names() if out.is_data else known, known)
    with open_session(db) as session:
        found = session.data.tables()
        out.show_views(found, session.now, chosen, _words_of_table)
        if not found and out.tells_of_nothing:
            say_nothing_found("documents", session.store)


@dataclass(frozen=True, slots=True)
class Asked:
    """The options for a page of a table's documents."""

    where: tuple[str, ...] = flag(
        "--where", metavar="FIELD=VALUE", default=(),
        help="Only documents with this value, of a field that an index begins with; JSON or else text. Repeatable.",
    )  # fmt: skip
    limit: int = flag("--limit", type=click.IntRange(1, 1_000), default=LIMIT_DEFAULT, show_default=True)
    cursor: str | None = flag("--cursor", metavar="PLACE", help="Go on where a page has ended.")


@data.command("list")
@click.argument("table")
@flags(Asked, "asked")
@data_options
@row_options
def list_documents(table: str, asked: Asked, db: str | None, out: OutputOptions) -> None:
    """List the documents of a table, the newest first."""
    from evertick.api.documents import DocumentView
    from evertick.app.documents.browsing import conditions

    chosen = out.columns(DocumentView.names(), LIST_FIELDS)
    where = conditions(asked.where)
    with open_session(db) as session:
        page = session.data.list(table, where=where, limit=asked.limit, cursor=asked.cursor)
        moment, rows = out.moments(session.now), page.documents
        shown = [_words(view, moment, json_text(view.fields)) for view in rows]
        if out.is_table:
            shown = [{**each, "fields": _cut(each["fields"])} for each in shown]
        out.write_rows([view.to_json() for view in rows], shown, chosen)
        if not rows and out.tells_of_nothing:
            say_nothing_found(f"such documents in the table {table}", session.store)
    if page.cursor is not None and not out.is_none:
        click.echo(f"these are {len(rows):,} documents; there are more: --cursor {page.cursor}", err=True)


@data.command("get")
@click.argument("document_id", metavar="ID")
@data_options
@row_options
def get_document(document_id: str, db: str | None, out: OutputOptions) -> None:
    """Show a document."""
    from evertick.api.documents import DocumentView

    chosen = out.columns(DocumentView.names(), DocumentView.names())
    with open_session(db) as session:
        view = session.data.get(document_id)
        moment = out.moments(session.now)
    out.write_one(view.to_json(), _words(view, moment, json_text(view.fields, indent=2)), chosen)


def _words_of_table(view: "TableView", moment: MomentWriter) -> dict[str, str]:
    indexes = "; ".join(f"{name} ({', '.join(fields)})" for name, fields in view.indexes.items())
    count = f"{view.documents:,}{'+' if view.more else ''}"
    return words_of(view, moment) | {"documents": count, "indexes": indexes}


def _words(view: "DocumentView", moment: MomentWriter, fields: str) -> dict[str, str]:
    return words_of(view, moment) | {"fields": fields, "unreadable": "; ".join(view.unreadable)}


def _cut(text: str) -> str:
    return text if len(text) <= CELL_CHARS else f"{text[: CELL_CHARS - 1]}…"

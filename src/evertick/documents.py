"""Documents: what `ctx.db` reads and writes, and what its queries return.

def latest(ctx: QueryCtx, author: str, cursor: str | None) -> Page:
    query = ctx.db.query("messages").with_index("by_author", author=author).order("desc")
    return query.paginate(num_items=20, cursor=cursor)
"""

from evertick.app.documents.database import Database, DatabaseReader, SystemReader
from evertick.app.documents.queries import UNSET, Document, DocumentQuery, IndexRange, Page

__all__ = ["UNSET", "Database", "DatabaseReader", "Document", "DocumentQuery", "IndexRange", "Page", "SystemReader"]

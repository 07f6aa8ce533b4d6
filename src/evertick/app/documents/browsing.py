"""`app.data`: the tables of a tenant and their documents, page by page, for people who browse them.

    app.data.tables()
    app.data.list("orders", where={"customer": "ada"})

Tables need no declaration: the database records which indexes are built. Nothing is written, and each call reads a
bounded amount: tables are counted up to a limit, and a page ends after its rows or PAGE_CHARS_MAX characters.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, TypeVar

from evertick.api.documents import DocumentPage, DocumentView, TableView
from evertick.api.schema import COUNT_MAX
from evertick.app.documents.indexing import EVERY_TENANT
from evertick.app.documents.tables import Index, check_name, decode_document, encode_document, table_named_in
from evertick.app.operations import Awaited, Blocking, Endpoint, PageLimit, Parameter, reads
from evertick.app.paging import AT_ONCE, PAGE_CHARS_MAX
from evertick.app.transacting import Work
from evertick.base.errors import DocumentNotFound, InvalidArguments, Misuse
from evertick.base.escaping import begins_as_json, json_text, read_json
from evertick.base.ids import JOB_PREFIX, TenantId
from evertick.base.instants import DAY_MS, Instant
from evertick.base.paging import PAGE_MAX, check_limit
from evertick.base.records.access import Scope
from evertick.base.records.documents import IndexPart, IndexPosition, StoredDocument, TableCount
from evertick.store.transaction.index_keys import after_prefix, encode_key
from evertick.store.transaction.transaction import Transaction
from evertick.store.transaction.unit_of_work import UnitOfWork

SHARE_MIN: Final = 100
"""Each table of a list is counted up to at least this many documents, however many tables there are."""
STEPS_MAX: Final = 5_000
"""Index steps spent on finding tables; a table takes a few for each two years."""
NONE: Final = TableCount(0, more=False, newest=None)
WHERE: Final = "`field=value`, found by an index that begins with these fields. A value is JSON or else text."
Indexes = Mapping[str, Mapping[str, tuple[str, ...]]]
"""The built indexes of each table, with their fields."""


# -- Conditions as words, such as `customer=ada`


def conditions(words: Sequence[str]) -> dict[str, Any]:
    """Parse arguments of the form `field=value`; returns the values by field. Raises Misuse."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise Misuse(f"a condition must be field=value, such as customer=ada, not {word[:100]!r}")
        if name in found:
            raise Misuse(f"the field {name[:100]!r} is given twice; give each field once")
        found[name] = value_of(text)
    return found


def value_of(text: str) -> Any:
    """The value that a text stands for: JSON, such as 7, true, null or `{"$datetime": "2026-11-26T09:00:00+00:00"}`,
    otherwise the text itself.

    Text that would be valid JSON must be in double quotes: "7". Raises Misuse for JSON with a mistake.
    """
    try:
        return decode_document(f'{{"value":{text}}}')["value"] if _is_json(text) else text
    except (ValueError, ArithmeticError, TypeError, AttributeError) as error:
        raise Misuse(f"{text[:100]!r} is not a value that a document can have: {error}") from None


def words_of(where: Mapping[str, Any]) -> list[str]:
    """The arguments `field=value` from which `conditions` reads the same fields and values. Raises InvalidArguments."""
    return [f"{name}={word_of(value)}" for name, value in where.items()]


def word_of(value: Any) -> str:
    """The text from which `value_of` reads this value. Text stays as it is unless it would be read as something else.

    Raises InvalidArguments.
    """
    if isinstance(value, str) and not begins_as_json(value) and not _is_json(value):
        return value
    return json_text(json.loads(encode_document({"value": value}))["value"])


def _is_json(text: str) -> bool:
    try:
        read_json(text)
    except (ValueError, RecursionError):
        if begins_as_json(text):
            raise Misuse(
                f"{text[:100]!r} begins like JSON but is not valid JSON; put text like this in double quotes"
            ) from None
        return False
    return True


# -- Operations


@dataclass(slots=True, eq=False, repr=False)
class DataOperations:
    """Read access to a tenant's documents, as work for a transaction."""

    noun: ClassVar[str] = "document"

    _tenant: TenantId
    _now: Callable[[], Instant]

    @reads(Endpoint("GET", "/tables", Scope.READ, operation_id="list_tables"))
    def tables(self) -> Work[tuple[TableView, ...]]:
        """The tables in which the tenant has documents, and the tables with a built index, by name.

        At most 10,000 documents are counted in all, shared equally among the tables, but at least 100 of each table. A
        table with more documents than were counted is marked.
        """

        def work(transaction: Transaction) -> tuple[TableView, ...]:
            indexes = built_indexes(transaction)
            found, _ = transaction.document_tables(self._tenant, steps=STEPS_MAX)
            names = sorted({*found, *indexes})
            share = max(SHARE_MIN, COUNT_MAX // max(len(names), 1))
            counts = transaction.count_documents(self._tenant, names, until=self._until, limit=share)
            return tuple(TableView.of(name, counts.get(name, NONE), indexes.get(name, {})) for name in names)

        return work

    @reads(Endpoint("GET", "/tables/{table}", Scope.READ, operation_id="get_table"))
    def get_table(self, table: str) -> Work[TableView]:
        """A table, with its documents counted up to 10,000. A table without documents may never have been used.

        Raises Misuse if `table` is not a valid table name.
        """
        check_name(table)

        def work(transaction: Transaction) -> TableView:
            counts = transaction.count_documents(self._tenant, [table], until=self._until, limit=COUNT_MAX)
            return TableView.of(table, counts.get(table, NONE), built_indexes(transaction).get(table, {}))

        return work

    @reads(Endpoint("GET", "/documents/{document_id}", Scope.READ))
    def get(self, document_id: str) -> Work[DocumentView]:
        """A document. Raises DocumentNotFound; InvalidArguments if `document_id` is not the id of a document."""
        check_document_id(document_id)

        def work(transaction: Transaction) -> DocumentView:
            body = transaction.get_document(document_id, tenant=self._tenant)
            if body is None:
                raise DocumentNotFound(f"no document {document_id} in the tenant {self._tenant!r}")
            return DocumentView.of(StoredDocument(document_id, body))

        return work

    @reads(Endpoint("GET", "/tables/{table}/documents", Scope.READ, operation_id="list_documents"))
    def list(
        self,
        table: str,
        *,
        where: Annotated[
            Mapping[str, Any] | None,
            Parameter("Texts", description=WHERE, encode=words_of, decode=conditions),
        ] = None,
        newest_first: bool = True,
        limit: PageLimit = 100,
        cursor: Annotated[str | None, Parameter(max_length=5_000)] = None,
    ) -> Work[DocumentPage]:
        """A page of a table's documents, the newest first; with `where` only those whose fields have these values.

        With `where`, the documents are found by an index that begins with these fields, and come in its order. A page
        ends early when its documents have 16 million characters.

        Raises Misuse if `table` is not a valid table name or no index begins with the fields of `where`;
        InvalidArguments for a cursor of another list, LimitExceeded for a limit above 1,000.
        """
        check_name(table)
        check_limit(limit, PAGE_MAX)
        values = dict(where or {})

        def work(transaction: Transaction) -> DocumentPage:
            unit = UnitOfWork(transaction)
            index = index_for(table, built_indexes(transaction).get(table, {}), values)
            if index is None:
                start = None if cursor is None else _id_in(cursor, table)
                found: Iterable[tuple[bytes, StoredDocument]] = (
                    (b"", each)
                    for each in unit.scan_table(
                        self._tenant,
                        f"{table}_",
                        after=start or (f"{table}_\x7f" if newest_first else f"{table}_"),
                        descending=newest_first,
                        page=min(limit, AT_ONCE) + 1,
                    )
                )
            else:
                low = encode_key([values[name] for name in index.fields[: len(values)]])
                part = IndexPart(self._tenant, index.name, low, after_prefix(low), newest_first)
                place = None if cursor is None else _place_in(cursor, table, part)
                found = unit.scan_index(part, after=place, page=min(limit, AT_ONCE) + 1)
            return _page(iter(found), limit)

        return work

    @property
    def _until(self) -> Instant:
        """The end of the counted time span. It lies a day ahead, because clocks of other machines may be ahead."""
        return Instant(self._now() + DAY_MS)


O_co = TypeVar("O_co", covariant=True)


class AnyData(Blocking[O_co], DataOperations):
    """The operations that `app.data` and `client.data` share."""


class AnyAsyncData(Awaited[O_co], DataOperations):
    """Like `AnyData`, but every call is awaited."""


class Data(AnyData[DataOperations]):
    """`app.data`: tables and documents for people who browse them."""


class AsyncData(AnyAsyncData[DataOperations]):
    """`app.aio.data`: like `Data`, but every call is awaited."""


def built_indexes(transaction: Transaction) -> Indexes:
    """The built indexes, by table."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, fields in sorted(transaction.document_indexes(EVERY_TENANT).items()):
        table, _, index = name.partition(".")
        if fields.startswith("["):  # any other value: it is still being built
            found.setdefault(table, {})[index] = tuple(json.loads(fields))
    return found


def check_document_id(document_id: str) -> None:
    """Raise InvalidArguments if this is not the id of a document."""
    table = table_named_in(document_id)
    if table is None:
        raise InvalidArguments(f"{document_id!r} is not an id of a document: expected TABLE_ and 28 digits 0-9, a-f")
    if table == JOB_PREFIX:
        raise InvalidArguments(f"{document_id!r} is the id of a job; `evertick job get {document_id}` shows it")


def index_for(table: str, indexes: Mapping[str, tuple[str, ...]], values: Mapping[str, Any]) -> Index | None:
    """The index that begins with these fields and has the fewest others; None if `values` is empty.

    Raises Misuse if there is none.
    """
    if not values:
        return None
    fitting = [
        (len(fields), name)
        for name, fields in indexes.items()
        if len(fields) >= len(values) and set(fields[: len(values)]) == set(values)
    ]
    if not fitting:
        known = "; ".join(f"{name} ({', '.join(fields)})" for name, fields in indexes.items()) or "none is built"
        raise Misuse(f"no index of table {table!r} begins with {', '.join(values)}; its indexes: {known}"[:1_000])
    name = min(fitting)[1]
    return Index(f"{table}.{name}", indexes[name])


def _page(found: Iterator[tuple[bytes, StoredDocument]], limit: int) -> DocumentPage:
    """The next `limit` documents, fewer if they are long."""
    documents: list[DocumentView] = []
    chars, cursor = 0, None
    for key, stored in found:
        if len(documents) == limit or chars > PAGE_CHARS_MAX:
            return DocumentPage(documents=tuple(documents), cursor=cursor)
        documents.append(DocumentView.of(stored))
        chars += len(stored.body)
        cursor = f"{key.hex()}.{stored.id}" if key else stored.id
    return DocumentPage(documents=tuple(documents), cursor=None)


def _id_in(cursor: str, table: str) -> str:
    if table_named_in(cursor) != table:
        raise InvalidArguments(
            f"{cursor[:200]!r} is not a cursor of this list: expected the id of a document in {table!r}"
        )
    return cursor


def _place_in(cursor: str, table: str, part: IndexPart) -> IndexPosition:
    key, _, document_id = cursor.partition(".")
    with_digits = len(key) % 2 == 0 and set(key) <= set("0123456789abcdef")
    if with_digits and table_named_in(document_id) == table and part.low <= (place := bytes.fromhex(key)) < part.high:
        return place, document_id
    raise InvalidArguments(f"{cursor[:200]!r} is not a cursor of this list, with these conditions")

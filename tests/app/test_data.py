"""`app.data`: tables and documents as people look at them."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from evertick import App
from evertick.app.documents import browsing
from evertick.app.documents.indexing import EVERY_TENANT
from evertick.base.ids import DEFAULT_TENANT
from evertick.base.records.documents import StoredDocument
from evertick.errors import DocumentNotFound, InvalidArguments, LimitExceeded, Misuse
from tests.app.conftest import OpenApp

MADE = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """Orders with an index, and items without."""
    app = open_app("shop")
    app.table("orders", indexes={"by_customer": ["customer", "n"], "by_made": ["made"]})
    app.migrate()
    return app


def ids_of(app: App, table: str = "orders", **options: object) -> list[str]:
    """The ids that a list gives, from its first page to its last."""
    found, cursor = list[str](), None
    while True:
        page = app.data.list(table, cursor=cursor, **options)  # type: ignore[arg-type]
        found += [each.id for each in page.documents]
        cursor = page.cursor
        if cursor is None:
            return found


def test_tables_are_those_with_documents_and_those_with_an_index(app: App) -> None:
    assert [(each.table, each.documents, each.newest) for each in app.data.tables()] == [("orders", 0, None)]
    item = app.db.insert("items", {"name": "bread"})
    app.tenant("acme").db.insert("secrets", {})

    items, orders = app.data.tables()

    assert (items.table, items.documents, items.more, items.indexes) == ("items", 1, False, {})
    assert items.newest == app.data.get(item).created_at
    assert orders.indexes == {"by_customer": ("customer", "n"), "by_made": ("made",)}
    assert [each.table for each in app.tenant("acme").data.tables()] == ["orders", "secrets"]


def test_a_table_is_counted_up_to_a_limit(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        app.db.insert("items", {})
    monkeypatch.setattr(browsing, "COUNT_MAX", 3)
    monkeypatch.setattr(browsing, "SHARE_MIN", 2)

    assert (app.data.get_table("items").documents, app.data.get_table("items").more) == (3, True)
    assert next((each.table, each.documents, each.more) for each in app.data.tables()) == ("items", 2, True)


def test_documents_come_page_by_page_the_newest_first(app: App) -> None:
    made = [app.db.insert("orders", {"customer": "ada", "n": n}) for n in range(7)]
    app.db.insert("orders_b", {})
    app.tenant("acme").db.insert("orders", {})

    assert ids_of(app, limit=3) == made[::-1]
    assert ids_of(app, limit=3, newest_first=False) == made
    assert ids_of(app, limit=7) == made[::-1]
    assert app.data.list("nothing").documents == ()


def test_documents_are_found_by_the_fields_that_an_index_begins_with(app: App) -> None:
    ada = [app.db.insert("orders", {"customer": "ada", "n": n, "made": MADE}) for n in (1, 1, 2)]
    app.db.insert("orders", {"customer": "adam", "n": 1})
    other = app.tenant("acme").db.insert("orders", {"customer": "ada", "n": 1})

    assert ids_of(app, where={"customer": "ada"}, limit=2) == ada[::-1]
    assert ids_of(app, where={"n": 1, "customer": "ada"}, limit=1) == [ada[1], ada[0]]
    assert ids_of(app, where={"made": MADE}, newest_first=False) == ada
    assert ids_of(app, where={"customer": None}) == []
    assert other not in ids_of(app, where={"customer": "ada"})
    with pytest.raises(
        Misuse, match=r"no index of table 'orders' begins with n; its indexes: by_customer \(customer, n"
    ):
        app.data.list("orders", where={"n": 1})
    with pytest.raises(Misuse, match="none is built"):
        app.data.list("items", where={"name": "bread"})


def test_an_index_that_is_being_built_is_not_read(app: App) -> None:
    app.environment.store.write(
        lambda tx: tx.save_document_index(EVERY_TENANT, "orders.by_customer", '{"building": {}}')
    )
    with pytest.raises(Misuse, match=r"its indexes: by_made \(made\)"):
        app.data.list("orders", where={"customer": "ada"})


def test_a_document_is_shown_as_it_is_stored(app: App) -> None:
    made = app.db.insert("orders", {"price": Decimal("12.30"), "at": MADE, "raw": b"\x00", "all": [1, None]})

    shown = app.data.get(made)

    assert shown.table == "orders"
    assert shown.fields == {
        "price": {"$decimal": "12.30"},
        "at": {"$datetime": "2026-03-01T09:00:00+00:00"},
        "raw": {"$bytes": "AA=="},
        "all": [1, None],
    }
    with pytest.raises(DocumentNotFound, match=f"no document {made} in the tenant 'acme'"):
        app.tenant("acme").data.get(made)
    with pytest.raises(InvalidArguments, match=r"is the id of a job; `evertick job get job_0+` shows it"):
        app.data.get(f"job_{'0' * 28}")


def test_a_row_that_cannot_be_read_does_not_close_the_list(app: App) -> None:
    made = app.db.insert("items", {"name": "bread"})
    app.environment.store.write(lambda tx: tx.put_documents(DEFAULT_TENANT, [StoredDocument(made, "{")]))

    [shown] = app.data.list("items").documents

    assert (shown.fields, shown.unreadable[0].partition(":")[0]) == ({}, "body")


def test_a_page_of_long_documents_ends_early(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [app.db.insert("items", {"text": "x" * 100}) for _ in range(5)]
    monkeypatch.setattr(browsing, "PAGE_CHARS_MAX", 150)

    page = app.data.list("items")

    assert [each.id for each in page.documents] == made[:2:-1]
    assert ids_of(app, "items") == made[::-1]


@pytest.mark.parametrize("cursor", ["", "x", f"items_{'0' * 28}", f"00.orders_{'0' * 28}"])
def test_a_cursor_of_another_list_is_refused(app: App, cursor: str) -> None:
    app.db.insert("orders", {"customer": "ada"})
    with pytest.raises(InvalidArguments, match="is not a cursor of this list"):
        app.data.list("orders", cursor=cursor)


@pytest.mark.parametrize("cursor", ["", f"orders_{'0' * 28}", f"zz.orders_{'0' * 28}", f"00.orders_{'0' * 28}"])
def test_a_cursor_of_other_conditions_is_refused(app: App, cursor: str) -> None:
    with pytest.raises(InvalidArguments, match="with these conditions"):
        app.data.list("orders", where={"customer": "ada"}, cursor=cursor)


def test_wrong_names_and_limits_are_refused(app: App) -> None:
    with pytest.raises(Misuse, match="not a valid name for a table"):
        app.data.list("_scheduled_functions")
    with pytest.raises(LimitExceeded):
        app.data.list("orders", limit=1_001)


def test_the_same_is_awaited(app: App) -> None:
    made = app.db.insert("orders", {"customer": "ada"})
    page = asyncio.run(app.aio.data.list("orders", where={"customer": "ada"}))
    assert [each.id for each in page.documents] == [made]


@pytest.mark.parametrize(
    "value",
    ["ada", "7", "true", '"quoted"', "{", "[1]", "NaN", "", "a b=c", 7, 7.5, None, True, MADE, Decimal("1.0"), b"\x00"],
)
def test_a_value_is_written_as_a_word_and_read_again(value: object) -> None:
    [word] = browsing.words_of({"field": value})
    found = browsing.conditions([word])["field"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["customer"], "a condition must be field=value"),
        (["a=1", "a=2"], "'a' is given twice"),
        (['a={"b": '], "begins like JSON but is not valid JSON"),
        (['a={"$datetime": "soon"}'], "is not a value that a document can have"),
        (['a={"$decimal": "soon"}'], "is not a value that a document can have"),
    ],
)
def test_conditions_that_cannot_be_read_are_refused(words: list[str], says: str) -> None:
    with pytest.raises(Misuse, match=says):
        browsing.conditions(words)
